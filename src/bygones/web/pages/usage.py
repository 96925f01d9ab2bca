"""The page of usage: tokens and cost by whatever one asks, as table, chart and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from datetime import datetime

from starlette.responses import Response

from bygones.archive import Archive
from bygones.errors import BadRequest
from bygones.model.query import Period, Query
from bygones.model.reports import NANOS, Grouping, ToolRow, UsageReport, UsageRow
from bygones.query.times import Now, period
from bygones.query.tree import all_of
from bygones.render.figures import several, size, tokens
from bygones.render.html.markup import Html, joined, tag, words
from bygones.render.safe import safe_line
from bygones.web.charts import Share, bars, columns
from bygones.web.frame import Frame, address, empty, framed, link, table
from bygones.web.pages.home import dollars, short
from bygones.web.pages.search import asked_query
from bygones.web.visit import Visit

__all__ = ["report_for", "sheet", "usage"]

_SHOWN = 400
_BARS = 12
_SPANS = (("7d", "a week"), ("30d", "a month"), ("90d", "3 months"), ("", "everything"))
_TIMES = {Grouping.DAY, Grouping.WEEK, Grouping.MONTH, Grouping.BLOCK}
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def report_for(visit: Visit) -> UsageReport:
    """Return what an address asks about usage."""
    told, since, text = visit.text("by") or "day", visit.text("since"), visit.text("q")
    known = {str(grouping) for grouping in Grouping}
    if told not in known:
        raise BadRequest(f"by has to be one of {', '.join(sorted(known))}")
    zone = visit.zone
    query = asked_query(visit, text)
    terms = [query.root] if query.root is not None else []
    if since:
        found = period("after", since, Now(visit.now, zone))
        if not isinstance(found, Period):
            raise BadRequest("since has to be a time, as in 7d or 2026-01-31")
        terms.append(found)
    limited = Query(all_of(terms), query.notes) if terms else None

    def ask(archive: Archive) -> UsageReport:
        return archive.usage(
            told, query=limited, zone=zone, now=visit.now, prices=visit.house.prices
        )

    return visit.readers.told(f"usage {told} {since} {text}", ask)


def usage(visit: Visit) -> Response:
    """Answer with the page."""
    report = report_for(visit)
    rows = _ordered(report)
    asked = {name: visit.text(name) for name in ("by", "since", "q")}
    by = report.by
    parts = [
        tag("h1", words("Usage")),
        _tabs(asked, "by", [(str(one), str(one)) for one in Grouping], str(by)),
        _tabs(asked, "since", _SPANS, asked["since"]),
        _total(report),
    ]
    if not rows:
        parts.append(empty("Nothing was spent."))
    else:
        parts += [_chart(by, rows), _table(by, rows)]
        to = address("usage.csv", **asked)
        parts.append(tag("p", link(to, words("As CSV")), kind="note"))
    return framed(Frame(title="Usage", way="/usage", kind="wide"), parts)


def _ordered(report: UsageReport) -> list[UsageRow | ToolRow]:
    if report.by in _TIMES:
        return list(reversed(report.rows))
    return sorted(report.rows, key=_weight, reverse=True)


def _weight(row: UsageRow | ToolRow) -> tuple[int, int]:
    return (row.cost or 0 if isinstance(row, UsageRow) else 0, row.tokens)


def _tabs(
    asked: dict[str, str], name: str, choices: Sequence[tuple[str, str]], chosen: str
) -> Html:
    lines = joined(
        tag(
            "li",
            tag(
                "a",
                words(told),
                href=address("usage", **(asked | {name: value})),
                aria_current="true" if value == chosen else "",
            ),
        )
        for value, told in choices
    )
    return tag("ul", lines, kind="tabs")


def _total(report: UsageReport) -> Html:
    total = report.total
    cached = f"{total.cached:.0%} of contexts read from the cache"
    unpriced = ""
    if total.unpriced_tokens:
        unpriced = f"{tokens(total.unpriced_tokens)} tokens have no known price"
    told = [
        f"{tokens(total.tokens)} tokens",
        several(total.answers, "answer"),
        cached,
        unpriced,
        f"prices of {report.prices}" if report.prices else "",
    ]
    line = joined(
        (tag("b", words(dollars(total.cost))), words(" · ".join(filter(None, told)))),
        " · ",
    )
    return tag("p", line, kind="total")


def _chart(by: Grouping, rows: Sequence[UsageRow | ToolRow]) -> Html:
    shares = [_share(row) for row in rows]
    if by in _TIMES:
        shown = list(reversed(shares[:120]))
        drawn = columns(shown, label=f"Cost by {by}, oldest first")
        return joined((drawn, _scale(shown)))
    return bars(shares[:_BARS], label=f"Cost by {by}")


def _scale(shares: Sequence[Share]) -> Html:
    """Return what the ends of a chart stand for, and how much its highest column."""
    first, last = shares[0][0], shares[-1][0]
    name, _, most = max(shares, key=lambda share: share[1])
    ends = (first, f"most: {most}, {name}", last if len(shares) > 1 else "")
    return tag("p", joined(tag("span", words(one)) for one in ends), kind="scale")


def _share(row: UsageRow | ToolRow) -> Share:
    if isinstance(row, ToolRow):
        return row.key, float(row.tokens), f"{tokens(row.tokens)} tokens"
    name = row.title or short(row.key) or "none"
    return name, (row.cost or 0) / NANOS, dollars(row.cost)


def _table(by: Grouping, rows: Sequence[UsageRow | ToolRow]) -> Html:
    if by is Grouping.TOOL:
        heads: tuple[str, ...] = ("Tool", "Calls", "Bytes", "Tokens, about")
    else:
        heads = (str(by).capitalize(), "Cost", "Tokens", "Input", "Output")
        heads += ("Cache writes", "Cache reads", "Answers")
    return table(heads, [_line(by, row) for row in rows[:_SHOWN]])


def _line(by: Grouping, row: UsageRow | ToolRow) -> tuple[Html, ...]:
    if isinstance(row, ToolRow):
        told = (row.key, f"{row.calls:,}", size(row.bytes), tokens(row.tokens))
        return tuple(map(words, told))
    writes = row.cache_write_5m_tokens + row.cache_write_1h_tokens
    return (
        _key(by, row),
        words(dollars(row.cost)),
        *(
            words(tokens(number))
            for number in (
                row.tokens,
                row.input_tokens,
                row.output_tokens,
                writes,
                row.cache_read_tokens,
            )
        ),
        words(f"{row.answers:,}"),
    )


def _key(by: Grouping, row: UsageRow) -> Html:
    shown = words(row.title or row.key or "none")
    match by:
        case Grouping.SESSION:
            return link(address("session", row.key), shown)
        case Grouping.PROJECT if row.key:
            return link(address(project=row.key), shown)
        case Grouping.DAY:
            return link(address(on=row.key), shown)
        case Grouping.BLOCK if row.block is not None:
            start, end = row.block.start.astimezone(), row.block.end.astimezone()
            active = " (not over)" if row.block.is_active else ""
            return words(f"{start:%Y-%m-%d %H:%M} to {end:%H:%M}{active}")
        case _:
            return shown


def sheet(visit: Visit) -> Response:
    """Answer with the same as a table for spreadsheets."""
    report = report_for(visit)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    rows = report.rows
    if rows:
        names = [name for name in rows[0].__struct_fields__ if name != "block"]
        writer.writerow(names)
        writer.writerows(_cells(names, row) for row in rows)
    name = f"usage-by-{report.by}.csv"
    return Response(
        out.getvalue().encode("utf-8", "backslashreplace"),
        media_type="text/csv",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


def _cells(names: Sequence[str], row: UsageRow | ToolRow) -> Iterator[str]:
    for name in names:
        value = getattr(row, name)
        if value is None:
            yield ""
        elif name in {"cost", "estimated_cost"}:
            yield f"{value // NANOS}.{value % NANOS:09}"
        elif isinstance(value, datetime):
            yield value.isoformat().replace("+00:00", "Z")
        else:
            told = " ".join(value) if isinstance(value, tuple) else str(value)
            told = safe_line(told)
            # A spreadsheet must not take what a transcript says for a formula.
            is_text = isinstance(value, str) and told.startswith(_FORMULA)
            yield f"'{told}" if is_text else told
