"""What a shell is told when it asks how a word could go on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from click.shell_completion import CompletionItem, shell_complete

from bygones.cli.table import COMMANDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import click

    from bygones.archive import Archive

__all__ = [
    "VARIABLE",
    "branches_like",
    "complete",
    "named_like",
    "places_like",
    "projects_like",
    "query_like",
    "sessions_like",
    "topics_like",
]

VARIABLE = "_BYGONES_COMPLETE"
_MOST = 100


def complete(instruction: str) -> int:
    """Answer a shell, and return the exit code; it is told of no errors."""
    from bygones.cli.group import CommandGroup  # noqa: PLC0415 (brings everything)

    group = CommandGroup(COMMANDS)
    try:
        return shell_complete(group, {}, "bygones", VARIABLE, instruction)
    except Exception:  # noqa: BLE001 (it would stand in the line that is being typed)
        return 0


def sessions_like(
    context: click.Context, _: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the newest sessions whose id begins so, with their titles."""
    found: list[CompletionItem] = []
    for archive in _opened(context):
        for one in archive.sessions():
            short = one.id[:8]
            if (
                one.id.startswith(incomplete)
                and _is_plain(short)
                and len(found) < _MOST
            ):
                title = _printable(one.title.text)
                found.append(CompletionItem(short, help=title))
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
        if project.name.startswith(incomplete) and _is_plain(project.name)
    ][:_MOST]


def named_like(
    context: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return sessions and projects: what can be exported and restored."""
    sessions = sessions_like(context, param, incomplete)
    return [*sessions, *projects_like(context, param, incomplete)]


def places_like(
    context: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return sessions; where none begins so, have the shell look for files."""
    found = sessions_like(context, param, incomplete)
    return found or [CompletionItem(incomplete, type="file")]


def query_like(
    context: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return how a query goes on behind ``project:``, ``tag:`` or ``model:``.

    For bash the colon stands between two words, and is one of its own.
    """
    fields = {"project": projects_like, "tag": _tags_like, "model": _models_like}
    field, colon, value = incomplete.partition(":")
    if colon and field in fields:
        found = fields[field](context, param, value)
        return [CompletionItem(f"{field}:{one.value}", help=one.help) for one in found]
    before = tuple(context.params.get(param.name or "") or ())
    last = "".join(before[-2:] if before[-1:] == (":",) else before[-1:])
    last += incomplete if incomplete == ":" else ""
    field, colon, _ = last.removeprefix("\0").removeprefix("-").partition(":")
    if not colon or last[-1] != colon or field not in fields:
        return []
    return fields[field](context, param, incomplete.removeprefix(":"))


def _tags_like(
    context: click.Context, _: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    tags = (
        tag
        for archive in _opened(context)
        for told in archive.annotations().values()
        for tag in told.tags
    )
    return _values(tags, incomplete)


def _models_like(
    context: click.Context, _: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    models = (
        model
        for archive in _opened(context)
        for one in archive.sessions()
        for model in one.models
    )
    return _values(models, incomplete)


def _values(found: Iterable[str], incomplete: str) -> list[CompletionItem]:
    fitting = {one for one in found if one.startswith(incomplete) and _is_plain(one)}
    return [CompletionItem(one) for one in sorted(fitting)[:_MOST]]


def _is_plain(word: str) -> bool:
    """Whether a word means itself in every shell.

    Not all of them quote what they complete, and a name from a transcript must not be
    run, taken apart, or read as an option.
    """
    signs = word.replace("_", "").replace(".", "").replace("-", "")
    return not word.startswith("-") and (signs.isalnum() or not signs) and bool(word)


def branches_like(
    context: click.Context, _: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the branches of the session that stands before."""
    from bygones.cli.naming import LAST, session_id  # noqa: PLC0415 (heavy, and rare)
    from bygones.errors import BygonesError  # noqa: PLC0415

    # The option has no value yet, for which reason no word was read.
    given = next(iter(context.args), LAST)
    for archive in _opened(context):
        try:
            session = archive.session(session_id(archive, str(given)))
        except BygonesError:
            return []
        return [
            CompletionItem(str(one.number), help=_printable(one.prompts[0].head))
            for one in session.branches
            if str(one.number).startswith(incomplete) and one.prompts
        ][:_MOST]
    return []


def topics_like(
    _context: click.Context, _: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return what there is a help page about."""
    topics = {row.name: row.summary for row in COMMANDS}
    topics["query"] = "What can be typed to search and to list."
    return [
        CompletionItem(name, help=summary)
        for name, summary in topics.items()
        if name.startswith(incomplete)
    ]


def _printable(text: str) -> str:
    return "".join(sign for sign in text if sign.isprintable())[:60]


def _opened(context: click.Context) -> Iterator[Archive]:
    """Yield the archive, if it can be opened: a shell is told of no errors."""
    from bygones.archive import Archive  # noqa: PLC0415 (only for a shell)
    from bygones.errors import BygonesError  # noqa: PLC0415
    from bygones.settings import archive_folder  # noqa: PLC0415

    given = context.params.get("archive")
    folder = archive_folder(given, os.environ, Path.home())
    try:
        with Archive.open(folder) as archive:
            yield archive
    except (BygonesError, OSError):
        return
