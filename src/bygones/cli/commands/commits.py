"""`bygones commits`: commits of a session, and sessions of a commit."""

from __future__ import annotations

import re
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bygones.cli.context import CommonOptions, complete_sessions, table_options
from bygones.cli.file_names import last_model
from bygones.cli.open_archive import open_current
from bygones.cli.output import (
    Console,
    TextColumn,
    TextTable,
    print_objects,
    short_session_id,
)
from bygones.cli.resolve import find_search_result, resolve_summary
from bygones.errors import NotInArchive
from bygones.files.commits import find_authors, find_commits, format_note
from bygones.files.git import find_repository
from bygones.render.text.primitives import sanitize, sanitize_line, sanitize_name
from bygones.schema.files import CommitObject

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bygones.archive import Archive
    from bygones.files.git import GitCommit, GitRepository

_MIN_SUMMARY_WIDTH = 16
_SHA = re.compile(r"[0-9a-f]{4,40}")


@click.command("commits")
@click.argument(
    "name", metavar="[SESSION|COMMIT]", default="last", shell_complete=complete_sessions
)
@click.option(
    "--git-note",
    is_flag=True,
    help="Print a note of the git-ai standard 3.0.0 for COMMIT, with session ids.",
)
@table_options
def commits(  # noqa: PLR0913 (one parameter per option)
    *,
    name: str,
    git_note: bool,
    iso: bool,
    options: CommonOptions,
    as_json: bool,
    color: str,
) -> None:
    r"""List the commits and pull requests of a session, or the sessions of a commit.

    \b
    bygones commits last
    bygones commits 5e551000 --json

    SESSION is an id or its first characters, "last", or a result number of the last
    search (default: last). COMMIT is a name that git knows in the current directory, such as
    HEAD or a hash. The lines that the commit added are looked up in the files that
    sessions wrote, so a commit that was amended, rebased or squashed is found as well. LINES
    is how many of the added lines a session wrote.
    """
    console = Console.for_stdout(color, iso=iso)
    with open_current(options) as archive:
        if git_note:
            sys.stdout.write(f"{sanitize(_format_note(archive, name))}\n")
            return
        rows = list(_find(archive, name))
    if as_json:
        print_objects(rows)
        return
    if not rows:
        sys.stderr.write(f"{_explain_none(name)}\n")
        return
    has_lines = any(row.line_count is not None for row in rows)
    table = TextTable(
        (
            TextColumn("TURN"),
            TextColumn("WHEN", drop_order=1),
            TextColumn("COMMIT"),
            TextColumn(
                "LINES", is_right_aligned=True, drop_order=0 if has_lines else 2
            ),
        ),
        [
            (
                f"{short_session_id(row.session_id)}:{row.turn_number or ''}",
                console.format_time(row.made_at),
                (row.sha or "")[:10] or row.kind.replace("_", " "),
                f"{row.line_count:,} of {row.added_line_count:,}"
                if row.line_count is not None
                else "",
            )
            for row in rows
        ],
        width=console.width,
        min_rest_width=_MIN_SUMMARY_WIDTH,
    )
    texts = [sanitize_line(row.summary or row.url or "") for row in rows]
    console.print_lines(table.lines(["", *texts]))


def _explain_none(name: str) -> str:
    shown = sanitize_name(name)
    repository = find_repository(Path.cwd())
    if _resolve(repository, name) is None:
        return f"no commits are recorded in session {shown}"
    return f"no session wrote lines that commit {shown} added"


def _find(archive: Archive, name: str) -> Iterator[CommitObject]:
    repository = find_repository(Path.cwd())
    is_result = find_search_result(name, archive) is not None
    session_error: NotInArchive | None = None
    try:
        summary = resolve_summary(archive, name)
    except NotInArchive as error:
        session_error = error
    else:
        sha = _resolve(repository, name) if _SHA.fullmatch(name) else None
        if is_result or sha is None or summary.id.startswith(name):
            yield from _commits_of_session(archive, summary.id)
            return
    sha = _resolve(repository, name)
    commit = repository.commit(sha) if repository and sha else None
    if repository is None or commit is None:
        if session_error is not None:
            raise NotInArchive("session or commit", name)
        return
    yield from _sessions_of_commit(archive, repository, commit)


def _format_note(archive: Archive, name: str) -> str:
    repository = find_repository(Path.cwd())
    sha = _resolve(repository, name)
    commit = repository.commit(sha) if repository and sha else None
    if repository is None or commit is None:
        raise click.UsageError(f"{name!r} is not a commit of a repository here")

    return format_note(
        archive.file_library.with_git(),
        repository,
        commit,
        partial(last_model, archive),
    )


def _resolve(repository: GitRepository | None, name: str) -> str | None:
    return repository.resolve_commit(name) if repository else None


def _commits_of_session(archive: Archive, session_id: str) -> Iterator[CommitObject]:
    log = archive.file_library.with_git().log(archive.session_summary(session_id).id)
    for found in find_commits(log):
        yield CommitObject(
            sha=found.sha or None,
            summary=found.summary or None,
            kind=found.kind,
            git_branch=found.git_branch or None,
            url=found.url or None,
            session_id=found.place.session_id,
            turn_number=found.place.turn_number + 1,
            made_at=found.made_at,
            line_count=None,
            added_line_count=None,
        )


def _sessions_of_commit(
    archive: Archive, repository: GitRepository, commit: GitCommit
) -> Iterator[CommitObject]:
    for share in find_authors(archive.file_library.with_git(), repository, commit):
        yield CommitObject(
            sha=commit.sha,
            summary=commit.summary,
            kind="content",
            git_branch=None,
            url=None,
            session_id=share.session_id,
            turn_number=share.turn_number + 1,
            made_at=commit.committed_at,
            line_count=share.line_count,
            added_line_count=share.added_line_count,
        )
