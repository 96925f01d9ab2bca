"""What a shell is told when it asks how a word could go on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from click.shell_completion import CompletionItem, shell_complete

from recollect.cli.table import COMMANDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    import click

    from recollect.archive import Archive

__all__ = ["VARIABLE", "complete", "projects_like", "sessions_like"]

VARIABLE = "_RECOLLECT_COMPLETE"
_MOST = 100


def complete(instruction: str) -> int:
    """Answer a shell, and return the exit code; it is told of no errors."""
    from recollect.cli.group import CommandGroup  # noqa: PLC0415 (brings everything)

    group = CommandGroup(COMMANDS)
    try:
        return shell_complete(group, {}, "recollect", VARIABLE, instruction)
    except Exception:  # noqa: BLE001 (it would stand in the line that is being typed)
        return 0


def sessions_like(
    context: click.Context, _: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the newest sessions whose id begins so, with their titles."""
    found: list[CompletionItem] = []
    for archive in _opened(context):
        for one in archive.sessions():
            if one.id.startswith(incomplete) and len(found) < _MOST:
                title = "".join(s for s in one.title.text if s.isprintable())
                found.append(CompletionItem(one.id[:8], help=title[:60]))
    last = [CompletionItem("last", help="the newest session")]
    return [*(last if "last".startswith(incomplete) else []), *found]


def projects_like(
    context: click.Context, _: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the names of projects that begin so, with their paths."""
    return [
        CompletionItem(project.name, help=project.path or "")
        for archive in _opened(context)
        for project in archive.projects()
        if project.name.startswith(incomplete)
    ][:_MOST]


def _opened(context: click.Context) -> Iterator[Archive]:
    """Yield the archive, if it can be opened: a shell is told of no errors."""
    from recollect.archive import Archive  # noqa: PLC0415 (only for a shell)
    from recollect.errors import RecollectError  # noqa: PLC0415
    from recollect.settings import archive_folder  # noqa: PLC0415

    given = context.params.get("archive")
    folder = archive_folder(given, os.environ, Path.home())
    try:
        with Archive.open(folder) as archive:
            yield archive
    except (RecollectError, OSError):
        return
