"""Titles from files that are not pushed are the same on a hub."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from bygones.archive import Archive
from bygones.hub.client import push
from bygones.model.base import SessionId
from bygones.redact.engine import Redactor
from bygones.team.access import erase
from bygones.team.contract import AccessScope, BlobStore, ErasureSelector
from bygones.team.stores.base import TeamStore
from bygones.team.worker import derive_all
from tests.build import Home, Written, prompt, reply, session_id, summary, thread
from tests.hub.sending import NOW, MemoryHub

pytestmark = pytest.mark.full_on_clickhouse
StoreAndBlobs = tuple[TeamStore, BlobStore]
SHOP, DIARY = "/srv/shop", "/srv/diary"
OURS, THEIRS, TITLES = session_id(1), session_id(2), session_id(3)


def make_records(where: str, session: str, start: int) -> list[Written]:
    return thread(
        prompt(f"asked in {where}", cwd=where, sessionId=session),
        reply("answered", cwd=where, sessionId=session),
        start=start,
    )


class Sender:
    """Two projects, one of which is pushed, and files with titles of both."""

    def __init__(self, folder: Path, store: TeamStore) -> None:
        self.home = Home(folder / ".claude")
        self.folder = folder / "archive"
        self.hub = MemoryHub(folder / "raw")
        self.hub.use_store(store)
        self.ours = make_records(SHOP, OURS, 0)
        self.theirs = make_records(DIARY, THEIRS, 900)
        self.leaf = str(self.ours[-1]["uuid"])
        self.other_leaf = str(self.theirs[-1]["uuid"])
        self.write(OURS, self.ours, SHOP, age=10)
        self.write(THEIRS, self.theirs, DIARY, age=20)

    def write(self, name: str, records: list[Written], where: str, age: int) -> None:
        key = where.replace("/", "-")
        self.home.session(name, records, project=key)
        path = self.home.path / "projects" / key / f"{name}.jsonl"
        os.utime(path, (age, age))

    def push_and_describe(self) -> tuple[object, object]:
        """Push; return our session as the hub shows it, and as the local archive shows it."""
        Archive.ingest(self.folder, [self.home.path])
        self.push()
        derive_all(self.hub.store, self.hub.objects)
        reader = self.hub.store.open_reader(AccessScope(person="ann"), self.hub.objects)
        with Archive.from_store(reader) as team, Archive.open(self.folder) as local:
            assert [one.id for one in team.sessions(include_empty=True)] == [OURS]
            return describe_session(team), describe_session(local)

    def push(self) -> int:
        redactor = Redactor()
        done = push(self.folder, [SHOP], redactor=redactor, transport=self.hub)
        return done.requests

    def stored_bytes(self) -> bytes:
        return b"".join(self.hub.texts().values())


def describe_session(archive: Archive) -> object:
    (session_summary,) = [
        one for one in archive.sessions(include_empty=True) if one.id == OURS
    ]
    session = archive.session(session_summary.id)
    messages = [(one.role, one.blocks) for one in session.live_branch.messages]
    return replace(session_summary, source_bytes=0, person=""), session.title, messages


@pytest.fixture
def sender(engine: Callable[[], StoreAndBlobs], tmp_path: Path) -> Iterator[Sender]:
    store, _ = engine()
    yield Sender(tmp_path, store)
    store.close()


@pytest.mark.parametrize("where", [SHOP, DIARY])
def test_title_from_a_file_without_sessions_is_pushed(
    sender: Sender, where: str
) -> None:
    # Its project is unknown: no line names it.
    titles = [summary("Ours", sender.leaf), summary("Hush", sender.other_leaf)]
    sender.write(TITLES, titles, where, age=30)

    team, local = sender.push_and_describe()

    assert team == local
    assert b"Ours" in sender.stored_bytes()
    assert b"Hush" not in sender.stored_bytes()
    assert "diary" not in repr(list(sender.hub.store.export_updates()))
    assert sender.push() == 0


def test_title_from_another_project_is_pushed_without_that_session(
    sender: Sender,
) -> None:
    named = [summary("Ours", sender.leaf), *sender.theirs]
    sender.write(THEIRS, named, DIARY, age=30)

    team, local = sender.push_and_describe()

    assert team == local
    assert b"Ours" in sender.stored_bytes()
    assert b"diary" not in sender.stored_bytes()


def test_title_for_another_project_is_not_pushed(sender: Sender) -> None:
    named = [summary("Hush", sender.other_leaf), *sender.ours]
    sender.write(OURS, named, SHOP, age=30)

    team, local = sender.push_and_describe()

    assert team == local
    assert b"Hush" not in sender.stored_bytes()


def test_newest_title_wins_on_the_hub(sender: Sender) -> None:
    for number, age in ((5, 50), (6, 40)):
        titles = [summary(f"Title {number}", sender.leaf)]
        sender.write(session_id(number), titles, DIARY, age=age)
    team, local = sender.push_and_describe()
    assert team == local

    titles = [summary("Title 6", sender.leaf), summary("Another", sender.leaf)]
    sender.write(session_id(6), titles, DIARY, age=60)
    again, now = sender.push_and_describe()

    assert again == now
    assert again != team
    assert sender.push() == 0


def test_erased_session_leaves_no_title(sender: Sender) -> None:
    sender.write(TITLES, [summary("Ours", sender.leaf)], DIARY, age=30)
    sender.push_and_describe()
    store, objects = sender.hub.store, sender.hub.objects

    erase(store, objects, ErasureSelector(session=SessionId(OURS)), now=NOW)

    assert list(store.export_updates()) == []
    assert list(objects.addresses()) == []
    sender.push()
    assert list(store.export_updates()) == []
