"""What should be known about the answer to a query, in sentences."""

from __future__ import annotations

from collections.abc import Iterator

from bygones.model.hits import Found

__all__ = ["remarks"]

_LONGEST = 40
"""Signs of a word that are told: what was pasted may be of any length."""


def remarks(found: Found) -> Iterator[str]:
    """Yield how a query was read, and what was not found or not looked at."""
    for note in found.notes:
        yield note.text
    if found.is_unasked:
        yield "there is nothing in it to look for; these are the newest sessions"
    if found.is_loosened:
        yield "the quoted words stand nowhere side by side; looked for each"
    for one in found.repairs:
        yield f"{_brief(one.typed)} stands nowhere; looked for {_brief(one.meant)}"
    if found.missing:
        told = ", ".join(map(_brief, found.missing))
        yield f"nowhere in what is searched: {told} (of results, only the beginning is)"
    if found.is_partial:
        yield "there was too much to look at all of it; narrow it down"


def _brief(word: str) -> str:
    return word if len(word) <= _LONGEST else f"{word[: _LONGEST - 1]}…"
