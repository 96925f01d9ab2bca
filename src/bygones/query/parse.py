"""Reads a query's text into its tree.

What a person pastes is never an error where it can be read as words; the notes say
what was read so. Only what asks for something that cannot be is an error.
"""

from __future__ import annotations

from datetime import datetime, tzinfo

from bygones.errors import (
    Place,
    QueryTooDeep,
    QueryTooLong,
    TimeUnreadable,
    ValueUnknown,
)
from bygones.model.query import (
    Fact,
    NoteKind,
    Phrase,
    Prefix,
    Query,
    Regex,
    Scoped,
    Term,
    Word,
    Words,
)
from bygones.query.fields import BY_NAME, Field, Value
from bygones.query.notes import Notes, close_value
from bygones.query.tokens import Kind, Token, empty, says_something, tokens
from bygones.query.tree import all_of, any_of, of_answers, without

__all__ = ["MAX_DEPTH", "MAX_LENGTH", "parse"]

MAX_LENGTH = 10_000
MAX_DEPTH = 50

_BEGINS = {
    Kind.WORD,
    Kind.PREFIX,
    Kind.PHRASE,
    Kind.REGEX,
    Kind.FIELD,
    Kind.NOT,
    Kind.OPEN,
}
_ENDS = {Kind.WORD, Kind.PREFIX, Kind.PHRASE, Kind.REGEX, Kind.CLOSE}


def parse(text: str, *, now: datetime, zone: tzinfo) -> Query:
    """Return the tree of a query, and notes on how it was read.

    Times are resolved: ``now`` is the moment they are told from, and days begin when
    they begin in ``zone``. Takes time in proportion to the text.

    :raises QueryError: with the place of what cannot be.
    """
    if len(text) > MAX_LENGTH:
        raise QueryTooLong(text, MAX_LENGTH)
    notes = Notes()
    found = _paired(text, tokens(text, notes), notes)
    found = _acting(text, found, notes)
    root = _Parser(text, found, now, zone).conjunction(None)
    return Query(of_answers(root), notes.all)


def _paired(text: str, found: list[Token], notes: Notes) -> list[Token]:
    """Return the tokens without parentheses that lack their other half."""
    opened: list[int] = []
    stray: set[int] = set()
    pairs: list[tuple[int, int]] = []
    for index, token in enumerate(found):
        if token.kind is Kind.OPEN:
            opened.append(index)
        elif token.kind is Kind.CLOSE and opened:
            pairs.append((opened.pop(), index))
        elif token.kind is Kind.CLOSE:
            stray.add(index)
    stray.update(opened)
    for index in sorted(stray):
        sentence = "a parenthesis without its other half is left out"
        notes.add(NoteKind.PARENTHESIS, found[index].at, 1, sentence)
    depth = 0
    for index, token in enumerate(found):
        if index in stray:
            continue
        depth += (token.kind is Kind.OPEN) - (token.kind is Kind.CLOSE)
        if depth > MAX_DEPTH:
            raise QueryTooDeep(Place(text, token.at, 1), MAX_DEPTH)
    return [token for index, token in enumerate(found) if index not in stray]


def _acting(text: str, found: list[Token], notes: Notes) -> list[Token]:
    """Return the tokens with operators that have something to act on.

    The others become words. ``AND`` says what is so anyway, and is left out.
    """
    kept: list[Token] = []
    levels: list[dict[Kind, Token]] = [{}]
    for index in range(len(found) - 1, -1, -1):
        token = found[index]
        begins = bool(kept) and kept[-1].kind in _BEGINS
        ends = index > 0 and found[index - 1].kind in _ENDS
        if token.kind is Kind.FIELD and not begins:
            raise empty(text, token.at, BY_NAME[token.text])
        if token.kind is Kind.NOT and not begins:
            continue
        if token.kind in {Kind.AND, Kind.OR}:
            if not (begins and ends):
                sentence = f"{token.text} without something on both sides is a word"
                notes.add(NoteKind.OPERATOR, token.at, token.length, sentence)
                token = Token(Kind.WORD, token.text, token.at, token.length)
            else:
                levels[-1][token.kind] = token
        elif token.kind is Kind.CLOSE:
            levels.append({})
        elif token.kind is Kind.OPEN:
            _compare(levels.pop(), notes)
        if token.kind is not Kind.AND:
            kept.append(token)
    _compare(levels.pop(), notes)
    return kept[::-1]


def _compare(level: dict[Kind, Token], notes: Notes) -> None:
    if len(level) > 1:
        sentence = "OR joins only what is right beside it; parentheses say otherwise"
        notes.add(NoteKind.MIXED, level[Kind.OR].at, level[Kind.OR].length, sentence)


class _Parser:
    def __init__(
        self, text: str, found: list[Token], now: datetime, zone: tzinfo
    ) -> None:
        self.text = text
        self.tokens = found
        self.now = now
        self.zone = zone
        self.at = 0

    def _next_is(self, *kinds: Kind) -> bool:
        return self.at < len(self.tokens) and self.tokens[self.at].kind in kinds

    def conjunction(self, field: Field | None) -> Term | None:
        terms: list[Term] = []
        while self.at < len(self.tokens) and not self._next_is(Kind.CLOSE):
            if term := self._alternatives(field):
                terms.append(term)
        return all_of(terms)

    def _alternatives(self, field: Field | None) -> Term | None:
        terms = [self._signed(field)]
        while self._next_is(Kind.OR):
            self.at += 1
            terms.append(self._signed(field))
        return any_of(term for term in terms if term)

    def _signed(self, field: Field | None) -> Term | None:
        excluded = False
        while self._next_is(Kind.NOT):
            self.at += 1
            excluded = not excluded
        term = self._simple(field)
        if not excluded or term is None:
            return term
        return None if _is_empty(term) else without(term)

    def _simple(self, field: Field | None) -> Term | None:
        token = self.tokens[self.at]
        self.at += 1
        if token.kind is Kind.OPEN:
            term = self.conjunction(field)
            self.at += 1
            return term
        if token.kind is Kind.FIELD:
            named = BY_NAME[token.text]
            term = self._signed(named)
            if term is None:
                raise empty(self.text, token.at, named)
            return term
        return self._valued(token, field) if field else _plain(token)

    def _valued(self, token: Token, field: Field) -> Term | None:
        if not token.text:
            return None
        if field.is_text:
            return Scoped(field.name, _text(token))
        if field.value is Value.TIME:
            from bygones.query.times import Now, period  # noqa: PLC0415 (most ask not)

            meant = period(field.name, token.text, Now(self.now, self.zone))
            if meant is None:
                raise TimeUnreadable(self._place(token), field=field.name)
            return meant
        if field.value is Value.CHOICE:
            return Fact(field.name, self._choice(token, field))
        return Fact(field.name, token.text)

    def _place(self, token: Token) -> Place:
        return Place(self.text, token.at, token.length)

    def _choice(self, token: Token, field: Field) -> str:
        value = token.text.casefold()
        if value in field.choices:
            return value
        raise ValueUnknown(
            self._place(token),
            field=field.name,
            known=field.choices,
            meant=close_value(field, value),
        )


def _plain(token: Token) -> Term | None:
    if token.kind is Kind.REGEX:
        return Regex(token.text)
    if not token.text:
        return None
    term = _text(token)
    return Words((term.text,)) if isinstance(term, Word) else term


def _text(token: Token) -> Word | Phrase | Prefix:
    if token.kind is Kind.PHRASE:
        return Phrase(token.text)
    return Prefix(token.text) if token.kind is Kind.PREFIX else Word(token.text)


def _is_empty(term: Term) -> bool:
    """Whether it is a sign that no text can be without."""
    return (
        isinstance(term, Words)
        and len(term.words) == 1
        and not says_something(term.words[0])
    )
