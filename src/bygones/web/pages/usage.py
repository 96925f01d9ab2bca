"""Usage reports: periods, tables and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from datetime import date, datetime, timedelta

from msgspec import Struct
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
from bygones.render.html.markup import Html, escape_line
from bygones.render.numbers import format_bytes, format_tokens
from bygones.render.text.primitives import sanitize_line
from bygones.web.context import RequestContext
from bygones.web.layout import (
    build_url,
    format_dollars,
    link,
    render_table,
)

_MAX_ROWS = 400
TIME_GROUPINGS = {Grouping.DAY, Grouping.WEEK, Grouping.MONTH, Grouping.BLOCK}
_FORMULA_PREFIXES = ("=", "+", "-", "@", "\t", "\r")


def usage_report(context: RequestContext) -> UsageReport:
    """Return the usage report that a request asks for, from the cache if possible."""
    by = context.query_param("by") or "day"
    known = {str(grouping) for grouping in Grouping}
    if by not in known:
        raise BadRequest(f"by must be one of {', '.join(sorted(known))}")
    return load_usage(context, Grouping(by), UsagePeriod.from_request(context))


class UsagePeriod(Struct, frozen=True):
    """The time and the query that limit a report, as query parameters."""

    since: str = ""
    """A time such as `7d` or `2026-01-31`."""
    until: date | None = None
    """The last day."""
    query_text: str = ""

    @classmethod
    def from_request(cls, context: RequestContext) -> UsagePeriod:
        since = context.query_param("since", 40)
        return cls(
            "" if since == "all" else since,
            context.query_date("until"),
            context.query_param("q"),
        )

    @property
    def params(self) -> dict[str, str]:
        return {
            "since": self.since or "all",
            "until": self.until.isoformat() if self.until else "",
            "q": self.query_text,
        }

    def times(self, context: RequestContext) -> TimeRange | None:
        """Return the times of the period; `None` for all."""
        reference = ReferenceTime(context.now, context.zone)
        start = end = None
        if self.since:
            after = parse_period("after", self.since, reference)
            if not isinstance(after, TimeRange):
                raise BadRequest("since must be a time such as 7d or 2026-01-31")
            start = after.start
        if self.until:
            next_day = str(self.until + timedelta(days=1))
            before = parse_period("before", next_day, reference)
            end = before.end if before else None
        return TimeRange(start=start, end=end) if start or end else None

    def query(self, context: RequestContext, times: TimeRange | None) -> Query | None:
        query = context.parse_query(self.query_text)
        terms = [query.root] if query.root is not None else []
        terms += [times] if times else []
        return Query(and_terms(terms), query.notes) if terms else None


def load_usage(
    context: RequestContext,
    by: Grouping,
    period: UsagePeriod,
    times: TimeRange | None = None,
) -> UsageReport:
    """Return a report, from the cache if possible; ``times`` replaces the period's."""
    query = period.query(context, times or period.times(context))

    def load(archive: Archive) -> UsageReport:
        return archive.usage(
            by,
            query=query,
            timezone=context.zone,
            now=context.now,
            prices=context.app_state.prices,
        )

    key = f"usage {by} {period} {times.start if times else ''}"
    return context.pool.cached(key, load)


def sorted_rows(report: UsageReport) -> list[UsageRow | ToolRow]:
    if report.by in TIME_GROUPINGS:
        return list(reversed(report.rows))
    return sorted(report.rows, key=_cost_key, reverse=True)


def _cost_key(row: UsageRow | ToolRow) -> tuple[int, int]:
    return (row.cost or 0 if isinstance(row, UsageRow) else 0, row.tokens)


def usage_table(by: Grouping, rows: Sequence[UsageRow | ToolRow]) -> Html:
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
    rows: list[Sequence[object]] = []
    if report.rows:
        fields = report.rows[0].__struct_fields__
        names = [name for name in fields if name != "block"]
        rows = [names, *([getattr(row, name) for name in names] for row in report.rows)]
    return csv_response(rows, f"usage-by-{report.by}.csv")


def csv_response(rows: Sequence[Sequence[object]], name: str) -> Response:
    """Return a table as a file; the first row has the names of the columns."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    names = rows[0] if rows else ()
    writer.writerows(rows[:1])
    writer.writerows(map(_csv_cell, names, row) for row in rows[1:])
    return Response(
        out.getvalue().encode("utf-8", "backslashreplace"),
        media_type="text/csv",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


def _csv_cell(name: object, value: object) -> str:
    if value is None:
        return ""
    if name in {"cost", "estimated_cost"} and isinstance(value, int):
        return f"{value // NANOS_PER_DOLLAR}.{value % NANOS_PER_DOLLAR:09}"
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    text = " ".join(value) if isinstance(value, tuple) else str(value)
    text = sanitize_line(text)
    # A spreadsheet must not evaluate text of a transcript as a formula.
    is_formula = isinstance(value, str) and text.startswith(_FORMULA_PREFIXES)
    return f"'{text}" if is_formula else text
