"""Which sessions of a hub are meant: by person, session, project and time."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import msgspec

from bygones.cli.hub_options import now
from bygones.cli.terminal import plain
from bygones.model.ids import SessionId
from bygones.query.times import Now, period
from bygones.team.contract import Selector

__all__ = ["selector_of", "told", "which_options"]


def which_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that say which sessions are meant."""
    for name, meaning in (
        ("--project", "A directory as the hub shows it, such as ~/work/shop."),
        ("--session", "One session, by its whole id."),
        ("--person", "What this person sent."),
    ):
        command = click.option(name, help=meaning)(command)
    return command


def selector_of(
    person: str | None,
    session: str | None,
    project: str | None,
    before: str | None = None,
) -> Selector:
    """Return what is meant; something has to be."""
    if not any((person, session, project, before)):
        raise click.UsageError("name a --person, --session or --project, or --before")
    return Selector(
        person=person,
        session=SessionId(session) if session else None,
        project=_as_shown(project) if project else None,
        before=_moment(before) if before else None,
    )


def _as_shown(project: str) -> str:
    """Return a directory as a hub knows it, which hides homes behind a tilde.

    Shells put the home of whoever types into the place of a tilde.
    """
    home = str(Path.home())
    is_ours = project == home or project.startswith(f"{home}{os.sep}")
    return f"~{project[len(home) :]}" if is_ours else project


def _moment(text: str) -> datetime:
    found = period("before", text, Now(now(), now().astimezone().tzinfo or UTC))
    if found is None or found.end is None:
        raise click.UsageError(f"{text!r} is no time; 2026-01-31 and 400d are")
    return found.end


def told(selector: Selector) -> str:
    """Return in words what is meant."""
    facts = msgspec.to_builtins(selector)
    return ", ".join(f"{name} {plain(str(v))}" for name, v in facts.items() if v)
