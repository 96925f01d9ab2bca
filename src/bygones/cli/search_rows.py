"""A search for programs: one JSON object a line."""

from __future__ import annotations

from pathlib import Path

from bygones.cli.rows import BeginRow, print_row
from bygones.model.hits import Found
from bygones.rows.search import AnswerRow, FoundRow

__all__ = ["print_found"]


def print_found(text: str, found: Found, folder: Path, offset: int) -> None:
    """Print what was asked for and found, numbered behind an offset."""
    print_row(BeginRow.of("search", folder))
    print_row(AnswerRow.of(text, found))
    for number, one in enumerate(found.sessions, offset + 1):
        print_row(FoundRow.of(number, one))
