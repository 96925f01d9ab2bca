"""The usage page and its charts."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta

from starlette.responses import Response

from bygones.archive import Archive
from bygones.errors import BadRequest
from bygones.model.query import Query, TimeRange
from bygones.model.reports import (
    NANOS_PER_DOLLAR,
    Grouping,
    ToolRow,
    UsageReport,
    UsageRow,
)
from bygones.query.parser import and_terms
from bygones.query.times import ReferenceTime, parse_period
from bygones.render.html.markup import Html, escape_line, join_html, tag
from bygones.render.numbers import format_bytes, format_tokens, pluralize
from bygones.render.text.primitives import sanitize_line
from bygones.web.context import RequestContext
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

_CELL_SIZE = 13
_LEFT_MARGIN = 30
_TOP_MARGIN = 18
_LEVELS = 4
_DAYS_PER_WEEK = 7

ChartValue = tuple[str, float, str]
"""Name, amount and formatted amount."""


def heat_map(counts: Mapping[date, int], last_day: date, *, weeks: int = 53) -> Html:
    """Return a calendar with one square per day and one column per week."""
    first = last_day - timedelta(days=last_day.weekday() + _DAYS_PER_WEEK * (weeks - 1))
    shown = sorted(count for day, count in counts.items() if day >= first and count)
    parts = []
    month = 0
    for at in range((last_day - first).days + 1):
        day = first + timedelta(days=at)
        x, y = (
            _LEFT_MARGIN + at // _DAYS_PER_WEEK * _CELL_SIZE,
            _TOP_MARGIN + at % _DAYS_PER_WEEK * _CELL_SIZE,
        )
        if day.day <= _DAYS_PER_WEEK and day.weekday() == 0 and day.month != month:
            month = day.month
            parts.append(f'<text x="{x}" y="{_TOP_MARGIN - 6}">{day:%b}</text>')
        count = counts.get(day, 0)
        level = _level(count, shown)
        replies = pluralize(count, "reply", "replies")
        title = f"{replies} on {day:%A, %B} {day.day}, {day.year}"
        square = (
            f'<rect class="h{level}" x="{x}" y="{y}" width="{_CELL_SIZE - 2}" '
            f'height="{_CELL_SIZE - 2}" rx="2"><title>{title}</title></rect>'
        )
        if count:
            square = f'<a href="/?on={day.isoformat()}" tabindex="-1">{square}</a>'
        parts.append(square)
    for at, name in ((0, "Mon"), (2, "Wed"), (4, "Fri")):
        parts.append(
            f'<text x="0" y="{_TOP_MARGIN + at * _CELL_SIZE + 9}">{name}</text>'
        )
    width, height = (
        _LEFT_MARGIN + weeks * _CELL_SIZE,
        _TOP_MARGIN + _DAYS_PER_WEEK * _CELL_SIZE,
    )
    active = sum(1 for day in counts if day >= first and counts[day])
    replies = pluralize(sum(shown), "reply", "replies")
    label = f"{replies} on {pluralize(active, 'day')} in the last {weeks} weeks"
    return Html(
        f'<svg class="heat-map" viewBox="0 0 {width} {height}" role="group" '
        f'aria-label="{label}">{"".join(parts)}</svg>'
    )


def _level(count: int, counts: Sequence[int]) -> int:
    """Return the quarter of a count among all counts; 0 for no activity."""
    if not count:
        return 0
    below = sum(1 for other in counts if other < count)
    return 1 + below * _LEVELS // max(len(counts), 1)


def bar_chart(values: Sequence[ChartValue], *, label: str) -> Html:
    """Return amounts as horizontal bars with labels."""
    most = max((amount for _, amount, _ in values), default=0) or 1
    items = []
    for name, amount, label_text in values:
        width = max(round(amount / most * 100, 1), 0.5)
        bar = (
            '<svg class="share" viewBox="0 0 100 6" preserveAspectRatio="none" '
            f'aria-hidden="true"><rect width="{width}" height="6" rx="1"/></svg>'
        )
        items.append(
            tag(
                "li",
                join_html(
                    (
                        tag("span", escape_line(name), kind="name"),
                        Html(bar),
                        tag("span", escape_line(label_text), kind="amount"),
                    )
                ),
            )
        )
    return tag("ul", join_html(items), kind="bars", aria_label=label)


def column_chart(
    values: Sequence[ChartValue], *, label: str, height: int = 120
) -> Html:
    """Return amounts as columns, for example one per day."""
    most = max((amount for _, amount, _ in values), default=0) or 1
    width = max(len(values), 1)
    parts = []
    for at, (name, amount, label_text) in enumerate(values):
        column_height = round(amount / most * (height - 2), 1) if amount else 0
        parts.append(
            f'<rect x="{at + 0.1}" y="{round(height - column_height, 1)}" width="0.8" '
            f'height="{column_height}"><title>{escape_line(f"{name}: {label_text}")}</title></rect>'
        )
    return Html(
        f'<svg class="columns" viewBox="0 0 {width} {height}" role="img" '
        f'preserveAspectRatio="none" aria-label="{escape_line(label)}">{"".join(parts)}</svg>'
    )


_MAX_ROWS = 400
_MAX_BARS = 12
_PERIODS = (
    ("7d", "last 7 days"),
    ("30d", "last 30 days"),
    ("90d", "last 90 days"),
    ("", "all time"),
)
_TIME_GROUPINGS = {Grouping.DAY, Grouping.WEEK, Grouping.MONTH, Grouping.BLOCK}
_FORMULA_PREFIXES = ("=", "+", "-", "@", "\t", "\r")


def usage_report(context: RequestContext) -> UsageReport:
    """Return the usage report that a request asks for, from the cache if possible."""
    by, since, text = (
        context.query_param("by") or "day",
        context.query_param("since"),
        context.query_param("q"),
    )
    known = {str(grouping) for grouping in Grouping}
    if by not in known:
        raise BadRequest(f"by must be one of {', '.join(sorted(known))}")
    zone = context.zone
    query = context.parse_query(text)
    terms = [query.root] if query.root is not None else []
    if since:
        period = parse_period("after", since, ReferenceTime(context.now, zone))
        if not isinstance(period, TimeRange):
            raise BadRequest("since must be a time such as 7d or 2026-01-31")
        terms.append(period)
    limited = Query(and_terms(terms), query.notes) if terms else None

    def load(archive: Archive) -> UsageReport:
        return archive.usage(
            by,
            query=limited,
            timezone=zone,
            now=context.now,
            prices=context.app_state.prices,
        )

    return context.pool.cached(f"usage {by} {since} {text}", load)


def usage_page(context: RequestContext) -> Response:
    report = usage_report(context)
    rows = _sorted_rows(report)
    params = {name: context.query_param(name) for name in ("by", "since", "q")}
    by = report.by
    parts = [
        tag("h1", escape_line("Usage")),
        _tabs(params, "by", [(name, name) for name in Grouping], by),
        _tabs(params, "since", _PERIODS, params["since"]),
        _total_line(report),
    ]
    if not rows:
        parts.append(empty_message("No usage in this period."))
    else:
        parts += [_chart(by, rows), _usage_table(by, rows)]
        csv_link = link(
            build_url("usage.csv", **params), escape_line("Download as CSV")
        )
        parts.append(tag("p", csv_link, kind="note"))
    return render_page(PageMeta(title="Usage", nav="/usage", css_class="wide"), parts)


def _sorted_rows(report: UsageReport) -> list[UsageRow | ToolRow]:
    if report.by in _TIME_GROUPINGS:
        return list(reversed(report.rows))
    return sorted(report.rows, key=_cost_key, reverse=True)


def _cost_key(row: UsageRow | ToolRow) -> tuple[int, int]:
    return (row.cost or 0 if isinstance(row, UsageRow) else 0, row.tokens)


def _tabs(
    params: dict[str, str], name: str, choices: Sequence[tuple[str, str]], selected: str
) -> Html:
    items = join_html(
        tag(
            "li",
            tag(
                "a",
                escape_line(label),
                href=build_url("usage", **(params | {name: value})),
                aria_current="true" if value == selected else "",
            ),
        )
        for value, label in choices
    )
    return tag("ul", items, kind="tabs")


def _total_line(report: UsageReport) -> Html:
    total = report.total
    cached = f"{total.cache_hit_rate:.0%} of input read from the cache"
    unpriced = ""
    if total.unpriced_tokens:
        unpriced = f"{format_tokens(total.unpriced_tokens)} tokens have no known price"
    facts = [
        f"{format_tokens(total.tokens)} tokens",
        pluralize(total.replies, "reply", "replies"),
        cached,
        unpriced,
        f"prices as of {report.prices_date}" if report.prices_date else "",
    ]
    line = join_html(
        (
            tag("b", escape_line(format_dollars(total.cost))),
            escape_line(" · ".join(filter(None, facts))),
        ),
        " · ",
    )
    return tag("p", line, kind="total")


def _chart(by: Grouping, rows: Sequence[UsageRow | ToolRow]) -> Html:
    values = [_chart_value(row) for row in rows]
    if by in _TIME_GROUPINGS:
        shown = list(reversed(values[:120]))
        chart = column_chart(shown, label=f"Cost by {by}, oldest first")
        return join_html((chart, _chart_axis(shown)))
    measure = "Tokens" if by is Grouping.TOOL else "Cost"
    return bar_chart(values[:_MAX_BARS], label=f"{measure} by {by}")


def _chart_axis(values: Sequence[ChartValue]) -> Html:
    """Return the labels of the first, the highest and the last column."""
    first, last = values[0][0], values[-1][0]
    name, _, amount = max(values, key=lambda value: value[1])
    labels = (first, f"highest: {amount}, {name}", last if len(values) > 1 else "")
    return tag(
        "p",
        join_html(tag("span", escape_line(label)) for label in labels),
        kind="scale",
    )


def _chart_value(row: UsageRow | ToolRow) -> ChartValue:
    if isinstance(row, ToolRow):
        return row.key, float(row.tokens), f"{format_tokens(row.tokens)} tokens"
    name = row.title or short_path(row.key) or "none"
    return name, (row.cost or 0) / NANOS_PER_DOLLAR, format_dollars(row.cost)


def _usage_table(by: Grouping, rows: Sequence[UsageRow | ToolRow]) -> Html:
    if by is Grouping.TOOL:
        headers: tuple[str, ...] = ("Tool", "Calls", "Bytes", "Tokens (estimate)")
    else:
        headers = (str(by).capitalize(), "Cost", "Tokens", "Input", "Output")
        headers += ("Cache writes", "Cache reads", "Replies")
    return render_table(headers, [_row_cells(by, row) for row in rows[:_MAX_ROWS]])


def _row_cells(by: Grouping, row: UsageRow | ToolRow) -> tuple[Html, ...]:
    if isinstance(row, ToolRow):
        cells = (
            row.key,
            f"{row.calls:,}",
            format_bytes(row.bytes),
            format_tokens(row.tokens),
        )
        return tuple(map(escape_line, cells))
    writes = row.cache_write_5m_tokens + row.cache_write_1h_tokens
    return (
        _key_cell(by, row),
        escape_line(format_dollars(row.cost)),
        *(
            escape_line(format_tokens(number))
            for number in (
                row.tokens,
                row.input_tokens,
                row.output_tokens,
                writes,
                row.cache_read_tokens,
            )
        ),
        escape_line(f"{row.replies:,}"),
    )


def _key_cell(by: Grouping, row: UsageRow) -> Html:
    label = escape_line(row.title or row.key or "none")
    match by:
        case Grouping.SESSION:
            return link(build_url("session", row.key), label)
        case Grouping.PROJECT if row.key:
            return link(build_url(project=row.key), label)
        case Grouping.DAY:
            return link(build_url(on=row.key), label)
        case Grouping.BLOCK if row.block is not None:
            start, end = (
                row.block.started_at.astimezone(),
                row.block.ends_at.astimezone(),
            )
            active = " (active)" if row.block.is_active else ""
            return escape_line(f"{start:%Y-%m-%d %H:%M} to {end:%H:%M}{active}")
        case _:
            return label


def usage_csv(context: RequestContext) -> Response:
    """Return the report as CSV."""
    report = usage_report(context)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    rows = report.rows
    if rows:
        names = [name for name in rows[0].__struct_fields__ if name != "block"]
        writer.writerow(names)
        writer.writerows(_csv_cells(names, row) for row in rows)
    name = f"usage-by-{report.by}.csv"
    return Response(
        out.getvalue().encode("utf-8", "backslashreplace"),
        media_type="text/csv",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


def _csv_cells(names: Sequence[str], row: UsageRow | ToolRow) -> Iterator[str]:
    for name in names:
        value = getattr(row, name)
        if value is None:
            yield ""
        elif name in {"cost", "estimated_cost"}:
            yield f"{value // NANOS_PER_DOLLAR}.{value % NANOS_PER_DOLLAR:09}"
        elif isinstance(value, datetime):
            yield value.isoformat().replace("+00:00", "Z")
        else:
            text = " ".join(value) if isinstance(value, tuple) else str(value)
            text = sanitize_line(text)
            # A spreadsheet must not evaluate text of a transcript as a formula.
            is_formula = isinstance(value, str) and text.startswith(_FORMULA_PREFIXES)
            yield f"'{text}" if is_formula else text
