"""The usage page: figures, a chart over time, top sessions, hours and blocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import date, timedelta
from html import escape

from msgspec import Struct
from starlette.responses import Response

from bygones.archive import Archive
from bygones.errors import BadRequest
from bygones.model.query import TimeRange
from bygones.model.reports import (
    NANOS_PER_DOLLAR,
    Grouping,
    ToolRow,
    UsageReport,
    UsageRow,
    UsageSeries,
)
from bygones.render.html.markup import (
    EMPTY_HTML,
    Html,
    escape_line,
    format_inline,
    join_html,
    render_facts,
    tag,
)
from bygones.render.numbers import (
    format_tokens,
    pluralize,
    short_model_name,
    warm_up_note,
)
from bygones.web.charts import (
    StackColumn,
    StackPart,
    bar_chart,
    day_url,
    heat_map,
    hour_map,
    legend,
    stacked_chart,
)
from bygones.web.context import RequestContext
from bygones.web.icons import icon
from bygones.web.layout import (
    PageMeta,
    build_url,
    empty_message,
    format_dollars,
    link,
    render_page,
    render_table,
    short_path,
)
from bygones.web.pages.usage import (
    UsagePeriod,
    csv_response,
    load_usage,
    sorted_rows,
    usage_table,
)

_PERIODS = (
    ("7d", "7 days"),
    ("30d", "30 days"),
    ("90d", "90 days"),
    ("1y", "1 year"),
    ("all", "All time"),
)
_DEFAULT_PERIOD = "30d"
_SPLITS = (
    (Grouping.MODEL, "Model"),
    (Grouping.PROJECT, "Project"),
    (Grouping.TOOL, "Tool"),
    (Grouping.AGENT, "Agent"),
)
_MEASURES = (("cost", "Cost"), ("tokens", "Tokens"))
_GROUP_COUNT = 6
"""Groups with a color of their own; the others share one."""
_MAX_DAYS, _MAX_WEEK_DAYS = 92, 730
_TOP_SESSIONS = 10
_MAX_SHARE = 9.0
"""A larger change is said as a factor."""
_TOP_BARS = 6
_LAST_BLOCKS = 8
_CALENDAR_DAYS = 60
"""If all activity is longer ago, the calendar ends that long after it."""


class _Dashboard(Struct, frozen=True):
    """What the page is about."""

    period: UsagePeriod
    by: Grouping
    """The rows of the table."""
    split: Grouping
    measure: str
    times: TimeRange | None

    @property
    def params(self) -> dict[str, str]:
        return {
            **self.period.params,
            "by": "" if self.by is Grouping.DAY else self.by,
            "split": "" if self.split is Grouping.MODEL else self.split,
            "measure": "" if self.measure == "cost" else self.measure,
        }


def _requested_dashboard(context: RequestContext) -> _Dashboard:
    by, split = (
        _grouping(context.query_param(name) or default, name)
        for name, default in (("by", "day"), ("split", "model"))
    )
    if split not in dict(_SPLITS):
        raise BadRequest("split must be model, project, tool or agent")
    measure = context.query_param("measure", 10) or "cost"
    if measure not in dict(_MEASURES):
        raise BadRequest("measure must be cost or tokens")
    period = UsagePeriod.from_request(context)
    if not context.query_param("since") and not period.until:
        # The last days, unless all activity is long ago.
        recent = UsagePeriod(_DEFAULT_PERIOD, None, period.query_text)
        if load_usage(context, Grouping.MODEL, recent).total.replies:
            period = recent
    if split is Grouping.TOOL:
        measure = "tokens"
    return _Dashboard(period, by, split, measure, period.times(context))


def _grouping(text: str, name: str) -> Grouping:
    try:
        return Grouping(text)
    except ValueError:
        known = ", ".join(sorted(map(str, Grouping)))
        raise BadRequest(f"{name} must be one of {known}") from None


def usage_page(context: RequestContext) -> Response:
    board = _requested_dashboard(context)
    report = load_usage(context, board.by, board.period)
    parts = [_head(board)]
    if not report.total.replies:
        parts.append(_no_usage(board))
    else:
        parts += _sections(context, board, report)
    page = PageMeta(
        title="Usage",
        nav="/usage",
        css_class="dashboard",
        scripts=("usage.js",),
        styles=("usage.css",),
    )
    return render_page(page, parts)


def _sections(
    context: RequestContext, board: _Dashboard, report: UsageReport
) -> Iterator[Html]:
    series = _load_series(context, board)
    first, last = _days(context, board, series)
    yield _tiles(context, board, report.total, (first, last))
    yield _chart_section(board, series, (first, last))
    sessions = load_usage(context, Grouping.SESSION, board.period)
    yield tag(
        "div",
        join_html(
            (
                _top_sessions(sessions),
                _bars_section(context, board, Grouping.MODEL, "Models"),
                _bars_section(context, board, Grouping.PROJECT, "Projects"),
            )
        ),
        kind="columns-3",
    )
    yield tag(
        "div",
        join_html((_hours_section(series), _blocks_section(context, board))),
        kind="columns-2",
    )
    yield _calendar_section(context)
    yield _table_section(board, report)


def _load_series(context: RequestContext, board: _Dashboard) -> UsageSeries:
    query = board.period.query(context, board.times)

    def load(archive: Archive) -> UsageSeries:
        return archive.usage_series(
            board.split,
            query=query,
            timezone=context.zone,
            now=context.now,
            prices=context.app_state.prices,
        )

    return context.pool.cached(f"usage series {board.split} {board.period}", load)


def _days(
    context: RequestContext, board: _Dashboard, series: UsageSeries
) -> tuple[date, date]:
    """Return the first and the last day of the time axis."""
    used = [date.fromisoformat(cell.day) for cell in series.cells if cell.day]
    today = context.now.astimezone(context.zone).date()
    start = board.times.start if board.times else None
    first = start.astimezone(context.zone).date() if start else min(used, default=today)
    last = board.period.until or (today if start else max(used, default=today))
    return min(first, last), last


def _head(board: _Dashboard) -> Html:
    since = board.period.params["since"]
    tabs = _tabs(board, "since", _PERIODS, "" if board.period.until else since)
    hidden = "".join(
        f'<input type="hidden" name="{name}" value="{escape(value)}">'
        for name, value in board.params.items()
        if value and name in {"by", "split", "measure"}
    )
    day = since if len(since) == len("2026-01-31") else ""
    until = board.period.params["until"]
    form = Html(
        '<form class="range" action="/usage"><input type="search" name="q" '
        f'value="{escape(board.period.query_text)}" placeholder="project:shop" '
        'aria-label="Filter by a query"><label>From '
        f'<input type="date" name="since" value="{escape(day)}"></label><label>to '
        f'<input type="date" name="until" value="{until}"></label>{hidden}'
        '<button type="submit">Show</button></form>'
    )
    title = tag("h1", escape_line("Usage"))
    return tag("div", join_html((title, tabs, form)), kind="board-head")


def _no_usage(board: _Dashboard) -> Html:
    if board.period.query_text:
        return empty_message(
            f"No usage matches {board.period.query_text} in this period.",
            tag("p", link(build_url("usage"), escape_line("Clear filters"))),
        )
    return empty_message("No usage in this period.")


def _tabs(
    board: _Dashboard, name: str, choices: Sequence[tuple[str, str]], selected: str
) -> Html:
    changes = {"until": ""} if name == "since" else {}
    items = join_html(
        tag(
            "li",
            tag(
                "a",
                escape_line(label),
                href=build_url("usage", **{**board.params, **changes, name: value}),
                aria_current="true" if value == selected else "",
            ),
        )
        for value, label in choices
    )
    return tag("ul", items, kind="tabs")


def _tiles(
    context: RequestContext, board: _Dashboard, total: UsageRow, days: tuple[date, date]
) -> Html:
    first, last = days
    count = (last - first).days + 1
    url = day_url(first, last, q=board.period.query_text)
    previous = _previous_total(context, board)
    cost = (total.cost or 0) // count
    unpriced = ""
    if total.unpriced_tokens:
        unpriced = f"{format_tokens(total.unpriced_tokens)} tokens without a price"
    tiles = (
        ("Cost", format_dollars(total.cost), _change(total.cost, previous, "cost")),
        ("Per day", format_dollars(cost), f"over {pluralize(count, 'day')}"),
        (
            "Tokens",
            format_tokens(total.tokens),
            _change(total.tokens, previous, "tokens")
            or f"{format_tokens(total.output_tokens)} output",
        ),
        (
            "Cache hit rate",
            f"{total.cache_hit_rate:.0%}",
            f"{previous.cache_hit_rate:.0%} before"
            if previous and previous.tokens
            else "of input read from the cache",
        ),
        ("Replies", f"{total.replies:,}", unpriced),
    )
    items = (
        tag(
            "li",
            tag(
                "a",
                join_html(
                    (
                        tag("span", escape_line(label), kind="label"),
                        tag("b", escape_line(value)),
                        tag("span", escape_line(detail), kind="detail"),
                    )
                ),
                href=url,
            ),
        )
        for label, value, detail in tiles
    )
    return tag("ul", join_html(items), kind="tiles")


def _previous_total(context: RequestContext, board: _Dashboard) -> UsageRow | None:
    """Return the usage in the time of the same length before; `None` for all time."""
    if board.times is None or board.times.start is None:
        return None
    start = board.times.start
    length = (board.times.end or context.now) - start
    before = TimeRange(start=start - length, end=start)
    return load_usage(context, Grouping.MODEL, board.period, before).total


def _change(amount: int | None, previous: UsageRow | None, name: str) -> str:
    """Return by how much an amount differs from that of the previous period."""
    if previous is None:
        return ""
    before = getattr(previous, name) or 0
    if not before:
        return "none in the previous period"
    share = ((amount or 0) - before) / before
    if share > _MAX_SHARE:
        return f"{share + 1:,.0f} times the previous period"
    sign = "+" if share >= 0 else "\N{MINUS SIGN}"
    return f"{sign}{abs(share):.0%} from the previous period"


class _Groups(Struct, frozen=True):
    """The groups of a chart: those with a color, and what becomes of the others."""

    names: tuple[str, ...]
    has_others: bool

    def index(self, name: str) -> int:
        return self.names.index(name) if name in self.names else _GROUP_COUNT


def _chart_section(
    board: _Dashboard, series: UsageSeries, days: tuple[date, date]
) -> Html:
    groups = _find_groups(board, series)
    columns = _columns(board, series, groups, days)
    measure = "Tokens" if board.measure == "tokens" else "Cost"
    label = f"{measure} by {board.split} over time"
    chart = stacked_chart(columns, label=label, format_amount=_formatter(board.measure))
    first, last = days
    names = [_group_label(board.split, name) for name in groups.names]
    urls = [
        day_url(first, last, **_group_filter(board.split, name))
        for name in groups.names
    ]
    key = legend(names, urls)
    if groups.has_others:
        key = Html(key.replace("</ul>", f"{_OTHER_ITEM}</ul>"))
    measures = (
        EMPTY_HTML
        if board.split is Grouping.TOOL
        else _tabs(board, "measure", _MEASURES, board.measure)
    )
    params = board.params
    downloads = join_html(
        (
            link(build_url("usage.svg", **params), escape_line("SVG")),
            Html(
                '<button type="button" data-act="png" class="only-scripted">PNG</button>'
            ),
            link(build_url("usage-chart.csv", **params), escape_line("CSV")),
        ),
        " ",
    )
    bar = join_html(
        (
            measures,
            _tabs(board, "split", [(str(s), name) for s, name in _SPLITS], board.split),
            tag("span", downloads, kind="downloads"),
        )
    )
    return tag(
        "section",
        join_html(
            (
                tag("h2", escape_line(label), kind="visually-hidden"),
                tag("div", bar, kind="chart-bar"),
                tag("div", chart, kind="chart-scroll", tabindex="0"),
                key,
            )
        ),
        kind="chart-section",
    )


_OTHER_ITEM = (
    '<li><svg viewBox="0 0 10 10" aria-hidden="true"><rect class="s6" width="10" '
    'height="10" rx="2"/></svg>others</li>'
)


def usage_svg(context: RequestContext) -> Response:
    """Return the chart as a file."""
    board = _requested_dashboard(context)
    series = _load_series(context, board)
    groups = _find_groups(board, series)
    columns = _columns(board, series, groups, _days(context, board, series))
    names = [_group_label(board.split, name) for name in groups.names]
    names += [""] * (_GROUP_COUNT - len(names)) + ["others"] * groups.has_others
    chart = stacked_chart(
        columns,
        label=f"Usage by {board.split}",
        format_amount=_formatter(board.measure),
        legend_names=names,
    )
    headers = {"Content-Disposition": 'attachment; filename="usage.svg"'}
    return Response(chart.encode(), media_type="image/svg+xml", headers=headers)


def chart_csv(context: RequestContext) -> Response:
    """Return the numbers of the chart: each day, week or month, divided into groups.

    Groups that share a color in the chart have rows of their own.
    """
    board = _requested_dashboard(context)
    series = _load_series(context, board)
    days = _days(context, board, series)
    rows: list[tuple[object, ...]] = [("from", "to", board.split, "tokens", "cost")]
    for start, end, _ in _split_days(*days):
        first, last = max(start, days[0]).isoformat(), end.isoformat()
        tokens: Counter[str] = Counter()
        costs: dict[str, int | None] = {}
        for cell in series.cells:
            if first <= cell.day <= last:
                tokens[cell.group] += cell.tokens
                if cell.cost is not None:
                    costs[cell.group] = (costs.get(cell.group) or 0) + cell.cost
        rows += (
            (first, last, name, count, costs.get(name))
            for name, count in sorted(tokens.items())
        )
    return csv_response(rows, f"usage-by-{board.split}-over-time.csv")


def _formatter(measure: str) -> Callable[[float], str]:
    """Return how the numbers of the axis are written."""
    if measure == "tokens":
        return lambda amount: format_tokens(round(amount))
    return _format_axis_dollars


def _format_axis_dollars(amount: float) -> str:
    """Return a round amount with the decimals that it needs, at least two below a dollar.

    >>> [_format_axis_dollars(amount) for amount in (0.0, 40.0, 0.5, 0.0025)]
    ['$0', '$40', '$0.50', '$0.0025']
    """
    if amount.is_integer():
        return f"${amount:,.0f}"
    decimals = f"{amount:.6f}".rstrip("0").partition(".")[2]
    return f"${amount:,.{max(len(decimals), 2)}f}"


def _amount(measure: str, tokens: int, cost: int | None) -> float:
    return float(tokens) if measure == "tokens" else (cost or 0) / NANOS_PER_DOLLAR


def _find_groups(board: _Dashboard, series: UsageSeries) -> _Groups:
    """Return the largest groups, in order."""
    amounts: Counter[str] = Counter()
    for cell in series.cells:
        amounts[cell.group] += round(
            _amount(board.measure, cell.tokens, cell.cost) * 1e6
        )
    names = [name for name, amount in amounts.most_common() if amount]
    return _Groups(tuple(names[:_GROUP_COUNT]), len(names) > _GROUP_COUNT)


def _columns(
    board: _Dashboard, series: UsageSeries, groups: _Groups, days: tuple[date, date]
) -> list[StackColumn]:
    """Return a column for each day, week or month, also for those without usage."""
    periods = list(_split_days(*days))
    amounts: dict[tuple[date, int], float] = {}
    starts = {
        day: start
        for start, end, _ in periods
        for day in _iter_days(max(start, days[0]), end)
    }
    for cell in series.cells:
        start = starts.get(date.fromisoformat(cell.day)) if cell.day else None
        if start is not None:
            key = start, groups.index(cell.group)
            amount = _amount(board.measure, cell.tokens, cell.cost)
            amounts[key] = amounts.get(key, 0.0) + amount
    columns = []
    for start, end, label in periods:
        parts = []
        for group in range(_GROUP_COUNT + 1):
            amount = amounts.get((start, group), 0.0)
            if amount:
                name = groups.names[group] if group < len(groups.names) else ""
                parts.append(_part(board, (start, end), (group, name), amount))
        columns.append(StackColumn(label, tuple(parts)))
    return columns


def _part(
    board: _Dashboard,
    days: tuple[date, date],
    group: tuple[int, str],
    amount: float,
) -> StackPart:
    (start, end), (number, name) = days, group
    when = f"{start:%b} {start.day}, {start.year}"
    if start != end:
        when += f" to {end:%b} {end.day}, {end.year}"
    label = _group_label(board.split, name) if name else "others"
    value = (
        f"{format_tokens(round(amount))} tokens"
        if board.measure == "tokens"
        else format_dollars(round(amount * NANOS_PER_DOLLAR))
    )
    url = day_url(start, end, **(_group_filter(board.split, name) if name else {}))
    return StackPart(number, amount, f"{when} · {label}: {value}", url)


def _split_days(first: date, last: date) -> Iterator[tuple[date, date, str]]:
    """Yield days, weeks or months, whichever is readable, with a short label."""
    count = (last - first).days + 1
    start = first
    if count > _MAX_WEEK_DAYS:
        start = first.replace(day=1)
    elif count > _MAX_DAYS:
        start = first - timedelta(days=first.weekday())
    while start <= last:
        if count > _MAX_WEEK_DAYS:
            following = (start + timedelta(days=32)).replace(day=1)
            label = f"{start:%b %Y}"
        else:
            following = start + timedelta(days=7 if count > _MAX_DAYS else 1)
            label = f"{start:%b} {start.day}"
            if count > _MAX_DAYS and first.year != last.year:
                label += f", {start.year}"
        yield start, min(following - timedelta(days=1), last), label
        start = following


def _iter_days(first: date, last: date) -> Iterator[date]:
    for at in range((last - first).days + 1):
        yield first + timedelta(days=at)


def _group_label(split: Grouping, name: str) -> str:
    if split is Grouping.MODEL:
        return short_model_name(name) or "unknown"
    return (short_path(name) if split is Grouping.PROJECT else name) or "none"


def _group_filter(split: Grouping, name: str) -> dict[str, str]:
    """Return the filter of the session list for a group."""
    if split in {Grouping.MODEL, Grouping.PROJECT, Grouping.TOOL}:
        return {str(split): name}
    return {}


def _section(title: str, *content: Html, css_class: str = "") -> Html:
    heading = tag("h2", escape_line(title))
    return tag("section", join_html((heading, *content)), kind=css_class)


def _top_sessions(report: UsageReport) -> Html:
    rows = [row for row in report.rows if isinstance(row, UsageRow)][:_TOP_SESSIONS]
    items = (
        tag(
            "li",
            join_html(
                (
                    link(
                        build_url("session", row.key),
                        format_inline(escape_line(row.title or row.key)),
                    ),
                    tag(
                        "span",
                        render_facts((f"{format_tokens(row.tokens)} tokens",)),
                        kind="note",
                    ),
                    tag("b", escape_line(format_dollars(row.cost))),
                )
            ),
        )
        for row in rows
    )
    return _section("Top sessions", tag("ol", join_html(items), kind="top-sessions"))


def _bars_section(
    context: RequestContext, board: _Dashboard, by: Grouping, title: str
) -> Html:
    report = load_usage(context, by, board.period)
    rows = [row for row in report.rows if isinstance(row, UsageRow)][:_TOP_BARS]
    values = [
        (
            _group_label(by, row.key),
            (row.cost or 0) / NANOS_PER_DOLLAR,
            format_dollars(row.cost),
        )
        for row in rows
    ]
    urls = [build_url(**_group_filter(by, row.key)) if row.key else "" for row in rows]
    return _section(title, bar_chart(values, label=f"Cost by {by}", urls=urls))


def _hours_section(series: UsageSeries) -> Html:
    hours = _scrollable(hour_map(series.hours), "Hours of the week", kind="hours")
    return _section("Hour of the day", hours)


def _blocks_section(context: RequestContext, board: _Dashboard) -> Html:
    report = load_usage(context, Grouping.BLOCK, board.period)
    rows = [
        row
        for row in report.rows
        if isinstance(row, UsageRow) and row.block is not None
    ]
    shown = rows[-_LAST_BLOCKS:]
    headers = ["Block", "Cost", "Tokens", "Per hour"]
    if any(row.block.is_active for row in shown if row.block):
        headers.append("Projected")
    cells = [_block_cells(context, row)[: len(headers)] for row in reversed(shown)]
    return _section("Five-hour blocks", render_table(headers, cells))


def _block_cells(context: RequestContext, row: UsageRow) -> tuple[Html, ...]:
    block = row.block
    if block is None:
        return ()
    start, end = (
        time.astimezone(context.zone) for time in (block.started_at, block.ends_at)
    )
    active = " (active)" if block.is_active else ""
    name = f"{start:%Y-%m-%d %H:%M} to {end:%H:%M}{active}"
    projected = format_dollars(block.projected_cost) if block.is_active else ""
    return (
        link(build_url(on=start.date().isoformat()), escape_line(name)),
        escape_line(format_dollars(row.cost)),
        escape_line(format_tokens(row.tokens)),
        escape_line(format_dollars(block.cost_per_hour)),
        escape_line(projected),
    )


def _calendar_section(context: RequestContext) -> Html:
    report = load_usage(context, Grouping.DAY, UsagePeriod())
    counts = {
        date.fromisoformat(row.key): row.replies
        for row in report.rows
        if isinstance(row, UsageRow) and row.key
    }
    if not counts:
        return EMPTY_HTML
    today = context.now.astimezone(context.zone).date()
    last = min(today, max(counts) + timedelta(days=_CALENDAR_DAYS))
    return _section("Activity", _scrollable(heat_map(counts, last), "Calendar"))


def _scrollable(chart: Html, label: str, *, kind: str = "heat-map-scroll") -> Html:
    """Return a chart that is scrolled where there is no room, also with keys."""
    return tag(
        "div",
        chart,
        kind=kind,
        tabindex="0",
        role="region",
        aria_label=label,
    )


def _table_section(board: _Dashboard, report: UsageReport) -> Html:
    rows: list[UsageRow | ToolRow] = sorted_rows(report)
    choices = [(str(g), str(g).capitalize()) for g in Grouping]
    tabs = _tabs(board, "by", choices, board.by)
    csv_link = link(
        build_url("usage.csv", **board.params),
        join_html((icon("download"), escape_line("Download as CSV"))),
        "button",
    )
    prices = f"Prices as of {report.prices_date}." if report.prices_date else ""
    if report.warm_ups is not None:
        warm_ups = report.warm_ups
        note = warm_up_note(warm_ups.replies, warm_ups.tokens, warm_ups.cost)
        prices = f"{prices} {note[0].upper()}{note[1:]}."
    return _section(
        "Details",
        tabs,
        usage_table(board.by, rows),
        tag("p", join_html((csv_link, escape_line(prices)), " "), kind="note"),
    )
