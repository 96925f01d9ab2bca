"""Files that end without a newline say the same in a folder and on a hub."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from msgspec.structs import replace

from bygones.archive import Archive
from bygones.errors import HubUnreachable
from bygones.hub.client import push
from bygones.model.base import SessionId
from bygones.redact.engine import Redactor
from bygones.team.access import migrate_store
from bygones.team.contract import AccessScope, BlobStore, SourceFragment
from bygones.team.stores.base import TeamStore
from bygones.team.worker import derive_all
from tests.build import Home, jsonl, prompt, reply, session_id, thread
from tests.hub.sending import Losing, MemoryHub

pytestmark = pytest.mark.full_on_clickhouse
Made = tuple[TeamStore, BlobStore]
PROJECT = "/srv/shop"
KEY = "-srv-shop"
SESSION = session_id(0)


def said(text: str, at: int) -> bytes:
    """Return a prompt as a line without its newline."""
    return jsonl(
        thread(prompt(text, cwd=PROJECT, sessionId=SESSION), start=at)
    ).removesuffix(b"\n")


WHOLE = said("the last words, schön", 900)
ENDINGS = {
    "whole": WHOLE,
    "half": WHOLE[: len(WHOLE) // 2],
    "half a sign": WHOLE[: WHOLE.index("ö".encode()) + 1],
    "two on one line": WHOLE + said("and these", 950),
    "one and a half": WHOLE + said("and these", 950)[:50],
    "blank": b"   ",
    "blank lines": b"\n   \n\n" + WHOLE,
    "none": b"",
}


class Sending:
    """A person with one session, who sends it to a hub on an engine."""

    def __init__(self, place: Path, store: TeamStore) -> None:
        self.home = Home(place / ".claude")
        records = thread(
            prompt("first", cwd=PROJECT, sessionId=SESSION),
            reply("yes", cwd=PROJECT, sessionId=SESSION),
        )
        self.home.session(SESSION, records, project=KEY)
        self.path = self.home.path / "projects" / KEY / f"{SESSION}.jsonl"
        self.folder = place / "archive"
        self.hub = MemoryHub(place / "raw")
        self.hub.use(store)

    def write(self, raw: bytes) -> None:
        with self.path.open("ab") as file:
            file.write(raw)
        Archive.ingest(self.folder, [self.home.path])

    def send(self, by: MemoryHub | Losing | None = None) -> int:
        hub = by or self.hub
        redactor = Redactor()
        return push(self.folder, [PROJECT], redactor=redactor, transport=hub).requests

    def both(self) -> tuple[object, object]:
        """Return what the hub shows of the session, and what the folder shows."""
        derive_all(self.hub.store, self.hub.objects)
        shelf = self.hub.store.open_reader(AccessScope(person="ann"), self.hub.objects)
        with Archive.from_store(shelf) as team, Archive.open(self.folder) as own:
            return told(team), told(own)


def told(archive: Archive) -> object:
    """Return everything about the session except where its bytes are, and whose."""
    (listed,) = archive.sessions(include_empty=True)
    session = archive.session(listed.id)
    shown = archive.conversation(listed.id).window(0, 0, 9)
    return (
        replace(listed, source_bytes=0, person=""),
        [(one.role, one.origin, one.blocks) for one in session.live_branch.messages],
        [one.kind for one in session.problems],
        [one.text for one in archive.prompts()],
        [(one.id, one.blocks) for turn in shown.turns for one in turn.messages],
        archive.context(listed.id),
    )


@pytest.fixture
def sending(engine: Callable[[], Made], tmp_path: Path) -> Iterator[Sending]:
    """Return a sender and an empty store."""
    store, _ = engine()
    yield Sending(tmp_path, store)
    store.close()


@pytest.mark.parametrize("ending", ENDINGS)
def test_unfinished_last_line_is_shown_as_locally(
    sending: Sending, ending: str
) -> None:
    sending.write(ENDINGS[ending])
    sending.send()

    team, own = sending.both()

    assert team == own
    assert sending.send() == 0


def test_unfinished_last_line_is_replaced_when_it_grows(sending: Sending) -> None:
    before = b""
    for more in (WHOLE[:40], WHOLE[40:200], WHOLE[200:], b"\n" + WHOLE[:9], b"x\n"):
        before += more
        sending.write(more)
        sending.send()

        team, own = sending.both()
        assert team == own
        assert sending.send() == 0
    (kept,) = sending.hub.texts().values()
    assert kept.count(b"the last words") == 1


def test_unfinished_last_line_is_dropped_when_the_file_is_rewritten(
    sending: Sending,
) -> None:
    sending.write(WHOLE)
    sending.send()
    sending.path.write_bytes(said("quite another", 5) + b"\n")
    sending.write(b"")
    sending.send()

    team, own = sending.both()

    assert team == own
    assert _fragments(sending) == []


@pytest.mark.parametrize("seed", range(4))
def test_lost_requests_do_not_change_the_final_line(
    sending: Sending, seed: int
) -> None:
    luck = random.Random(seed)  # noqa: S311 (repeatable, not secret)
    losing = Losing(sending.hub, seed)
    whole = WHOLE + b"\n" + said("and these", 950)
    at = 0
    while at < len(whole):
        step = luck.randint(1, len(whole))
        sending.write(whole[at : at + step])
        at += step
        with suppress(HubUnreachable):
            sending.send(losing)
    sending.send()

    team, own = sending.both()

    assert team == own


def test_partial_and_private_last_lines_are_not_pushed(sending: Sending) -> None:
    for more in (b'{"type":"bridge-session","secret":"hus', b'h hush"}'):
        sending.write(more)
        sending.send()

        frames = [one.frame for one in _fragments(sending)]
        assert sum(map(len, frames)) < 30
        team, own = sending.both()
        assert team == own or more.endswith(b"}")
    assert frames == [b""]
    assert sending.send() == 0


def _fragments(sending: Sending) -> list[SourceFragment]:
    store = sending.hub.store
    numbers = [held.number for held in store.list_sources("ann")]
    return list(store.fragments(numbers).values())


def test_unfinished_last_line_is_exported(sending: Sending) -> None:
    sending.write(WHOLE)
    sending.send()
    sending.both()

    shelf = sending.hub.store.open_reader(
        AccessScope(person="ann"), sending.hub.objects
    )
    with Archive.from_store(shelf) as team, Archive.open(sending.folder) as own:
        (there, here) = (
            b"".join(
                archive.read_source(archive.session(SessionId(SESSION)).sources[0].id)
            )
            for archive in (team, own)
        )

    assert there == here
    assert there.endswith(WHOLE)


def test_unfinished_last_line_is_migrated(
    sending: Sending, engine: Callable[[], Made]
) -> None:
    sending.write(WHOLE)
    sending.send()
    there, _ = engine()
    sending.hub.store.set_note("hub", "raw", str(sending.hub.folder).encode())

    before = sending.hub.store
    migrate_store(before, there)
    sending.hub.use(there)

    team, own = sending.both()
    assert team == own
    assert sending.send() == 0
    sending.hub.use(before)
    there.close()
