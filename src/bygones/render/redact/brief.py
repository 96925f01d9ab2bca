"""Outcomes without what nobody is shown of them: it need not be looked through."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Raw, structs

from bygones.model.blocks import Block, Text, ToolResult
from bygones.model.tools import (
    BashOutcome,
    EditOutcome,
    FileText,
    FoundOutcome,
    Outcome,
    ReadOutcome,
)

__all__ = ["brief"]


def brief(outcome: Outcome | None, blocks: Iterable[Block]) -> Outcome | None:
    """Return an outcome without whole files, and without what the result says too.

    ``blocks`` are those of the record that holds the outcome.
    """
    match outcome:
        case ReadOutcome(file=FileText() as file):
            file = structs.replace(file, content=None, base64=None, cells=Raw())
            return structs.replace(outcome, file=file)
        case EditOutcome() if outcome.structured_patch:
            # The patch says what changed, and where.
            return EditOutcome(
                type=outcome.type,
                file_path=outcome.file_path,
                structured_patch=outcome.structured_patch,
            )
        case BashOutcome() if _is_told(blocks):
            return structs.replace(
                outcome, stdout=None, stderr=None, structured_content=Raw()
            )
        case FoundOutcome():
            return structs.replace(outcome, content=None)
        case _:
            return outcome


def _is_told(blocks: Iterable[Block]) -> bool:
    """Whether a result says, or shows, anything at all."""
    return any(_says(b.content) for b in blocks if isinstance(b, ToolResult))


def _says(content: str | tuple[Block, ...] | None) -> bool:
    if content is None or isinstance(content, str):
        return bool(content and content.strip())
    return any(not isinstance(b, Text) or _says(b.text) for b in content)
