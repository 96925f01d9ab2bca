"""The contract of team stores, which the store in memory fulfills too."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from bygones.errors import ArchiveDamaged, SourceUpdateRejected
from bygones.model.base import SessionId, SourceKind
from bygones.team.contract import (
    BlobStore,
    ErasureSelector,
    RemoteSource,
    SourceFragment,
    SourceUpdate,
    StoredSpan,
    allocate_numbers,
    tombstone_hashes,
)
from bygones.team.stores.base import TeamStore

StoreAndBlobs = tuple[TeamStore, BlobStore]
NOW = datetime(2026, 11, 15, tzinfo=UTC)
SENT = RemoteSource(
    person="ann",
    machine="laptop",
    home="/home/ann/.claude",
    path="projects/-work/5e55.jsonl",
    kind=SourceKind.SESSION,
    session=SessionId("5e55"),
)


def span(raw: bytes, offset: int, objects: BlobStore) -> StoredSpan:
    return StoredSpan(
        offset=offset,
        length=len(raw),
        client_offset=offset + len(raw),
        sha256=hashlib.sha256(raw).digest(),
        address=objects.put(raw),
    )


def test_repeated_update_is_stored_once(empty_store: StoreAndBlobs) -> None:
    store, objects = empty_store
    batch = SourceUpdate(source=SENT, spans=(span(b"{}\n", 0, objects),))

    first = store.put(batch)

    assert store.put(batch) == first
    assert first.stored_bytes == 3
    assert [one.stored_bytes for one in store.machine_sources("ann", "laptop")] == [3]
    assert store.machine_sources("ben", "laptop") == []


def test_gap_or_different_bytes_are_rejected(empty_store: StoreAndBlobs) -> None:
    store, objects = empty_store
    store.put(SourceUpdate(source=SENT, spans=(span(b"{}\n", 0, objects),)))

    with pytest.raises(SourceUpdateRejected, match="3 bytes"):
        store.put(SourceUpdate(source=SENT, spans=(span(b"{}\n", 9, objects),)))
    with pytest.raises(SourceUpdateRejected, match="different bytes"):
        store.put(SourceUpdate(source=SENT, spans=(span(b"[]\n", 0, objects),)))


@pytest.mark.parametrize("person", [None, "ann"])
def test_copy_of_another_person_is_rejected_if_everybodys_are_erased(
    empty_store: StoreAndBlobs, person: str | None
) -> None:
    store, objects = empty_store
    copied = replace(SENT, person="ben")
    store.put(SourceUpdate(source=SENT, spans=(span(b"{}\n", 0, objects),)))

    selector = ErasureSelector(session=SENT.session, person=person)
    store.erase(selector, now=NOW)

    assert store.find_erased([copied]) == (set() if person else {copied.number})


def test_held_copy_of_another_person_still_accepts_lines(
    empty_store: StoreAndBlobs,
) -> None:
    store, objects = empty_store
    copied = replace(SENT, person="ben")
    for one in (SENT, copied):
        store.put(SourceUpdate(source=one, spans=(span(b"{}\n", 0, objects),)))
    store.hold(ErasureSelector(session=SENT.session, person="ben"), reason="a dispute")

    store.erase(ErasureSelector(session=SENT.session), now=NOW)

    assert store.find_erased([SENT, copied]) == {SENT.number}


def test_erased_source_is_rejected(empty_store: StoreAndBlobs) -> None:
    store, objects = empty_store
    batch = SourceUpdate(source=SENT, spans=(span(b"{}\n", 0, objects),))
    store.put(batch)
    assert store.find_erased([SENT]) == set()

    receipt = store.erase(ErasureSelector(session=SessionId("5e55")), now=NOW)

    assert store.find_erased([SENT]) == {SENT.number}
    assert store.find_erased([]) == set()
    assert store.find_tombstones([*tombstone_hashes(SENT), b"1" * 32]) == set(
        tombstone_hashes(SENT)
    )

    assert receipt.sources == 1
    assert len(receipt.blob_addresses) == 1
    assert list(receipt.blob_addresses) == list(store.orphaned_blobs())
    objects.remove(receipt.blob_addresses)
    store.forget_orphaned_blobs(receipt.blob_addresses)
    assert store.orphaned_blobs() == []
    with pytest.raises(ArchiveDamaged):
        objects.get(receipt.blob_addresses[0])
    with pytest.raises(SourceUpdateRejected, match="erased"):
        store.put(batch)


def test_held_sessions_are_not_erased(empty_store: StoreAndBlobs) -> None:
    store, objects = empty_store
    store.put(SourceUpdate(source=SENT, spans=(span(b"{}\n", 0, objects),)))
    store.hold(ErasureSelector(person="ann"), reason="a dispute")

    receipt = store.erase(ErasureSelector(person="ann"), now=NOW)

    assert receipt.sources == 0
    assert len(store.machine_sources("ann", "laptop")) == 1


def test_note_is_stored_and_deleted(empty_store: StoreAndBlobs) -> None:
    store, _ = empty_store
    store.set_note("token", "ann", b"hash")

    assert store.list_notes("token") == {"ann": b"hash"}
    store.set_note("token", "ann", None)
    assert store.get_note("token", "ann") is None


def test_unfinished_line_is_replaced_by_later_uploads(
    empty_store: StoreAndBlobs,
) -> None:
    store, objects = empty_store
    whole = SourceUpdate(source=SENT, spans=(span(b"{}\n", 0, objects),))
    half = SourceFragment(offset=3, fingerprint=b"1", frame=b"frame")
    store.put(replace(whole, fragment=half))
    number = SENT.number

    assert store.fragments([number]) == {number: half}
    assert [one.fingerprint for one in store.machine_sources("ann", "laptop")] == [b"1"]
    assert [batch.fragment for batch in store.export_updates()] == [half]
    # An older upload does not change it, and a late one is ignored.
    assert store.put(whole).fingerprint == b"1"
    assert (
        store.put(replace(whole, fragment=replace(half, offset=0))).fingerprint == b"1"
    )
    more = replace(half, fingerprint=b"2", frame=b"")
    assert store.put(replace(whole, fragment=more)).fingerprint == b"2"
    assert store.fragments([number]) == {number: more}
    # The line is completed, and then the file is rewritten.
    line = SourceUpdate(source=SENT, spans=(span(b"[]\n", 3, objects),))
    assert store.put(line).fingerprint == b""
    assert store.put(replace(whole, fragment=more)).fingerprint == b""
    store.put(replace(line, fragment=replace(more, offset=6)))
    assert store.put(replace(whole, generation=1)).fingerprint == b""
    assert store.fragments([number]) == {}


def test_unfinished_line_makes_a_source_pending(empty_store: StoreAndBlobs) -> None:
    store, _ = empty_store
    half = SourceFragment(offset=0, fingerprint=b"1", frame=b"frame")

    store.put(SourceUpdate(source=SENT, fragment=half))

    assert [one.number for one in store.pending_sources()] == [SENT.number]
    (source,) = store.list_sources("ann")
    store.put(SourceUpdate(source=SENT, fragment=half))
    assert [one.revision for one in store.list_sources("ann")] == [source.revision]
    store.erase(ErasureSelector(session=SessionId("5e55")), now=NOW)
    assert store.fragments([SENT.number]) == {}


def test_numbers_grow_even_if_the_clock_is_set_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = allocate_numbers(3)
    monkeypatch.setattr("bygones.team.contract.time.time_ns", lambda: 0)

    second = allocate_numbers(2)

    assert second[0] > first[-1]
    assert allocate_numbers(1)[0] > second[-1]
