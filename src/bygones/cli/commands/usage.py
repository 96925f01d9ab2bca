"""`bygones usage`: tokens and costs."""

from __future__ import annotations

import csv
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING, NamedTuple

import click
from msgspec import structs

from bygones.cli.context import (
    CommonOptions,
    QueryCommand,
    archive_options,
    color_option,
    complete_sessions,
    join_query_words,
    json_option,
    limit_option,
    parse_time_option,
    query_argument,
    unescape_words,
)
from bygones.cli.open_archive import open_current
from bygones.cli.output import (
    Console,
    TextColumn,
    TextTable,
    display_path,
    print_objects,
    short_session_id,
)
from bygones.cli.resolve import resolve_session_id
from bygones.config import LocalTimezone
from bygones.model.query import Query, TimeRange
from bygones.model.reports import (
    NANOS_PER_DOLLAR,
    ContextReport,
    ContextRow,
    Grouping,
    ReportedCostRow,
    ToolRow,
    UsageReport,
    UsageRow,
)
from bygones.model.usage import Cost
from bygones.query.parser import and_terms, parse_query
from bygones.render.numbers import (
    format_bytes,
    format_cost,
    format_duration,
    format_time,
    format_tokens,
    format_usd,
    pluralize,
    warm_up_note,
)
from bygones.render.text.primitives import (
    sanitize_line,
    sanitize_name,
    truncate_end,
    truncate_start,
)
from bygones.schema.commands import usage_objects

if TYPE_CHECKING:
    from bygones.archive import Archive


def build_query(
    words: Sequence[str],
    *,
    since: str | None,
    until: str | None,
    now: datetime,
    zone: tzinfo,
) -> Query | None:
    """Return the query that limits the report; none for everything."""
    if not words and since is None and until is None:
        return None
    query = parse_query(join_query_words(words), now=now, zone=zone)
    for note in query.notes:
        sys.stderr.write(sanitize_name(f"note: {note.message}") + "\n")
    terms = [query.root] if query.root is not None else []
    if since is not None:
        terms.append(parse_time_option("--since", since, now=now, zone=zone))
    if until is not None:
        terms.append(parse_time_option("--until", until, now=now, zone=zone))
    return Query(and_terms(terms), query.notes)


_MONEY_FIELDS = frozenset({"cost", "estimated_cost", "cost_per_hour", "projected_cost"})


ReportRows = Sequence[UsageRow | ToolRow | ContextRow]


def print_csv(rows: ReportRows) -> None:
    """Print a header and the rows; costs are exact, in dollars."""
    if not rows:
        return
    flat = [_flatten(row) for row in rows]
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(flat[0])
    for cells in flat:
        writer.writerow([_csv_cell(name, value) for name, value in cells.items()])


def _flatten(row: UsageRow | ToolRow | ContextRow) -> dict[str, object]:
    """Return the columns of a row; those of its block come last."""
    cells = structs.asdict(row)
    block = cells.pop("block", None)
    return cells | (structs.asdict(block) if block is not None else {})


def _csv_cell(name: str, value: object) -> str:
    if value is None:
        return ""
    if name in _MONEY_FIELDS and isinstance(value, int):
        return f"{value // NANOS_PER_DOLLAR}.{value % NANOS_PER_DOLLAR:09}"
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    text = " ".join(value) if isinstance(value, tuple) else str(value)
    # A spreadsheet must not interpret text from a transcript as a formula.
    return f"'{text}" if text[:1] in {"=", "+", "-", "@"} else sanitize_line(text)


_MAX_BAR_WIDTH = 24
_MIN_BAR_WIDTH = 6
_MAX_KEY_WIDTH = 44
_EIGHTHS = " ▏▎▍▌▋▊▉"
_TOTAL_LABEL = "total"
_MIN_TAIL_WIDTH = 24
_MISSING_KEY_LABELS = {
    Grouping.PROJECT: "(no directory)",
    Grouping.MODEL: "(no name)",
    Grouping.ENTRYPOINT: "(unknown)",
    Grouping.GIT: "(no git branch)",
    Grouping.PERSON: "(you)",
}


_Row = UsageRow | ToolRow | ContextRow


class _UsageColumn(NamedTuple):
    column: TextColumn
    format: Callable[..., str]


def _number_column(
    name: str, format_cell: Callable[..., str], drop_order: int = 0
) -> _UsageColumn:
    return _UsageColumn(
        TextColumn(name, is_right_aligned=True, drop_order=drop_order), format_cell
    )


class UsagePage(NamedTuple):
    """A usage report as a table with bars; in a pipe without them."""

    console: Console

    def lines(
        self, report: UsageReport | ContextReport, limit: int | None
    ) -> Iterator[str]:
        """Yield the header, the rows, the total and notes."""
        if isinstance(report, ContextReport):
            yield from self._context_lines(report, limit)
            return
        rows = limit_rows(report, limit)
        tools = [row for row in rows if isinstance(row, ToolRow)]
        usages = [row for row in rows if isinstance(row, UsageRow)]
        if tools:
            yield from self._format_rows(
                _TOOL_COLUMNS, tools, [row.bytes for row in tools]
            )
        elif usages:
            weights = [row.cost or 0 for row in usages]
            if not any(weights):
                weights = [row.tokens for row in usages]
            total = structs.replace(report.total, key=_TOTAL_LABEL)
            yield from self._format_rows(
                self._columns(report.by),
                [*usages, total],
                weights,
                self._tail(report.by),
            )
        for note in _report_notes(report, len(rows)):
            yield from self._note_lines(note)

    def _context_lines(self, report: ContextReport, limit: int | None) -> Iterator[str]:
        """Yield the context of each turn."""
        columns = (
            _number_column("TURN", lambda row: f"{row.turn_number + 1}"),
            _UsageColumn(
                TextColumn("TIME", drop_order=3),
                lambda row: self._clock(row.measured_at),
            ),
            _number_column("CONTEXT", lambda row: format_tokens(row.tokens)),
            _number_column(
                "CACHE READ", lambda row: format_tokens(row.cache_read_tokens), 2
            ),
            _number_column(
                "CACHE WRITE", lambda row: format_tokens(row.cache_write_tokens), 4
            ),
            _number_column("OUTPUT", lambda row: format_tokens(row.output_tokens), 5),
            _number_column("REPLIES", lambda row: f"{row.replies or ''}", 6),
        )
        tail = _UsageColumn(TextColumn(), _event_cell)
        rows = [r for r in limit_rows(report, limit) if isinstance(r, ContextRow)]
        title = self.console.truncate(sanitize_line(report.title))
        yield self.console.style.heading(title)
        weights = [row.tokens or row.compacted_from or 0 for row in rows]
        yield from self._format_rows(columns, rows, weights, tail) if rows else ()
        yield from self._note_lines(
            f"largest context: {format_tokens(report.peak_tokens)} tokens; "
            f"{report.cache_hit_rate:.0%} of all input came from the cache; "
            f"{pluralize(report.compaction_count, 'compaction')}"
        )

    def _note_lines(self, note: str) -> Iterator[str]:
        yield from map(self.console.style.dim, self.console.wrap(note))

    def _columns(self, by: Grouping) -> Sequence[_UsageColumn]:
        width = self.console.width
        key = TextColumn(
            "START" if by is Grouping.BLOCK else by.value.upper(),
            max_width=min(_MAX_KEY_WIDTH, width // 2) if width else None,
            truncate=truncate_start if by is Grouping.PROJECT else truncate_end,
        )
        columns = [
            _UsageColumn(key, lambda row: self._key(by, row)),
            _number_column("REPLIES", lambda row: f"{row.replies:,}", 5),
            _number_column("INPUT", lambda row: format_tokens(row.input_tokens), 4),
            _number_column(
                "CACHE WRITE", lambda row: format_tokens(_cache_writes(row)), 3
            ),
            _number_column(
                "CACHE READ", lambda row: format_tokens(row.cache_read_tokens), 3
            ),
            _number_column("OUTPUT", lambda row: format_tokens(row.output_tokens), 2),
            _number_column("TOKENS", lambda row: format_tokens(row.tokens), 1),
            _number_column("COST", _cost_cell),
        ]
        if by is Grouping.BLOCK:
            columns.append(_number_column("PER HOUR", _hourly_cost_cell, 2))
        return columns

    def _tail(self, by: Grouping) -> _UsageColumn | None:
        """Return the column after the bars."""
        if by is Grouping.BLOCK:
            return _UsageColumn(TextColumn(), self._block_state)
        if by is Grouping.SESSION:
            return _UsageColumn(TextColumn("TITLE"), lambda row: row.title)
        return None

    def _key(self, by: Grouping, row: UsageRow) -> str:
        if row.block is not None:
            return self._clock(row.block.started_at)
        if not row.key:
            return _MISSING_KEY_LABELS.get(by, "(no time)")
        if row.key is _TOTAL_LABEL:
            return row.key
        if by is Grouping.SESSION:
            return short_session_id(row.key) if self.console.width else row.key
        return display_path(row.key) if by is Grouping.PROJECT else row.key

    def _clock(self, time: datetime | None) -> str:
        return format_time(time, self.console.zone) if time else ""

    def _block_state(self, row: UsageRow) -> str:
        block = row.block
        if block is None or not block.is_active:
            return ""
        left = format_duration(block.ends_at - self.console.now)
        return f"{left} left, then about {format_usd(block.projected_cost or 0)}"

    def _format_rows(
        self,
        columns: Sequence[_UsageColumn],
        rows: Sequence[_Row],
        weights: Sequence[int],
        tail: _UsageColumn | None = None,
    ) -> Iterator[str]:
        """Yield the lines of a table; rows beyond the weights are totals without bars.

        The tail comes after the bar and gets the remaining width.
        """
        tails = _cells(tail, rows) if tail else []
        if not any(tails[1:]):
            tails = []
        table = TextTable(
            [column.column for column in columns],
            [[sanitize_line(column.format(row)) for column in columns] for row in rows],
            width=self.console.width,
            min_rest_width=_MIN_TAIL_WIDTH + _MIN_BAR_WIDTH + 2 if tails else 0,
        )
        bar_width = (
            min(table.rest_width - _MIN_TAIL_WIDTH - 2, _MAX_BAR_WIDTH // 2)
            if tails
            else min(table.rest_width, _MAX_BAR_WIDTH)
        )
        has_bars = self.console.width is not None and bar_width >= _MIN_BAR_WIDTH
        bars = ["", *_draw_bars(weights, bar_width)] if has_bars else []
        style = self.console.style
        for number in range(len(rows) + 1):
            cells = table.padded_cells(number)
            if has_bars:
                bar = bars[number] if number < len(bars) else ""
                cells.append(style.location(bar) + " " * (bar_width - len(bar)))
            if tails:
                room = table.rest_width - (bar_width + 2 if has_bars else 0)
                cells.append(truncate_end(tails[number], room))
            line = "  ".join(cells).rstrip()
            if number == 0:
                line = style.dim(line)
            yield style.heading(line) if number > len(weights) else line


def _cells(column: _UsageColumn, rows: Sequence[_Row]) -> list[str]:
    return [column.column.name, *(sanitize_line(column.format(row)) for row in rows)]


_TOOL_COLUMNS = (
    _UsageColumn(TextColumn("TOOL", max_width=_MAX_KEY_WIDTH), lambda row: row.key),
    _number_column("RESULTS", lambda row: f"{row.calls:,}", 2),
    _number_column("SIZE", lambda row: format_bytes(row.bytes)),
    _number_column("~TOKENS", lambda row: format_tokens(row.tokens)),
    _number_column(
        "~EACH", lambda row: format_tokens(row.tokens // max(row.calls, 1)), 1
    ),
)


_TIME_GROUPINGS = frozenset(
    {Grouping.DAY, Grouping.WEEK, Grouping.MONTH, Grouping.BLOCK}
)


def limit_rows(
    report: UsageReport | ContextReport, limit: int | None
) -> Sequence[UsageRow | ToolRow | ContextRow]:
    """Return the newest rows of a report by time, or the largest of another.

    Rows by time are newest first; the turns of a session are in their order.
    """
    if isinstance(report, ContextReport):
        return report.rows[-limit:] if limit is not None else report.rows
    rows = report.rows[::-1] if report.by in _TIME_GROUPINGS else report.rows
    return rows[:limit]


def _cache_writes(row: UsageRow) -> int:
    return row.cache_write_5m_tokens + row.cache_write_1h_tokens


def _cost_cell(row: UsageRow) -> str:
    return format_cost(Cost(nano_usd=row.cost, unpriced_tokens=row.unpriced_tokens))


def _hourly_cost_cell(row: UsageRow) -> str:
    return format_usd(row.block.cost_per_hour) if row.block else ""


def _event_cell(row: ContextRow) -> str:
    if row.trigger is None:
        return row.prompt
    before = f" from {format_tokens(row.compacted_from)}" if row.compacted_from else ""
    return f"— compacted ({row.trigger}){before} —"


def _draw_bars(weights: Sequence[int], width: int) -> list[str]:
    """Return bars with lengths in proportion to the weights."""
    largest = max(weights, default=0)
    bars = []
    for weight in weights:
        eighths = weight * width * 8 // largest if largest else 0
        if weight and width:
            eighths = max(eighths, 1)
        bars.append("█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip())
    return bars


def _report_notes(report: UsageReport, shown: int) -> Iterator[str]:
    total = report.total
    if shown < len(report.rows):
        rest = "" if report.by is Grouping.TOOL else "the total includes all of them; "
        yield f"{shown:,} of {len(report.rows):,} rows; {rest}-n shows more"
    if report.by is Grouping.TOOL:
        yield "tokens are estimated at four bytes each; images cost less"
        return
    if total.unpriced_tokens:
        names = sanitize_line(", ".join(report.unpriced_models))
        tokens = format_tokens(total.unpriced_tokens)
        yield f"no price known for {names}: {tokens} tokens"
    if total.estimated_output_tokens:
        tokens = format_tokens(total.estimated_output_tokens)
        yield (
            f"about {tokens} tokens of output were not recorded by old versions;"
            f" they would add {format_usd(total.estimated_cost)}"
        )
    if report.warm_ups is not None:
        warm_ups = report.warm_ups
        yield warm_up_note(warm_ups.replies, warm_ups.tokens, warm_ups.cost)
    if report.reported_cost is not None:
        yield from _claim_notes(report.reported_cost)
    if total.cache_read_tokens:
        yield (
            "INPUT was sent without the cache; CACHE WRITE was stored for later requests,"
            " CACHE READ was reused"
        )
    if report.prices_date is not None:
        zone = sanitize_line(report.timezone)
        yield f"prices as of {report.prices_date}; days in {zone}"


def _claim_notes(claim: ReportedCostRow) -> Iterator[str]:
    reasons = (
        (
            claim.unrecorded_cost,
            f"calls without a record ({', '.join(claim.unrecorded_models)})",
        ),
        (claim.token_difference, "different token counts"),
        (claim.price_difference, "different prices"),
        (claim.unexplained_difference, "models that it does not list"),
    )
    parts = [f"{format_usd(nanos)} {why}" for nanos, why in reasons if nanos]
    why = f"; difference: {', '.join(parts)}" if parts else ""
    sessions = pluralize(claim.session_count, "session")
    yield sanitize_line(
        f"Claude Code reports {format_usd(claim.reported_cost)} for {sessions},"
        f" Bygones {format_usd(claim.computed_cost)}{why}"
    )


def parse_zone(name: str | None) -> tzinfo:
    if name is None or name == "local":
        return LocalTimezone()
    if name.upper() in {"UTC", "Z"}:
        return UTC
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise click.BadParameter(
            f"{name!r} is not a known time zone; use a name such as Europe/Paris",
            param_hint="--zone",
        ) from error


_TERMINAL_LIMIT = 30
_WATCH_SECONDS = 5
_CLEAR_SCREEN = "\x1b[H\x1b[2J"


def watch_block(options: CommonOptions, color: str, zone: tzinfo) -> None:
    """Print the current block again and again on a terminal; once in a pipe."""
    while True:
        console = Console.for_stdout(color, zone=zone)
        lines = list(_block_lines(options, console, zone))
        if console.is_terminal:
            lines += ["", console.style.dim("press Ctrl-C to stop")]
            sys.stdout.write(_CLEAR_SCREEN)
        sys.stdout.writelines(f"{line}\n" for line in lines)
        sys.stdout.flush()
        if not console.is_terminal:
            return
        time.sleep(_WATCH_SECONDS)


def _load_report(
    archive: Archive, by: str, query: Query | None, console: Console
) -> UsageReport:
    from bygones.cli.open_archive import load_user_prices

    return archive.usage(
        by,
        query=query,
        timezone=console.zone,
        now=console.now,
        prices=load_user_prices(),
    )


def _check_options(
    outputs: tuple[bool, bool], context: str | None, *, is_filtered: bool, watch: bool
) -> None:
    if all(outputs):
        raise click.UsageError("--csv and --json cannot be combined")
    if context is not None and is_filtered:
        raise click.UsageError(
            "--context shows all of one session and takes no filters"
        )
    if watch and (is_filtered or context or any(outputs)):
        raise click.UsageError("--watch shows the current block and takes no filters")


def _block_lines(
    options: CommonOptions, console: Console, zone: tzinfo
) -> Iterator[str]:
    from bygones.cli.open_archive import load_user_prices

    with open_current(options) as archive:
        prices = load_user_prices()
        report = archive.usage(
            Grouping.BLOCK, timezone=zone, now=console.now, prices=prices
        )
        row = next((one for one in report.rows[-1:] if isinstance(one, UsageRow)), None)
        block = row.block if row is not None else None
        if row is None or block is None or not block.is_active:
            yield from console.wrap(
                "no active block: Claude has not replied in the last five hours"
            )
            return
        since = and_terms([TimeRange(start=block.started_at)])
        models = archive.usage(
            Grouping.MODEL, query=Query(since), now=console.now, prices=prices
        )
    style = console.style
    start, end = (format_time(one, zone) for one in (block.started_at, block.ends_at))
    yield style.heading(f"Block from {start} to {end[-5:]}")
    share = (console.now - block.started_at) / (block.ends_at - block.started_at)
    filled = round(min(max(share, 0), 1) * _MAX_BAR_WIDTH)
    bar = style.location("█" * filled) + "░" * (_MAX_BAR_WIDTH - filled)
    yield f"{bar}  {format_duration(block.ends_at - console.now)} left"
    yield ""
    facts = (
        ("replies", f"{row.replies:,}"),
        (
            "tokens",
            f"{format_tokens(row.tokens)}, {block.tokens_per_minute:,} a minute",
        ),
        ("cost", f"{_cost_cell(row)}, {format_usd(block.cost_per_hour)} an hour"),
        ("at the end", f"about {format_usd(block.projected_cost or 0)}"),
    )
    for name, value in facts:
        yield f"{name:>10}  {value}"
    yield ""
    for model in models.rows:
        if isinstance(model, UsageRow):
            key = sanitize_line(model.key) or "(no name)"
            yield f"{_cost_cell(model):>10}  {key}"


@click.command("usage", cls=QueryCommand)
@query_argument
@click.option(
    "--by",
    type=click.Choice([grouping.value for grouping in Grouping]),
    default=Grouping.DAY.value,
    metavar="WHAT",
    help=f"Group by {', '.join(Grouping)}; a block is five hours, and"
    " tool shows what filled the context.",
)
@click.option(
    "--since", metavar="TIME", help="Count from this time, such as 7d or 2026-01-31."
)
@click.option("--until", metavar="TIME", help="Count up to and including this day.")
@click.option(
    "--zone",
    metavar="NAME",
    show_default="local time",
    help="Time zone in which days start.",
)
@click.option(
    "--context", metavar="SESSION", shell_complete=complete_sessions,
    help="Show the context size of each turn of a session.",
)  # fmt: skip
@click.option(
    "--watch", is_flag=True, help="Show the current block of five hours, live."
)
@limit_option("rows", _TERMINAL_LIMIT)
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")
@json_option
@archive_options
@color_option
def usage(  # noqa: PLR0913 (one parameter per option)
    *,
    query: tuple[str, ...],
    by: str,
    since: str | None,
    until: str | None,
    zone: str | None,
    context: str | None,
    watch: bool,
    limit: int | None,
    as_csv: bool,
    as_json: bool,
    options: CommonOptions,
    color: str,
) -> None:
    r"""Show tokens and costs.

    \b
    bygones usage --since 7d
    bygones usage --by model project:bygones
    bygones usage --by branch branch:abandoned
    bygones usage --context last
    bygones usage --watch

    QUERY filters what is counted: project:, session:, title:, tag:, git:, model:,
    entrypoint:, agent:, branch:, is:agent, is:abandoned, before:, after:, on:.

    Each reply is counted once, even if several files contain it. Costs are computed from
    API prices.
    """
    is_filtered = bool(query or since or until or by != Grouping.DAY)
    _check_options((as_csv, as_json), context, is_filtered=is_filtered, watch=watch)
    place = parse_zone(zone)
    if watch:
        watch_block(options, color, place)
        return
    console = Console.for_stdout(color, zone=place)
    now = console.now
    wanted = build_query(
        unescape_words(query), since=since, until=until, now=now, zone=place
    )
    with open_current(options) as archive:
        report: UsageReport | ContextReport
        if context is not None:
            report = archive.context(resolve_session_id(archive, context))
        else:
            report = _load_report(archive, by, wanted, console)
    if as_json or as_csv:
        rows = limit_rows(report, limit)
        print_objects(usage_objects(report, rows)) if as_json else print_csv(rows)
        return
    if limit is None and console.is_terminal:
        limit = _TERMINAL_LIMIT
    console.print_lines(UsagePage(console).lines(report, limit))
    if not report.rows:
        sys.stderr.write("no usage\n")
