"""Restoring for another directory: what is put in place of the old one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import click

from bygones.archive import Archive
from bygones.cli.naming import Meant
from bygones.cli.options import shown_path
from bygones.store.chunks import Kept
from bygones.upkeep import Rewrite, rewritten_cwd

__all__ = ["place_of", "rewrite_of"]


def place_of(project: Path, sources: Sequence[Kept], to: Path | None) -> str:
    """Return where a project really lies, if its sessions can follow it there."""
    told = [kept for kept in sources if kept.kind.is_transcript]
    movable = {kept.session for kept in told if kept.project is not None}
    for kept in told:
        if to is None and kept.project is None and kept.session not in movable:
            raise click.UsageError(
                f"{shown_path(kept.id)} lies in no home, so there is no folder of "
                "projects for --as; name a home with --to"
            )
    return os.path.realpath(project.expanduser())


def rewrite_of(archive: Archive, wanted: Meant, place: str | None) -> Rewrite | None:
    """Return how to rewrite the records of sessions that lie in one directory."""
    olds = {archive.listed(id_).project for id_ in wanted.sessions}
    olds.update(one.path for one in wanted.projects)
    olds.discard(None)
    if len(olds) > 1:
        raise click.UsageError(
            "the sessions are of several projects; name those of one"
        )
    old = next(iter(olds), None)
    return rewritten_cwd(old, place) if old and place else None
