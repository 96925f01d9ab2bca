"""No name that is sent to a hub leads out of it: its routes, its pages, its parcels."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import msgspec
import pytest
from starlette.routing import Route

from bygones.hub.monitoring import Metrics
from bygones.hub.server import (
    HEALTH_PATH,
    LOGIN_CSS_PATH,
    READY_PATH,
    HubStatus,
    _HubRoutes,
)
from bygones.hub.uploads import UploadHandler
from bygones.mcp.http import PATH
from bygones.team.access import TokenStore
from bygones.team.contract import (
    PROGRESS_PATH,
    PUSH_PATH,
    UploadRequest,
    encode_message,
)
from bygones.team.worker import IndexWorker
from bygones.web.security import LOGIN_PATH
from tests.faults.addresses import (
    CANARY,
    NAMES,
    addresses,
    filled,
    leading_to,
    method_of,
    parameters,
)
from tests.faults.careless import objects_by_name
from tests.faults.sizes import reached, sized
from tests.hub.hubs import Answered, TestHub, serving
from tests.hub.test_uploads import MACHINE, PIECE, other, parcel
from tests.web.archives import build_archive
from tests.web.test_security import routes

STEP = sized(400, 10, 1)
OBJECT = re.compile(r"[a-z]+/[0-9a-f]{32}/[0-9a-f]{64}\.zst")
"""What the raw store calls an object: nothing that anybody has sent."""


class Door:
    """A hub, a person with a token, and a canary next to it."""

    def __init__(self, place: Path, hub: TestHub) -> None:
        self.place = place
        self.hub = hub
        self.bearer = {"Authorization": f"Bearer {hub.token('ann')[0]}"}
        self.before = self.outside()

    def ask(self, method: str, path: str, body: bytes = b"") -> Answered:
        return self.hub.ask(method, path, self.bearer, body)

    def names(self, number: int) -> list[str]:
        sure = leading_to(self.place / "canary.txt")
        return [*sure, *NAMES[number % STEP :: STEP]]

    def send(self, sent: UploadRequest) -> int:
        return self.ask("POST", PUSH_PATH, encode_message(sent)).status

    def objects(self) -> list[str]:
        raw = self.place / "raw"
        files = (path for path in raw.rglob("*") if path.is_file())
        return [path.relative_to(raw).as_posix() for path in files]

    def outside(self) -> set[Path]:
        """Return all files but those of the raw store, and what readers leave."""
        files = {path for path in self.place.rglob("*") if path.is_file()}
        return {
            path
            for path in files
            if self.place / "raw" not in path.parents
            and not path.name.endswith(("-shm", "-wal", ".lock"))
        }

    def led_out(self) -> list[str]:
        """Return what was written outside of the hub's folders."""
        new = [str(path) for path in self.outside() ^ self.before]
        return new + [one for one in self.objects() if not OBJECT.fullmatch(one)]


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Door]:
    folder = build_archive(tmp_path / "ann").folder
    for place in (tmp_path, folder):
        (place / "canary.txt").write_text(CANARY, "utf-8")
    with serving(tmp_path, {"ann": folder}) as hub:
        yield Door(tmp_path, hub)


def own_routes(hub: TestHub) -> list[Route]:
    """Return what a hub answers by itself, as its router knows it."""
    intake = UploadHandler(hub.store, hub.objects)
    worker = IndexWorker(lambda: False, print)
    status = HubStatus(
        hub.store,
        hub.objects,
        open_reader=hub.open_reader,
        worker=worker,
        metrics=Metrics(),
    )
    return _HubRoutes(intake, TokenStore(hub.store), worker, status).routes()


def test_hub_routes_reject_path_traversal(door: Door) -> None:
    asked: dict[str, set[str]] = {}
    count = 0
    every = [*own_routes(door.hub), *(r for r in routes() if "live" not in r.path)]
    for number, route in enumerate(one for one in every if method_of(one) == "GET"):
        asked[route.path] = parameters(door.ask, route)
        names = door.names(number)[:: sized(40, 4, 1)]
        for one in addresses(route, asked[route.path], names):
            answer = door.ask("GET", one.path)
            told = answer.body + str(answer.headers).encode()
            assert one.faults(answer.status, told) == []
            count += 1

    assert asked[PROGRESS_PATH] == {"machine"}
    assert asked["/api/files"] == {"session", "path"}
    assert door.led_out() == []
    reached("hub: requests with path traversal", count)


def every_address(hub: TestHub) -> list[tuple[str, str]]:
    """Return how to ask for all that a hub answers: itself, as a page, to agents."""
    known = [*own_routes(hub), *routes()]
    return [(method_of(one), filled(one.path)) for one in known] + [("POST", PATH)]


def test_hub_routes_reject_foreign_hosts(door: Door) -> None:
    told = door.bearer | {"Host": "attacker.test"}

    for method, path in every_address(door.hub):
        assert door.hub.ask(method, path, told).status == 421, path


def test_only_public_paths_work_without_a_token(door: Door) -> None:
    ours = {"Sec-Fetch-Site": "same-origin"}

    told = {
        (method, path): door.hub.ask(method, path, ours, b"token=wrong")
        for method, path in every_address(door.hub)
    }

    is_open = {asked for asked, answer in told.items() if answer.status != 401}
    assert is_open == {
        ("GET", path) for path in (HEALTH_PATH, READY_PATH, LOGIN_CSS_PATH, LOGIN_PATH)
    }
    assert not [one for one in told.values() if "set-cookie" in one.headers]
    reached("hub: routes closed without a token", len(told) - len(is_open))


def parcels(door: Door) -> Iterator[UploadRequest]:
    """Yield parcels in which one text is a name that leads out."""
    fields = msgspec.structs.fields(PIECE)
    texts = [one.name for one in fields if one.type in {str, str | None}]
    assert {"home", "path", "project", "session", "agent"} <= set(texts)
    for number, field in enumerate(("machine", *texts)):
        for name in dict.fromkeys(map(unquote, door.names(number))):
            if field == "machine":
                yield parcel(PIECE, machine=name)
            else:
                yield parcel(other(**{field: name}), machine=MACHINE)


def test_names_in_requests_cannot_escape_the_blob_store(door: Door) -> None:
    told = [door.send(one) for one in parcels(door)]

    assert set(told) == {200, 400}
    assert door.led_out() == []
    reached("hub: uploads with path traversal", len(told))


def test_harness_catches_a_blob_store_that_trusts_names(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects_by_name(monkeypatch.setattr)

    for one in parcels(door):
        door.send(one)

    assert door.led_out()
