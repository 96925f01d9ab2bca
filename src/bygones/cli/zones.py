"""Whose days are meant: a zone by its name, or the clock of this machine."""

from __future__ import annotations

from datetime import UTC, tzinfo

import click

from bygones.settings import LocalZone

__all__ = ["LocalZone", "zone_named"]


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
