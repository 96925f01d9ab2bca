"""What every store does with what is handed to it, first the one in memory."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

import pytest

from recollect.errors import BatchRefused
from recollect.model.ids import SessionId
from recollect.model.sources import SourceKind
from recollect.team.contract import Batch, Selector, Sent, Span, TeamStore
from tests.team.fake import MemoryObjects, MemoryStore

NOW = datetime(2026, 11, 15, tzinfo=UTC)
SENT = Sent(
    person="ann",
    machine="laptop",
    home="/home/ann/.claude",
    path="projects/-work/5e55.jsonl",
    kind=SourceKind.SESSION,
    session=SessionId("5e55"),
)


def span(raw: bytes, offset: int, objects: MemoryObjects) -> Span:
    return Span(
        offset=offset,
        length=len(raw),
        origin=offset + len(raw),
        sha256=hashlib.sha256(raw).digest(),
        address=objects.put(raw),
    )


@pytest.fixture
def store() -> TeamStore:
    return MemoryStore()


def test_a_batch_that_comes_twice_is_there_once(store: TeamStore) -> None:
    objects = MemoryObjects()
    batch = Batch(source=SENT, spans=(span(b"{}\n", 0, objects),))

    first = store.put(batch)

    assert store.put(batch) == first
    assert first.upto == 3
    assert [one.upto for one in store.acks("ann", "laptop")] == [3]
    assert store.acks("ben", "laptop") == []


def test_a_gap_and_other_bytes_are_refused(store: TeamStore) -> None:
    objects = MemoryObjects()
    store.put(Batch(source=SENT, spans=(span(b"{}\n", 0, objects),)))

    with pytest.raises(BatchRefused, match="3 bytes"):
        store.put(Batch(source=SENT, spans=(span(b"{}\n", 9, objects),)))
    with pytest.raises(BatchRefused, match="other bytes"):
        store.put(Batch(source=SENT, spans=(span(b"[]\n", 0, objects),)))


def test_what_was_erased_does_not_come_back(store: TeamStore) -> None:
    objects = MemoryObjects()
    batch = Batch(source=SENT, spans=(span(b"{}\n", 0, objects),))
    store.put(batch)

    receipt = store.erase(Selector(session=SessionId("5e55")), now=NOW)

    assert receipt.sources == 1
    assert list(receipt.addresses) == list(store.stray()) == list(objects.kept)
    with pytest.raises(BatchRefused, match="erased"):
        store.put(batch)


def test_what_is_held_stays(store: TeamStore) -> None:
    objects = MemoryObjects()
    store.put(Batch(source=SENT, spans=(span(b"{}\n", 0, objects),)))
    store.hold(Selector(person="ann"), reason="a dispute")

    receipt = store.erase(Selector(person="ann"), now=NOW)

    assert receipt.held == ("5e55",)
    assert len(store.acks("ann", "laptop")) == 1


def test_a_note_is_kept_and_forgotten(store: TeamStore) -> None:
    store.set_note("token", "ann", b"hash")

    assert store.notes("token") == {"ann": b"hash"}
    store.set_note("token", "ann", None)
    assert store.note("token", "ann") is None
