"""`bygones completion`, and the completions that shells request."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem, get_completion_class

from bygones.cli.commands.registry import COMMANDS
from bygones.cli.context import COMPLETE_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from bygones.archive import Archive


_MAX_ITEMS = 100


def suggest_sessions(
    context: click.Context, _: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the newest sessions whose id has this prefix, with their titles."""
    found: list[CompletionItem] = []
    for archive in _open_archive(context):
        for one in archive.sessions():
            short = one.id[:8]
            if (
                one.id.startswith(incomplete)
                and _is_shell_safe(short)
                and len(found) < _MAX_ITEMS
            ):
                title = _printable(one.title.text)
                found.append(CompletionItem(short, help=title))
    last = [CompletionItem("last", help="the newest session")]
    return [*(last if "last".startswith(incomplete) else []), *found]


def suggest_projects(
    context: click.Context, _: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    return [
        # A newline would start another suggestion.
        CompletionItem(project.name, help=_printable(project.path or ""))
        for archive in _open_archive(context)
        for project in archive.projects()
        if project.name.startswith(incomplete) and _is_shell_safe(project.name)
    ][:_MAX_ITEMS]


def suggest_names(
    context: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    sessions = suggest_sessions(context, param, incomplete)
    return [*sessions, *suggest_projects(context, param, incomplete)]


def suggest_names_or_paths(
    context: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return sessions; if none matches, let the shell complete files."""
    found = suggest_sessions(context, param, incomplete)
    return found or [CompletionItem(incomplete, type="file")]


def suggest_query(
    context: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return values for `project:`, `tag:` or `model:`.

    bash splits words at the colon, which is a word of its own there.
    """
    fields = {
        "project": suggest_projects,
        "tag": _suggest_tags,
        "model": _suggest_models,
    }
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


def _suggest_tags(
    context: click.Context, _: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    tags = (
        tag
        for archive in _open_archive(context)
        for one in archive.annotations().values()
        for tag in one.tags
    )
    return _matching_items(tags, incomplete)


def _suggest_models(
    context: click.Context, _: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    models = (
        model
        for archive in _open_archive(context)
        for one in archive.sessions()
        for model in one.models
    )
    return _matching_items(models, incomplete)


def _matching_items(values: Iterable[str], incomplete: str) -> list[CompletionItem]:
    fitting = {
        one for one in values if one.startswith(incomplete) and _is_shell_safe(one)
    }
    return [CompletionItem(one) for one in sorted(fitting)[:_MAX_ITEMS]]


def _is_shell_safe(word: str) -> bool:
    """Whether a word means itself in every shell.

    Not all of them quote what they complete, and a name from a transcript must not be
    run, taken apart, or read as an option.
    """
    letters = word.replace("_", "").replace(".", "").replace("-", "")
    return (
        not word.startswith("-") and (letters.isalnum() or not letters) and bool(word)
    )


def suggest_branches(
    context: click.Context, _: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the branches of the session that is named before the option."""
    from bygones.cli.context import LAST
    from bygones.cli.resolve import resolve_session_id
    from bygones.errors import BygonesError

    # click has not parsed the arguments, because the option has no value yet.
    given = next(iter(context.args), LAST)
    for archive in _open_archive(context):
        try:
            session = archive.session(resolve_session_id(archive, str(given)))
        except BygonesError:
            return []
        return [
            CompletionItem(str(one.number + 1), help=_printable(one.prompts[0].preview))
            for one in session.branches
            if str(one.number + 1).startswith(incomplete) and one.prompts
        ][:_MAX_ITEMS]
    return []


def suggest_topics(
    _context: click.Context, _: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    topics = {row.name: row.summary for row in COMMANDS}
    topics["query"] = "What can be typed to search and to list."
    return [
        CompletionItem(name, help=summary)
        for name, summary in topics.items()
        if name.startswith(incomplete)
    ]


def _printable(text: str) -> str:
    return "".join(sign for sign in text if sign.isprintable())[:60]


def _open_archive(context: click.Context) -> Iterator[Archive]:
    """Yield the archive if it can be opened; errors are ignored."""
    from bygones.archive import Archive
    from bygones.config import resolve_archive_location
    from bygones.errors import BygonesError

    given = context.params.get("archive")
    folder = resolve_archive_location(given, os.environ, Path.home())
    try:
        with Archive.open(folder) as archive:
            yield archive
    except (BygonesError, OSError):
        return


_SHELLS = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    r"""Print a completion script for your shell.

    \b
    bygones completion zsh > ~/.zfunc/_bygones
    cd ~/.local/share/bash-completion/completions
    bygones completion bash > bygones
    cd ~/.config/fish/completions
    bygones completion fish > bygones.fish

    The script completes commands, options, sessions and projects.
    """
    found = get_completion_class(shell)
    above = context.parent
    if found is None or above is None:
        raise click.UsageError(f"no completion for {shell}")
    asking = found(above.command, {}, "bygones", COMPLETE_VARIABLE)
    # Asking bash for its version could only delay what is printed.
    click.echo(asking.source_template % asking.source_vars())
