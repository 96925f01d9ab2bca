"""Writes a query's tree as text that is read as the same tree again."""

from __future__ import annotations

import re
from datetime import datetime

from bygones.errors import QueryError
from bygones.model.query import (
    And,
    Fact,
    Not,
    Or,
    Period,
    Phrase,
    Prefix,
    Regex,
    Scoped,
    Term,
    Word,
    Words,
)
from bygones.query.notes import Notes
from bygones.query.tokens import Kind, tokens

__all__ = ["write"]

# These cannot begin a regular expression, whatever follows them.
_HARMLESS_SLASH = re.compile(r"/[/*]|/$|/[^/\\\s]+/[^\s)]")
_QUOTE = re.compile('["“”„]')


def write(term: Term | None) -> str:
    """Return the text of a tree in normal form.

    Times are written as moments, so the text means the same on any day. It may be
    longer than what was typed, as a field of a group is written before each value.
    """
    if isinstance(term, And):
        return " ".join(map(_either, term.terms))
    return _either(term) if term else ""


def _either(term: Term) -> str:
    if isinstance(term, Or):
        return " OR ".join(map(_single, term.terms))
    if isinstance(term, Words):
        return " ".join(map(_word, term.words))
    return _single(term)


def _single(term: Term) -> str:
    """Return text to which an operator beside it applies as a whole."""
    if isinstance(term, Words) and len(term.words) == 1:
        return _word(term.words[0])
    if isinstance(term, Words | And | Or):
        return _group(term)
    if isinstance(term, Not):
        excluded = _single(term.term)
        # Two dashes begin a word, such as an option's name; a letter may be one.
        is_option = excluded.startswith("-") or len(excluded) == 1
        return f"-\\{excluded}" if is_option else f"-{excluded}"
    if isinstance(term, Regex):
        return f"/{term.pattern}/"
    if isinstance(term, Phrase | Prefix):
        return _quoted(term)
    return _fielded(term)


def _group(term: Term) -> str:
    inside = write(term)
    last = inside.rsplit(maxsplit=1)[-1]
    # A word that opens a parenthesis would take the group's for its other half.
    gap = " " if last.count("(") > last.count(")") else ""
    return f"({inside}{gap})"


def _quoted(term: Phrase | Prefix) -> str:
    return f'"{term.text}"' if isinstance(term, Phrase) else f"{term.text}*"


def _fielded(term: Scoped | Fact | Period) -> str:
    if isinstance(term, Period):
        return _period(term.start, term.end)
    name = term.field.rpartition(".")[2]
    if isinstance(term, Scoped):
        return f"{name}:{_scoped(name, term.term)}"
    return f"{name}:{_value(name, term.value)}"


def _word(text: str) -> str:
    if text.startswith("/") and not _HARMLESS_SLASH.match(text):
        return f"\\{text}"
    return text if _reads(text) == [(Kind.WORD, text)] else f"\\{text}"


def _scoped(field: str, term: Word | Phrase | Prefix) -> str:
    if not isinstance(term, Word):
        return _quoted(term)
    is_plain = _reads(f"{field}:{term.text}")[1:] == [(Kind.WORD, term.text)]
    return term.text if is_plain else f"\\{term.text}"


def _value(field: str, value: str) -> str:
    if _reads(f"{field}:{value}")[1:] == [(Kind.WORD, value)]:
        return value
    return f"\\{value}" if _QUOTE.search(value) else f'"{value}"'


def _period(start: datetime | None, end: datetime | None) -> str:
    if start and end:
        return f"on:{_moment(start)}..{_moment(end)}"
    return f"after:{_moment(start)}" if start else f"before:{_moment(end)}"


def _moment(time: datetime | None) -> str:
    return time.isoformat().replace("+00:00", "Z") if time else ""


def _reads(text: str) -> list[tuple[Kind, str]]:
    try:
        return [(token.kind, token.text) for token in tokens(text, Notes())]
    except QueryError:
        return []
