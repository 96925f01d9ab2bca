"""Which sessions called which tools."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property

from bygones.errors import UngroupableField
from bygones.model.base import SessionId
from bygones.model.query import (
    And,
    FieldTerm,
    FieldValue,
    Flag,
    Not,
    Or,
    Phrase,
    Prefix,
    Query,
    Regex,
    Term,
    TimeRange,
    Words,
)
from bygones.model.summary import SessionSummary
from bygones.store.protocols import Lookup, StoreReader
from bygones.store.usage_tables import Payer, RowFilter


def sessions_by_tool(reader: StoreReader) -> dict[str, frozenset[SessionId]]:
    """Return the sessions that called each tool, their agents included."""
    with reader.read_transaction():
        names = {
            number: name
            for number, (name, _) in reader.usage.session_projects().items()
        }
        found: dict[str, set[SessionId]] = {}
        for number, tool in reader.usage.session_tools():
            if number in names:
                found.setdefault(tool, set()).add(names[number])
    return {tool: frozenset(sessions) for tool, sessions in found.items()}


_WORD = re.compile(r"[^\W_]+")


class UsageFilter:
    """Resolves the fields of a query against the purses and sessions there are."""

    def __init__(
        self, query: Query | None, payers: Iterable[Payer], lookup: Lookup
    ) -> None:
        self.where = query.root if query else None
        self._payers = list(payers)
        self._lookup = lookup
        _check_supported(self.where)

    @cached_property
    def summaries(self) -> dict[int, SessionSummary]:
        """The sessions by their numbers, looked up when they are first needed."""
        return dict(self._lookup.numbered_summaries())

    @property
    def is_session_only(self) -> bool:
        """Whether whole sessions are chosen, not parts of them."""
        return self.where is None or _is_session_term(self.where)

    def resolve(self, term: FieldValue | FieldTerm) -> RowFilter:
        """Return the rows of spends that have a field's value."""
        if isinstance(term, FieldValue) and not _is_session_term(term):
            return self._resolve_flag(term) or self._payers_with(term)
        sessions = self.matching_sessions(term)
        chosen = (p for p in self._payers if p.session in sessions)
        return RowFilter("payer", frozenset(p.number for p in chosen))

    def _resolve_flag(self, term: FieldValue) -> RowFilter | None:
        if term.field not in {"branch", "is"}:
            return None
        if _flag_value(term) == Flag.AGENT:
            own = frozenset(p.number for p in self._payers if p.agent is not None)
            return RowFilter("payer", own)
        return RowFilter("is_abandoned", frozenset((int(_flag_value(term) != "live"),)))

    def _payers_with(self, term: FieldValue) -> RowFilter:
        # Whoever limits nothing need not wait for the language.
        from bygones.query.fields import FIELDS_BY_NAME
        from bygones.query.matcher import value_matches

        field = FIELDS_BY_NAME[term.field]
        return RowFilter(
            "payer",
            frozenset(
                purse.number
                for purse in self._payers
                if any(
                    value_matches(field, term.value, one)
                    for one in _payer_values(field.name, purse)
                )
            ),
        )

    def matching_sessions(self, term: FieldValue | FieldTerm) -> frozenset[int]:
        """Return the sessions that have a field's value."""
        from bygones.query.matcher import matches_session

        query = Query(term)
        return frozenset(
            number
            for number, one in self.summaries.items()
            if matches_session(query, one, _split_words)
        )

    def resolve_sessions(self, term: FieldValue | FieldTerm) -> RowFilter:
        """Return the rows of what is known by session only."""
        if not _is_session_term(term):
            raise UngroupableField(_format_term(term), "tool")
        return RowFilter("session", self.matching_sessions(term))


def _payer_values(field: str, payer: Payer) -> tuple[str | None, ...]:
    if field == "entrypoint":
        return (payer.entrypoint,)
    return (payer.model,) if field == "model" else (payer.agent, payer.agent_type)


def _split_words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


_SESSION_FIELDS = {"project", "git", "session", "tag"}
_USAGE_FIELDS = {"model", "agent", "branch", "entrypoint"}
_USAGE_FLAGS = {Flag.AGENT, Flag.REWOUND}


def _check_supported(term: Term | None) -> None:
    """Refuse what is asked of texts: tokens are known by answer, not by word."""
    if isinstance(term, And | Or):
        for part in term.terms:
            _check_supported(part)
    elif isinstance(term, Not):
        _check_supported(term.term)
    elif isinstance(term, Words | Phrase | Prefix | Regex) or (
        isinstance(term, FieldTerm) and term.field != "title"
    ):
        raise UngroupableField(_format_term(term))
    elif isinstance(term, FieldValue):
        is_known = term.field in _USAGE_FIELDS or _is_session_term(term)
        if not is_known and not (
            term.field == "is" and _flag_value(term) in _USAGE_FLAGS
        ):
            raise UngroupableField(_format_term(term))


def _is_session_term(term: Term) -> bool:
    if isinstance(term, And | Or):
        return all(map(_is_session_term, term.terms))
    if isinstance(term, Not):
        return _is_session_term(term.term)
    if isinstance(term, FieldValue):
        is_flag = term.field == "is" and _flag_value(term) not in {
            *_USAGE_FLAGS,
            Flag.ERROR,
        }
        return term.field in _SESSION_FIELDS or is_flag
    return not isinstance(term, TimeRange)


def _flag_value(term: FieldValue) -> str:
    return term.value.casefold()


def _format_term(term: Term) -> str:
    from bygones.query.parser import format_query

    return format_query(term)
