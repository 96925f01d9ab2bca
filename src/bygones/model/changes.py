"""What a call changed in a file, as hunks of a diff."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher

import msgspec
from msgspec import Raw, Struct

from bygones.model.tools import EditOutcome, NotebookOutcome, Outcome, PatchHunk

__all__ = ["hunks_of"]

_CONTEXT = 3
_DIFF_LIMIT = 2000
"""Lines beyond which two texts are not compared, but set against each other whole."""
_FAILURES = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class _Change(Struct, frozen=True):
    old_string: str | None = None
    new_string: str | None = None


class _Given(Struct, frozen=True):
    """What the tools that edit are given."""

    old_string: str | None = None
    new_string: str | None = None
    content: str | None = None
    new_source: str | None = None
    edits: list[_Change] = []


_given = msgspec.json.Decoder(_Given).decode


def hunks_of(outcome: Outcome | None, given: Raw) -> tuple[PatchHunk, ...]:
    """Return the diff of a change: its patch, else one made of the texts.

    ``given`` is the input of the call. Where only a piece of a file is known, the line
    at which it stands is not, and the hunks begin at line 0.
    """
    if isinstance(outcome, EditOutcome):
        if outcome.structured_patch:
            return outcome.structured_patch
        if outcome.type == "update" and outcome.original_file is None:
            return ()  # written as it was before
        if outcome.content is not None:
            return tuple(
                _compared(outcome.original_file, outcome.content, is_whole=True)
            )
        if outcome.old_string is not None or outcome.new_string is not None:
            return tuple(_compared(outcome.old_string, outcome.new_string))
    if isinstance(outcome, NotebookOutcome):
        return tuple(_compared(outcome.old_source, outcome.new_source))
    return tuple(_of_input(given))


def _of_input(given: Raw) -> Iterator[PatchHunk]:
    try:
        known = _given(given)
    except _FAILURES:
        return
    for change in known.edits:
        yield from _compared(change.old_string, change.new_string)
    yield from _compared(known.old_string, known.new_string or known.new_source)
    yield from _compared(None, known.content, is_whole=True)


def _compared(
    old: str | None, new: str | None, *, is_whole: bool = False
) -> Iterator[PatchHunk]:
    before, after = _lines(old), _lines(new)
    for codes in _grouped(before, after):
        first, last = codes[0], codes[-1]
        lines: list[str] = []
        for tag, old_from, old_to, new_from, new_to in codes:
            if tag == "equal":
                lines += (f" {line}" for line in before[old_from:old_to])
            else:
                lines += (f"-{line}" for line in before[old_from:old_to])
                lines += (f"+{line}" for line in after[new_from:new_to])
        yield PatchHunk(
            old_start=first[1] + 1 if is_whole and before else 0,
            old_lines=last[2] - first[1],
            new_start=first[3] + 1 if is_whole and after else 0,
            new_lines=last[4] - first[3],
            lines=tuple(lines),
        )


_Code = tuple[str, int, int, int, int]


def _grouped(before: list[str], after: list[str]) -> Iterator[list[_Code]]:
    """Yield what to keep, to take and to put in, parted where much stays the same."""
    if max(len(before), len(after)) > _DIFF_LIMIT:
        if before != after:
            yield [("replace", 0, len(before), 0, len(after))]
        return
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    for group in matcher.get_grouped_opcodes(_CONTEXT):
        yield [(code[0], *code[1:]) for code in group]


def _lines(text: str | None) -> list[str]:
    """Return the lines of a text; only a newline ends one."""
    lines = (text or "").split("\n")
    return lines if lines[-1] else lines[:-1]
