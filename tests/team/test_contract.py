"""What every store does with what is handed to it, also the one in memory."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from bygones.errors import ArchiveDamaged, BatchRefused
from bygones.model.ids import SessionId
from bygones.model.sources import SourceKind
from bygones.team.contract import (
    Batch,
    Fragment,
    Objects,
    Selector,
    Sent,
    Span,
    TeamStore,
)
from bygones.team.refusing import signs_of

Made = tuple[TeamStore, Objects]
NOW = datetime(2026, 11, 15, tzinfo=UTC)
SENT = Sent(
    person="ann",
    machine="laptop",
    home="/home/ann/.claude",
    path="projects/-work/5e55.jsonl",
    kind=SourceKind.SESSION,
    session=SessionId("5e55"),
)


def span(raw: bytes, offset: int, objects: Objects) -> Span:
    return Span(
        offset=offset,
        length=len(raw),
        origin=offset + len(raw),
        sha256=hashlib.sha256(raw).digest(),
        address=objects.put(raw),
    )


def test_a_batch_that_comes_twice_is_there_once(made: Made) -> None:
    store, objects = made
    batch = Batch(source=SENT, spans=(span(b"{}\n", 0, objects),))

    first = store.put(batch)

    assert store.put(batch) == first
    assert first.upto == 3
    assert [one.upto for one in store.acks("ann", "laptop")] == [3]
    assert store.acks("ben", "laptop") == []


def test_a_gap_and_other_bytes_are_refused(made: Made) -> None:
    store, objects = made
    store.put(Batch(source=SENT, spans=(span(b"{}\n", 0, objects),)))

    with pytest.raises(BatchRefused, match="3 bytes"):
        store.put(Batch(source=SENT, spans=(span(b"{}\n", 9, objects),)))
    with pytest.raises(BatchRefused, match="other bytes"):
        store.put(Batch(source=SENT, spans=(span(b"[]\n", 0, objects),)))


def test_what_was_erased_does_not_come_back(made: Made) -> None:
    store, objects = made
    batch = Batch(source=SENT, spans=(span(b"{}\n", 0, objects),))
    store.put(batch)
    assert store.refused([SENT]) == set()

    receipt = store.erase(Selector(session=SessionId("5e55")), now=NOW)

    assert store.refused([SENT]) == {SENT.number}
    assert store.refused([]) == set()
    assert store.erased([*signs_of(SENT), b"1" * 32]) == set(signs_of(SENT))

    assert receipt.sources == 1
    assert len(receipt.addresses) == 1
    assert list(receipt.addresses) == list(store.stray())
    objects.remove(receipt.addresses)
    store.forget_stray(receipt.addresses)
    assert store.stray() == []
    with pytest.raises(ArchiveDamaged):
        objects.bytes_of(receipt.addresses[0])
    with pytest.raises(BatchRefused, match="erased"):
        store.put(batch)


def test_what_is_held_stays(made: Made) -> None:
    store, objects = made
    store.put(Batch(source=SENT, spans=(span(b"{}\n", 0, objects),)))
    store.hold(Selector(person="ann"), reason="a dispute")

    receipt = store.erase(Selector(person="ann"), now=NOW)

    assert receipt.sources == 0
    assert len(store.acks("ann", "laptop")) == 1


def test_a_note_is_kept_and_forgotten(made: Made) -> None:
    store, _ = made
    store.set_note("token", "ann", b"hash")

    assert store.notes("token") == {"ann": b"hash"}
    store.set_note("token", "ann", None)
    assert store.note("token", "ann") is None


def test_an_unfinished_line_gives_way_to_what_comes_in_its_place(made: Made) -> None:
    store, objects = made
    whole = Batch(source=SENT, spans=(span(b"{}\n", 0, objects),))
    half = Fragment(offset=3, mark=b"1", frame=b"frame")
    store.put(replace(whole, fragment=half))
    number = SENT.number

    assert store.fragments([number]) == {number: half}
    assert [one.mark for one in store.acks("ann", "laptop")] == [b"1"]
    assert [batch.fragment for batch in store.batches()] == [half]
    # What was there before says nothing of it, and what comes too late is passed over.
    assert store.put(whole).mark == b"1"
    assert store.put(replace(whole, fragment=replace(half, offset=0))).mark == b"1"
    more = replace(half, mark=b"2", frame=b"")
    assert store.put(replace(whole, fragment=more)).mark == b"2"
    assert store.fragments([number]) == {number: more}
    # The line is finished, and then the whole file another one.
    line = Batch(source=SENT, spans=(span(b"[]\n", 3, objects),))
    assert store.put(line).mark == b""
    assert store.put(replace(whole, fragment=more)).mark == b""
    store.put(replace(line, fragment=replace(more, offset=6)))
    assert store.put(replace(whole, generation=1)).mark == b""
    assert store.fragments([number]) == {}


def test_an_unfinished_line_alone_must_be_derived(made: Made) -> None:
    store, _ = made
    half = Fragment(offset=0, mark=b"1", frame=b"frame")

    store.put(Batch(source=SENT, fragment=half))

    assert [one.number for one in store.touched()] == [SENT.number]
    (held,) = store.held("ann")
    store.put(Batch(source=SENT, fragment=half))
    assert [one.revision for one in store.held("ann")] == [held.revision]
    store.erase(Selector(session=SessionId("5e55")), now=NOW)
    assert store.fragments([SENT.number]) == {}
