"""From sums to a report: by what was asked, priced, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, tzinfo

from msgspec import structs

from bygones.model.ids import SessionId
from bygones.model.query import Query
from bygones.model.reports import (
    BlockFacts,
    Grouping,
    ToolRow,
    UsageReport,
    UsageRow,
)
from bygones.prices import Prices
from bygones.store.numbers import milliseconds
from bygones.store.shelf import Shelf, Summing
from bygones.store.spending import Purse, Sum
from bygones.usage.chosen import Chosen
from bygones.usage.claims import claim_of
from bygones.usage.pricing import Pricing
from bygones.usage.slots import DAY, HOUR, Block, blocks_of, clock_of, slot_key
from bygones.usage.tally import Tally, moment

__all__ = ["report_of"]

_BYTES = 4
"""Of text, that are about one token."""
_CALENDAR = {Grouping.DAY, Grouping.WEEK, Grouping.MONTH}
_MINUTE = 60_000
_SHORTEST = 15 * _MINUTE
"""For how long something is taken to have lasted at least: a burst is no pace."""


def report_of(  # noqa: PLR0913 (one parameter a part of the question, all by name)
    shelf: Shelf,
    *,
    by: Grouping | str,
    query: Query | None,
    zone: tzinfo | None,
    now: datetime,
    prices: Prices,
) -> UsageReport:
    """Return what was spent, summed by something, in the order that suits it.

    Times come in their own order, everything else by what it cost.
    """
    with shelf.at_once():
        return _report(
            shelf, Grouping(by), query, zone=zone or UTC, now=now, prices=prices
        )


def _report(  # noqa: PLR0913 (as above)
    shelf: Shelf,
    by: Grouping,
    query: Query | None,
    *,
    zone: tzinfo,
    now: datetime,
    prices: Prices,
) -> UsageReport:
    spending = shelf.spending
    purses = spending.purses()
    chosen = Chosen(query, purses, shelf.finding)
    asked = _Question(spending, Pricing(prices, purses), chosen)
    if by is Grouping.BLOCK:
        rows, total = asked.blocks(now)
    elif by in _CALENDAR:
        rows, total = asked.calendar(by, zone)
    else:
        rows, total = asked.groups(by)
    report = UsageReport(
        by=by,
        zone=str(zone),
        prices=prices.date,
        rows=rows,
        total=total.row(""),
        unpriced=tuple(sorted(total.unknown)),
        claim=claim_of(spending, asked.pricing, chosen),
    )
    if by is Grouping.TOOL:
        return structs.replace(report, rows=asked.tools())
    return report


class _Question:
    def __init__(self, spending: Summing, pricing: Pricing, chosen: Chosen) -> None:
        self._spending = spending
        self._chosen = chosen
        self.pricing = pricing

    def _sums(
        self, *, unit: int = 0, zone: tzinfo | None = None, by_branch: bool = False
    ) -> Iterable[Sum]:
        bounds = self._spending.bounds() if zone else None
        known = self.pricing.purses
        found = self._spending.sums(
            where=self._chosen.where,
            among=self._chosen.among,
            unit=unit,
            clock=clock_of(zone, *bounds) if zone and bounds else None,
            steps=self.pricing.steps,
            ages=self.pricing.ages,
            by_branch=by_branch,
        )
        # An engine that cannot hold a moment may have more of them by now.
        return (one for one in found if one.purse in known)

    def _tallies(
        self, sums: Iterable[Sum], key: Callable[[Sum], str]
    ) -> tuple[dict[str, Tally], Tally]:
        found: dict[str, Tally] = {}
        for one in sums:
            name = key(one)
            if name not in found:
                found[name] = Tally()
            found[name].add(one, self.pricing)
        return found, Tally.of(found.values())

    def calendar(
        self, by: Grouping, zone: tzinfo
    ) -> tuple[tuple[UsageRow, ...], Tally]:
        """Return what was spent in days, weeks or months, oldest first."""
        names: dict[int | None, str] = {}

        def key(one: Sum) -> str:
            if one.slot not in names:
                names[one.slot] = slot_key(by, one.slot)
            return names[one.slot]

        found, total = self._tallies(self._sums(unit=DAY, zone=zone), key)
        return tuple(found[name].row(name) for name in sorted(found)), total

    def blocks(self, now: datetime) -> tuple[tuple[UsageRow, ...], Tally]:
        """Return what was spent in blocks of five hours, oldest first.

        Where a block begins depends on all answers, whichever are asked for.
        """
        asked: dict[int | None, list[Sum]] = {}
        for one in self._sums(unit=HOUR):
            asked.setdefault(one.slot, []).append(one)
        everything = self._spending.sums(among=self._chosen.among, unit=HOUR)
        rows, tallies = [], []
        for block in blocks_of(everything):
            hours = dict.fromkeys(one.slot for one in block.sums)
            sums = [one for hour in hours for one in asked.get(hour, ())]
            if not sums:
                continue
            _, tally = self._tallies(sums, lambda _: "")
            rows.append(_block_row(block, tally, now))
            tallies.append(tally)
        return tuple(rows), Tally.of(tallies)

    def groups(self, by: Grouping) -> tuple[tuple[UsageRow, ...], Tally]:
        """Return what was spent by something that is no time, the dearest first."""
        purses = self.pricing.purses
        is_named = by in {Grouping.PROJECT, Grouping.SESSION}
        sessions = self._spending.names() if is_named else {}
        keys: dict[Grouping, Callable[[Sum], str]] = {
            Grouping.PROJECT: lambda one: sessions[purses[one.purse].session][1] or "",
            Grouping.SESSION: lambda one: sessions[purses[one.purse].session][0],
            Grouping.MODEL: lambda one: purses[one.purse].model or "",
            Grouping.AGENT: lambda one: _agent(purses[one.purse]),
            Grouping.BRANCH: lambda one: "rewound" if one.rewound else "live",
            Grouping.ENTRYPOINT: lambda one: purses[one.purse].entrypoint or "",
            Grouping.TOOL: lambda _: "",
        }
        sums = self._sums(by_branch=by is Grouping.BRANCH)
        found, total = self._tallies(sums, keys[by])
        titles = self._spending.titles() if by is Grouping.SESSION else {}
        rows = [
            tally.row(k, title=titles.get(SessionId(k), ""))
            for k, tally in found.items()
        ]
        rows.sort(key=lambda row: (-(row.cost or 0), -row.tokens, row.key))
        return tuple(rows), total

    def tools(self) -> tuple[ToolRow, ...]:
        """Return what tools put into contexts, the most first."""
        fills = self._spending.fills(
            where=self._chosen.where, among=self._chosen.among_sessions
        )
        rows = (
            ToolRow(
                key=fill.tool,
                calls=fill.calls,
                bytes=fill.size,
                tokens=fill.size // _BYTES,
            )
            for fill in fills
        )
        return tuple(sorted(rows, key=lambda row: (-row.bytes, row.key)))


def _agent(purse: Purse) -> str:
    """Return the kind of agent that a purse is of; the session itself is ``main``."""
    return "main" if purse.agent is None else purse.agent_type or "unknown"


def _block_row(block: Block, tally: Tally, now: datetime) -> UsageRow:
    start, end = moment(block.start) or now, moment(block.end) or now
    row = tally.row(start.isoformat().replace("+00:00", "Z"))
    facts = BlockFacts(start=start, end=end)
    first, last = tally.first or block.start, tally.last or block.start
    moment_ms = milliseconds(now) or 0
    is_active = block.start <= moment_ms < block.end
    # Silence since the last answer belongs to the pace of what is not over.
    lasted = max((moment_ms if is_active else last) - first, _SHORTEST)
    tokens, cost = row.tokens, row.cost or 0
    facts = structs.replace(
        facts,
        tokens_per_minute=tokens * _MINUTE // lasted,
        cost_per_hour=cost * HOUR // lasted,
    )
    if is_active:
        left = block.end - moment_ms
        facts = structs.replace(
            facts,
            is_active=True,
            projected_tokens=tokens + tokens * left // lasted,
            projected_cost=cost + cost * left // lasted,
        )
    return structs.replace(row, block=facts)
