"""Charts as SVG: a calendar, stacked columns, hours of the week, and bars."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, timedelta
from html import escape
from math import floor, log10
from typing import NamedTuple

from msgspec import Struct

from bygones.render.html.markup import EMPTY_HTML, Html, escape_line, join_html, tag
from bygones.render.numbers import pluralize
from bygones.render.text.primitives import truncate_end
from bygones.web.layout import build_url

_CELL_SIZE = 13
_LEFT_MARGIN = 30
_TOP_MARGIN = 18
_LEVELS = 4
_DAYS_PER_WEEK = 7
_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")

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
        replies = pluralize(count, "reply", "replies")
        title = f"{replies} on {day:%A, %B} {day.day}, {day.year}"
        square = _square(x, y, _CELL_SIZE, level=_level(count, shown), title=title)
        if count:
            square = f'<a href="/?on={day.isoformat()}" tabindex="-1">{square}</a>'
        parts.append(square)
    for at in (0, 2, 4):
        y = _TOP_MARGIN + at * _CELL_SIZE + 9
        parts.append(f'<text x="0" y="{y}">{_WEEKDAYS[at]}</text>')
    width, height = (
        _LEFT_MARGIN + weeks * _CELL_SIZE,
        _TOP_MARGIN + _DAYS_PER_WEEK * _CELL_SIZE,
    )
    active = sum(1 for day in counts if day >= first and counts[day])
    replies = pluralize(sum(shown), "reply", "replies")
    label = f"{replies} on {pluralize(active, 'day')} in the last {weeks} weeks"
    return _heat_svg(width, height, label, parts)


def hour_map(hours: Sequence[Sequence[int]]) -> Html:
    """Return a square for each hour of the week."""
    size = 18
    shown = sorted(count for row in hours for count in row if count)
    parts = []
    for day, row in enumerate(hours):
        y = _TOP_MARGIN + day * size
        parts.append(f'<text x="0" y="{y + 12}">{_WEEKDAYS[day]}</text>')
        for hour, count in enumerate(row):
            replies = pluralize(count, "reply", "replies")
            title = f"{replies}, {_WEEKDAYS[day]} {hour:02}:00 to {hour + 1:02}:00"
            x = _LEFT_MARGIN + hour * size
            level = _level(count, shown)
            parts.append(_square(x, y, size, level=level, title=title))
    for hour in range(0, 24, 3):
        x = _LEFT_MARGIN + hour * size
        parts.append(f'<text x="{x}" y="{_TOP_MARGIN - 6}">{hour:02}:00</text>')
    width, height = (
        _LEFT_MARGIN + 24 * size,
        _TOP_MARGIN + _DAYS_PER_WEEK * size,
    )
    return _heat_svg(width, height, "Replies by hour of the week", parts)


def _heat_svg(width: int, height: int, label: str, parts: Sequence[str]) -> Html:
    return Html(
        f'<svg class="heat-map" viewBox="0 0 {width} {height}" role="group" '
        f'aria-label="{label}">{"".join(parts)}</svg>'
    )


def _square(x: int, y: int, size: int, *, level: int, title: str) -> str:
    return (
        f'<rect class="h{level}" x="{x}" y="{y}" width="{size - 2}" '
        f'height="{size - 2}" rx="2"><title>{title}</title></rect>'
    )


def _level(count: int, counts: Sequence[int]) -> int:
    """Return the quarter of a count among all counts; 0 for no activity."""
    if not count:
        return 0
    below = sum(1 for other in counts if other < count)
    return 1 + below * _LEVELS // max(len(counts), 1)


def bar_chart(
    values: Sequence[ChartValue], *, label: str, urls: Sequence[str] = ()
) -> Html:
    """Return amounts as horizontal bars with labels, which may be links."""
    most = max((amount for _, amount, _ in values), default=0) or 1
    items = []
    for at, (name, amount, label_text) in enumerate(values):
        width = max(round(amount / most * 100, 1), 0.5)
        bar = (
            '<svg class="share" viewBox="0 0 100 6" preserveAspectRatio="none" '
            f'aria-hidden="true"><rect width="{width}" height="6" rx="1"/></svg>'
        )
        url = urls[at] if at < len(urls) else ""
        shown = tag("a", escape_line(name), href=url) if url else escape_line(name)
        items.append(
            tag(
                "li",
                join_html(
                    (
                        tag("span", shown, kind="name"),
                        Html(bar),
                        tag("span", escape_line(label_text), kind="amount"),
                    )
                ),
            )
        )
    return tag("ul", join_html(items), kind="bars", aria_label=label)


class StackPart(NamedTuple):
    """A part of a column: one group of one period."""

    group: int
    """The number of the group, which decides the color."""
    amount: float
    title: str
    url: str = ""


class StackColumn(Struct, frozen=True):
    label: str
    """Under the column, where there is room."""
    parts: tuple[StackPart, ...] = ()

    @property
    def total(self) -> float:
        return sum(part.amount for part in self.parts)


_CHART_WIDTH, _CHART_HEIGHT = 960, 280
_AXIS_WIDTH, _AXIS_HEIGHT, _CHART_TOP, _RIGHT_MARGIN = 52, 24, 10, 16
_MAX_TICKS = 5
_MAX_LABELS = 12
_MAX_LEGEND_CHARS = 40
_LEGEND_LINE = 18


def stacked_chart(
    columns: Sequence[StackColumn],
    *,
    label: str,
    format_amount: Callable[[float], str],
    legend_names: Sequence[str] | None = None,
) -> Html:
    """Return columns over a time axis, each divided into groups, with a grid.

    With names of groups, the chart is a complete SVG file with its own colors and a
    legend, without links; a group without a name has no entry.
    """
    is_standalone = legend_names is not None
    step, top = _axis(max((column.total for column in columns), default=0))
    plot_width = _CHART_WIDTH - _AXIS_WIDTH - _RIGHT_MARGIN
    plot_height = _CHART_HEIGHT - _AXIS_HEIGHT - _CHART_TOP
    slot = plot_width / max(len(columns), 1)
    width = min(slot * 0.78, 56)
    parts = []
    for number in range(round(top / step) + 1):
        y = round(_CHART_TOP + plot_height * (1 - number * step / top), 1)
        parts.append(f'<path class="grid" d="M{_AXIS_WIDTH} {y}H{_CHART_WIDTH}"/>')
        text = escape(format_amount(number * step))
        parts.append(f'<text class="y" x="{_AXIS_WIDTH - 8}" y="{y + 4}">{text}</text>')
    every = max(-(-len(columns) // _MAX_LABELS), 1)
    for at, column in enumerate(columns):
        x = _AXIS_WIDTH + at * slot + (slot - width) / 2
        if at % every == 0:
            middle = round(x + width / 2, 1)
            parts.append(
                f'<text class="x" x="{middle}" y="{_CHART_HEIGHT - 6}">'
                f"{escape(column.label)}</text>"
            )
        height = 0.0
        for part in column.parts:
            part_height = part.amount / top * plot_height
            height += part_height
            y = _CHART_TOP + plot_height - height
            rect = (
                f'<rect class="s{part.group}" x="{x:.1f}" y="{y:.1f}" '
                f'width="{width:.1f}" height="{max(part_height, 0.4):.1f}">'
                f"<title>{escape_line(part.title)}</title></rect>"
            )
            if part.url and not is_standalone:
                rect = f'<a href="{escape(part.url)}" tabindex="-1">{rect}</a>'
            parts.append(rect)
    key, key_height = _drawn_legend(legend_names or ())
    height = _CHART_HEIGHT + key_height
    head = (
        f' xmlns="http://www.w3.org/2000/svg" width="{_CHART_WIDTH}" height="{height}"'
    )
    style = f"<style>{_STANDALONE_STYLE}</style>" if is_standalone else ""
    return Html(
        f'<svg class="chart" viewBox="0 0 {_CHART_WIDTH} {height}" '
        f'role="{"img" if is_standalone else "group"}" '
        f'aria-label="{escape(label)}"{head if is_standalone else ""}>'
        f"{style}{''.join(parts)}{key}</svg>"
    )


def _drawn_legend(names: Sequence[str]) -> tuple[str, int]:
    """Return the legend of a chart that is a file, and its height.

    A file has no fonts to measure, so that the width of a name is estimated.
    """
    parts = []
    x, row = _AXIS_WIDTH, 0
    for group, name in enumerate(names):
        if not name:
            continue
        shown = truncate_end(name, _MAX_LEGEND_CHARS)
        width = 34 + 7 * len(shown)
        if x + width > _CHART_WIDTH and x > _AXIS_WIDTH:
            x, row = _AXIS_WIDTH, row + 1
        y = _CHART_HEIGHT + 8 + row * _LEGEND_LINE
        parts.append(
            f'<rect class="s{group}" x="{x}" y="{y}" width="10" height="10" rx="2"/>'
            f'<text x="{x + 15}" y="{y + 9}">{escape_line(shown)}</text>'
        )
        x += width
    return "".join(parts), (8 + (row + 1) * _LEGEND_LINE if parts else 0)


_STANDALONE_STYLE = (
    "text{font:11px system-ui,sans-serif;fill:#645d54}.y{text-anchor:end}"
    ".x{text-anchor:middle}.grid{stroke:#e2dcd3;fill:none}"
    ".s0{fill:#b5622f}.s1{fill:#4b7fb5}.s2{fill:#6a9a5b}.s3{fill:#8d6bab}"
    ".s4{fill:#c69a3a}.s5{fill:#4a9a9c}.s6{fill:#b3aca2}"
)


def _axis(most: float) -> tuple[float, float]:
    """Return the distance of grid lines and the end of the axis, as round numbers."""
    if most <= 0:
        return 1.0, 1.0
    raw = most / _MAX_TICKS
    power = 10.0 ** floor(log10(raw))
    step = next(f * power for f in (1, 2, 2.5, 5, 10) if f * power >= raw * 0.999)
    count = -(-most // step)
    return step, max(count, 1) * step


def legend(names: Sequence[str], urls: Sequence[str] = ()) -> Html:
    """Return the names of the groups with their colors."""
    if not names:
        return EMPTY_HTML
    items = []
    for at, name in enumerate(names):
        swatch = Html(
            f'<svg viewBox="0 0 10 10" aria-hidden="true">'
            f'<rect class="s{at}" width="10" height="10" rx="2"/></svg>'
        )
        url = urls[at] if at < len(urls) else ""
        text = tag("a", escape_line(name), href=url) if url else escape_line(name)
        items.append(tag("li", join_html((swatch, text))))
    return tag("ul", join_html(items), kind="legend")


def day_url(first: date, last: date, **more: object) -> str:
    """Return the list of the sessions of some days."""
    if first == last:
        return build_url(on=first.isoformat(), **more)
    return build_url(since=first.isoformat(), until=last.isoformat(), **more)
