"""Names in requests to a hub cannot escape its folders: in routes, pages and uploads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import msgspec
import pytest
from starlette.routing import Route

from bygones.hub.middleware import HEALTH_PATH, LOGIN_CSS_PATH, READY_PATH
from bygones.hub.monitoring import Metrics
from bygones.hub.routes import HubStatus, _HubRoutes
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
    fill_path,
    find_query_parameters,
    hostile_addresses,
    names_leading_to,
    route_method,
)
from tests.faults.careless import trust_object_names
from tests.faults.sizes import reached, sized
from tests.hub.hubs import Response, TestHub, run_hub
from tests.hub.test_uploads import MACHINE, PIECE, change_chunk, make_request
from tests.web.archives import build_archive
from tests.web.test_security import routes

STEP = sized(400, 10, 1)
OBJECT = re.compile(r"[a-z]+/[0-9a-f]{32}/[0-9a-f]{64}\.zst")
"""File names in the blob store, which contain nothing that was sent."""


class HubAttacker:
    """A hub, a person with a token, and a canary outside of the blob store."""

    def __init__(self, folder: Path, hub: TestHub) -> None:
        self.folder = folder
        self.hub = hub
        self.bearer = {"Authorization": f"Bearer {hub.token('ann')[0]}"}
        self.before = self.outside()

    def ask(self, method: str, path: str, body: bytes = b"") -> Response:
        return self.hub.ask(method, path, self.bearer, body)

    def names(self, number: int) -> list[str]:
        sure = names_leading_to(self.folder / "canary.txt")
        return [*sure, *NAMES[number % STEP :: STEP]]

    def send(self, sent: UploadRequest) -> int:
        return self.ask("POST", PUSH_PATH, encode_message(sent)).status

    def objects(self) -> list[str]:
        raw = self.folder / "raw"
        files = (path for path in raw.rglob("*") if path.is_file())
        return [path.relative_to(raw).as_posix() for path in files]

    def outside(self) -> set[Path]:
        """Return all files except blobs and lock files of SQLite."""
        files = {path for path in self.folder.rglob("*") if path.is_file()}
        return {
            path
            for path in files
            if self.folder / "raw" not in path.parents
            and not path.name.endswith(("-shm", "-wal", ".lock"))
        }

    def escaped_files(self) -> list[str]:
        """Return the files that were written outside of the hub's folders."""
        new = [str(path) for path in self.outside() ^ self.before]
        return new + [one for one in self.objects() if not OBJECT.fullmatch(one)]


@pytest.fixture
def client(tmp_path: Path) -> Iterator[HubAttacker]:
    archive = build_archive(tmp_path / "ann").folder
    for folder in (tmp_path, archive):
        (folder / "canary.txt").write_text(CANARY, "utf-8")
    with run_hub(tmp_path, {"ann": archive}) as hub:
        yield HubAttacker(tmp_path, hub)


def own_routes(hub: TestHub) -> list[Route]:
    """Return the routes that only a hub has."""
    intake = UploadHandler(hub.store, hub.objects)
    worker = IndexWorker(lambda _skipped: False, print)
    status = HubStatus(
        hub.store,
        hub.objects,
        open_reader=hub.open_reader,
        worker=worker,
        metrics=Metrics(),
    )
    return _HubRoutes(intake, TokenStore(hub.store), worker, status).routes()


def test_hub_routes_reject_path_traversal(client: HubAttacker) -> None:
    parameter_names: dict[str, set[str]] = {}
    count = 0
    all_routes = [
        *own_routes(client.hub),
        *(r for r in routes() if "live" not in r.path),
    ]
    for number, route in enumerate(
        one for one in all_routes if route_method(one) == "GET"
    ):
        parameter_names[route.path] = find_query_parameters(client.ask, route)
        names = client.names(number)[:: sized(40, 4, 1)]
        for one in hostile_addresses(route, parameter_names[route.path], names):
            answer = client.ask("GET", one.path)
            content = answer.body + str(answer.headers).encode()
            assert one.faults(answer.status, content) == []
            count += 1

    assert parameter_names[PROGRESS_PATH] == {"machine"}
    assert parameter_names["/api/files"] == {"session", "path"}
    assert client.escaped_files() == []
    reached("hub: requests with path traversal", count)


def every_address(hub: TestHub) -> list[tuple[str, str]]:
    """Return method and path of all routes: of the hub, the web pages and MCP."""
    known = [*own_routes(hub), *routes()]
    return [(route_method(one), fill_path(one.path)) for one in known] + [
        ("POST", PATH)
    ]


def test_hub_routes_reject_foreign_hosts(client: HubAttacker) -> None:
    headers = client.bearer | {"Host": "attacker.test"}

    for method, path in every_address(client.hub):
        assert client.hub.ask(method, path, headers).status == 421, path


def test_only_public_paths_work_without_a_token(client: HubAttacker) -> None:
    ours = {"Sec-Fetch-Site": "same-origin"}

    responses = {
        (method, path): client.hub.ask(method, path, ours, b"token=wrong")
        for method, path in every_address(client.hub)
    }

    is_open = {route for route, response in responses.items() if response.status != 401}
    assert is_open == {
        ("GET", path) for path in (HEALTH_PATH, READY_PATH, LOGIN_CSS_PATH, LOGIN_PATH)
    }
    assert not [one for one in responses.values() if "set-cookie" in one.headers]
    reached("hub: routes closed without a token", len(responses) - len(is_open))


def hostile_requests(client: HubAttacker) -> Iterator[UploadRequest]:
    """Yield uploads in which one field is a name that would escape."""
    fields = msgspec.structs.fields(PIECE)
    texts = [one.name for one in fields if one.type in {str, str | None}]
    assert {"home", "path", "project", "session", "agent"} <= set(texts)
    for number, field in enumerate(("machine", *texts)):
        for name in dict.fromkeys(map(unquote, client.names(number))):
            if field == "machine":
                yield make_request(PIECE, machine=name)
            else:
                yield make_request(change_chunk(**{field: name}), machine=MACHINE)


def test_names_in_requests_cannot_escape_the_blob_store(client: HubAttacker) -> None:
    statuses = [client.send(one) for one in hostile_requests(client)]

    assert set(statuses) == {200, 400}
    assert client.escaped_files() == []
    reached("hub: uploads with path traversal", len(statuses))


def test_harness_catches_a_blob_store_that_trusts_names(
    client: HubAttacker, monkeypatch: pytest.MonkeyPatch
) -> None:
    trust_object_names(monkeypatch.setattr)

    for one in hostile_requests(client):
        client.send(one)

    assert client.escaped_files()
