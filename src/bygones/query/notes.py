"""Gathers what is to be said about how a query was read."""

from __future__ import annotations

from functools import lru_cache

from bygones.model.query import Note, NoteKind
from bygones.query.fields import FIELDS, Field

__all__ = ["MAX_NOTES", "Notes", "close_field", "close_value"]

MAX_NOTES = 10
"""More would not be read, and pasted text could earn thousands."""

_MEANT = {name: field.name for field in FIELDS for name in (field.name, *field.also)}


class Notes:
    """Notes on one query, each sentence once."""

    def __init__(self) -> None:
        self._found: dict[str, Note] = {}

    @property
    def all(self) -> tuple[Note, ...]:
        """The notes, in the order of their places."""
        return tuple(sorted(self._found.values(), key=lambda note: note.at))

    def add(self, kind: NoteKind, at: int, length: int, text: str) -> None:
        """Keep a note, unless there are enough."""
        self._keep(Note(kind=kind, at=at, length=length, text=text))

    def add_no_field(self, at: int, name: str, *, is_pasted: bool) -> None:
        """Keep a note that ``name:`` is no field, with the one that may be meant.

        In what was pasted there are colons of all kinds: there it must be a near one.
        """
        if len(self._found) >= MAX_NOTES:
            return
        close = close_field(name)
        if is_pasted and close is None:
            return
        self._keep(
            Note(
                kind=NoteKind.NO_FIELD,
                at=at,
                length=len(name) + 1,
                text=f"{name}: is no field, so it is read as words"
                + (f"; did you mean {close}:?" if close else ""),
                suggestion=f"{close}:" if close else "",
            )
        )

    def _keep(self, note: Note) -> None:
        if len(self._found) < MAX_NOTES:
            self._found.setdefault(note.text, note)


@lru_cache(maxsize=64)
def close_field(name: str) -> str | None:
    """Return the name of the field that this name may be meant to be."""
    from difflib import get_close_matches  # noqa: PLC0415 (only for a slip)

    name = name.casefold()
    close = get_close_matches(name, _MEANT, n=1, cutoff=0.75)
    return _MEANT[close[0]] if close else None


def close_value(field: Field, value: str) -> str:
    """Return what to write for a value that a field does not have, or nothing."""
    from difflib import get_close_matches  # noqa: PLC0415 (only for a slip)

    for other in FIELDS:
        if value in other.choices:
            return f"{other.name}:{value}"
    close = get_close_matches(value, field.choices, n=1)
    if close:
        return f"{field.name}:{close[0]}"
    return f"{field.other}:{value}" if field.other else ""
