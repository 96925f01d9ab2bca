"""Whose days are meant: a zone by its name, or the clock of this machine."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo

import click

__all__ = ["LocalZone", "zone_named"]


class LocalZone(tzinfo):
    """The clock of this machine, with its summers and winters."""

    def utcoffset(self, when: datetime | None, /) -> timedelta:
        """Return how far the clock is ahead when it shows this."""
        shown = when or datetime(1970, 1, 1)  # noqa: DTZ001 (a clock on the wall)
        return shown.replace(tzinfo=None).astimezone().utcoffset() or timedelta()

    def dst(self, _when: datetime | None, /) -> timedelta | None:
        """Return nothing: what the clock shows is all that counts."""
        return None

    def tzname(self, _when: datetime | None, /) -> str:
        """Return what to call it."""
        return str(self)

    def fromutc(self, when: datetime, /) -> datetime:
        """Return what the clock shows at a moment."""
        local = when.replace(tzinfo=UTC).astimezone()
        shown = local.replace(tzinfo=self)
        # An hour that the clock shows twice is the second one where the first is not.
        is_first = shown.utcoffset() == local.utcoffset()
        return shown if is_first else shown.replace(fold=1)

    def __str__(self) -> str:
        return "local time"


def zone_named(name: str | None) -> tzinfo:
    """Return the zone of this name, that of this machine without one."""
    if name is None or name == "local":
        return LocalZone()
    if name.upper() in {"UTC", "Z"}:
        return UTC
    from zoneinfo import ZoneInfo  # noqa: PLC0415 (most people stay at home)

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise click.BadParameter(
            f"{name!r} is no time zone known here; one is named like Europe/Paris",
            param_hint="--zone",
        ) from error
