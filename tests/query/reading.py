"""Queries in a few words: read at one moment, in one place."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo

from bygones.model.query import NoteKind, Query, Term
from bygones.query import parse

NOW = datetime(2025, 12, 10, 12, 30, tzinfo=UTC)  # a Wednesday


def read(text: str, *, now: datetime = NOW, zone: tzinfo = UTC) -> Query:
    return parse(text, now=now, zone=zone)


def tree(text: str) -> Term | None:
    return read(text).root


def remarks(text: str) -> list[tuple[NoteKind, str]]:
    """Return the notes' kinds, with what they point at."""
    return [
        (note.kind, text[note.at : note.at + note.length]) for note in read(text).notes
    ]
