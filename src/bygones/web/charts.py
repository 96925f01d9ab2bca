"""Charts as SVG, without scripts: a heat map of days, bars and columns.

The numbers are also in the text of the page, for screen readers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, timedelta

from bygones.render.html.markup import Html, escape_line, join_html, tag

_CELL_SIZE = 13
_LEFT_MARGIN = 30
_TOP_MARGIN = 18
_LEVELS = 4
_DAYS_PER_WEEK = 7

ChartValue = tuple[str, float, str]
"""Name, amount and formatted amount."""


def heat_map(
    counts: Mapping[date, int], last_day: date, *, weeks: int = 53, unit: str = "answer"
) -> Html:
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
        title = f"{count:,} {unit}{'' if count == 1 else 's'} on {day:%A, %d %B %Y}"
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
    label = f"{sum(shown):,} {unit}s on {active} days in the last {weeks} weeks"
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
