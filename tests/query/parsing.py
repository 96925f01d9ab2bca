"""Short functions that parse queries at a fixed time in UTC."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo

from bygones.model.query import Query, QueryNoteKind, Term
from bygones.query.parser import parse_query

NOW = datetime(2025, 12, 10, 12, 30, tzinfo=UTC)  # a Wednesday


def read(text: str, *, now: datetime = NOW, zone: tzinfo = UTC) -> Query:
    return parse_query(text, now=now, zone=zone)


def tree(text: str) -> Term | None:
    return read(text).root


def remarks(text: str) -> list[tuple[QueryNoteKind, str]]:
    """Return the kinds of the notes, with the text that they are about."""
    return [
        (note.kind, text[note.offset : note.offset + note.length])
        for note in read(text).notes
    ]
