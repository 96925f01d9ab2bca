"""Each family is derived once, whatever comes when, and as a folder would."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from itertools import permutations
from pathlib import Path

import pytest

from bygones.archive import Archive
from bygones.errors import ArchiveDamaged, StoreError
from bygones.model.base import SessionId
from bygones.team.contract import AccessScope, BlobStore, DerivedSessions
from bygones.team.stores.base import TeamStore
from bygones.team.worker import FailedFamilies, derive_all, derive_pending
from tests.build import Home, jsonl, prompt, reply, session_id, summary, thread
from tests.team.homes import send

Made = tuple[TeamStore, BlobStore]


@pytest.fixture
def empty(engine: Callable[[], Made]) -> Iterator[Made]:
    """Return an empty store that can derive."""
    store, objects = engine()
    store.prepare()
    yield store, objects
    store.close()


def counted(store: TeamStore, monkeypatch: pytest.MonkeyPatch) -> list[SessionId]:
    """Return a list in which every session is named that is written from now on."""
    written: list[SessionId] = []
    replace = store.replace_sessions

    def noted(made: DerivedSessions) -> None:
        written.extend(one.session for one in made.sessions)
        replace(made)

    monkeypatch.setattr(store, "replace_sessions", noted)
    return written


def homes(place: Path) -> list[Path]:
    """Return homes of a session, of one that continues it, and of their titles."""
    first = thread(prompt("how it began"), reply("so"))
    further = [*first, *thread(prompt("further"), reply("on"), start=90)]
    leaf, other = str(first[-1]["uuid"]), str(further[-1]["uuid"])
    titles = [summary("Of the beginning", leaf), summary("Of the end", other)]
    asked = thread(prompt("something else"), start=500)
    said = [first, further, [*titles, *asked]]
    made = []
    for number, records in enumerate(said):
        home = Home(place / str(number))
        home.session(session_id(number), records)
        made.append(home.path)
    return made


def listed(archive: Archive) -> list[tuple[object, ...]]:
    return sorted((one.id, one.title, one.message_count) for one in archive.sessions())


@pytest.mark.full_on_clickhouse
@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_order_of_uploads_does_not_matter(
    empty: Made, tmp_path: Path, order: Sequence[int]
) -> None:
    store, objects = empty
    made = homes(tmp_path / "homes")
    for number in order:
        send(store, objects, "ann", [made[number]])
        derive_all(store, objects)
    Archive.ingest(tmp_path / "archive", made)

    with (
        Archive.open(tmp_path / "archive") as folder,
        Archive.from_store(
            store.open_reader(AccessScope(person="ann"), objects)
        ) as team,
    ):
        assert listed(team) == listed(folder)
        assert "Of the end" in {one.title.text for one in team.sessions()}


@pytest.mark.full_on_clickhouse
def test_source_of_a_borrowed_title_is_not_derived_again(
    empty: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, objects = empty
    first, further, titles = homes(tmp_path / "homes")
    send(store, objects, "ann", [titles])
    derive_all(store, objects)
    written = counted(store, monkeypatch)

    send(store, objects, "ann", [first, further])
    derive_all(store, objects)

    assert sorted(written) == [session_id(0), session_id(1)]


def test_complete_family_is_derived_once(
    empty: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, objects = empty
    monkeypatch.setattr("bygones.team.worker._BATCH_BYTES", 1)
    first, further, titles = homes(tmp_path / "homes")
    for home in (titles, first, further):
        send(store, objects, "ann", [home])
    written = counted(store, monkeypatch)

    derive_all(store, objects)

    # The second group finds the first; what that brings along is not done once more.
    assert len(written) <= 4
    assert store.pending_sources() == []


def test_uploads_during_derivation_stay_pending(
    empty: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, objects = empty
    first, _, titles = homes(tmp_path / "homes")
    send(store, objects, "ann", [first])
    replace = store.replace_sessions

    def late(made: DerivedSessions) -> None:
        send(store, objects, "ann", [titles])
        replace(made)

    monkeypatch.setattr(store, "replace_sessions", late)

    assert derive_pending(store, objects) == 1
    assert len(store.pending_sources()) == 1


@pytest.mark.full_on_clickhouse
def test_source_with_damaged_bytes_is_not_derived(empty: Made, tmp_path: Path) -> None:
    store, objects = empty
    first, _, titles = homes(tmp_path / "homes")
    send(store, objects, "ann", [first])
    addresses = [s.address for batch in store.export_updates() for s in batch.spans]

    objects.remove(addresses)

    with pytest.raises(ArchiveDamaged):
        derive_all(store, objects)
    # Others, and other people, need not wait for it.
    send(store, objects, "ann", [titles])
    send(store, objects, "ben", [titles])
    with pytest.raises(ArchiveDamaged):
        derive_all(store, objects)
    assert [one.person for one in store.pending_sources()] == ["ann"]
    for person in ("ann", "ben"):
        with Archive.from_store(
            store.open_reader(AccessScope(person=person), objects)
        ) as archive:
            assert [one.id for one in archive.sessions()] == [session_id(2)]
    # Sending the same bytes again repairs it.
    send(store, objects, "ann", [first])
    assert derive_all(store, objects) == 1


def refusing(
    store: TeamStore, monkeypatch: pytest.MonkeyPatch, error: StoreError
) -> list[set[SessionId]]:
    """Have an engine refuse the first session; return what it was asked to write."""
    tried: list[set[SessionId]] = []
    replace = store.replace_sessions

    def chosen(made: DerivedSessions) -> None:
        tried.append({one.session for one in made.sessions})
        if session_id(0) in tried[-1]:
            raise error
        replace(made)

    monkeypatch.setattr(store, "replace_sessions", chosen)
    return tried


@pytest.mark.full_on_clickhouse
def test_family_that_cannot_be_stored_is_skipped_until_it_changes(
    empty: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, objects = empty
    first, further, _ = homes(tmp_path / "homes")
    other = Home(tmp_path / "other")
    other.session(session_id(9), thread(prompt("apart"), start=900))
    withheld = FailedFamilies()
    tried = refusing(store, monkeypatch, StoreError("too long", is_permanent=True))
    send(store, objects, "ann", [first, other.path], step=1)
    send(store, objects, "ben", [other.path])

    assert derive_pending(store, objects, withheld) == 2
    assert [one.person for one in store.pending_sources()] == ["ann"]
    assert withheld.describe().startswith("1 file could not be indexed")
    # It is not tried for ever, only when more of it comes.
    tried.clear()
    assert derive_pending(store, objects, withheld) == 0
    assert tried == []
    send(store, objects, "ann", [further])
    assert derive_pending(store, objects, withheld) == 1
    assert tried == [{session_id(1)}]
    (path,) = first.rglob(f"{session_id(0)}.jsonl")
    with path.open("ab") as file:
        file.write(jsonl(thread(prompt("more"), start=700)))
    send(store, objects, "ann", [first], step=1)
    monkeypatch.undo()
    assert derive_pending(store, objects, withheld) == 2
    assert derive_pending(store, objects, withheld) == 0
    assert (store.pending_sources(), withheld.describe()) == ([], "")


@pytest.mark.full_on_clickhouse
def test_unavailable_database_fails_the_whole_derivation(
    empty: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, objects = empty
    first, _, _ = homes(tmp_path / "homes")
    withheld = FailedFamilies()
    tried = refusing(store, monkeypatch, StoreError("the disk is full"))
    send(store, objects, "ann", [first])

    for _ in range(2):
        with pytest.raises(StoreError):
            derive_pending(store, objects, withheld)

    assert tried == [{session_id(0)}] * 2
    assert len(withheld) == 0


@pytest.mark.full_on_clickhouse
@pytest.mark.parametrize(
    "odd",
    ["S\0", "".join(sha256(b"%d" % n).hexdigest() for n in range(250))],
    ids=["zero", "long"],
)
def test_file_names_without_session_id_are_derived_as_locally(
    empty: Made, tmp_path: Path, odd: str
) -> None:
    store, objects = empty
    home = Home(tmp_path / "home")
    home.session("chat", thread(prompt("odd", sessionId=odd)))
    home.session(session_id(1), thread(prompt("plain"), start=500))
    send(store, objects, "ann", [home.path])
    Archive.ingest(tmp_path / "archive", [home.path])

    derive_all(store, objects)

    with (
        Archive.open(tmp_path / "archive") as folder,
        Archive.from_store(
            store.open_reader(AccessScope(person="ann"), objects)
        ) as team,
    ):
        assert odd in {one.id for one in team.sessions()}
        assert listed(team) == listed(folder)


def test_preparing_a_store_again_keeps_its_sessions(filled: Made) -> None:
    store, _ = filled
    before = store.verify()

    store.prepare()

    assert store.verify() == before
    assert before.sessions > 0
    assert not store.pending_sources()


@pytest.mark.req("A3")
def test_warm_up_inside_a_session_is_hidden_in_a_team_store(
    empty: Made, tmp_path: Path
) -> None:
    store, objects = empty
    home = Home(tmp_path / "home")
    inside = {"isSidechain": True}
    warm_up = thread(prompt("Warmup"), reply("Ready to explore the walrus"), start=60)
    records = [record | inside for record in warm_up]
    home.session(session_id(1), [*records, *thread(prompt("Otter"), reply("Fed"))])
    send(store, objects, "ann", [home.path])
    derive_all(store, objects)

    reader = store.open_reader(AccessScope(person="ann"), objects)
    with Archive.from_store(reader) as team:
        assert team.search("walrus").sessions == ()
        (only,) = team.search("walrus is:hidden").sessions
        assert [hit.excerpt.text for hit in only.hits] == [
            "Ready to explore the walrus"
        ]
        assert len(team.search("otter").sessions) == 1
