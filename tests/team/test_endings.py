"""Files without a final newline have the same content locally and on a hub."""

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
from bygones.team.contract import (
    AccessScope,
    BlobStore,
    SourceFragment,
    SourceUpdate,
)
from bygones.team.stores.base import TeamStore
from bygones.team.worker import derive_all
from tests.build import Home, jsonl, prompt, reply, session_id, thread
from tests.hub.sending import LossyTransport, MemoryHub

pytestmark = pytest.mark.full_on_clickhouse
StoreAndBlobs = tuple[TeamStore, BlobStore]
PROJECT = "/srv/shop"
KEY = "-srv-shop"
SESSION = session_id(0)


def make_line(text: str, at: int) -> bytes:
    """Return a prompt as a line without its newline."""
    return jsonl(
        thread(prompt(text, cwd=PROJECT, sessionId=SESSION), start=at)
    ).removesuffix(b"\n")


WHOLE = make_line("the last words, schön", 900)
ENDINGS = {
    "whole": WHOLE,
    "half": WHOLE[: len(WHOLE) // 2],
    "half a sign": WHOLE[: WHOLE.index("ö".encode()) + 1],
    "two on one line": WHOLE + make_line("and these", 950),
    "one and a half": WHOLE + make_line("and these", 950)[:50],
    "blank": b"   ",
    "blank lines": b"\n   \n\n" + WHOLE,
    "none": b"",
}


class Sender:
    """A person with one session who pushes it to a hub."""

    def __init__(self, folder: Path, store: TeamStore) -> None:
        self.home = Home(folder / ".claude")
        records = thread(
            prompt("first", cwd=PROJECT, sessionId=SESSION),
            reply("yes", cwd=PROJECT, sessionId=SESSION),
        )
        self.home.session(SESSION, records, project=KEY)
        self.path = self.home.path / "projects" / KEY / f"{SESSION}.jsonl"
        self.folder = folder / "archive"
        self.hub = MemoryHub(folder / "raw")
        self.hub.use_store(store)

    def write(self, raw: bytes) -> None:
        with self.path.open("ab") as file:
            file.write(raw)
        Archive.ingest(self.folder, [self.home.path])

    def send(self, transport: MemoryHub | LossyTransport | None = None) -> int:
        hub = transport or self.hub
        redactor = Redactor()
        return push(self.folder, [PROJECT], redactor=redactor, transport=hub).requests

    def describe_both(self) -> tuple[object, object]:
        """Return the session as the hub shows it, and as the local archive shows it."""
        derive_all(self.hub.store, self.hub.objects)
        reader = self.hub.store.open_reader(AccessScope(person="ann"), self.hub.objects)
        with Archive.from_store(reader) as team, Archive.open(self.folder) as local:
            return describe_session(team), describe_session(local)


def describe_session(archive: Archive) -> object:
    """Return everything about the session except its position and person."""
    (summary,) = archive.sessions(include_empty=True)
    session = archive.session(summary.id)
    window = archive.conversation(summary.id).window(0, 0, 9)
    return (
        replace(summary, source_bytes=0, person=""),
        [(one.role, one.origin, one.blocks) for one in session.live_branch.messages],
        [one.kind for one in session.problems],
        [one.text for one in archive.prompts()],
        [(one.id, one.blocks) for turn in window.turns for one in turn.messages],
        archive.context(summary.id),
    )


@pytest.fixture
def sender(engine: Callable[[], StoreAndBlobs], tmp_path: Path) -> Iterator[Sender]:
    """Return a sender and an empty store."""
    store, _ = engine()
    yield Sender(tmp_path, store)
    store.close()


@pytest.mark.parametrize("ending", ENDINGS)
def test_unfinished_last_line_is_shown_as_locally(sender: Sender, ending: str) -> None:
    sender.write(ENDINGS[ending])
    sender.send()

    team, local = sender.describe_both()

    assert team == local
    assert sender.send() == 0


def test_unfinished_last_line_is_replaced_when_it_grows(sender: Sender) -> None:
    before = b""
    for more in (WHOLE[:40], WHOLE[40:200], WHOLE[200:], b"\n" + WHOLE[:9], b"x\n"):
        before += more
        sender.write(more)
        sender.send()

        team, local = sender.describe_both()
        assert team == local
        assert sender.send() == 0
    (stored,) = sender.hub.texts().values()
    assert stored.count(b"the last words") == 1


def test_unfinished_last_line_is_dropped_when_the_file_is_rewritten(
    sender: Sender,
) -> None:
    sender.write(WHOLE)
    sender.send()
    sender.path.write_bytes(make_line("quite another", 5) + b"\n")
    sender.write(b"")
    sender.send()

    team, local = sender.describe_both()

    assert team == local
    assert _fragments(sender) == []


@pytest.mark.parametrize("seed", range(4))
def test_lost_requests_do_not_change_the_final_line(sender: Sender, seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 (repeatable, not secret)
    losing = LossyTransport(sender.hub, seed)
    whole = WHOLE + b"\n" + make_line("and these", 950)
    at = 0
    while at < len(whole):
        step = rng.randint(1, len(whole))
        sender.write(whole[at : at + step])
        at += step
        with suppress(HubUnreachable):
            sender.send(losing)
    sender.send()

    team, local = sender.describe_both()

    assert team == local


def test_partial_and_private_last_lines_are_not_pushed(sender: Sender) -> None:
    for more in (b'{"type":"bridge-session","secret":"hus', b'h hush"}'):
        sender.write(more)
        sender.send()

        frames = [one.frame for one in _fragments(sender)]
        assert sum(map(len, frames)) < 30
        team, local = sender.describe_both()
        assert team == local or more.endswith(b"}")
    assert frames == [b""]
    assert sender.send() == 0


def _fragments(sender: Sender) -> list[SourceFragment]:
    store = sender.hub.store
    numbers = [source.number for source in store.list_sources("ann")]
    return list(store.fragments(numbers).values())


def test_unfinished_last_line_is_exported(sender: Sender) -> None:
    sender.write(WHOLE)
    sender.send()
    sender.describe_both()

    reader = sender.hub.store.open_reader(AccessScope(person="ann"), sender.hub.objects)
    with Archive.from_store(reader) as team, Archive.open(sender.folder) as local:
        (there, here) = (
            b"".join(
                archive.read_source(archive.session(SessionId(SESSION)).sources[0].id)
            )
            for archive in (team, local)
        )

    assert there == here
    assert there.endswith(WHOLE)


def test_unfinished_last_line_is_migrated(
    sender: Sender, engine: Callable[[], StoreAndBlobs]
) -> None:
    sender.write(WHOLE)
    sender.send()
    there, _ = engine()
    sender.hub.store.set_note("hub", "raw", str(sender.hub.folder).encode())

    before = sender.hub.store
    migrate_store(before, there)
    sender.hub.use_store(there)

    team, local = sender.describe_both()
    assert team == local
    assert sender.send() == 0
    sender.hub.use_store(before)
    there.close()


def test_source_without_bytes_is_not_migrated(
    sender: Sender, engine: Callable[[], StoreAndBlobs]
) -> None:
    sender.write(WHOLE)
    sender.send()
    before = sender.hub.store
    before.set_note("hub", "raw", str(sender.hub.folder).encode())
    (sent,) = (one.source for one in before.export_updates())
    before.put(SourceUpdate(source=replace(sent, path=f"p/{session_id(9)}.jsonl")))
    there, _ = engine()

    report = migrate_store(before, there)

    assert report.sources == 1
    assert [one.source.path for one in there.export_updates()] == [sent.path]
    there.close()
