"""`bygones files`: the files that a session changed, or the sessions of a file."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bygones.cli.context import (
    EMPTY_PATH_MESSAGE,
    CommonOptions,
    archive_options,
    color_option,
    complete_names_or_paths,
    cwd,
    iso_option,
    json_option,
)
from bygones.cli.open_archive import open_current
from bygones.cli.output import (
    Console,
    TextColumn,
    TextTable,
    print_objects,
    shorten_path,
)
from bygones.cli.resolve import (
    find_search_result,
    load_named_session,
    resolve_session_id,
)
from bygones.errors import ExitCode, NotInArchive
from bygones.render.text.primitives import sanitize_line, sanitize_name, truncate_start
from bygones.schema.summaries import (
    FileChangeObject,
    list_file_reads,
    newest_changes_first,
    summarize_edits,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bygones.archive import Archive
    from bygones.model.base import SessionId
    from bygones.model.summary import IndexedEdit


_MIN_PATH_WIDTH = 20
_COLUMNS = (
    TextColumn("WHEN"),
    TextColumn("+", is_right_aligned=True),
    TextColumn("-", is_right_aligned=True),
)


def _file_cell(row: FileChangeObject, console: Console) -> str:
    marks = (
        "new" if row.is_new_file else "",
        "deleted" if row.is_deleted else "",
        "" if row.has_diff else "lines not recorded",
        "abandoned" if row.is_abandoned else "",
    )
    text = ", ".join(filter(None, marks))
    return f"{_short_path(row.path, console)}{f' ({text})' if text else ''}"


def _count_cells(row: FileChangeObject) -> tuple[str, str]:
    """Return the added and removed lines, or question marks if none are recorded."""
    if not row.has_diff and not row.added_lines and not row.removed_lines:
        return "?", "?"
    return f"+{row.added_lines}", f"-{row.removed_lines}"


def _short_path(path: str, console: Console) -> str:
    """Return a path relative to the current directory; in a pipe, to the home."""
    here = cwd() if console.is_terminal else None
    return shorten_path(path, cwd=here, home=Path.home())


def _session_cell(
    row: FileChangeObject,
    titles: Mapping[SessionId, str],
    edits: Sequence[IndexedEdit],
    console: Console,
) -> str:
    """Return the id and title of a session, with the file if there are several."""
    several = len({edit.path for edit in edits}) > 1
    where = f"{_short_path(row.path, console)}" if several else ""
    if where and console.width is not None:
        where = truncate_start(where, max(console.width // 3, _MIN_PATH_WIDTH))
    where += "  " if where else ""
    mark = "  (abandoned)" if row.is_abandoned else ""
    title = sanitize_line(titles.get(row.session_id, ""))
    return f"{row.session_id[:8]}  {where}{title}{mark}"


@click.command("files")
@click.argument("name", metavar="SESSION|PATH", shell_complete=complete_names_or_paths)
@click.option("--reads", is_flag=True, help="List files that a session read instead.")
@iso_option
@archive_options
@json_option
@color_option
def files(  # noqa: PLR0913 (one parameter per option)
    *,
    name: str,
    reads: bool,
    iso: bool,
    options: CommonOptions,
    as_json: bool,
    color: str,
) -> None:
    r"""List files that a session changed, or sessions that changed a file.

    \b
    bygones files last
    bygones files last --reads
    bygones files src/checkout.py
    bygones files .

    SESSION is an id or its first characters, "last", or a result number of the last
    search. PATH is a file or a folder, or the end of its path. Changes on all branches
    and by all agents are listed, those on abandoned branches separately: the files of
    a session in the order of the changes, the sessions of a path newest first. The exit
    code is 1 if no session changed it.
    """
    console = Console.for_stdout(color, iso=iso)
    if reads:
        _print_reads(name, options, console, as_json=as_json)
        return
    with open_current(options) as archive:
        edits, is_session = _find_edits(archive, name)
        titles = (
            None if is_session else {s.id: s.title.text for s in archive.sessions()}
        )
        abandoned = archive.abandoned_agents(edits) if is_session else set()
    rows = summarize_edits(edits, abandoned)
    if not is_session:
        rows = newest_changes_first(rows)
    if as_json:
        print_objects(rows)
        return
    if not rows:
        message = "no changed files" if is_session else f"no session changed {name}"
        sys.stderr.write(f"{sanitize_name(message)}\n")
        raise click.exceptions.Exit(
            ExitCode.SUCCESS if is_session else ExitCode.FAILURE
        )
    console.print_lines(_change_lines(rows, edits, titles, console))


def _change_lines(
    rows: Sequence[FileChangeObject],
    edits: Sequence[IndexedEdit],
    titles: Mapping[SessionId, str] | None,
    console: Console,
) -> list[str]:
    """Return the table of changes, with titles for those of a path."""
    table = TextTable(
        _COLUMNS,
        [
            (console.format_time(row.last_changed_at), *_count_cells(row))
            for row in rows
        ],
        width=console.width,
    )
    if titles is None:
        names = ["FILE", *(_file_cell(row, console) for row in rows)]
        return table.lines(names, truncate_start)
    names = ["SESSION", *(_session_cell(row, titles, edits, console) for row in rows)]
    return table.lines(names)


def _print_reads(
    name: str, options: CommonOptions, console: Console, *, as_json: bool
) -> None:
    """Print the files that a session read, the last one first."""
    with open_current(options) as archive:
        session, _ = load_named_session(archive, name)
        rows = list_file_reads(session)
    if as_json:
        print_objects(rows)
        return
    if not rows:
        sys.stderr.write("no files were read\n")
        return
    table = TextTable(
        (TextColumn("WHEN"), TextColumn("READS", is_right_aligned=True)),
        [
            (console.format_time(row.last_read_at), f"{row.read_count:,}")
            for row in rows
        ],
        width=console.width,
    )
    names = ["FILE", *(_short_path(row.path, console) for row in rows)]
    console.print_lines(table.lines(names, truncate_start))


def _find_edits(archive: Archive, name: str) -> tuple[list[IndexedEdit], bool]:
    """Return the edits of the named session, or of the path, and which it is."""
    if not name.strip():
        raise click.UsageError(EMPTY_PATH_MESSAGE)
    is_path = os.sep in name or "/" in name or name in {".", "..", "~"} or "." in name
    if not is_path or find_search_result(name, archive) is not None:
        try:
            return archive.edits(session=resolve_session_id(archive, name)), True
        except NotInArchive as error:
            if not os.path.lexists(name):
                found = archive.edits(path=name)
                if not found:
                    what = "session or changed file"
                    raise NotInArchive(what, name, error.suggestions) from None
                return found, False
    whole = os.path.normpath(Path(name).expanduser().absolute())
    return archive.edits(path=whole) or archive.edits(path=name), False
