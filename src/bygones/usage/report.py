"""Claude Code's own totals beside ours, and why they differ."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, tzinfo

from msgspec import structs

from bygones.model.base import SessionId
from bygones.model.query import Query
from bygones.model.reports import (
    Grouping,
    ReportedCostRow,
    ToolRow,
    UsageBlock,
    UsageReport,
    UsageRow,
)
from bygones.model.usage import ReportedCost
from bygones.store.encoding import to_milliseconds
from bygones.store.protocols import StoreReader, UsageReader
from bygones.store.usage_tables import Payer, UsageSum
from bygones.usage.costs import SumPricer
from bygones.usage.filter import SelectSessions, UsageFilter
from bygones.usage.grouping import (
    DAY_MS,
    HOUR_MS,
    BlockWindow,
    UsageTotal,
    build_clock,
    calendar_key,
    from_milliseconds,
    split_into_blocks,
)
from bygones.usage.prices import Prices, normalize_model_name, picos_to_nanos

_NANOS_IN_MICRO = 1000


class _CountedUsage:
    """What we count of one model in one session."""

    def __init__(self) -> None:
        self.tokens = self.cost = self.unpriced = 0


def compare_reported_costs(
    reader: UsageReader, pricer: SumPricer, usage_filter: UsageFilter
) -> ReportedCostRow | None:
    """Return both totals of the sessions that have one; nothing where none has.

    A part of a session has no total: nor has what a query limits so.
    """
    if not usage_filter.is_session_only:
        return None
    purses = {purse.session for purse in pricer.payers.values()}
    claims = {
        number: claim for number, claim in reader.reported_costs() if number in purses
    }
    if not claims:
        return None
    ours: dict[int, dict[str, _CountedUsage]] = {}
    where, among = usage_filter.where, usage_filter.resolve
    for one in reader.sum_usage(
        where=where,
        row_filter=among,
        context_steps=pricer.context_steps,
        price_changes=pricer.price_dates_ms,
        only_reported=True,
    ):
        purse, (cost, _) = pricer.payers[one.payer], pricer.cost(one)
        models = ours.setdefault(purse.session, {})
        mine = models.setdefault(
            normalize_model_name(purse.model or ""), _CountedUsage()
        )
        tokens = sum(one.token_counts[:5])
        mine.tokens += tokens
        mine.cost += picos_to_nanos(cost or 0)
        mine.unpriced += tokens if cost is None else 0
    found = [
        _compare_session(claims[number], models) for number, models in ours.items()
    ]
    return _sum_rows(found) if found else None


def _compare_session(
    claim: ReportedCost, counted_usage: Mapping[str, _CountedUsage]
) -> ReportedCostRow:
    silent = counts = prices = 0
    models: list[str] = []
    told: set[str] = set()
    for name, micros, tokens in claim.by_model:
        normal, theirs = normalize_model_name(name), micros * _NANOS_IN_MICRO
        mine = counted_usage.get(normal)
        told.add(normal)
        if mine is None:
            silent += theirs
            models.append(name)
        elif mine.tokens == tokens:
            prices += theirs - mine.cost
        else:
            counts += theirs - mine.cost
    claimed = claim.micro_usd * _NANOS_IN_MICRO
    counted = sum(mine.cost for mine in counted_usage.values())
    return ReportedCostRow(
        session_count=1,
        reported_cost=claimed,
        computed_cost=counted,
        unrecorded_cost=silent,
        unrecorded_models=tuple(models),
        token_difference=counts,
        price_difference=prices,
        unexplained_difference=claimed - counted - silent - counts - prices,
        unpriced_tokens=sum(mine.unpriced for mine in counted_usage.values()),
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
"""Of text, that are about one token."""
_CALENDAR_GROUPINGS = {Grouping.DAY, Grouping.WEEK, Grouping.MONTH}
_MINUTE_MS = 60_000
_MIN_DURATION_MS = 15 * _MINUTE_MS
"""For how long something is taken to have lasted at least: a burst is no pace."""


def build_usage_report(  # noqa: PLR0913 (one parameter a part of the question, all by name)
    reader: StoreReader,
    *,
    by: Grouping | str,
    query: Query | None,
    select_sessions: SelectSessions,
    zone: tzinfo | None,
    now: datetime,
    prices: Prices,
) -> UsageReport:
    """Return what was spent, summed by something, in the order that suits it.

    Times come in their own order, everything else by what it cost.
    """
    with reader.read_transaction():
        payers = reader.usage.load_payers()
        usage_filter = UsageFilter(query, payers, select_sessions)
        builder = _ReportBuilder(reader.usage, SumPricer(prices, payers), usage_filter)
        return _build_report(
            builder, Grouping(by), zone=zone or UTC, now=now, prices=prices
        )


def _build_report(
    builder: _ReportBuilder,
    by: Grouping,
    *,
    zone: tzinfo,
    now: datetime,
    prices: Prices,
) -> UsageReport:
    if by is Grouping.BLOCK:
        rows, total = builder.rows_by_block(now)
    elif by in _CALENDAR_GROUPINGS:
        rows, total = builder.rows_by_calendar(by, zone)
    else:
        rows, total = builder.rows_by_group(by)
    report = UsageReport(
        by=by,
        timezone=str(zone),
        prices_date=prices.date,
        rows=rows,
        total=total.to_row(""),
        unpriced_models=tuple(sorted(total.unpriced_labels)),
        reported_cost=builder.compare_reported_costs(),
    )
    if by is Grouping.TOOL:
        return structs.replace(report, rows=builder.rows_by_tool())
    return report


class _ReportBuilder:
    def __init__(
        self, reader: UsageReader, pricer: SumPricer, usage_filter: UsageFilter
    ) -> None:
        self._reader = reader
        self._filter = usage_filter
        self.pricer = pricer

    def compare_reported_costs(self) -> ReportedCostRow | None:
        return compare_reported_costs(self._reader, self.pricer, self._filter)

    def _sums(
        self, *, unit: int = 0, zone: tzinfo | None = None, by_branch: bool = False
    ) -> Iterable[UsageSum]:
        bounds = self._reader.time_range() if zone else None
        known = self.pricer.payers
        found = self._reader.sum_usage(
            where=self._filter.where,
            row_filter=self._filter.resolve,
            slot_ms=unit,
            utc_offsets=build_clock(zone, *bounds) if zone and bounds else None,
            context_steps=self.pricer.context_steps,
            price_changes=self.pricer.price_dates_ms,
            by_branch=by_branch,
        )
        # An engine that cannot hold a moment may have more of them by now.
        return (one for one in found if one.payer in known)

    def _totals(
        self, sums: Iterable[UsageSum], key: Callable[[UsageSum], str]
    ) -> tuple[dict[str, UsageTotal], UsageTotal]:
        found: dict[str, UsageTotal] = {}
        for one in sums:
            name = key(one)
            if name not in found:
                found[name] = UsageTotal()
            found[name].add(one, self.pricer)
        return found, UsageTotal.merge(found.values())

    def rows_by_calendar(
        self, by: Grouping, zone: tzinfo
    ) -> tuple[tuple[UsageRow, ...], UsageTotal]:
        """Return what was spent in days, weeks or months, oldest first."""
        names: dict[int | None, str] = {}

        def key(one: UsageSum) -> str:
            if one.slot not in names:
                names[one.slot] = calendar_key(by, one.slot)
            return names[one.slot]

        found, total = self._totals(self._sums(unit=DAY_MS, zone=zone), key)
        return tuple(found[name].to_row(name) for name in sorted(found)), total

    def rows_by_block(self, now: datetime) -> tuple[tuple[UsageRow, ...], UsageTotal]:
        """Return what was spent in blocks of five hours, oldest first.

        Where a block begins depends on all answers, whichever are asked for.
        """
        asked: dict[int | None, list[UsageSum]] = {}
        for one in self._sums(unit=HOUR_MS):
            asked.setdefault(one.slot, []).append(one)
        everything = self._reader.sum_usage(
            row_filter=self._filter.resolve, slot_ms=HOUR_MS
        )
        rows, tallies = [], []
        for block in split_into_blocks(everything):
            hours = dict.fromkeys(one.slot for one in block.sums)
            sums = [one for hour in hours for one in asked.get(hour, ())]
            if not sums:
                continue
            _, tally = self._totals(sums, lambda _: "")
            rows.append(_make_block_row(block, tally, now))
            tallies.append(tally)
        return tuple(rows), UsageTotal.merge(tallies)

    def rows_by_group(self, by: Grouping) -> tuple[tuple[UsageRow, ...], UsageTotal]:
        """Return what was spent by something that is no time, the dearest first."""
        purses = self.pricer.payers
        is_named = by in {Grouping.PROJECT, Grouping.SESSION}
        sessions = self._reader.session_projects() if is_named else {}
        keys: dict[Grouping, Callable[[UsageSum], str]] = {
            Grouping.PROJECT: lambda one: sessions[purses[one.payer].session][1] or "",
            Grouping.SESSION: lambda one: sessions[purses[one.payer].session][0],
            Grouping.MODEL: lambda one: purses[one.payer].model or "",
            Grouping.AGENT: lambda one: _agent_key(purses[one.payer]),
            Grouping.BRANCH: lambda one: "rewound" if one.abandoned else "live",
            Grouping.ENTRYPOINT: lambda one: purses[one.payer].entrypoint or "",
            Grouping.TOOL: lambda _: "",
        }
        sums = self._sums(by_branch=by is Grouping.BRANCH)
        found, total = self._totals(sums, keys[by])
        titles = self._reader.session_titles() if by is Grouping.SESSION else {}
        rows = [
            tally.to_row(k, title=titles.get(SessionId(k), ""))
            for k, tally in found.items()
        ]
        rows.sort(key=lambda row: (-(row.cost or 0), -row.tokens, row.key))
        return tuple(rows), total

    def rows_by_tool(self) -> tuple[ToolRow, ...]:
        """Return what tools put into contexts, the most first."""
        fills = self._reader.sum_tool_context(
            where=self._filter.where, row_filter=self._filter.resolve_sessions
        )
        rows = (
            ToolRow(
                key=fill.tool,
                calls=fill.calls,
                bytes=fill.size,
                tokens=fill.size // _BYTES_PER_TOKEN,
            )
            for fill in fills
        )
        return tuple(sorted(rows, key=lambda row: (-row.bytes, row.key)))


def _agent_key(payer: Payer) -> str:
    """Return the kind of agent that a purse is of; the session itself is ``main``."""
    return "main" if payer.agent is None else payer.agent_type or "unknown"


def _make_block_row(block: BlockWindow, total: UsageTotal, now: datetime) -> UsageRow:
    start, end = (
        from_milliseconds(block.start_ms) or now,
        from_milliseconds(block.end_ms) or now,
    )
    row = total.to_row(start.isoformat().replace("+00:00", "Z"))
    facts = UsageBlock(started_at=start, ends_at=end)
    first, last = total.first_ms or block.start_ms, total.last_ms or block.start_ms
    moment_ms = to_milliseconds(now) or 0
    is_active = block.start_ms <= moment_ms < block.end_ms
    # Silence since the last answer belongs to the pace of what is not over.
    lasted = max((moment_ms if is_active else last) - first, _MIN_DURATION_MS)
    tokens, cost = row.tokens, row.cost or 0
    facts = structs.replace(
        facts,
        tokens_per_minute=tokens * _MINUTE_MS // lasted,
        cost_per_hour=cost * HOUR_MS // lasted,
    )
    if is_active:
        left = block.end_ms - moment_ms
        facts = structs.replace(
            facts,
            is_active=True,
            projected_tokens=tokens + tokens * left // lasted,
            projected_cost=cost + cost * left // lasted,
        )
    return structs.replace(row, block=facts)
