"""Restoring for another directory: what is put in place of the old one."""

from __future__ import annotations

import click

from recollect.archive import Archive
from recollect.cli.naming import Meant
from recollect.upkeep import Rewrite, rewritten_cwd

__all__ = ["rewrite_of"]


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
