"""Format numbers for people: tokens, costs, sizes, durations, times."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta, tzinfo
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # this module is imported at start-up, the model is not
    from bygones.model.sessions import Message
    from bygones.model.usage import Cost

MessagePricer = Callable[[Iterable["Message"]], int | None]
"""Returns the cost of messages in nano-dollars; ``None`` if it is unknown."""

_THOUSAND = 1000
_CENT = 10**7
_UNITS = ("", "k", "M", "G")
_MAX_VERSION_DIGITS = 9
_AGE_UNITS = (
    (timedelta(minutes=1), timedelta(seconds=1), ""),
    (timedelta(hours=1), timedelta(minutes=1), "minute"),
    (timedelta(days=1), timedelta(hours=1), "hour"),
    (timedelta(days=14), timedelta(days=1), "day"),
    (timedelta(days=61), timedelta(days=7), "week"),
    (timedelta(days=730), timedelta(days=30.44), "month"),
)


def format_tokens(count: int) -> str:
    """Format a number of tokens with two or three digits and a unit.

    >>> format_tokens(950), format_tokens(4123), format_tokens(41_234)
    ('950', '4.1k', '41k')
    """
    amount = float(count)
    for unit in _UNITS:
        if amount < 999.5:  # noqa: PLR2004 (would be rounded to a thousand)
            digits = 1 if unit and amount < 9.95 else 0  # noqa: PLR2004
            return f"{amount:.{digits}f}{unit}"
        amount /= _THOUSAND
    return f"{amount:.1f}T"


def format_usd(nanos: int) -> str:
    """Format nano-dollars as dollars and cents.

    >>> format_usd(1_234_567_000_000), format_usd(4_000_000), format_usd(0)
    ('$1,234.57', '<$0.01', '$0.00')
    """
    cents = (abs(nanos) + _CENT // 2) // _CENT
    if nanos and not cents:
        return "<$0.01"
    minus = "-" if nanos < 0 else ""
    return f"{minus}${cents // 100:,}.{cents % 100:02}"


def format_cost(cost: Cost | None) -> str:
    """Format a cost in dollars, with a plus if a part of it has no price.

    >>> from bygones.model.usage import Cost
    >>> format_cost(Cost(nano_usd=4 * 10**9))
    '$4.00'
    >>> format_cost(Cost(nano_usd=4 * 10**9, unpriced_tokens=9))
    '$4.00+'
    >>> format_cost(Cost(unpriced_tokens=9)), format_cost(None)
    ('unknown', '')
    """
    if cost is None:
        return ""
    if cost.nano_usd is None:
        return "unknown"
    return format_usd(cost.nano_usd) + ("+" if cost.unpriced_tokens else "")


def format_bytes(count: int) -> str:
    if count < _THOUSAND:
        return f"{count} B"
    text = format_tokens(count)
    return f"{text[:-1]} {text[-1]}B"


def format_duration(duration: timedelta) -> str:
    """Format a duration with its two largest units.

    >>> format_duration(timedelta(seconds=0.4)), format_duration(timedelta(seconds=75))
    ('0.4s', '1m 15s')
    >>> format_duration(timedelta(hours=5, minutes=3))
    '5h 03m'
    """
    seconds = duration.total_seconds()
    if seconds < 9.95:  # noqa: PLR2004 (would be rounded to ten)
        return f"{max(seconds, 0):.1f}s"
    rounded = round(seconds)
    if rounded < 60:  # noqa: PLR2004 (a minute)
        return f"{rounded}s"
    minutes, rest = divmod(rounded, 60)
    if minutes < 60:  # noqa: PLR2004 (an hour)
        return f"{minutes}m {rest:02}s"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:  # noqa: PLR2004 (a day)
        return f"{hours}h {minutes:02}m"
    return f"{hours // 24}d {hours % 24}h"


def pluralize(count: int, singular: str, plural: str = "") -> str:
    """Return a number and a noun.

    >>> pluralize(1, "call"), pluralize(2, "call"), pluralize(0, "branch", "branches")
    ('1 call', '2 calls', '0 branches')
    """
    return f"{count:,} {singular if count == 1 else plural or singular + 's'}"


def format_time(
    time: datetime, zone: tzinfo | None, same_day_as: datetime | None = None
) -> str:
    """Format date and time; only the time if ``same_day_as`` is on the same day.

    Without a zone, the local time is used.
    """
    local = time.astimezone(zone)
    if same_day_as is not None and same_day_as.astimezone(zone).date() == local.date():
        return f"{local:%H:%M}"
    return f"{local:%Y-%m-%d %H:%M}"


def format_age(time: datetime | None, now: datetime) -> str:
    """Return how long ago a time is in one unit, or its date if that is long ago.

    >>> now = datetime.fromisoformat("2026-11-18T12:00+00:00")
    >>> format_age(now - timedelta(hours=30), now)
    '1 day ago'
    """
    if time is None:
        return ""
    age = now - time
    if age >= timedelta(0):
        for limit, step, unit in _AGE_UNITS:
            if age < limit:
                return f"{pluralize(age // step, unit)} ago" if unit else "just now"
    return format_time(time, None)[:10]


def format_time_range(start: datetime, end: datetime, zone: tzinfo | None) -> str:
    first = format_time(start, zone)
    last = format_time(end, zone, start)
    return first if first.endswith(last) else f"{first} to {last}"


def short_model_name(model: str) -> str:
    """Return the name of a model without prefix and date.

    >>> short_model_name("claude-sonnet-4-5-20250929")
    'sonnet-4-5'
    """
    return re.sub(r"-\d{8}$", "", model.removeprefix("claude-"))


def warm_up_note(replies: int, tokens: int, cost: int | None) -> str:
    """Return what a usage report says about warm-ups and replays; the cost is in nanodollars."""
    dollars = "" if cost is None else f", {format_usd(cost)}"
    return (
        "warm-ups and replays of agents are not included: "
        f"{pluralize(replies, 'reply', 'replies')}, {format_tokens(tokens)} tokens{dollars}"
    )


def version_order(version: str | None) -> tuple[tuple[int, str], ...]:
    """Return a sort key that puts 2.0.9 before 2.0.10."""
    return tuple(
        (int(part), "")
        if part.isdecimal() and len(part) <= _MAX_VERSION_DIGITS
        else (0, part)
        for part in (version or "").split(".")
    )
