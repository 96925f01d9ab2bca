"""Limit usage to what a query asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import TypeGuard

from bygones.errors import UngroupableField
from bygones.model.base import SessionId
from bygones.model.query import FieldTerm, FieldValue, Flag, Term, TimeRange
from bygones.query.fields import FIELDS_BY_NAME, FieldLevel, iter_leaves, term_level
from bygones.query.matcher import is_main_agent, value_matches
from bygones.query.parser import format_query
from bygones.store.protocols import StoreReader
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


SelectSessions = Callable[[Term], frozenset[int]]
"""Returns the numbers of the sessions that a term selects."""

_ROW_FIELDS = frozenset({"model", "entrypoint", "agent", "branch"})
"""Fields of an answer; those of sessions with the same name are not used here."""
_ROW_FLAGS = frozenset({Flag.AGENT, Flag.REWOUND})


class UsageFilter:
    """Turns the terms of a query into conditions on rows of usage.

    Usage is stored per answer: its model, entrypoint, agent, branch and time are those
    of the row. All other fields select whole sessions.
    """

    def __init__(
        self,
        where: Term,
        payers: Iterable[Payer],
        select_sessions: SelectSessions,
    ) -> None:
        self.where = where
        self._payers = list(payers)
        self._select_sessions = cache(select_sessions)
        _check_supported(where)

    @property
    def is_session_only(self) -> bool:
        """Whether whole sessions are selected, not parts of them."""
        return not any(
            isinstance(leaf, TimeRange) or _is_row_term(leaf)
            for leaf in iter_leaves(self.where)
        )

    def resolve(self, term: FieldValue | FieldTerm) -> RowFilter:
        """Return the rows of usage that have a field's value."""
        if _is_row_term(term):
            return self._resolve_flag(term) or self._payers_with(term)
        sessions = self._select_sessions(term)
        payers = (p for p in self._payers if p.session in sessions)
        return RowFilter("payer", frozenset(p.number for p in payers))

    def resolve_sessions(self, term: FieldValue | FieldTerm) -> RowFilter:
        """Return the rows of what is known per session only."""
        if _is_row_term(term):
            raise UngroupableField(format_query(term), "tool")
        return RowFilter("session", self._select_sessions(term))

    def _resolve_flag(self, term: FieldValue) -> RowFilter | None:
        if term.field not in {"branch", "is"}:
            return None
        if term.value.casefold() == Flag.AGENT:
            agents = frozenset(p.number for p in self._payers if p.agent is not None)
            return RowFilter("payer", agents)
        is_abandoned = term.value.casefold() != "live"
        return RowFilter("is_abandoned", frozenset((int(is_abandoned),)))

    def _payers_with(self, term: FieldValue) -> RowFilter:
        payers = (p for p in self._payers if _payer_matches(term, p))
        return RowFilter("payer", frozenset(p.number for p in payers))


def _payer_matches(term: FieldValue, payer: Payer) -> bool:
    if is_main_agent(term):
        return payer.agent is None
    values = {
        "entrypoint": (payer.entrypoint,),
        "model": (payer.model,),
        "agent": (payer.agent, payer.agent_type),
    }
    field = FIELDS_BY_NAME[term.field]
    return any(value_matches(field, term.value, v) for v in values[term.field])


def _check_supported(term: Term) -> None:
    """Reject conditions on texts: tokens are known per answer, not per word."""
    for leaf in iter_leaves(term):
        is_supported = (
            isinstance(leaf, TimeRange)
            or _is_row_term(leaf)
            or term_level(leaf) is FieldLevel.SESSION
        )
        if not is_supported:
            raise UngroupableField(format_query(leaf))


def _is_row_term(term: Term) -> TypeGuard[FieldValue]:
    """Whether a term is about an answer, not about its session."""
    return isinstance(term, FieldValue) and (
        term.field in _ROW_FIELDS
        or (term.field == "is" and term.value.casefold() in _ROW_FLAGS)
    )
