"""Numbers for the eye: tokens, durations, times, counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta, tzinfo
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # numbers are set in many places that know nothing else
    from bygones.model.sessions import Message, ModelUsage
    from bygones.model.usage import Cost

__all__ = [
    "MessagePricer",
    "format_bytes",
    "format_cost",
    "format_duration",
    "format_time",
    "format_time_range",
    "format_tokens",
    "format_usd",
    "pluralize",
]

MessagePricer = Callable[[Iterable["Message | ModelUsage"]], int | None]
"""Tells what messages cost in billionths of a dollar; none where that is not known."""

_THOUSAND = 1000
_CENT = 10**7
_UNITS = ("", "k", "M", "G")


def format_tokens(count: int) -> str:
    """Return a number of tokens in two or three digits and a unit.

    >>> tokens(950), tokens(4123), tokens(41_234), tokens(1_234_567)
    ('950', '4.1k', '41k', '1.2M')
    """
    amount = float(count)
    for unit in _UNITS:
        if amount < 999.5:  # noqa: PLR2004 (would be rounded to a thousand)
            digits = 1 if unit and amount < 9.95 else 0  # noqa: PLR2004
            return f"{amount:.{digits}f}{unit}"
        amount /= _THOUSAND
    return f"{amount:.1f}T"


def format_usd(nanos: int) -> str:
    """Return billionths of a dollar in dollars and cents, a trace of it as such.

    >>> money(1_234_567_000_000), money(4_000_000), money(0)
    ('$1,234.57', '<$0.01', '$0.00')
    """
    cents = (abs(nanos) + _CENT // 2) // _CENT
    if nanos and not cents:
        return "<$0.01"
    sign = "-" if nanos < 0 else ""
    return f"{sign}${cents // 100:,}.{cents % 100:02}"


def format_cost(cost: Cost | None) -> str:
    """Return a cost in dollars; with a plus where a part of it has no price.

    >>> from bygones.model.usage import Cost
    >>> price(Cost(nanos=4 * 10**9)), price(Cost(nanos=4 * 10**9, unpriced_tokens=9))
    ('$4.00', '$4.00+')
    >>> price(Cost(unpriced_tokens=9)), price(None)
    ('unknown', '')
    """
    if cost is None:
        return ""
    if cost.nano_usd is None:
        return "unknown"
    return format_usd(cost.nano_usd) + ("+" if cost.unpriced_tokens else "")


def format_bytes(count: int) -> str:
    """Return a number of bytes in the unit that suits it."""
    if count < _THOUSAND:
        return f"{count} B"
    text = format_tokens(count)
    return f"{text[:-1]} {text[-1]}B"


def format_duration(duration: timedelta) -> str:
    """Return a duration in its two largest units.

    >>> lasting(timedelta(seconds=0.4)), lasting(timedelta(seconds=75))
    ('0.4s', '1m 15s')
    >>> lasting(timedelta(hours=5, minutes=3)), lasting(timedelta(days=3, hours=4))
    ('5h 03m', '3d 4h')
    """
    seconds = duration.total_seconds()
    if seconds < 9.95:  # noqa: PLR2004 (would be rounded to ten)
        return f"{max(seconds, 0):.1f}s"
    whole = round(seconds)
    if whole < 60:  # noqa: PLR2004 (a minute)
        return f"{whole}s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:  # noqa: PLR2004 (an hour)
        return f"{minutes}m {rest:02}s"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:  # noqa: PLR2004 (a day)
        return f"{hours}h {minutes:02}m"
    return f"{hours // 24}d {hours % 24}h"


def pluralize(count: int, singular: str, plural: str = "") -> str:
    """Return a number with the word for one or for many.

    >>> several(1, "call"), several(2, "call"), several(0, "branch", "branches")
    ('1 call', '2 calls', '0 branches')
    """
    return f"{count:,} {singular if count == 1 else plural or singular + 's'}"


def format_time(
    time: datetime, zone: tzinfo | None, same_day_as: datetime | None = None
) -> str:
    """Return a time of day, with the day unless ``since`` is on the same.

    Without a zone the time is that of the machine.
    """
    here = time.astimezone(zone)
    if same_day_as is not None and same_day_as.astimezone(zone).date() == here.date():
        return f"{here:%H:%M}"
    return f"{here:%Y-%m-%d %H:%M}"


def format_time_range(start: datetime, end: datetime, zone: tzinfo | None) -> str:
    """Return from when to when something lasted."""
    begun = format_time(start, zone)
    ended = format_time(end, zone, start)
    return begun if begun.endswith(ended) else f"{begun} to {ended}"
