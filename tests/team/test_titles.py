"""Titles that a session has from files which stay at home are the same on a hub."""

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
Made = tuple[TeamStore, BlobStore]
SHOP, DIARY = "/srv/shop", "/srv/diary"
OURS, THEIRS, TITLES = session_id(1), session_id(2), session_id(3)


def talk(where: str, session: str, start: int) -> list[Written]:
    return thread(
        prompt(f"asked in {where}", cwd=where, sessionId=session),
        reply("answered", cwd=where, sessionId=session),
        start=start,
    )


class Sending:
    """Two projects of which one is sent, and files that give titles to both."""

    def __init__(self, place: Path, store: TeamStore) -> None:
        self.home = Home(place / ".claude")
        self.folder = place / "archive"
        self.hub = MemoryHub(place / "raw")
        self.hub.use(store)
        self.ours = talk(SHOP, OURS, 0)
        self.theirs = talk(DIARY, THEIRS, 900)
        self.leaf = str(self.ours[-1]["uuid"])
        self.other_leaf = str(self.theirs[-1]["uuid"])
        self.write(OURS, self.ours, SHOP, age=10)
        self.write(THEIRS, self.theirs, DIARY, age=20)

    def write(self, name: str, records: list[Written], where: str, age: int) -> None:
        key = where.replace("/", "-")
        self.home.session(name, records, project=key)
        path = self.home.path / "projects" / key / f"{name}.jsonl"
        os.utime(path, (age, age))

    def sent(self) -> tuple[object, object]:
        """Push; return what the hub shows of our session, and what the folder shows."""
        Archive.ingest(self.folder, [self.home.path])
        self.push()
        derive_all(self.hub.store, self.hub.objects)
        shelf = self.hub.store.open_reader(AccessScope(person="ann"), self.hub.objects)
        with Archive.from_store(shelf) as team, Archive.open(self.folder) as own:
            assert [one.id for one in team.sessions(include_empty=True)] == [OURS]
            return told(team), told(own)

    def push(self) -> int:
        redactor = Redactor()
        done = push(self.folder, [SHOP], redactor=redactor, transport=self.hub)
        return done.requests

    def left(self) -> bytes:
        return b"".join(self.hub.texts().values())


def told(archive: Archive) -> object:
    (listed,) = [one for one in archive.sessions(include_empty=True) if one.id == OURS]
    session = archive.session(listed.id)
    messages = [(one.role, one.blocks) for one in session.live_branch.messages]
    return replace(listed, source_bytes=0, person=""), session.title, messages


@pytest.fixture
def sending(engine: Callable[[], Made], tmp_path: Path) -> Iterator[Sending]:
    store, _ = engine()
    yield Sending(tmp_path, store)
    store.close()


@pytest.mark.parametrize("where", [SHOP, DIARY])
def test_title_from_a_file_without_sessions_is_pushed(
    sending: Sending, where: str
) -> None:
    # Its project is unknown: no line names it.
    titles = [summary("Ours", sending.leaf), summary("Hush", sending.other_leaf)]
    sending.write(TITLES, titles, where, age=30)

    team, own = sending.sent()

    assert team == own
    assert b"Ours" in sending.left()
    assert b"Hush" not in sending.left()
    assert "diary" not in repr(list(sending.hub.store.export_updates()))
    assert sending.push() == 0


def test_title_from_another_project_is_pushed_without_that_session(
    sending: Sending,
) -> None:
    named = [summary("Ours", sending.leaf), *sending.theirs]
    sending.write(THEIRS, named, DIARY, age=30)

    team, own = sending.sent()

    assert team == own
    assert b"Ours" in sending.left()
    assert b"diary" not in sending.left()


def test_title_for_another_project_is_not_pushed(sending: Sending) -> None:
    named = [summary("Hush", sending.other_leaf), *sending.ours]
    sending.write(OURS, named, SHOP, age=30)

    team, own = sending.sent()

    assert team == own
    assert b"Hush" not in sending.left()


def test_newest_title_wins_on_the_hub(sending: Sending) -> None:
    for number, age in ((5, 50), (6, 40)):
        titles = [summary(f"Title {number}", sending.leaf)]
        sending.write(session_id(number), titles, DIARY, age=age)
    team, own = sending.sent()
    assert team == own

    titles = [summary("Title 6", sending.leaf), summary("Another", sending.leaf)]
    sending.write(session_id(6), titles, DIARY, age=60)
    again, now = sending.sent()

    assert again == now
    assert again != team
    assert sending.push() == 0


def test_erased_session_leaves_no_title(sending: Sending) -> None:
    sending.write(TITLES, [summary("Ours", sending.leaf)], DIARY, age=30)
    sending.sent()
    store, objects = sending.hub.store, sending.hub.objects

    erase(store, objects, ErasureSelector(session=SessionId(OURS)), now=NOW)

    assert list(store.export_updates()) == []
    assert list(objects.addresses()) == []
    sending.push()
    assert list(store.export_updates()) == []
