"""A migration does not change the old store, and copies erasures."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from bygones.errors import SourceUpdateRejected
from bygones.model.base import SessionId, SourceKind
from bygones.team.access import migrate_store
from bygones.team.contract import ErasureSelector, RemoteSource, SourceUpdate
from tests.team.homes import split_spans
from tests.team.memory import MemoryStore

SENT = RemoteSource(
    person="ann",
    machine="laptop",
    home="/home/ann/.claude",
    path="projects/-work/5e55.jsonl",
    kind=SourceKind.SESSION,
    session=SessionId("5e55"),
)


def test_erased_sources_are_rejected_by_the_new_store() -> None:
    here, there = MemoryStore(), MemoryStore()
    batch = SourceUpdate(
        source=SENT, spans=tuple(split_spans(b"{}\n", here.database_blobs()))
    )
    here.put(batch)
    here.erase(ErasureSelector(person="ann"), now=datetime(2026, 1, 1, tzinfo=UTC))

    moved = migrate_store(here, there)

    assert moved.sources == 0
    with pytest.raises(SourceUpdateRejected):
        there.put(batch)
