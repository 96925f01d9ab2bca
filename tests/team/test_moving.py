"""Moving leaves the old store as it was, and refuses there what was erased here."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from bygones.errors import BatchRefused
from bygones.model.ids import SessionId
from bygones.model.sources import SourceKind
from bygones.team.contract import Batch, Selector, Sent
from bygones.team.moving import move
from tests.team.fake import MemoryStore
from tests.team.homes import spans_of

SENT = Sent(
    person="ann",
    machine="laptop",
    home="/home/ann/.claude",
    path="projects/-work/5e55.jsonl",
    kind=SourceKind.SESSION,
    session=SessionId("5e55"),
)


def test_what_was_erased_is_refused_in_the_new_store() -> None:
    here, there = MemoryStore(), MemoryStore()
    batch = Batch(source=SENT, spans=tuple(spans_of(b"{}\n", here.objects())))
    here.put(batch)
    here.erase(Selector(person="ann"), now=datetime(2026, 1, 1, tzinfo=UTC))

    moved = move(here, there)

    assert moved.sources == 0
    with pytest.raises(BatchRefused):
        there.put(batch)
