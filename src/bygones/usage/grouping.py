"""Filter usage by a query and group it by time, project, model and so on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import cache
from operator import add
from typing import Self, TypeGuard

from msgspec import Struct

from bygones.errors import UngroupableField
from bygones.model.base import SessionId
from bygones.model.query import (
    And,
    FieldTerm,
    FieldValue,
    Flag,
    Not,
    Or,
    Term,
    TimeRange,
)
from bygones.model.reports import Grouping, UsageBlock, UsageRow
from bygones.model.summary import MessageUsage
from bygones.query.fields import FIELDS_BY_NAME, FieldLevel, iter_leaves, term_level
from bygones.query.matcher import is_main_agent, value_matches
from bygones.query.parser import format_query
from bygones.store.protocols import StoreReader
from bygones.store.usage_tables import Payer, RowFilter, UsageSum, UtcOffsets
from bygones.usage.costs import SumPricer
from bygones.usage.prices import picos_to_nanos


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
"""Fields of a reply; those of sessions with the same name are not used here."""
_ROW_FLAGS = frozenset({Flag.AGENT, Flag.ABANDONED})


class UsageFilter:
    """Turns the terms of a query into conditions on rows of usage.

    Usage is stored per reply: its model, entrypoint, agent, branch and time are those
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

    def selects(self, session: int, reply: MessageUsage, term: Term) -> bool:
        """Whether a term selects the reply of an agent that is not in the tables."""
        match term:
            case And(terms):
                return all(self.selects(session, reply, one) for one in terms)
            case Or(terms):
                return any(self.selects(session, reply, one) for one in terms)
            case Not(negated):
                return not self.selects(session, reply, negated)
            case TimeRange(start, end):
                time = reply.sent_at
                is_after = time is not None and (start is None or start <= time)
                return is_after and (end is None or (time is not None and time < end))
            case _:
                return self._selects_by_field(session, reply, term)

    def _selects_by_field(self, session: int, reply: MessageUsage, term: Term) -> bool:
        if not _is_row_term(term):
            return session in self._select_sessions(term)
        if term.field in {"branch", "is"}:
            return term.value.casefold() in {Flag.AGENT, "live"}
        payer = Payer(
            0, session, reply.agent_id, None, reply.model, (), reply.entrypoint
        )
        return _payer_matches(term, payer)

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
    """Reject conditions on texts: tokens are known per reply, not per word."""
    for leaf in iter_leaves(term):
        is_supported = (
            isinstance(leaf, TimeRange)
            or _is_row_term(leaf)
            or term_level(leaf) is FieldLevel.SESSION
        )
        if not is_supported:
            raise UngroupableField(format_query(leaf))


def _is_row_term(term: Term) -> TypeGuard[FieldValue]:
    """Whether a term is about a reply, not about its session."""
    return isinstance(term, FieldValue) and (
        term.field in _ROW_FIELDS
        or (term.field == "is" and term.value.casefold() in _ROW_FLAGS)
    )


HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
MINUTE_MS = 60_000
_BLOCK_MS = 5 * HOUR_MS
_EPOCH = date(1970, 1, 1)
_MIN_TIME_MS, _MAX_TIME_MS = 18_262 * DAY_MS, 29_220 * DAY_MS
"""The years 2020 and 2050. Changes of UTC offsets are looked up only between them,
because invalid timestamps may be thousands of years away."""


def build_clock(zone: tzinfo, first_ms: int, last_ms: int) -> UtcOffsets:
    """Return the UTC offsets of a zone between two times, in milliseconds."""
    changes = []
    first_ms = min(max(first_ms, _MIN_TIME_MS), _MAX_TIME_MS)
    last_ms = min(max(last_ms, _MIN_TIME_MS), _MAX_TIME_MS)
    offset = _utc_offset_ms(zone, first_ms)
    for day in range(first_ms, last_ms + DAY_MS, DAY_MS):
        next_offset = _utc_offset_ms(zone, min(day + DAY_MS, last_ms))
        if next_offset != offset:
            changes.append((_find_offset_change(zone, day, day + DAY_MS), offset))
            offset = next_offset
    return UtcOffsets(tuple(changes), offset)


def _utc_offset_ms(zone: tzinfo, time_ms: int) -> int:
    offset = datetime.fromtimestamp(time_ms / 1000, UTC).astimezone(zone).utcoffset()
    return int((offset or timedelta()).total_seconds() * 1000)


def _find_offset_change(zone: tzinfo, low: int, high: int) -> int:
    """Return the minute between two times in which the UTC offset changes."""
    offset = _utc_offset_ms(zone, low)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (
            (middle, high) if _utc_offset_ms(zone, middle) == offset else (low, middle)
        )
    return high // MINUTE_MS * MINUTE_MS


def calendar_key(by: Grouping, slot: int | None) -> str:
    """Return the name of the day, week or month that a day number belongs to."""
    if slot is None:
        return ""
    day = _EPOCH + timedelta(days=slot)
    if by is Grouping.WEEK:
        day -= timedelta(days=day.weekday())
    return day.isoformat()[: len("2026-01") if by is Grouping.MONTH else None]


class BlockWindow(Struct, frozen=True):
    """A block of five hours, and the usage in it by hour."""

    start_ms: int
    end_ms: int
    sums: tuple[UsageSum, ...]


def split_into_blocks(sums: Iterable[UsageSum]) -> Iterator[BlockWindow]:
    """Yield the blocks of hourly sums, in order.

    A block starts with the hour of its first reply. It ends after five hours, or when
    there was no reply for five hours.
    """
    hours: dict[int, list[UsageSum]] = {}
    for usage_sum in sums:
        if usage_sum.slot is not None:
            hours.setdefault(usage_sum.slot, []).append(usage_sum)
    start, last = 0, 0
    block: list[UsageSum] = []
    for hour in sorted(hours):
        first = min(one.first_ms or 0 for one in hours[hour])
        if block and (hour * HOUR_MS >= start + _BLOCK_MS or first - last >= _BLOCK_MS):
            yield BlockWindow(start, start + _BLOCK_MS, tuple(block))
            block = []
        if not block:
            start = hour * HOUR_MS
        block.extend(hours[hour])
        last = max(one.last_ms or 0 for one in hours[hour])
    if block:
        yield BlockWindow(start, start + _BLOCK_MS, tuple(block))


class UsageTotal:
    """The usage under one key of a report."""

    def __init__(self) -> None:
        self.counts = [0] * 6
        self.replies = self.cost = self.unpriced_tokens = self.estimated_output = (
            self.estimated_cost
        ) = 0
        self.has_price = False
        self.models: dict[str, int] = {}
        self.unpriced_labels: set[str] = set()
        self.first_ms: int | None = None
        self.last_ms: int | None = None

    @classmethod
    def merge(cls, totals: Iterable[UsageTotal]) -> Self:
        """Return the usage of several keys together."""
        total = cls()
        for one in totals:
            total.counts = list(map(add, total.counts, one.counts))
            total.replies += one.replies
            total.cost += one.cost
            total.unpriced_tokens += one.unpriced_tokens
            total.estimated_output += one.estimated_output
            total.estimated_cost += one.estimated_cost
            total.has_price |= one.has_price
            total.unpriced_labels |= one.unpriced_labels
            for model, tokens in one.models.items():
                total.models[model] = total.models.get(model, 0) + tokens
            total._extend_period(one.first_ms, one.last_ms)
        return total

    def add(self, usage_sum: UsageSum, pricer: SumPricer) -> None:
        """Add a sum and its cost."""
        payer = pricer.payers[usage_sum.payer]
        self.counts = list(map(add, self.counts, usage_sum.token_counts))
        self.replies += usage_sum.answers
        model, tokens = payer.model or "", sum(usage_sum.token_counts[:5])
        self.models[model] = self.models.get(model, 0) + tokens
        picos, estimated_picos = pricer.cost(usage_sum)
        if picos is None:
            self.unpriced_tokens += tokens
            self.unpriced_labels.add(pricer.describe_unpriced(usage_sum))
        else:
            self.has_price = True
            self.cost += picos
        self.estimated_output += usage_sum.estimated_output
        self.estimated_cost += estimated_picos or 0
        self._extend_period(usage_sum.first_ms, usage_sum.last_ms)

    def _extend_period(self, first: int | None, last: int | None) -> None:
        if first is None or last is None:
            return
        self.first_ms = first if self.first_ms is None else min(first, self.first_ms)
        self.last_ms = last if self.last_ms is None else max(last, self.last_ms)

    def to_row(
        self, key: str, *, title: str = "", block: UsageBlock | None = None
    ) -> UsageRow:
        """Return the total as a row of a report."""
        counts = self.counts
        by_tokens = sorted(self.models, key=lambda model: -self.models[model])
        return UsageRow(
            key=key,
            title=title,
            replies=self.replies,
            tokens=sum(counts[:5]),
            input_tokens=counts[0],
            output_tokens=counts[1],
            cache_write_5m_tokens=counts[2],
            cache_write_1h_tokens=counts[3],
            cache_read_tokens=counts[4],
            web_searches=counts[5],
            cost=picos_to_nanos(self.cost)
            if self.has_price or not self.replies
            else None,
            unpriced_tokens=self.unpriced_tokens,
            estimated_output_tokens=self.estimated_output,
            estimated_cost=picos_to_nanos(self.estimated_cost),
            models=tuple(model for model in by_tokens if model),
            first_at=from_milliseconds(self.first_ms),
            last_at=from_milliseconds(self.last_ms),
            block=block,
        )


def from_milliseconds(milliseconds: int | None) -> datetime | None:
    """Return a time that is stored in milliseconds."""
    if milliseconds is None:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
