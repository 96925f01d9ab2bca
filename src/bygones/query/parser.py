"""Parse the text of a query into a tree in normal form, and format a tree as text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime, tzinfo

from bygones.errors import (
    InvalidFieldValue,
    InvalidTime,
    QueryError,
    QuerySpan,
    QueryTooDeep,
    QueryTooLong,
)
from bygones.model.query import (
    And,
    Exclusion,
    FieldTerm,
    FieldValue,
    Flag,
    Not,
    Or,
    Part,
    Phrase,
    Prefix,
    Query,
    QueryNoteKind,
    Regex,
    Term,
    TimeRange,
    Word,
    Words,
)
from bygones.query.fields import FIELDS_BY_NAME, RESULT_FIELDS, FieldType, QueryField
from bygones.query.times import ReferenceTime, parse_period
from bygones.query.tokens import (
    NoteCollector,
    QueryToken,
    TokenKind,
    can_be_excluded,
    empty_field_error,
    has_word_characters,
    suggest_value,
    tokenize,
)

_RESULT_MARKERS = (FieldValue("is", Flag.ERROR), FieldValue("in", Part.RESULT))


def and_terms(terms: Iterable[Term]) -> Term | None:
    """Return the conjunction of terms in normal form; none if there are no terms."""
    words: list[str] = []
    others: list[Term] = []
    for term in terms:
        for part in term.terms if isinstance(term, And) else (term,):
            if isinstance(part, Words):
                words.extend(part.words)
            else:
                others.append(part)
    flat = (Words(tuple(words)), *others) if words else tuple(others)
    return And(flat) if len(flat) > 1 else flat[0] if flat else None


def exclude_from(query: Query, exclusion: Exclusion | None) -> Query:
    """Return a query with what is left out as conditions."""
    if exclusion is None or not exclusion.conditions:
        return query
    own = [query.root] if query.root is not None else []
    return Query(and_terms([*own, *exclusion.conditions]), query.notes)


def or_terms(terms: Iterable[Term]) -> Term | None:
    """Return the disjunction of terms in normal form; none if there are no terms."""
    flat: list[Term] = []
    for term in terms:
        flat.extend(term.terms if isinstance(term, Or) else (term,))
    return Or(tuple(flat)) if len(flat) > 1 else flat[0] if flat else None


def negate_term(term: Term) -> Term:
    """Return the negation of a term in normal form."""
    return term.term if isinstance(term, Not) else Not(term)


def apply_to_results(term: Term | None) -> Term | None:
    """Return a term in which fields of a call refer to its result, where that is meant.

    ``tool:Bash is:error`` means results of Bash, because a call cannot be an error.
    """
    if not isinstance(term, And) or not any(
        part in _RESULT_MARKERS for part in term.terms
    ):
        return term
    return And(tuple(map(_apply_to_result, term.terms)))


def _apply_to_result(term: Term) -> Term:
    if isinstance(term, FieldValue) and term.field in RESULT_FIELDS:
        return FieldValue(RESULT_FIELDS[term.field], term.value)
    if isinstance(term, FieldTerm) and term.field in RESULT_FIELDS:
        return FieldTerm(RESULT_FIELDS[term.field], term.term)
    if isinstance(term, Not):
        return Not(_apply_to_result(term.term))
    if isinstance(term, Or):
        return Or(tuple(map(_apply_to_result, term.terms)))
    return term


MAX_LENGTH = 10_000
MAX_DEPTH = 50

_OPERAND_STARTS = {
    TokenKind.WORD,
    TokenKind.PREFIX,
    TokenKind.PHRASE,
    TokenKind.REGEX,
    TokenKind.FIELD,
    TokenKind.NOT,
    TokenKind.OPEN,
}
_OPERAND_ENDS = {
    TokenKind.WORD,
    TokenKind.PREFIX,
    TokenKind.PHRASE,
    TokenKind.REGEX,
    TokenKind.CLOSE,
}


def parse_query(text: str, *, now: datetime, zone: tzinfo) -> Query:
    """Parse a query, with notes about how it was understood.

    Relative times refer to ``now``, and days start as they do in ``zone``. The time it
    takes is proportional to the length of the text.

    Raises `QueryError` with the position of what is invalid.
    """
    if len(text) > MAX_LENGTH:
        raise QueryTooLong(text, MAX_LENGTH)
    notes = NoteCollector()
    tokens = _drop_unpaired_parentheses(text, tokenize(text, notes), notes)
    tokens = _resolve_operators(text, tokens, notes)
    root = _Parser(text, tokens, now, zone).parse_conjunction(None)
    return Query(apply_to_results(root), notes.sorted_notes)


def _drop_unpaired_parentheses(
    text: str, tokens: list[QueryToken], notes: NoteCollector
) -> list[QueryToken]:
    """Return the tokens without unbalanced parentheses."""
    opened: list[int] = []
    unpaired: set[int] = set()
    for index, token in enumerate(tokens):
        if token.kind is TokenKind.OPEN:
            opened.append(index)
        elif token.kind is TokenKind.CLOSE and opened:
            opened.pop()
        elif token.kind is TokenKind.CLOSE:
            unpaired.add(index)
    unpaired.update(opened)
    for index in sorted(unpaired):
        sentence = "ignored an unmatched parenthesis"
        notes.add(QueryNoteKind.UNMATCHED_PARENTHESIS, tokens[index].start, 1, sentence)
    depth = 0
    for index, token in enumerate(tokens):
        if index in unpaired:
            continue
        depth += (token.kind is TokenKind.OPEN) - (token.kind is TokenKind.CLOSE)
        if depth > MAX_DEPTH:
            raise QueryTooDeep(QuerySpan(text, token.start, 1), MAX_DEPTH)
    return [token for index, token in enumerate(tokens) if index not in unpaired]


def _resolve_operators(
    text: str, tokens: list[QueryToken], notes: NoteCollector
) -> list[QueryToken]:
    """Return the tokens with operators that have operands; the others become words.

    ``AND`` is the default and is dropped.
    """
    reversed_tokens: list[QueryToken] = []
    levels: list[dict[TokenKind, QueryToken]] = [{}]
    for index in range(len(tokens) - 1, -1, -1):
        token = tokens[index]
        has_right = (
            bool(reversed_tokens) and reversed_tokens[-1].kind in _OPERAND_STARTS
        )
        has_left = index > 0 and tokens[index - 1].kind in _OPERAND_ENDS
        if token.kind is TokenKind.FIELD and not has_right:
            raise empty_field_error(text, token.start, FIELDS_BY_NAME[token.text])
        if token.kind is TokenKind.NOT and not has_right:
            continue
        if token.kind in {TokenKind.AND, TokenKind.OR}:
            if not (has_left and has_right):
                sentence = f"searching for the word {token.text}; as an operator it needs two sides"
                notes.add(
                    QueryNoteKind.DANGLING_OPERATOR, token.start, token.length, sentence
                )
                token = QueryToken(
                    TokenKind.WORD, token.text, token.start, token.length
                )
            else:
                levels[-1][token.kind] = token
        elif token.kind is TokenKind.CLOSE:
            levels.append({})
        elif token.kind is TokenKind.OPEN:
            _note_mixed_operators(levels.pop(), notes)
        if token.kind is not TokenKind.AND:
            reversed_tokens.append(token)
    _note_mixed_operators(levels.pop(), notes)
    return reversed_tokens[::-1]


def _note_mixed_operators(
    level: dict[TokenKind, QueryToken], notes: NoteCollector
) -> None:
    if len(level) > 1:
        sentence = "OR only joins the terms next to it; use parentheses to group more"
        notes.add(
            QueryNoteKind.MIXED_OPERATORS,
            level[TokenKind.OR].start,
            level[TokenKind.OR].length,
            sentence,
        )


class _Parser:
    def __init__(
        self, text: str, tokens: list[QueryToken], now: datetime, zone: tzinfo
    ) -> None:
        self.text = text
        self.tokens = tokens
        self.now = now
        self.zone = zone
        self.position = 0

    def _next_is(self, *kinds: TokenKind) -> bool:
        return (
            self.position < len(self.tokens)
            and self.tokens[self.position].kind in kinds
        )

    def parse_conjunction(self, field: QueryField | None) -> Term | None:
        terms: list[Term] = []
        while self.position < len(self.tokens) and not self._next_is(TokenKind.CLOSE):
            if term := self._parse_alternatives(field):
                terms.append(term)
        return and_terms(terms)

    def _parse_alternatives(self, field: QueryField | None) -> Term | None:
        terms = [self._parse_negated(field)]
        while self._next_is(TokenKind.OR):
            self.position += 1
            terms.append(self._parse_negated(field))
        return or_terms(term for term in terms if term)

    def _parse_negated(self, field: QueryField | None) -> Term | None:
        excluded = False
        while self._next_is(TokenKind.NOT):
            self.position += 1
            excluded = not excluded
        term = self._parse_operand(field)
        if not excluded or term is None:
            return term
        return None if _is_punctuation(term) else negate_term(term)

    def _parse_operand(self, field: QueryField | None) -> Term | None:
        token = self.tokens[self.position]
        self.position += 1
        if token.kind is TokenKind.OPEN:
            term = self.parse_conjunction(field)
            self.position += 1
            return term
        if token.kind is TokenKind.FIELD:
            named = FIELDS_BY_NAME[token.text]
            term = self._parse_negated(named)
            if term is None:
                raise empty_field_error(self.text, token.start, named)
            return term
        return self._parse_field_value(token, field) if field else _plain_term(token)

    def _parse_field_value(self, token: QueryToken, field: QueryField) -> Term | None:
        if not token.text:
            return None
        if field.is_text:
            return FieldTerm(field.name, _text_term(token))
        if field.value_type is FieldType.TIME:
            period = parse_period(
                field.name, token.text, ReferenceTime(self.now, self.zone)
            )
            if period is None:
                raise InvalidTime(self._location(token), field=field.name)
            return period
        if field.value_type is FieldType.CHOICE:
            return FieldValue(field.name, self._parse_choice(token, field))
        return FieldValue(field.name, token.text)

    def _location(self, token: QueryToken) -> QuerySpan:
        return QuerySpan(self.text, token.start, token.length)

    def _parse_choice(self, token: QueryToken, field: QueryField) -> str:
        value = token.text.casefold()
        if value in field.choices:
            return value
        raise InvalidFieldValue(
            self._location(token),
            field=field.name,
            allowed_values=field.choices,
            suggestion=suggest_value(field, value),
        )


def _plain_term(token: QueryToken) -> Term | None:
    if token.kind is TokenKind.REGEX:
        return Regex(token.text)
    if not token.text:
        return None
    term = _text_term(token)
    return Words((term.text,)) if isinstance(term, Word) else term


def _text_term(token: QueryToken) -> Word | Phrase | Prefix:
    if token.kind is TokenKind.PHRASE:
        return Phrase(token.text)
    return Prefix(token.text) if token.kind is TokenKind.PREFIX else Word(token.text)


def _is_punctuation(term: Term) -> bool:
    """Whether a term is punctuation alone, which no text is searched for."""
    return (
        isinstance(term, Words)
        and len(term.words) == 1
        and not has_word_characters(term.words[0])
    )


# These cannot start a regular expression, whatever follows them.
_HARMLESS_SLASH = re.compile(r"/[/*]|/$|/[^/\\\s]+/[^\s)]")
_QUOTE = re.compile('["“”„]')


def format_query(term: Term | None) -> str:
    """Return the text of a tree in normal form.

    Times are absolute, so that the text means the same on any day. It may be longer
    than what was typed: the field of a group is repeated for each value.
    """
    if isinstance(term, And):
        return " ".join(map(_format_alternatives, term.terms))
    return _format_alternatives(term) if term else ""


def _format_alternatives(term: Term) -> str:
    if isinstance(term, Or):
        return " OR ".join(map(_format_operand, term.terms))
    if isinstance(term, Words):
        return " ".join(map(_format_word, term.words))
    return _format_operand(term)


def _format_operand(term: Term) -> str:
    """Return a text to which an operator applies as a whole."""
    if isinstance(term, Words) and len(term.words) == 1:
        return _format_word(term.words[0])
    if isinstance(term, Words | And | Or):
        return _format_group(term)
    if isinstance(term, Not):
        return _format_excluded(term.term)
    if isinstance(term, Regex):
        return f"/{term.pattern}/"
    if isinstance(term, Phrase | Prefix):
        return _format_quoted(term)
    return _format_field(term)


def _format_excluded(term: Term) -> str:
    excluded = _format_operand(term)
    if isinstance(term, Regex):
        # In a long query, a dash with a slash is a word.
        return f"-({excluded})"
    # A dash with a letter, a number or another dash may start an option.
    is_option = isinstance(term, Words) and (
        excluded.startswith("-")
        or not (excluded.startswith("(") or can_be_excluded(excluded))
    )
    return f"-\\{excluded}" if is_option else f"-{excluded}"


def _format_group(term: Term) -> str:
    inside = format_query(term)
    last = inside.rsplit(maxsplit=1)[-1]
    # A word with an open parenthesis would be closed by that of the group.
    gap = " " if last.count("(") > last.count(")") else ""
    return f"({inside}{gap})"


def _format_quoted(term: Phrase | Prefix) -> str:
    return f'"{term.text}"' if isinstance(term, Phrase) else f"{term.text}*"


def _format_field(term: FieldTerm | FieldValue | TimeRange) -> str:
    if isinstance(term, TimeRange):
        return _format_period(term.start, term.end)
    name = term.field.rpartition(".")[2]
    if isinstance(term, FieldTerm):
        return f"{name}:{_format_scoped(name, term.term)}"
    return f"{name}:{_format_value(name, term.value)}"


def _format_word(text: str) -> str:
    if text.startswith("/") and not _HARMLESS_SLASH.match(text):
        return f"\\{text}"
    return text if _retokenize(text) == [(TokenKind.WORD, text)] else f"\\{text}"


def _format_scoped(field: str, term: Word | Phrase | Prefix) -> str:
    if not isinstance(term, Word):
        return _format_quoted(term)
    is_plain = _retokenize(f"{field}:{term.text}")[1:] == [(TokenKind.WORD, term.text)]
    return term.text if is_plain else f"\\{term.text}"


def _format_value(field: str, value: str) -> str:
    if _retokenize(f"{field}:{value}")[1:] == [(TokenKind.WORD, value)]:
        return value
    return f"\\{value}" if _QUOTE.search(value) else f'"{value}"'


def _format_period(start: datetime | None, end: datetime | None) -> str:
    if start and end:
        return f"on:{_format_time(start)}..{_format_time(end)}"
    return f"after:{_format_time(start)}" if start else f"before:{_format_time(end)}"


def _format_time(time: datetime | None) -> str:
    return time.isoformat().replace("+00:00", "Z") if time else ""


def _retokenize(text: str) -> list[tuple[TokenKind, str]]:
    try:
        return [(token.kind, token.text) for token in tokenize(text, NoteCollector())]
    except QueryError:
        return []
