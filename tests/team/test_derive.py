"""Each family is derived once in any order of uploads, with the same result as locally."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from itertools import permutations
from pathlib import Path

import pytest

from bygones.archive import Archive
from bygones.errors import ArchiveDamaged, StoreError
from bygones.model.base import SessionId
from bygones.team.contract import (
    REBUILD_NOTE,
    AccessScope,
    BlobStore,
    DerivedSessions,
)
from bygones.team.stores.base import TeamStore
from bygones.team.worker import (
    DeriveSelection,
    FailedFamilies,
    derive_all,
    derive_pending,
)
from tests.build import Home, jsonl, prompt, reply, session_id, summary, thread
from tests.team.homes import upload_homes

StoreAndBlobs = tuple[TeamStore, BlobStore]


@pytest.fixture
def empty(engine: Callable[[], StoreAndBlobs]) -> Iterator[StoreAndBlobs]:
    """Return an empty store on an engine."""
    store, objects = engine()
    store.prepare()
    yield store, objects
    store.close()


def record_writes(store: TeamStore, monkeypatch: pytest.MonkeyPatch) -> list[SessionId]:
    """Return a list that records the id of every session that is written from now on."""
    written: list[SessionId] = []
    original = store.replace_sessions

    def wrapper(derived: DerivedSessions) -> None:
        written.extend(one.session for one in derived.sessions)
        original(derived)

    monkeypatch.setattr(store, "replace_sessions", wrapper)
    return written


def make_homes(folder: Path) -> list[Path]:
    """Return three homes: a session, a session that continues it, and their titles."""
    first = thread(prompt("how it began"), reply("so"))
    further = [*first, *thread(prompt("further"), reply("on"), start=90)]
    leaf, other = str(first[-1]["uuid"]), str(further[-1]["uuid"])
    titles = [summary("Of the beginning", leaf), summary("Of the end", other)]
    other_records = thread(prompt("something else"), start=500)
    sessions = [first, further, [*titles, *other_records]]
    paths = []
    for number, records in enumerate(sessions):
        home = Home(folder / str(number))
        home.session(session_id(number), records)
        paths.append(home.path)
    return paths


def list_sessions(archive: Archive) -> list[tuple[object, ...]]:
    return sorted((one.id, one.title, one.message_count) for one in archive.sessions())


@pytest.mark.full_on_clickhouse
@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_order_of_uploads_does_not_matter(
    empty: StoreAndBlobs, tmp_path: Path, order: Sequence[int]
) -> None:
    store, objects = empty
    homes = make_homes(tmp_path / "homes")
    for number in order:
        upload_homes(store, objects, "ann", [homes[number]])
        derive_all(store, objects)
    Archive.ingest(tmp_path / "archive", homes)

    with (
        Archive.open(tmp_path / "archive") as folder,
        Archive.from_store(
            store.open_reader(AccessScope(person="ann"), objects)
        ) as team,
    ):
        assert list_sessions(team) == list_sessions(folder)
        assert "Of the end" in {one.title.text for one in team.sessions()}


@pytest.mark.full_on_clickhouse
def test_source_of_a_borrowed_title_is_not_derived_again(
    empty: StoreAndBlobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, objects = empty
    first, further, titles = make_homes(tmp_path / "homes")
    upload_homes(store, objects, "ann", [titles])
    derive_all(store, objects)
    written = record_writes(store, monkeypatch)

    upload_homes(store, objects, "ann", [first, further])
    derive_all(store, objects)

    assert sorted(written) == [session_id(0), session_id(1)]


def test_complete_family_is_derived_once(
    empty: StoreAndBlobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, objects = empty
    monkeypatch.setattr("bygones.team.worker._BATCH_BYTES", 1)
    first, further, titles = make_homes(tmp_path / "homes")
    for home in (titles, first, further):
        upload_homes(store, objects, "ann", [home])
    written = record_writes(store, monkeypatch)

    derive_all(store, objects)

    # The second batch includes the first one's family, which is not derived again.
    assert len(written) <= 4
    assert store.pending_sources() == []


def test_uploads_during_derivation_stay_pending(
    empty: StoreAndBlobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, objects = empty
    first, _, titles = make_homes(tmp_path / "homes")
    upload_homes(store, objects, "ann", [first])
    replace = store.replace_sessions

    def upload_then_replace(derived: DerivedSessions) -> None:
        upload_homes(store, objects, "ann", [titles])
        replace(derived)

    monkeypatch.setattr(store, "replace_sessions", upload_then_replace)

    assert derive_pending(store, objects) == 1
    assert len(store.pending_sources()) == 1


@pytest.mark.full_on_clickhouse
def test_source_with_damaged_bytes_is_not_derived(
    empty: StoreAndBlobs, tmp_path: Path
) -> None:
    store, objects = empty
    first, _, titles = make_homes(tmp_path / "homes")
    upload_homes(store, objects, "ann", [first])
    addresses = [s.address for batch in store.export_updates() for s in batch.spans]

    objects.remove(addresses)

    with pytest.raises(ArchiveDamaged):
        derive_all(store, objects)
    # Other files and other people are not blocked by it.
    upload_homes(store, objects, "ann", [titles])
    upload_homes(store, objects, "ben", [titles])
    with pytest.raises(ArchiveDamaged):
        derive_all(store, objects)
    assert [one.person for one in store.pending_sources()] == ["ann"]
    for person in ("ann", "ben"):
        with Archive.from_store(
            store.open_reader(AccessScope(person=person), objects)
        ) as archive:
            assert [one.id for one in archive.sessions()] == [session_id(2)]
    # Uploading the same bytes again repairs it.
    upload_homes(store, objects, "ann", [first])
    assert derive_all(store, objects) == 1


def reject_first_session(
    store: TeamStore, monkeypatch: pytest.MonkeyPatch, error: StoreError
) -> list[set[SessionId]]:
    """Reject writes of the first session; return a list of all attempted writes."""
    tried: list[set[SessionId]] = []
    replace = store.replace_sessions

    def wrapper(derived: DerivedSessions) -> None:
        tried.append({one.session for one in derived.sessions})
        if session_id(0) in tried[-1]:
            raise error
        replace(derived)

    monkeypatch.setattr(store, "replace_sessions", wrapper)
    return tried


@pytest.mark.full_on_clickhouse
def test_family_that_cannot_be_stored_is_skipped_until_it_changes(
    empty: StoreAndBlobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, objects = empty
    first, further, _ = make_homes(tmp_path / "homes")
    other = Home(tmp_path / "other")
    other.session(session_id(9), thread(prompt("apart"), start=900))
    failed = FailedFamilies()
    tried = reject_first_session(
        store, monkeypatch, StoreError("too long", is_permanent=True)
    )
    upload_homes(store, objects, "ann", [first, other.path], step=1)
    upload_homes(store, objects, "ben", [other.path])

    assert derive_pending(store, objects, failed) == 2
    assert [one.person for one in store.pending_sources()] == ["ann"]
    assert failed.describe().startswith("1 file could not be indexed")
    # It is not retried until more of it is uploaded.
    tried.clear()
    assert derive_pending(store, objects, failed) == 0
    assert tried == []
    upload_homes(store, objects, "ann", [further])
    assert derive_pending(store, objects, failed) == 1
    assert tried == [{session_id(1)}]
    (path,) = first.rglob(f"{session_id(0)}.jsonl")
    with path.open("ab") as file:
        file.write(jsonl(thread(prompt("more"), start=700)))
    upload_homes(store, objects, "ann", [first], step=1)
    monkeypatch.undo()
    assert derive_pending(store, objects, failed) == 2
    assert derive_pending(store, objects, failed) == 0
    assert (store.pending_sources(), failed.describe()) == ([], "")


def test_people_whose_sources_failed_before_are_derived_last(
    empty: StoreAndBlobs, tmp_path: Path
) -> None:
    """Each of their sources may take as long as is allowed."""
    store, objects = empty
    for person in ("ann", "ben"):
        home = Home(tmp_path / person)
        home.session(session_id(9), thread(prompt(f"from {person}")))
        upload_homes(store, objects, person, [home.path])
    people = {one.number: one.person for one in store.pending_sources()}
    first = next(iter(people))
    groups: list[str] = []

    derive_pending(
        store,
        objects,
        selection=DeriveSelection(alone=frozenset({first})),
        on_group=lambda person, _group: groups.append(person),
    )

    assert len(groups) == len(set(people.values())) == 2
    assert groups[-1] == people[first]


def upload_sessions(
    empty: StoreAndBlobs, folder: Path, person: str, count: int
) -> None:
    """Upload unrelated sessions of a person."""
    home = Home(folder / f"{person}-{count}")
    for number in range(count):
        records = thread(
            prompt(f"{number} from {person}"), start=1000 * number + ord(person[0])
        )
        home.session(session_id(number), records)
    upload_homes(*empty, person, [home.path])


def test_people_take_turns(
    empty: StoreAndBlobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bygones.team.worker._BATCH_BYTES", 1)
    upload_sessions(empty, tmp_path, "ann", 5)
    upload_sessions(empty, tmp_path, "ben", 3)
    groups: list[str] = []

    def derive() -> int:
        return derive_pending(
            *empty, on_group=lambda person, _group: groups.append(person)
        )

    assert derive() == 2
    upload_sessions(empty, tmp_path, "cem", 1)
    assert derive() == 3
    # When no others are waiting, the rest is derived in one call.
    assert derive() == 4
    assert derive() == 0
    assert groups[:5] == ["ben", "ann", "cem", "ben", "ann"]
    assert groups[5:] == ["ben", "ann", "ann", "ann"]


def test_sources_of_skipped_people_stay_pending(
    empty: StoreAndBlobs, tmp_path: Path
) -> None:
    upload_sessions(empty, tmp_path, "ann", 1)
    upload_sessions(empty, tmp_path, "ben", 1)
    without_ann = DeriveSelection(skipped_people=frozenset({"ann"}))

    assert derive_pending(*empty, selection=without_ann) == 1
    assert [one.person for one in empty[0].pending_sources()] == ["ann"]


def test_long_sessions_are_left_to_another_process(
    empty: StoreAndBlobs, tmp_path: Path
) -> None:
    store, _ = empty
    home = Home(tmp_path / "long")
    home.session(session_id(7), thread(prompt("otter " * 500), start=7000))
    upload_sessions(empty, tmp_path, "ann", 2)
    upload_homes(*empty, "ann", [home.path])
    upload_sessions(empty, tmp_path, "ben", 1)
    left, failed = FailedFamilies(), FailedFamilies()
    quick = DeriveSelection(max_bytes=2_000)
    store.set_note(*REBUILD_NOTE, b"")

    def derive_all_quick() -> int:
        counts = iter(lambda: derive_pending(*empty, left, selection=quick), 0)
        return sum(counts)

    assert derive_all_quick() == 3
    assert [one.person for one in store.pending_sources()] == ["ann"]
    # Until it is derived, the database may have to wait for the other process.
    upload_sessions(empty, tmp_path, "ann", 3)
    assert derive_all_quick() == 0
    given_up = DeriveSelection(max_bytes=2_000, given_up=frozenset(left.families))
    assert derive_pending(*empty, left, selection=given_up) == 3

    selection = DeriveSelection(only=left)
    assert derive_pending(*empty, failed, selection=selection) == 1
    assert derive_pending(*empty, failed, selection=selection) == 0
    assert store.pending_sources() == []
    assert store.get_note(*REBUILD_NOTE) is not None
    assert derive_all_quick() == 0
    assert len(left) == len(failed) == 0
    assert store.get_note(*REBUILD_NOTE) is None


def test_rebuild_ends_without_sessions_that_cannot_be_derived(
    empty: StoreAndBlobs, tmp_path: Path
) -> None:
    store, _ = empty
    upload_sessions(empty, tmp_path, "ann", 1)
    store.set_note(*REBUILD_NOTE, b"")
    left = FailedFamilies()
    notes: list[bytes | None] = []
    sending = DeriveSelection(skipped_people=frozenset({"ann"}))
    for selection in (sending, DeriveSelection(max_bytes=1)):
        assert derive_pending(*empty, left, selection=selection) == 0
        notes.append(store.get_note(*REBUILD_NOTE))
    given_up = DeriveSelection(max_bytes=1, given_up=frozenset(left.families))
    assert derive_pending(*empty, left, selection=given_up) == 0
    notes.append(store.get_note(*REBUILD_NOTE))

    assert notes == [b"", b"", None]


def test_rebuild_ends_although_a_source_is_damaged(
    empty: StoreAndBlobs, tmp_path: Path
) -> None:
    store, objects = empty
    upload_sessions(empty, tmp_path, "ann", 1)
    objects.remove(
        [span.address for update in store.export_updates() for span in update.spans]
    )
    upload_sessions(empty, tmp_path, "ben", 1)
    store.set_note(*REBUILD_NOTE, b"")
    quick = DeriveSelection(max_bytes=1_000_000)

    assert derive_pending(*empty, FailedFamilies(), selection=quick) == 1
    damaged: set[int] = set()
    with pytest.raises(ArchiveDamaged):
        derive_pending(*empty, FailedFamilies(), selection=quick, damaged=damaged)

    assert damaged == {one.number for one in store.pending_sources()}
    assert store.get_note(*REBUILD_NOTE) is None


def test_session_that_is_long_with_its_relatives_is_left_to_another_process(
    empty: StoreAndBlobs, tmp_path: Path
) -> None:
    first, further, _ = make_homes(tmp_path / "homes")
    upload_homes(*empty, "ann", [first])
    derive_all(*empty)
    sizes = [p.stat().st_size for h in (first, further) for p in h.rglob("*.jsonl")]
    upload_homes(*empty, "ann", [further])
    left = FailedFamilies()

    quick = DeriveSelection(max_bytes=max(sizes))
    assert derive_pending(*empty, left, selection=quick) == 0
    assert len(left) == 1
    assert derive_pending(*empty, selection=DeriveSelection(only=left)) == 2
    assert empty[0].pending_sources() == []


@pytest.mark.full_on_clickhouse
def test_unavailable_database_fails_the_whole_derivation(
    empty: StoreAndBlobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, objects = empty
    first, _, _ = make_homes(tmp_path / "homes")
    failed = FailedFamilies()
    tried = reject_first_session(store, monkeypatch, StoreError("the disk is full"))
    upload_homes(store, objects, "ann", [first])

    for _ in range(2):
        with pytest.raises(StoreError):
            derive_pending(store, objects, failed)

    assert tried == [{session_id(0)}] * 2
    assert len(failed) == 0


@pytest.mark.full_on_clickhouse
@pytest.mark.parametrize(
    "odd",
    ["S\0", "".join(sha256(b"%d" % n).hexdigest() for n in range(15))],
    ids=["zero", "long"],
)
def test_file_names_without_session_id_are_derived_as_locally(
    empty: StoreAndBlobs, tmp_path: Path, odd: str
) -> None:
    store, objects = empty
    home = Home(tmp_path / "home")
    home.session("chat", thread(prompt("odd", sessionId=odd)))
    home.session(session_id(1), thread(prompt("plain"), start=500))
    upload_homes(store, objects, "ann", [home.path])
    Archive.ingest(tmp_path / "archive", [home.path])

    derive_all(store, objects)

    with (
        Archive.open(tmp_path / "archive") as folder,
        Archive.from_store(
            store.open_reader(AccessScope(person="ann"), objects)
        ) as team,
    ):
        assert odd in {one.id for one in team.sessions()}
        assert list_sessions(team) == list_sessions(folder)


def test_preparing_a_store_again_keeps_its_sessions(filled: StoreAndBlobs) -> None:
    store, _ = filled
    before = store.verify()

    store.prepare()

    assert store.verify() == before
    assert before.sessions > 0
    assert not store.pending_sources()


@pytest.mark.req("A3")
def test_warm_up_inside_a_session_is_hidden_in_a_team_store(
    empty: StoreAndBlobs, tmp_path: Path
) -> None:
    store, objects = empty
    home = Home(tmp_path / "home")
    inside = {"isSidechain": True}
    warm_up = thread(prompt("Warmup"), reply("Ready to explore the walrus"), start=60)
    records = [record | inside for record in warm_up]
    home.session(session_id(1), [*records, *thread(prompt("Otter"), reply("Fed"))])
    upload_homes(store, objects, "ann", [home.path])
    derive_all(store, objects)

    reader = store.open_reader(AccessScope(person="ann"), objects)
    with Archive.from_store(reader) as team:
        assert team.search("walrus").sessions == ()
        (only,) = team.search("walrus is:hidden").sessions
        assert [hit.excerpt.text for hit in only.hits] == [
            "Ready to explore the walrus"
        ]
        assert len(team.search("otter").sessions) == 1
