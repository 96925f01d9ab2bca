"""`bygones blame`: who wrote each line of a file."""

from __future__ import annotations

import os
import re
import sys
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from bygones.cli.context import (
    CommonOptions,
    complete_branches,
    cwd,
    table_options,
)
from bygones.cli.file_names import (
    choose_turn,
    last_model,
    open_file,
    reject_folder,
    split_file_name,
)
from bygones.cli.open_archive import open_current
from bygones.cli.output import (
    Console,
    TextColumn,
    TextTable,
    print_objects,
    short_session_id,
    shorten_path,
    style_spans,
)
from bygones.errors import ExitCode
from bygones.files.diff import format_patch
from bygones.files.git import find_repository
from bygones.files.origins import OriginKind
from bygones.files.paths import relative_to
from bygones.files.report import blame_line_object, origin_label, place_label
from bygones.files.trace import build_trace
from bygones.render.text.primitives import (
    SpanStyle,
    StyledSpan,
    sanitize_json,
    sanitize_line,
    sanitize_name,
    sanitized_lines,
    truncate_end,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bygones.archive import Archive
    from bygones.cli.file_names import ChosenTurn, TurnName
    from bygones.files.blame import BlamedLine
    from bygones.files.events import Place
    from bygones.files.library import FileBlame, FileLibrary
    from bygones.files.origins import LineOrigin

_LINES = re.compile(r"(.+):(\d+)(?:-(\d+))?")
_MAX_REASONING_LINES = 12
_MAX_DIFF_LINES = 40
_MIN_WIDTH = 20
_COLUMNS = (
    TextColumn("TURN"),
    TextColumn("WHEN"),
    TextColumn("WHO"),
    TextColumn("LINE", is_right_aligned=True),
)
_KIND_STYLES = {
    OriginKind.CLAUDE: SpanStyle.PROMPT,
    OriginKind.MODIFIED: SpanStyle.CODE,
    OriginKind.COMMAND: SpanStyle.AGENT,
    OriginKind.USER: SpanStyle.ADDED,
    OriginKind.BEFORE: SpanStyle.META,
    OriginKind.UNKNOWN: SpanStyle.META,
}


@click.command("blame")
@click.argument("name", metavar="FILE[:LINE[-LINE]][@SESSION[:TURN]]")
@click.option(
    "--branch",
    metavar="NUMBER|LEAF",
    shell_complete=complete_branches,
    show_default="the live branch",
    help="Use this branch of the session: its number, or the id of a record on it.",
)
@click.option(
    "--agent-trace",
    is_flag=True,
    help="Print an Agent Trace 0.1.0 record, with session ids.",
)
@table_options
def blame(  # noqa: PLR0913 (one parameter per option)
    *,
    name: str,
    branch: str | None,
    agent_trace: bool,
    iso: bool,
    options: CommonOptions,
    as_json: bool,
    color: str,
) -> None:
    r"""Show which turn of which session wrote each line of a file.

    \b
    bygones blame src/app.py
    bygones blame src/app.py:42
    bygones blame src/app.py:40-60 --json
    bygones blame src/app.py@last:2 --branch 2

    With a line or a range of lines, the prompt, the reasoning and the change are also
    shown. Lines are matched by content, so commits may have been amended, rebased or
    squashed. A file that no longer exists is shown in its last version. With a SESSION, the
    file is shown as it was after a turn of it; ~2 after it is the same as --branch 2.

    WHO is claude, agent, modified (written by Claude, changed since), user, command (run by
    Claude), before (older than the first recorded version) or unknown. A question mark
    means that it is inferred, not recorded.
    """
    console = Console.for_stdout(color, iso=iso)
    path, lines, turn_name = _parse_name(name)
    if branch and turn_name is None:
        raise click.UsageError("--branch needs a session: FILE@SESSION:TURN")
    whole = Path(os.path.normpath(Path(path).expanduser().absolute()))
    reject_folder(whole)
    # One transaction: the files of the index are checked once, not for every session.
    with open_current(options) as archive, archive.read_transaction():
        library = archive.file_library.with_git()
        if turn_name is None:
            found = library.blame(whole, path)
            if not found.is_on_disk:
                # Found by the end of its path, it may be elsewhere.
                other = Path(library.present_path(found.path))
                if other != whole and other.is_file():
                    found = library.blame(other)
        else:
            found = _blame_turn(archive, path, choose_turn(archive, turn_name, branch))
        shown = _select(found, lines)
        if turn_name is None and (note := _describe(found, whole, library, console)):
            sys.stderr.write(f"note: {note}\n")
        if agent_trace:
            sys.stdout.write(f"{_encode_trace(archive, found, shown, console)}\n")
        elif as_json:
            prompts = _PromptCache(library)
            print_objects(
                blame_line_object(found.path, line, prompts.get(line.origin))
                for line in shown
            )
        elif lines is None:
            console.print_lines(_table_lines(shown, console))
        else:
            console.print_lines(_detail_lines(found, shown, library, console))


def _blame_turn(archive: Archive, path: str, chosen: ChosenTurn) -> FileBlame:
    """Return who wrote the lines that a file had after a turn."""
    found = open_file(archive, path, chosen).blame_at(
        chosen.session.id, chosen.turn, branch=chosen.branch.number
    )
    if found is None:
        name = sanitize_name(path)
        sys.stderr.write(
            f"{name} did not exist at {chosen.label}, or its content is not known;"
            f" `bygones cat {chosen.label}` lists the files of that turn\n"
        )
        raise click.exceptions.Exit(ExitCode.FAILURE)
    return found


def _describe(
    found: FileBlame, path: Path, library: FileLibrary, console: Console
) -> str:
    """Return which file or version is shown instead of the file at a path."""
    name = _short_path(found, console)
    if found.is_on_disk:
        return f"this is {name}" if found.path != str(path) else ""
    if os.path.lexists(found.path):
        return f"this is the last recorded version of {name}, not the one on disk"
    if found.lines:
        return f"{name} is not on disk; this is its last version"
    if not library.is_on_live_branch(found.path):
        session_id, number = library.abandoned_branches(found.path)[-1]
        branch = f"{short_session_id(session_id)}~{number + 1}"
        return (
            f"{name} is not on disk, and only abandoned branches changed it;"
            f" `bygones blame {name}@{branch}` shows it there"
        )
    return (
        f"{name} is not on disk; no version of it is recorded as a whole, so no lines"
        " are shown"
    )


def _encode_trace(
    archive: Archive, found: FileBlame, lines: Sequence[BlamedLine], console: Console
) -> str:
    """Return an Agent Trace record; its path is relative to the repository."""
    repository = find_repository(Path(found.path)) if found.is_on_disk else None
    path = Path(found.path).name
    if repository is not None:
        path = relative_to(found.path, str(repository.root)) or path

    record = build_trace(
        path,
        lines,
        model_of=partial(last_model, archive),
        revision=repository.head if repository else None,
        now=console.now,
    )
    return sanitize_json(msgspec.json.encode(record).decode())


def _parse_name(name: str) -> tuple[str, tuple[int, int] | None, TurnName | None]:
    """Return the path, the lines and the turn that a name consists of."""
    path, turn = split_file_name(name)
    if not path.strip():
        raise click.UsageError("the path is empty")
    match = None if os.path.lexists(path) else _LINES.fullmatch(path)
    if match is None:
        return path, None, turn
    first, last = int(match[2]), int(match[3] or match[2])
    if first < 1 or last < first:
        raise click.UsageError(f"{name!r} has no valid lines; write FILE:40-60")
    return match[1], (first, last), turn


def _select(found: FileBlame, lines: tuple[int, int] | None) -> Sequence[BlamedLine]:
    if lines is None:
        return found.lines
    first, last = lines
    if first > len(found.lines):
        raise click.UsageError(f"the file has only {len(found.lines):,} lines")
    return found.lines[first - 1 : last]


class _PromptCache:
    """The prompts of turns; lines that follow each other often share one."""

    def __init__(self, library: FileLibrary) -> None:
        self._library = library
        self._prompts: dict[tuple[str, int, int], str] = {}

    def get(self, origin: LineOrigin) -> str:
        place = origin.place
        if place is None or origin.is_noticed:
            return ""
        key = (place.session_id, place.branch_number, place.turn_number)
        if key not in self._prompts:
            self._prompts[key] = self._library.prompt(place)[:200]
        return self._prompts[key]


def _place_text(origin: LineOrigin) -> str:
    if origin.place is not None and not origin.is_noticed:
        return place_label(origin.place)
    return origin.commit[:8]


def _table_lines(lines: Sequence[BlamedLine], console: Console) -> Iterator[str]:
    cells = [
        (
            _place_text(line.origin),
            console.format_time(line.origin.time),
            origin_label(line.origin),
            str(line.number),
        )
        for line in lines
    ]
    table = TextTable(_COLUMNS, cells, width=console.width)
    yield "  ".join(table.padded_cells(0))
    for row, line in enumerate(lines, 1):
        *head, number = table.padded_cells(row)
        text = truncate_end(code_line(line.text), max(table.rest_width, _MIN_WIDTH))
        spans = (
            StyledSpan("  ".join(head), _KIND_STYLES[line.origin.kind]),
            StyledSpan(f"  {number}  ", SpanStyle.META),
            StyledSpan(text),
        )
        yield style_spans(spans, is_colored=console.style.is_colored).rstrip()


def _short_path(found: FileBlame, console: Console) -> str:
    """Return the path as it is shown, relative to the working directory on a terminal."""
    here = cwd() if console.is_terminal else None
    return sanitize_name(shorten_path(found.path, cwd=here, home=Path.home()))


def _detail_lines(
    found: FileBlame,
    lines: Sequence[BlamedLine],
    library: FileLibrary,
    console: Console,
) -> Iterator[str]:
    path = _short_path(found, console)
    for origin, group in groupby(lines, key=lambda line: line.origin):
        block = list(group)
        first, last = block[0].number, block[-1].number
        where = f"{path}:{first}" + (f"-{last}" if last > first else "")
        facts = (where, origin_label(origin), console.format_time(origin.time))
        yield console.style.heading(" \N{MIDDLE DOT} ".join(filter(None, facts)))
        for line in block:
            yield f"  {line.number:>5}  {code_line(line.text)}"
        yield ""
        yield from _origin_lines(origin, library, console)


def _origin_lines(
    origin: LineOrigin, library: FileLibrary, console: Console
) -> Iterator[str]:
    if origin.command:
        yield f"Command: {sanitize_line(origin.command)}"
    if origin.commit:
        yield f"Commit:  {origin.commit}"
    place = origin.place
    if place is None:
        yield ""
        return
    session = short_session_id(place.session_id)
    if origin.is_noticed:
        title = sanitize_line(library.title(place.session_id))
        yield f"Noticed: {session} {title}, turn {place.turn_number + 1}"
        yield from _open_lines(session, place)
        return
    details = library.describe(place, origin.path)
    branch = f" of branch {place.branch_number + 1}" if place.branch_number else ""
    agent = f", agent {sanitize_name(place.agent_id)}" if place.agent_id else ""
    yield (
        f"Session: {session} {sanitize_line(details.title)}, turn"
        f" {place.turn_number + 1}{branch}{agent}"
    )
    for title, text, limit in (
        ("Prompt", details.prompt, None),
        ("Reasoning", details.reasoning, _MAX_REASONING_LINES),
    ):
        if text:
            yield f"{title}:"
            yield from _indented(text, limit, console)
    if details.hunks:
        yield "Change:"
        name = sanitize_name(origin.path)
        for row in list(format_patch(details.hunks, name, name))[2:][:_MAX_DIFF_LINES]:
            yield f"  {style_diff_line(row, console)}"
    yield from _open_lines(session, place)


def _open_lines(session: str, place: Place) -> Iterator[str]:
    if place.message_id:
        yield f"Open:    bygones show {session} --around {place.message_id}"
    yield ""


def _indented(text: str, limit: int | None, console: Console) -> Iterator[str]:
    rows = list(sanitized_lines(text))
    for row in rows[:limit]:
        yield from (f"  {part}" for part in console.wrap(row))
    if limit is not None and len(rows) > limit:
        yield f"  … {len(rows) - limit:,} more lines"


def code_line(text: str) -> str:
    """Return a line of a file without control characters, but with its indentation."""
    return sanitize_name(text.expandtabs(4))


def print_exact(text: str) -> None:
    """Write a text of a file to a file or pipe, byte for byte."""
    if hasattr(sys.stdout, "buffer"):
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encode("utf-8", "surrogatepass"))
    else:
        sys.stdout.write(text)


def style_diff_line(line: str, console: Console) -> str:
    """Return a line of a diff in its color, without control characters."""
    styles = {"+": SpanStyle.ADDED, "-": SpanStyle.REMOVED, "@": SpanStyle.META}
    style = styles.get(line[:1], SpanStyle.PLAIN)
    span = StyledSpan(code_line(line), style)
    return style_spans((span,), is_colored=console.style.is_colored)
