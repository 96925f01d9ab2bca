"""What a person typed in full, where the index has its beginning only."""

from __future__ import annotations

from recollect.model.blocks import Text
from recollect.model.ids import Position
from recollect.model.nodes import HEAD_LIMIT
from recollect.parse import RecordLoader, read_text
from recollect.store.records import PromptRow
from recollect.store.shelf import Knowing, Stock

__all__ = ["typed_text"]


def typed_text(
    vault: Stock, finding: Knowing, loader: RecordLoader, prompt: PromptRow
) -> str:
    """Return a prompt whole; as it begins where its record cannot be opened."""
    if len(prompt.head) < HEAD_LIMIT:
        return prompt.head
    for place in finding.records_like(prompt.record, 1):
        kept = vault.chunks.source(place.source)
        if kept is None:
            continue
        where = Position(kept.id, kept.generation, place.offset, place.length)
        texts = (b.text for b in loader.blocks(where) if isinstance(b, Text) and b.text)
        tolds = (read_text(text).typed for text in texts)
        words = "\n".join(told for told in tolds if told)
        if words.startswith(prompt.head):
            return words
    return prompt.head
