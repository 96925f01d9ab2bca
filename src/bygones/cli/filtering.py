"""Queries as they are typed behind a command."""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from bygones.cli.terminal import plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from bygones.archive import Archive
    from bygones.model.listing import Listed
    from bygones.model.query import Query

__all__ = ["filtered", "query_text", "read_query"]

_FIELD = r"(-?\w+:)(.*\s.*)"


def query_text(words: Sequence[str]) -> str:
    """Return the words of a command line as the text of a query.

    One word is a whole query. Among several, those that a shell took out of quotation
    marks, such as the value of a field, get them back.
    """
    if len(words) == 1:
        return words[0]
    return " ".join(_quoted(word) for word in words)


def _quoted(word: str) -> str:
    found = re.fullmatch(_FIELD, word, re.DOTALL)
    if found is None or '"' in word or "(" in word:
        return word
    return f'{found[1]}"{found[2]}"'


def read_query(words: Sequence[str]) -> Query:
    """Return what words ask for; say on stderr what was read otherwise than meant."""
    from bygones.query.parse import parse  # noqa: PLC0415 (only if there is a query)

    now = datetime.now(UTC)  # noqa: TID251 (a face knows the clock)
    query = parse(query_text(words), now=now, zone=now.astimezone().tzinfo or UTC)
    for note in query.notes:
        is_told = note.suggestion in note.text
        meant = "" if is_told else f"; {note.suggestion}"
        sys.stderr.write(plain(f"note: {note.text}{meant}") + "\n")
    return query


def filtered(
    archive: Archive, sessions: Iterable[Listed], words: Sequence[str]
) -> Iterator[Listed]:
    """Yield the sessions that words ask for, in the order in which they come."""
    from bygones.cli.choosing import Choice  # noqa: PLC0415 (only if asked for)

    query = read_query(words)
    choice = Choice(archive)
    yield from choice.among(list(sessions), query)
    for remark in choice.remarks:
        sys.stderr.write(plain(f"note: {remark}") + "\n")
