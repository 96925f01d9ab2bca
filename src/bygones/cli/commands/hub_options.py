"""Options of commands for administrators of a hub, and its audit log."""

from __future__ import annotations

import getpass
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bygones.team.access import AuditEvent, record_event

if TYPE_CHECKING:
    from bygones.team.blobs import ExternalBlobStore
    from bygones.team.stores.base import TeamStore

STORE_VARIABLE = "BYGONES_HUB_STORE"
RAW_VARIABLE = "BYGONES_HUB_RAW"


def hub_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for the database and the raw store of a hub."""
    store = click.option(
        "--store",
        envvar=STORE_VARIABLE,
        required=True,
        metavar="ADDRESS",
        help="Database: postgresql://… or clickhouse://….",
    )
    raw = click.option(
        "--raw",
        envvar=RAW_VARIABLE,
        required=True,
        metavar="FOLDER|URL",
        help="Raw store: a folder, or s3://bucket/folder.",
    )
    return store(raw(command))


@contextmanager
def open_hub(
    store: str, raw: str, *, replaces_index: bool = False
) -> Iterator[tuple[TeamStore, ExternalBlobStore]]:
    from bygones.team.access import open_hub_stores

    with open_hub_stores(store, raw, replaces_index=replaces_index) as place:
        yield place


def utc_now() -> datetime:
    return datetime.now(UTC)  # noqa: TID251 (an interface reads the clock)


def record_action(engine: TeamStore, action: str, person: str, detail: str) -> None:
    """Add to the audit log what an administrator did."""
    try:
        by = getpass.getuser()
    except (OSError, KeyError, ImportError):
        by = ""
    event = AuditEvent(at=utc_now(), action=action, person=person, detail=detail, by=by)
    record_event(engine, event)


def abbreviate_home(project: str) -> str:
    """Return a directory with `~` for the home, as a hub stores it.

    Shells expand the tilde before the command sees it.
    """
    home = str(Path.home())
    is_ours = project == home or project.startswith(f"{home}{os.sep}")
    return f"~{project[len(home) :]}" if is_ours else project
