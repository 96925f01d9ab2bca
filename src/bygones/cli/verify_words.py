"""What is said of a verification."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from bygones.cli.options import shown_path
from bygones.cli.terminal import plain
from bygones.render.figures import several, size
from bygones.upkeep import Verdict

__all__ = ["tell_verdict"]

_TOLD = 20
"""Damages that are told one by one."""


def tell_verdict(verdict: Verdict, folder: Path) -> None:
    """Say what was found, and what to do about it."""
    place = plain(shown_path(folder))
    checked = f"{several(verdict.sources, 'file')}, {size(verdict.bytes)}"
    if verdict.is_sound:
        index = " and the index equals a rebuild" if verdict.is_compared else ""
        click.echo(f"sound: {checked} in {place}{index}")
        if note := _note(verdict):
            sys.stderr.write(f"note: {note}\n")
        return
    click.echo(f"damaged: {place}")
    if verdict.database != "ok":
        click.echo(f"  the database: {plain(verdict.database)}")
    bad = [*verdict.damages, *verdict.gaps]
    for damage in bad[:_TOLD]:
        where = f"bytes {damage.start:,} to {damage.stop:,}"
        older = f", generation {damage.generation}" if damage.generation else ""
        source = shown_path(damage.source)
        click.echo(plain(f"  {source}: {where}{older}: {damage.reason}"))
    if len(bad) > _TOLD:
        click.echo(f"  and {len(bad) - _TOLD:,} more")
    for table in verdict.differences:
        click.echo(plain(f"  the index: {table} is not what a rebuild gives"))
    click.echo(
        f"whole: {verdict.whole_sources:,} of {several(verdict.sources, 'file')}"
    )
    sys.stderr.write(f"\nhint: {_advice(verdict)}\n")


def _note(verdict: Verdict) -> str:
    if verdict.is_busy:
        return "the index was not looked at: somebody is writing to it"
    if not verdict.has_index:
        return "there is no sound index; `bygones rebuild` makes one"
    if not verdict.is_level:
        return "the index lags; `bygones ingest` goes on with it"
    return ""


def _advice(verdict: Verdict) -> str:
    if verdict.damages or verdict.gaps or verdict.database != "ok":
        return (
            "files that Claude Code still has can be taken in again into a new archive;"
            " for the rest use a backup"
        )
    return "run `bygones rebuild`; no byte of the archive is damaged"
