"""Usage below each other: columns of numbers, and bars where somebody looks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, tzinfo
from typing import NamedTuple

from msgspec import Struct, structs

from bygones.cli.options import shown_path
from bygones.cli.terminal import Paint, fit_left, fit_right, width
from bygones.model.reports import (
    ClaimRow,
    ContextReport,
    ContextRow,
    Grouping,
    ToolRow,
    UsageReport,
    UsageRow,
)
from bygones.model.usage import Cost
from bygones.render.figures import clock, lasting, money, price, several, size, tokens
from bygones.render.safe import safe_line
from bygones.render.widths import wrap

__all__ = ["UsageTable", "cut_rows"]

_BAR = 24
_SHORTEST_BAR = 6
_KEY = 44
_EIGHTHS = " ▏▎▍▌▋▊▉"
_SHORT_ID = 8
_TOTAL = "total"
_KEPT = 2
"""Columns that are never left out: what it is, and how much."""
_SHORTEST_TAIL = 24
_NOTHING = {
    Grouping.PROJECT: "(no directory)",
    Grouping.MODEL: "(no name)",
    Grouping.ENTRYPOINT: "(not told)",
}


class _Column(NamedTuple):
    name: str
    text: Callable[..., str]
    rank: int = 0
    """Columns of a high rank are left out first."""
    is_left: bool = False


class UsageTable(Struct, frozen=True, kw_only=True):
    """How to set usage: for a terminal of some width, or whole and without bars."""

    now: datetime
    zone: tzinfo
    room: int | None = None
    paint: Paint

    def lines(
        self, report: UsageReport | ContextReport, limit: int | None
    ) -> Iterator[str]:
        """Yield a heading, a line for each row, a sum, and what there is to say."""
        if isinstance(report, ContextReport):
            yield from self._context(report, limit)
            return
        rows = cut_rows(report, limit)
        tools = [row for row in rows if isinstance(row, ToolRow)]
        spent = [row for row in rows if isinstance(row, UsageRow)]
        if tools:
            yield from self._set(_TOOLS, tools, [row.bytes for row in tools])
        elif spent:
            columns = self._columns(report.by)
            weights = [row.cost or 0 for row in spent]
            if not any(weights):
                weights = [row.tokens for row in spent]
            tail = self._tail(report.by)
            total = structs.replace(report.total, key=_TOTAL)
            yield from self._set(columns, [*spent, total], weights, tail)
        for note in _notes(report, len(rows)):
            yield from self._note(note)

    def _context(self, report: ContextReport, limit: int | None) -> Iterator[str]:
        """Yield what was in context, turn by turn."""
        columns = (
            _Column("TURN", lambda row: f"{row.turn + 1}"),
            _Column("TIME", lambda row: self._clock(row.time), 3, True),
            _Column("CONTEXT", lambda row: tokens(row.tokens)),
            _Column("READ", lambda row: tokens(row.cache_read_tokens), 2),
            _Column("WRITE", lambda row: tokens(row.cache_write_tokens), 4),
            _Column("OUTPUT", lambda row: tokens(row.output_tokens), 5),
            _Column("ANSWERS", lambda row: f"{row.answers or ''}", 6),
        )
        tail = _Column("", _happened)
        rows = [r for r in cut_rows(report, limit) if isinstance(r, ContextRow)]
        title = safe_line(report.title)
        yield self.paint.heading(fit_right(title, self.room) if self.room else title)
        weights = [row.tokens or row.compacted_from or 0 for row in rows]
        yield from self._set(columns, rows, weights, tail) if rows else ()
        told = (
            f"at most {tokens(report.peak)} tokens in context; "
            f"{report.cached:.0%} of all input came from the cache; "
            f"{several(report.compactions, 'compaction')}"
        )
        yield from self._note(told)

    def _note(self, told: str) -> Iterator[str]:
        lines = wrap(told, self.room) if self.room else (told,)
        yield from map(self.paint.faint, lines)

    def _columns(self, by: Grouping) -> Sequence[_Column]:
        name = "START" if by is Grouping.BLOCK else by.value.upper()
        found = [
            _Column(name, lambda row: self._key(by, row), is_left=True),
            _Column("ANSWERS", lambda row: f"{row.answers:,}", 5),
            _Column("INPUT", lambda row: tokens(row.input_tokens), 4),
            _Column("WRITE", lambda row: tokens(_writes(row)), 3),
            _Column("READ", lambda row: tokens(row.cache_read_tokens), 3),
            _Column("OUTPUT", lambda row: tokens(row.output_tokens), 2),
            _Column("TOKENS", lambda row: tokens(row.tokens), 1),
            _Column("COST", _cost),
        ]
        if by is Grouping.BLOCK:
            found.append(_Column("PER HOUR", _pace, 2))
        return found

    def _tail(self, by: Grouping) -> _Column | None:
        if by is Grouping.BLOCK:
            return _Column("", self._state)
        return (
            _Column("TITLE", lambda row: row.title) if by is Grouping.SESSION else None
        )

    def _key(self, by: Grouping, row: UsageRow) -> str:
        if row.block is not None:
            return self._clock(row.block.start)
        if not row.key:
            return _NOTHING.get(by, "(no time)")
        if row.key is _TOTAL:
            return row.key
        if by is Grouping.SESSION:
            return row.key[:_SHORT_ID] if self.room else row.key
        return shown_path(row.key) if by is Grouping.PROJECT else row.key

    def _clock(self, time: datetime | None) -> str:
        return clock(time, self.zone) if time else ""

    def _state(self, row: UsageRow) -> str:
        block = row.block
        if block is None or not block.is_active:
            return ""
        left = lasting(block.end - self.now)
        return f"{left} left, then about {money(block.projected_cost or 0)}"

    def _set(
        self,
        columns: Sequence[_Column],
        rows: Sequence[object],
        weights: Sequence[int],
        tail: _Column | None = None,
    ) -> Iterator[str]:
        """Yield lines; rows beyond the weights are sums and have no bar.

        The tail stands behind the bar and has what room there is left.
        """
        chosen = [self._cells(column, rows) for column in columns]
        ends = self._cells(tail, rows).texts if tail else []
        ends = ends if any(ends[1:]) else []
        least = _SHORTEST_TAIL + _SHORTEST_BAR + 2 if ends else 0
        while len(chosen) > _KEPT and self._left(chosen) < least:
            chosen.remove(max(chosen, key=lambda cells: cells.column.rank))
        left = self._left(chosen)
        longest = min(left - _SHORTEST_TAIL - 2, _BAR // 2) if ends else min(left, _BAR)
        is_drawn = self.room is not None and longest >= _SHORTEST_BAR
        bars = _bars(weights, longest) if is_drawn else []
        for number in range(len(rows) + 1):
            cells = [cells.padded(number) for cells in chosen]
            if is_drawn:
                bar = bars[number - 1] if 0 < number <= len(bars) else ""
                cells.append(self.paint.place(bar) + " " * (longest - len(bar)))
            if ends:
                over = left - (longest + 2 if is_drawn else 0)
                cells.append(
                    fit_right(ends[number], over) if self.room else ends[number]
                )
            line = "  ".join(cells).rstrip()
            if number == 0:
                line = self.paint.faint(line)
            yield self.paint.heading(line) if number > len(weights) else line

    def _cells(self, column: _Column, rows: Sequence[object]) -> _Cells:
        texts = [column.name, *(safe_line(column.text(row)) for row in rows)]
        if self.room is not None and column.is_left:
            cut = fit_left if column.name == "PROJECT" else fit_right
            texts = [cut(text, min(_KEY, self.room // 2)) for text in texts]
        return _Cells(column, texts, max(map(width, texts)))

    def _left(self, chosen: Sequence[_Cells]) -> int:
        """Return the room behind some columns; enough where nobody looks."""
        if self.room is None:
            return _KEY
        return self.room - sum(cells.width + 2 for cells in chosen)


class _Cells(NamedTuple):
    column: _Column
    texts: list[str]
    width: int

    def padded(self, number: int) -> str:
        """Return a cell as wide as all of them."""
        text = self.texts[number]
        blank = " " * (self.width - width(text))
        return text + blank if self.column.is_left else blank + text


_TOOLS: tuple[_Column, ...] = (
    _Column("TOOL", lambda row: row.key, is_left=True),
    _Column("RESULTS", lambda row: f"{row.calls:,}", 2),
    _Column("SIZE", lambda row: size(row.bytes)),
    _Column("~TOKENS", lambda row: tokens(row.tokens)),
    _Column("~EACH", lambda row: tokens(row.tokens // max(row.calls, 1)), 1),
)


_TIMES = frozenset({Grouping.DAY, Grouping.WEEK, Grouping.MONTH, Grouping.BLOCK})


def cut_rows(
    report: UsageReport | ContextReport, limit: int | None
) -> Sequence[UsageRow | ToolRow | ContextRow]:
    """Return the newest rows of a report, or the largest of what is no time."""
    if limit is None:
        return report.rows
    is_time = isinstance(report, ContextReport) or report.by in _TIMES
    return report.rows[-limit:] if is_time else report.rows[:limit]


def _writes(row: UsageRow) -> int:
    return row.cache_write_5m_tokens + row.cache_write_1h_tokens


def _cost(row: UsageRow) -> str:
    return price(Cost(nanos=row.cost, unpriced_tokens=row.unpriced_tokens))


def _pace(row: UsageRow) -> str:
    return money(row.block.cost_per_hour) if row.block else ""


def _happened(row: ContextRow) -> str:
    if row.trigger is None:
        return row.prompt
    before = f" from {tokens(row.compacted_from)}" if row.compacted_from else ""
    return f"— compacted ({row.trigger}){before} —"


def _bars(weights: Sequence[int], room: int) -> list[str]:
    """Return bars as long as the weights, the longest as long as there is room."""
    most = max(weights, default=0)
    found = []
    for weight in weights:
        eighths = weight * room * 8 // most if most else 0
        if weight and room:
            eighths = max(eighths, 1)
        found.append("█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip())
    return found


def _notes(report: UsageReport, shown: int) -> Iterator[str]:
    total = report.total
    if shown < len(report.rows):
        yield f"{shown:,} of {len(report.rows):,} rows; -n shows more"
    if report.by is Grouping.TOOL:
        yield "tokens by length, four bytes each; pictures take fewer than that"
        return
    if total.unpriced_tokens:
        names = safe_line(", ".join(report.unpriced))
        yield f"no price is known for {names}: {tokens(total.unpriced_tokens)} tokens"
    if total.estimated_output_tokens:
        yield (
            f"about {tokens(total.estimated_output_tokens)} tokens of output were never"
            f" counted by old versions; they would add {money(total.estimated_cost)}"
        )
    if report.claim is not None:
        yield from _claim(report.claim)
    if report.prices is not None:
        yield f"prices of {report.prices}; days in {safe_line(report.zone)}"


def _claim(claim: ClaimRow) -> Iterator[str]:
    reasons = (
        (claim.silent, f"calls without a record ({', '.join(claim.silent_models)})"),
        (claim.counts, "other counts"),
        (claim.prices, "other prices"),
        (claim.rest, "models that it does not name"),
    )
    told = [f"{money(nanos)} {why}" for nanos, why in reasons if nanos]
    why = f": {'; '.join(told)}" if told else ""
    sessions = several(claim.sessions, "session")
    yield safe_line(
        f"Claude Code says {money(claim.claimed)} for {sessions},"
        f" counted here {money(claim.counted)}{why}"
    )
