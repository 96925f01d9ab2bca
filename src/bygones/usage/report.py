"""Build usage reports, and the context of a session turn by turn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, time, timedelta, tzinfo
from functools import partial
from typing import TYPE_CHECKING

from msgspec import structs

from bygones.errors import UnknownGrouping
from bygones.model.base import SessionId
from bygones.model.query import (
    MAIN_AGENT,
    And,
    FieldTerm,
    FieldValue,
    Query,
    TimeRange,
)
from bygones.model.reports import (
    ContextReport,
    ContextRow,
    Grouping,
    ReportedCostRow,
    ToolRow,
    UsageBlock,
    UsageCell,
    UsageReport,
    UsageRow,
    UsageSeries,
    WarmUpTotal,
)
from bygones.model.sessions import Message, Session, Turn
from bygones.model.summary import SessionSummary
from bygones.model.usage import ReportedCost, Usage
from bygones.store.encoding import to_milliseconds
from bygones.store.protocols import StoreReader, UsageReader
from bygones.store.usage_tables import Payer, RowFilter, UsageDivision, UsageSum
from bygones.usage.costs import SumPricer
from bygones.usage.grouping import (
    DAY_MS,
    HOUR_MS,
    MINUTE_MS,
    BlockWindow,
    UsageTotal,
    build_clock,
    calendar_key,
    from_milliseconds,
    split_into_blocks,
)
from bygones.usage.prices import Prices, normalize_model_name, picos_to_nanos

if TYPE_CHECKING:
    from bygones.usage.grouping import SelectSessions, UsageFilter

_NANOS_PER_MICRO = 1000


class _CountedUsage:
    """The usage of one model in one session, summed from its replies."""

    def __init__(self) -> None:
        self.tokens = self.cost = self.unpriced = 0


def compare_reported_costs(
    reader: UsageReader, pricer: SumPricer, usage_filter: UsageFilter | None
) -> ReportedCostRow | None:
    """Compare the costs that Claude Code reported with those computed from replies.

    None if no selected session has a reported cost, or if a query selects parts of
    sessions, because the reported cost is that of a whole session.
    """
    if usage_filter is not None and not usage_filter.is_session_only:
        return None
    sessions = {payer.session for payer in pricer.payers.values()}
    reported = {
        number: cost for number, cost in reader.reported_costs() if number in sessions
    }
    if not reported:
        return None
    computed: dict[int, dict[str, _CountedUsage]] = {}
    for usage_sum in reader.sum_usage(
        structs.replace(pricer.division, only_reported=True),
        where=usage_filter.where if usage_filter else None,
        row_filter=usage_filter.resolve if usage_filter else _no_condition,
    ):
        payer, (cost, _) = pricer.payers[usage_sum.payer], pricer.cost(usage_sum)
        by_model = computed.setdefault(payer.session, {})
        model = normalize_model_name(payer.model or "")
        counted = by_model.setdefault(model, _CountedUsage())
        tokens = sum(usage_sum.token_counts[:5])
        counted.tokens += tokens
        counted.cost += picos_to_nanos(cost or 0)
        counted.unpriced += tokens if cost is None else 0
    rows = [
        _compare_session(reported[number], by_model)
        for number, by_model in computed.items()
    ]
    return _sum_rows(rows) if rows else None


def _compare_session(
    reported: ReportedCost, counted_usage: Mapping[str, _CountedUsage]
) -> ReportedCostRow:
    unrecorded = token_difference = price_difference = 0
    unrecorded_models: list[str] = []
    for model, micros, tokens in reported.by_model:
        cost = micros * _NANOS_PER_MICRO
        counted = counted_usage.get(normalize_model_name(model))
        if counted is None:
            unrecorded += cost
            unrecorded_models.append(model)
        elif counted.tokens == tokens:
            price_difference += cost - counted.cost
        else:
            token_difference += cost - counted.cost
    reported_cost = reported.micro_usd * _NANOS_PER_MICRO
    computed_cost = sum(counted.cost for counted in counted_usage.values())
    explained = unrecorded + token_difference + price_difference
    return ReportedCostRow(
        session_count=1,
        reported_cost=reported_cost,
        computed_cost=computed_cost,
        unrecorded_cost=unrecorded,
        unrecorded_models=tuple(unrecorded_models),
        token_difference=token_difference,
        price_difference=price_difference,
        unexplained_difference=reported_cost - computed_cost - explained,
        unpriced_tokens=sum(counted.unpriced for counted in counted_usage.values()),
    )


def _sum_rows(rows: list[ReportedCostRow]) -> ReportedCostRow:
    return ReportedCostRow(
        session_count=len(rows),
        reported_cost=sum(row.reported_cost for row in rows),
        computed_cost=sum(row.computed_cost for row in rows),
        unrecorded_cost=sum(row.unrecorded_cost for row in rows),
        unrecorded_models=tuple(
            sorted({m for row in rows for m in row.unrecorded_models})
        ),
        token_difference=sum(row.token_difference for row in rows),
        price_difference=sum(row.price_difference for row in rows),
        unexplained_difference=sum(row.unexplained_difference for row in rows),
        unpriced_tokens=sum(row.unpriced_tokens for row in rows),
    )


_BYTES_PER_TOKEN = 4
"""Bytes of text that are about one token."""
_CALENDAR_GROUPINGS = {Grouping.DAY, Grouping.WEEK, Grouping.MONTH}
_MIN_DURATION_MS = 15 * MINUTE_MS
"""The shortest duration for a rate: a short burst says nothing about the pace."""


def build_usage_report(  # noqa: PLR0913 (all by name)
    reader: StoreReader,
    *,
    by: Grouping | str,
    query: Query | None,
    select_sessions: SelectSessions,
    timezone: tzinfo | None,
    now: datetime,
    prices: Prices,
) -> UsageReport:
    """Return tokens and costs, summed by ``by``.

    Periods are in chronological order, everything else by cost.
    """
    with reader.read_transaction():
        payers = reader.usage.load_payers()
        builder = _make_builder(
            reader, _make_filter(query, payers, select_sessions), prices, payers
        )
        return _build_report(
            builder,
            _parse_grouping(by),
            timezone=timezone or UTC,
            now=now,
            prices=prices,
        )


def _make_builder(
    reader: StoreReader,
    usage_filter: UsageFilter | None,
    prices: Prices,
    payers: Sequence[Payer],
) -> _ReportBuilder:
    return _ReportBuilder(
        reader.usage,
        SumPricer(prices, payers),
        usage_filter,
        partial(reader.sessions.iter_summaries, include_empty=True),
    )


def _parse_grouping(by: Grouping | str) -> Grouping:
    try:
        return Grouping(by)
    except ValueError:
        raise UnknownGrouping(str(by)) from None


def build_usage_series(  # noqa: PLR0913 (all by name)
    reader: StoreReader,
    *,
    by: Grouping | str,
    query: Query | None,
    select_sessions: SelectSessions,
    timezone: tzinfo | None,
    prices: Prices,
) -> UsageSeries:
    """Return tokens and costs by day, divided by ``by``, and replies by hour."""
    by = _parse_grouping(by)
    if by in _CALENDAR_GROUPINGS or by is Grouping.BLOCK:
        raise ValueError(f"days cannot be divided by {by}")
    zone = timezone or UTC
    with reader.read_transaction():
        payers = reader.usage.load_payers()
        builder = _make_builder(
            reader, _make_filter(query, payers, select_sessions), prices, payers
        )
        cells, hours = builder.cells_by_day(by, zone)
        if by is not Grouping.TOOL:
            return UsageSeries(by=by, cells=cells, hours=hours)
        days = list(dict.fromkeys(cell.day for cell in cells if cell.day))
        root = query.root if query else None
        tool_cells = []
        for day in days:
            period = _local_day(day, zone)
            where = period if root is None else And((root, period))
            by_day = _ReportBuilder(
                reader.usage,
                builder.pricer,
                _make_filter(Query(where), payers, select_sessions),
                tuple,
            )
            tool_cells += [
                UsageCell(day, row.key, row.tokens) for row in by_day.rows_by_tool()
            ]
        return UsageSeries(by=by, cells=tuple(tool_cells), hours=hours)


def _local_day(day: str, zone: tzinfo) -> TimeRange:
    start = datetime.fromisoformat(day).replace(tzinfo=zone)
    # By calendar, as days have 23 or 25 hours when clocks change.
    end = datetime.combine(start.date() + timedelta(days=1), time(), zone)
    return TimeRange(start=start, end=end)


def _build_report(
    builder: _ReportBuilder,
    by: Grouping,
    *,
    timezone: tzinfo,
    now: datetime,
    prices: Prices,
) -> UsageReport:
    if by is Grouping.BLOCK:
        rows, total = builder.rows_by_block(now)
    elif by in _CALENDAR_GROUPINGS:
        rows, total = builder.rows_by_calendar(by, timezone)
    else:
        rows, total = builder.rows_by_group(by)
    report = UsageReport(
        by=by,
        timezone=str(timezone),
        prices_date=prices.date,
        rows=rows,
        total=total.to_row(""),
        unpriced_models=tuple(sorted(total.unpriced_labels)),
        reported_cost=builder.compare_reported_costs(),
        warm_ups=builder.sum_warm_ups(prices),
    )
    if by is Grouping.TOOL:
        return structs.replace(report, rows=builder.rows_by_tool())
    return report


def _make_filter(
    query: Query | None, payers: Sequence[Payer], select_sessions: SelectSessions
) -> UsageFilter | None:
    if query is None or query.root is None:
        return None
    # Late: most reports have no query, and the query language takes 15 ms.
    from bygones.usage.grouping import UsageFilter

    return UsageFilter(query.root, payers, select_sessions)


def _no_condition(term: FieldValue | FieldTerm) -> RowFilter:
    raise AssertionError(f"{term} in a report without a query")


class _ReportBuilder:
    def __init__(
        self,
        reader: UsageReader,
        pricer: SumPricer,
        usage_filter: UsageFilter | None,
        load_summaries: Callable[[], Iterable[SessionSummary]],
    ) -> None:
        self._reader = reader
        self._load_summaries = load_summaries
        self._filter = usage_filter
        self._where = usage_filter.where if usage_filter else None
        self._row_filter = usage_filter.resolve if usage_filter else _no_condition
        self.pricer = pricer

    def sum_warm_ups(self, prices: Prices) -> WarmUpTotal | None:
        """Return what warm-ups cost, which no row includes; `None` if there are none."""
        chosen = self._filter
        replies = [
            reply
            for session, reply in self._reader.warm_up_usages()
            if chosen is None or chosen.selects(session, reply, chosen.where)
        ]
        if not replies:
            return None
        return WarmUpTotal(
            replies=len(replies),
            tokens=sum(reply.usage.total for reply in replies),
            cost=prices.compute_cost(replies).nano_usd,
        )

    def compare_reported_costs(self) -> ReportedCostRow | None:
        return compare_reported_costs(self._reader, self.pricer, self._filter)

    def _sums(
        self, *, slot_ms: int = 0, zone: tzinfo | None = None, by_branch: bool = False
    ) -> Iterable[UsageSum]:
        bounds = self._reader.time_range() if zone else None
        known = self.pricer.payers
        division = structs.replace(
            self.pricer.division,
            slot_ms=slot_ms,
            utc_offsets=build_clock(zone, *bounds) if zone and bounds else None,
            by_branch=by_branch,
        )
        found = self._reader.sum_usage(
            division, where=self._where, row_filter=self._row_filter
        )
        # A store without snapshots may have new payers by now.
        return (one for one in found if one.payer in known)

    def _totals(
        self, sums: Iterable[UsageSum], key: Callable[[UsageSum], str]
    ) -> tuple[dict[str, UsageTotal], UsageTotal]:
        totals: dict[str, UsageTotal] = {}
        for usage_sum in sums:
            name = key(usage_sum)
            if name not in totals:
                totals[name] = UsageTotal()
            totals[name].add(usage_sum, self.pricer)
        return totals, UsageTotal.merge(totals.values())

    def rows_by_calendar(
        self, by: Grouping, zone: tzinfo
    ) -> tuple[tuple[UsageRow, ...], UsageTotal]:
        """Return the usage by day, week or month, oldest first."""
        names: dict[int | None, str] = {}

        def key(usage_sum: UsageSum) -> str:
            slot = usage_sum.slot
            if slot not in names:
                names[slot] = calendar_key(by, slot)
            return names[slot]

        totals, total = self._totals(self._sums(slot_ms=DAY_MS, zone=zone), key)
        return tuple(totals[name].to_row(name) for name in sorted(totals)), total

    def rows_by_block(self, now: datetime) -> tuple[tuple[UsageRow, ...], UsageTotal]:
        """Return the usage by block of five hours, oldest first.

        Where a block starts depends on all replies, not only on the selected ones.
        """
        selected: dict[int | None, list[UsageSum]] = {}
        for usage_sum in self._sums(slot_ms=HOUR_MS):
            selected.setdefault(usage_sum.slot, []).append(usage_sum)
        everything = self._reader.sum_usage(
            UsageDivision(slot_ms=HOUR_MS), row_filter=self._row_filter
        )
        rows, totals = [], []
        for block in split_into_blocks(everything):
            hours = dict.fromkeys(one.slot for one in block.sums)
            sums = [one for hour in hours for one in selected.get(hour, ())]
            if not sums:
                continue
            _, total = self._totals(sums, lambda _: "")
            rows.append(_make_block_row(block, total, now))
            totals.append(total)
        return tuple(rows), UsageTotal.merge(totals)

    def _group_key(self, by: Grouping) -> Callable[[UsageSum], str]:
        """Return the function that names the group of a sum."""
        payers = self.pricer.payers
        needs_sessions = by in {Grouping.PROJECT, Grouping.SESSION, Grouping.GIT}
        sessions = self._reader.session_projects() if needs_sessions else {}
        people = self._reader.session_people() if by is Grouping.PERSON else {}
        branches = self._load_git_branches() if by is Grouping.GIT else {}
        projects = self._load_projects(sessions) if by is Grouping.PROJECT else {}
        keys: dict[Grouping, Callable[[UsageSum], str]] = {
            Grouping.GIT: lambda one: branches.get(
                sessions[payers[one.payer].session][0], ""
            ),
            Grouping.PROJECT: lambda one: projects[payers[one.payer].session],
            Grouping.SESSION: lambda one: sessions[payers[one.payer].session][0],
            Grouping.MODEL: lambda one: payers[one.payer].model or "",
            Grouping.AGENT: lambda one: _agent_key(payers[one.payer]),
            Grouping.BRANCH: lambda one: "abandoned" if one.abandoned else "live",
            Grouping.ENTRYPOINT: lambda one: payers[one.payer].entrypoint or "",
            Grouping.PERSON: lambda one: people.get(payers[one.payer].session, ""),
            Grouping.TOOL: lambda _: "",
        }
        return keys[by]

    def _load_git_branches(self) -> dict[SessionId, str]:
        """Return the git branches of each session, joined to one name."""
        return {one.id: ", ".join(one.git_branches) for one in self._load_summaries()}

    def _load_projects(
        self, sessions: Mapping[int, tuple[SessionId, str | None]]
    ) -> dict[int, str]:
        """Return the project of each session: its directory, or its key without one."""
        keys: dict[SessionId, str] = {}
        if not all(path for _, path in sessions.values()):
            keys = {
                one.id: next(iter(one.project_keys), "")
                for one in self._load_summaries()
            }
        return {
            number: path or keys.get(id_, "")
            for number, (id_, path) in sessions.items()
        }

    def rows_by_group(self, by: Grouping) -> tuple[tuple[UsageRow, ...], UsageTotal]:
        """Return the usage by something other than time, the most expensive first."""
        sums = self._sums(by_branch=by is Grouping.BRANCH)
        totals, total = self._totals(sums, self._group_key(by))
        titles = self._reader.session_titles() if by is Grouping.SESSION else {}
        rows = [
            own_total.to_row(key, title=titles.get(SessionId(key), ""))
            for key, own_total in totals.items()
        ]
        rows.sort(key=lambda row: (-(row.cost or 0), -row.tokens, row.key))
        return tuple(rows), total

    def cells_by_day(
        self, by: Grouping, zone: tzinfo
    ) -> tuple[tuple[UsageCell, ...], tuple[tuple[int, ...], ...]]:
        """Return the usage by day and group, and the replies by hour of the week."""
        key = self._group_key(by)
        totals: dict[tuple[str, str], UsageTotal] = {}
        hours = [[0] * 24 for _ in range(7)]
        sums = self._sums(slot_ms=HOUR_MS, zone=zone, by_branch=by is Grouping.BRANCH)
        for usage_sum in sums:
            slot = usage_sum.slot
            day = calendar_key(Grouping.DAY, None if slot is None else slot // 24)
            if slot is not None:
                # 1970 started on a Thursday.
                hours[(slot // 24 + 3) % 7][slot % 24] += usage_sum.answers
            total = totals.setdefault((day, key(usage_sum)), UsageTotal())
            total.add(usage_sum, self.pricer)
        rows = (
            (day, totals[day, group].to_row(group)) for day, group in sorted(totals)
        )
        cells = tuple(
            UsageCell(day, row.key, row.tokens, row.cost) for day, row in rows
        )
        return cells, tuple(map(tuple, hours))

    def rows_by_tool(self) -> tuple[ToolRow, ...]:
        """Return what the results of tools added to contexts, the most first."""
        sums = self._reader.sum_tool_context(
            where=self._where,
            row_filter=self._filter.resolve_sessions if self._filter else _no_condition,
        )
        rows = (
            ToolRow(
                key=one.tool,
                calls=one.calls,
                bytes=one.size,
                tokens=one.size // _BYTES_PER_TOKEN,
            )
            for one in sums
        )
        return tuple(sorted(rows, key=lambda row: (-row.bytes, row.key)))


def _agent_key(payer: Payer) -> str:
    """Return the agent type of a payer; the session itself is ``main``."""
    return MAIN_AGENT if payer.agent is None else payer.agent_type or "unknown"


def _make_block_row(block: BlockWindow, total: UsageTotal, now: datetime) -> UsageRow:
    start = from_milliseconds(block.start_ms) or now
    end = from_milliseconds(block.end_ms) or now
    row = total.to_row(start.isoformat().replace("+00:00", "Z"))
    first, last = total.first_ms or block.start_ms, total.last_ms or block.start_ms
    now_ms = to_milliseconds(now) or 0
    is_active = block.start_ms <= now_ms < block.end_ms
    # In the active block the time since the last reply counts, too.
    duration = max((now_ms if is_active else last) - first, _MIN_DURATION_MS)
    tokens, cost = row.tokens, row.cost or 0
    usage_block = UsageBlock(
        started_at=start,
        ends_at=end,
        tokens_per_minute=tokens * MINUTE_MS // duration,
        cost_per_hour=cost * HOUR_MS // duration,
    )
    if is_active:
        remaining = block.end_ms - now_ms
        usage_block = structs.replace(
            usage_block,
            is_active=True,
            projected_tokens=tokens + tokens * remaining // duration,
            projected_cost=cost + cost * remaining // duration,
        )
    return structs.replace(row, block=usage_block)


def build_context_report(session: Session) -> ContextReport:
    """Return the size of the context along the live branch.

    All replies on it count, including those that were copied from another session.
    """
    rows = tuple(row for turn in session.live_branch.turns for row in _turn_rows(turn))
    usages = [
        message.usage
        for turn in session.live_branch.turns
        for message in turn.messages
        if message.usage is not None
    ]
    contexts = sum(usage.context for usage in usages)
    reads = sum(usage.cache_read for usage in usages)
    return ContextReport(
        session_id=session.id,
        title=session.title.text,
        rows=rows,
        peak_tokens=max((row.peak_tokens for row in rows), default=0),
        cache_hit_rate=reads / contexts if contexts else 0.0,
        compaction_count=sum(row.trigger is not None for row in rows),
    )


def _turn_rows(turn: Turn) -> Iterator[ContextRow]:
    answers: list[Message] = []
    for message in turn.messages:
        if message.compaction is not None:
            yield from _answer_row(turn, answers)
            answers = []
            yield ContextRow(
                turn_number=turn.number,
                measured_at=message.sent_at,
                tokens=message.compaction.tokens_after or 0,
                compacted_from=message.compaction.tokens_before,
                trigger=message.compaction.trigger or "unknown",
            )
        elif message.usage is not None and message.usage.context:
            answers.append(message)
    yield from _answer_row(turn, answers)


def _answer_row(turn: Turn, answers: list[Message]) -> Iterator[ContextRow]:
    usages = [message.usage or Usage() for message in answers]
    if not usages:
        return
    total = sum(usages, Usage())
    yield ContextRow(
        turn_number=turn.number,
        measured_at=answers[-1].sent_at,
        tokens=usages[-1].context,
        peak_tokens=max(usage.context for usage in usages),
        output_tokens=total.output,
        cache_read_tokens=total.cache_read,
        cache_write_tokens=total.cache_write,
        input_tokens=total.input,
        replies=len(answers),
        prompt=turn.prompt.preview if turn.prompt else "",
    )
