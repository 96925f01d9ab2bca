"""Drawings: days as a heat map, shares as bars; SVG without script or style.

Numbers stand beside every drawing as text, so nobody needs to see it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, timedelta

from bygones.render.html.markup import Html, escape_line, join_html, tag

__all__ = ["ChartValue", "bar_chart", "column_chart", "heat_map"]

_CELL_SIZE = 13
_LEFT_MARGIN = 30
_TOP_MARGIN = 18
_LEVELS = 4
_DAYS_PER_WEEK = 7

ChartValue = tuple[str, float, str]
"""A name, how much, and the words for it."""


def heat_map(
    counts: Mapping[date, int], last_day: date, *, weeks: int = 53, unit: str = "answer"
) -> Html:
    """Return days as squares in columns of weeks, the darker the more."""
    first = last_day - timedelta(days=last_day.weekday() + _DAYS_PER_WEEK * (weeks - 1))
    most = sorted(count for day, count in counts.items() if day >= first and count)
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
        level = _level(count, most)
        told = f"{count:,} {unit}{'' if count == 1 else 's'} on {day:%A, %d %B %Y}"
        square = (
            f'<rect class="h{level}" x="{x}" y="{y}" width="{_CELL_SIZE - 2}" '
            f'height="{_CELL_SIZE - 2}" rx="2"><title>{told}</title></rect>'
        )
        if count:
            square = f'<a href="/?on={day.isoformat()}" tabindex="-1">{square}</a>'
        parts.append(square)
    for at, name in ((0, "Mon"), (2, "Wed"), (4, "Fri")):
        parts.append(
            f'<text x="0" y="{_TOP_MARGIN + at * _CELL_SIZE + 9}">{name}</text>'
        )
    wide, high = (
        _LEFT_MARGIN + weeks * _CELL_SIZE,
        _TOP_MARGIN + _DAYS_PER_WEEK * _CELL_SIZE,
    )
    active = sum(1 for day in counts if day >= first and counts[day])
    label = f"{sum(most):,} {unit}s on {active} days in the last {weeks} weeks"
    return Html(
        f'<svg class="heat" viewBox="0 0 {wide} {high}" role="group" '
        f'aria-label="{label}">{"".join(parts)}</svg>'
    )


def _level(count: int, counts: Sequence[int]) -> int:
    """Return in which quarter of all days with something a day is."""
    if not count:
        return 0
    below = sum(1 for other in counts if other < count)
    return 1 + below * _LEVELS // max(len(counts), 1)


def bar_chart(values: Sequence[ChartValue], *, label: str) -> Html:
    """Return shares as horizontal bars, each with its name and its words."""
    most = max((amount for _, amount, _ in values), default=0) or 1
    lines = []
    for name, amount, told in values:
        wide = max(round(amount / most * 100, 1), 0.5)
        drawn = (
            '<svg class="share" viewBox="0 0 100 6" preserveAspectRatio="none" '
            f'aria-hidden="true"><rect width="{wide}" height="6" rx="1"/></svg>'
        )
        lines.append(
            tag(
                "li",
                join_html(
                    (
                        tag("span", escape_line(name), kind="name"),
                        Html(drawn),
                        tag("span", escape_line(told), kind="amount"),
                    )
                ),
            )
        )
    return tag("ul", join_html(lines), kind="bars", aria_label=label)


def column_chart(
    values: Sequence[ChartValue], *, label: str, height: int = 120
) -> Html:
    """Return amounts as columns side by side, such as one for each day."""
    most = max((amount for _, amount, _ in values), default=0) or 1
    wide = max(len(values), 1)
    parts = []
    for at, (name, amount, told) in enumerate(values):
        tall = round(amount / most * (height - 2), 1) if amount else 0
        parts.append(
            f'<rect x="{at + 0.1}" y="{round(height - tall, 1)}" width="0.8" '
            f'height="{tall}"><title>{escape_line(f"{name}: {told}")}</title></rect>'
        )
    return Html(
        f'<svg class="columns" viewBox="0 0 {wide} {height}" role="img" '
        f'preserveAspectRatio="none" aria-label="{escape_line(label)}">{"".join(parts)}</svg>'
    )
