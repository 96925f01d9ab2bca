"""`bygones cat`: a file as it was at a turn."""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bygones.cli.commands.blame import code_line, print_exact
from bygones.cli.context import (
    CommonOptions,
    archive_options,
    color_option,
    complete_branches,
    json_option,
    parse_time_option,
    path_type,
)
from bygones.cli.file_names import (
    ChosenTurn,
    choose_turn,
    looks_like_session,
    open_file,
    parse_turn_name,
    reject_folder,
    split_file_name,
)
from bygones.cli.open_archive import open_current
from bygones.cli.output import (
    Console,
    TextColumn,
    TextTable,
    display_path,
    print_objects,
)
from bygones.errors import ExitCode
from bygones.files.copies import plan_copies, write_copies
from bygones.files.report import file_at_object, place_label
from bygones.render.text.primitives import sanitize_line, sanitize_name, truncate_start

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bygones.archive import Archive
    from bygones.files.history import FileAt

_TICK = timedelta(microseconds=1)
_COLUMNS = (
    TextColumn("TURN"),
    TextColumn("CHANGED"),
    TextColumn("LINES", is_right_aligned=True),
    TextColumn("STATE"),
)


@click.command("cat")
@click.argument("name", metavar="FILE[@SESSION[:TURN]]|SESSION[:TURN]")
@click.option(
    "--branch",
    metavar="NUMBER|LEAF",
    shell_complete=complete_branches,
    show_default="the live branch",
    help="Use this branch: its number, or the id of a record on it.",
)
@click.option("--at", "time", metavar="TIME", help="Show the file as it was then.")
@click.option("--before", is_flag=True, help="Show it before the turn, not after it.")
@click.option(
    "-o",
    "--output",
    "folder",
    type=path_type(allow_file=False),
    metavar="FOLDER",
    help="Write copies below this folder; existing files are not replaced.",
)
@archive_options
@json_option
@color_option
def cat(  # noqa: PLR0913 (one parameter per option)
    *,
    name: str,
    branch: str | None,
    time: str | None,
    before: bool,
    folder: Path | None,
    options: CommonOptions,
    as_json: bool,
    color: str,
) -> None:
    r"""Print a file as it was at a turn, or list all files that a session changed.

    \b
    bygones cat src/app.py@last:2
    bygones cat src/app.py@5e551000:3 --before
    bygones cat src/app.py@last:2~2
    bygones cat src/app.py --at today
    bygones cat 5e551000:3 -o /tmp/files

    FILE is a path, relative to the current directory, or the end of a path. SESSION is an
    id or its first characters, "last", or a result number of the last search. TURN
    counts from 1 (default: the last turn); ~2 after it is the same as --branch 2.
    Without FILE, the files that the session changed are listed; with -o, they are
    written. The TIME of --at includes all of the day, minute or second that it names.

    The content is derived from what the session wrote, read and backed up. A note says
    what is not certain; the exit code is 1 if the content is not known.
    """
    console = Console.for_stdout(color)
    with open_current(options) as archive:
        if time is None:
            files = _find_files(archive, name, branch, before=before)
        elif branch or before or split_file_name(name)[1]:
            raise click.UsageError("--at needs a file alone, without a session")
        else:
            period = parse_time_option("--at", time, now=console.now)
            # The end of a period is the start of the next one.
            moment = period.end - _TICK if period.end else console.now
            reject_folder(Path(name).expanduser())
            files = [open_file(archive, name).at_time(moment)]
        is_tree = time is None and _names_session(name)
        written: dict[str, str] = {}
        if folder is not None:
            root = _common_root(archive, files)
            written = write_copies(plan_copies(files, folder, root))
    if as_json:
        print_objects(file_at_object(file, written.get(file.path)) for file in files)
    elif folder is not None:
        for path in written.values():
            sys.stdout.write(f"{sanitize_name(path)}\n")
    elif is_tree:
        console.print_lines(_tree_lines(files, console))
    else:
        _print_content(files[0], console)
    _print_notes(files, is_tree=is_tree)
    if not is_tree and files[0].text is None:
        raise click.exceptions.Exit(ExitCode.FAILURE)


def _names_session(name: str) -> bool:
    path, turn = split_file_name(name)
    is_session = looks_like_session(name) and not os.path.lexists(name)
    return not path or (turn is None and is_session)


def _find_files(
    archive: Archive, name: str, branch: str | None, *, before: bool
) -> list[FileAt]:
    path, turn_name = split_file_name(name)
    if _names_session(name):
        chosen = choose_turn(archive, turn_name or parse_turn_name(name), branch)
        return _files_of_turn(archive, chosen, before=before)
    reject_folder(Path(path).expanduser())
    if turn_name is None:
        if branch or before:
            raise click.UsageError("--branch and --before need FILE@SESSION:TURN")
        return [open_file(archive, path).history.last]
    chosen = choose_turn(archive, turn_name, branch)
    return [
        open_file(archive, path, chosen).at(
            chosen.session.id,
            chosen.turn,
            branch=chosen.branch.number,
            is_before=before,
        )
    ]


def _files_of_turn(
    archive: Archive, chosen: ChosenTurn, *, before: bool
) -> list[FileAt]:
    last = len(chosen.branch.turns) - 1
    return archive.file_library.with_git().files_at(
        chosen.session.id,
        last if chosen.turn is None else chosen.turn,
        branch=chosen.branch.number,
        is_before=before,
    )


def _common_root(archive: Archive, files: Sequence[FileAt]) -> str:
    """Return the directory of the project to which copies are relative."""
    for file in files:
        if file.version is not None:
            summary = archive.session_summary(file.version.place.session_id)
            return summary.project or ""
    return ""


def _print_content(file: FileAt, console: Console) -> None:
    if file.text is None:
        return
    if console.is_terminal:
        console.print_lines(map(code_line, file.text.removesuffix("\n").split("\n")))
    else:
        print_exact(file.text)


def _state(file: FileAt) -> str:
    if file.version is None or not file.version.is_known:
        return "content unknown"
    if not file.exists:
        return "does not exist"
    return "" if file.is_certain else "not certain"


def _tree_lines(files: Sequence[FileAt], console: Console) -> list[str]:
    rows = []
    for file in files:
        place = file.version.place if file.version else None
        rows.append(
            (
                place_label(place) if place else "",
                console.format_time(file.version.time if file.version else None),
                f"{file.text.count(chr(10)):,}" if file.text is not None else "",
                _state(file),
            )
        )
    names = ["FILE", *(display_path(file.path) for file in files)]
    return TextTable(_COLUMNS, rows, width=console.width).lines(names, truncate_start)


def _print_notes(files: Sequence[FileAt], *, is_tree: bool) -> None:
    if not files:
        sys.stderr.write("no changed files\n")
        return
    file = files[0]
    if is_tree:
        return
    path = sanitize_name(file.path)
    if file.version is None:
        sys.stderr.write(f"no version of {path} is known at that time\n")
    elif not file.version.is_known:
        sys.stderr.write(
            f"the content of {path} is not known: it was changed at"
            f" {place_label(file.version.place)}"
            " without a record of the whole\n"
        )
    elif not file.exists:
        sys.stderr.write(f"{path} did not exist at that time\n")
    elif not file.version.is_exact:
        sys.stderr.write("note: a part of the content is inferred\n")
    if file.former_path:
        former = sanitize_name(display_path(Path(file.former_path)))
        sys.stderr.write(f"note: it was renamed later; its path was {former}\n")
    for doubt in file.doubts[-3:]:
        command = sanitize_line(doubt.command)[:100]
        sys.stderr.write(f"note: this command may have changed it since: {command}\n")
