"""What all commands of a hub are told: its engine and its raw store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from bygones.team.contract import TeamStore
    from bygones.team.objects import RawObjects

__all__ = ["RAW_VARIABLE", "STORE_VARIABLE", "hub_options", "now", "opened_hub"]

STORE_VARIABLE = "BYGONES_HUB_STORE"
RAW_VARIABLE = "BYGONES_HUB_RAW"


def hub_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that say where the hub keeps what it has."""
    store = click.option(
        "--store",
        envvar=STORE_VARIABLE,
        required=True,
        metavar="ADDRESS",
        help="The engine: postgresql://… or clickhouse://….",
    )
    raw = click.option(
        "--raw",
        envvar=RAW_VARIABLE,
        required=True,
        metavar="FOLDER|URL",
        help="The raw store: a folder, or s3://bucket/folder.",
    )
    return store(raw(command))


@contextmanager
def opened_hub(store: str, raw: str) -> Iterator[tuple[TeamStore, RawObjects]]:
    """Open what a hub stands on."""
    from bygones.hub.place import opened  # noqa: PLC0415 (not for a help page)

    with opened(store, raw) as place:
        yield place


def now() -> datetime:
    """Return the time."""
    return datetime.now(UTC)  # noqa: TID251 (a face knows the clock)
