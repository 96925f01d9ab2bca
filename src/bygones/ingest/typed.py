"""What a person typed, in full also where the index has its beginning only."""

from __future__ import annotations

from collections.abc import Iterator

from bygones.model.blocks import Text
from bygones.model.finds import FoundPrompt
from bygones.model.ids import Position
from bygones.model.nodes import HEAD_LIMIT
from bygones.parse import RecordLoader, read_text
from bygones.store.records import PromptRow
from bygones.store.shelf import Knowing, Shelf, Stock

__all__ = ["typed_prompts"]


def typed_prompts(shelf: Shelf, loader: RecordLoader) -> Iterator[FoundPrompt]:
    """Yield what a person typed, newest first."""
    for row in shelf.typed.newest_first():
        yield FoundPrompt(
            id=row.record,
            session=row.session,
            time=row.time,
            branch=row.branch,
            text=_typed_text(shelf, shelf.finding, loader, row),
        )


def _typed_text(
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
