"""`bygones diff`: files of one turn compared with another turn, the disk or a commit."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import click

from bygones.cli.commands.blame import print_exact, style_diff_line
from bygones.cli.context import (
    CommonOptions,
    archive_options,
    color_option,
    complete_branches,
    json_option,
)
from bygones.cli.file_names import (
    choose_turn,
    looks_like_session,
    open_file,
    parse_turn_name,
    split_file_name,
)
from bygones.cli.open_archive import open_current
from bygones.cli.output import Console, display_path, print_objects
from bygones.files.diff import build_patch, format_patch, quote_name
from bygones.files.disk import read_regular_file
from bygones.files.events import decode_bytes
from bygones.files.git import find_repository
from bygones.files.paths import path_key, relative_to
from bygones.render.text.primitives import sanitize_name
from bygones.schema.files import FileDiffObject

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from bygones.archive import Archive
    from bygones.cli.file_names import ChosenTurn
    from bygones.files.history import FileAt
    from bygones.model.sessions import Branch, Session

DISK = "disk"
_COMMIT = "git:"


class _State(NamedTuple):
    """The content of a file; no text means that it does not exist."""

    text: str | None
    is_known: bool = True


class _ComparedSide(Protocol):
    label: str

    def state(self, path: str) -> _State: ...


class _Side:
    """One side of a comparison: a turn, the disk or a commit."""

    def __init__(self, name: str, archive: Archive, branch: str | None) -> None:
        self.path = ""
        self.chosen: ChosenTurn | None = None
        self.label = name
        self._archive = archive
        self._files: dict[str, FileAt] | None = None
        if name == DISK or name.startswith(_COMMIT):
            return
        self.path, turn = split_file_name(name)
        if turn is None and (not looks_like_session(name) or Path(name).exists()):
            self.label = DISK
            return
        if turn is None:
            self.path, turn = "", parse_turn_name(name)
        self.chosen = choose_turn(archive, turn, branch)
        self.label = self.chosen.label

    @property
    def files(self) -> dict[str, FileAt]:
        """The files that the session changed, by key."""
        if self._files is None:
            chosen = self.chosen
            self._files = {}
            if chosen is not None:
                turn = len(chosen.branch.turns) if chosen.turn is None else chosen.turn
                found = self._archive.file_library.with_git().files_at(
                    chosen.session.id,
                    turn + 1,
                    branch=chosen.branch.number,
                    is_before=True,
                )
                self._files = {path_key(file.path): file for file in found}
        return self._files

    def state(self, path: str) -> _State:
        """Return the content of a file on this side."""
        if self.chosen is not None:
            file = self.files.get(path_key(path))
            if file is None:
                chosen = self.chosen
                archived = open_file(self._archive, path, chosen)
                file = archived.at(
                    chosen.session.id, chosen.turn, branch=chosen.branch.number
                )
            is_known = file.version is not None and file.version.is_known
            return _State(file.text, is_known)
        if self.label.startswith(_COMMIT):
            return _committed_state(path, self.label.removeprefix(_COMMIT))
        try:
            raw = read_regular_file(Path(path))
        except OSError:
            return _State(None, is_known=False)
        text = decode_bytes(raw) if raw is not None else None
        return _State(text, is_known=raw is None or text is not None)


def _committed_state(path: str, name: str) -> _State:
    repository = find_repository(Path(path))
    commit = repository.resolve_commit(name) if repository else None
    if repository is None or commit is None:
        folder = display_path(repository.root if repository else Path(path).parent)
        raise click.UsageError(f"{name!r} is not a commit of a repository in {folder}")
    # The folder may be a link to the repository; what the file itself is does not matter.
    real = Path(path).parent.resolve() / Path(path).name
    inside = relative_to(str(real), str(repository.root.resolve()))
    raw = repository.show_file(commit, inside) if inside else None
    text = decode_bytes(raw) if raw is not None else None
    return _State(text, is_known=raw is None or text is not None)


@click.command("diff")
@click.argument("old", metavar="A")
@click.argument("new", metavar="[B]", default=DISK)
@click.option(
    "--branch",
    metavar="NUMBER|LEAF",
    shell_complete=complete_branches,
    show_default="the live branch",
    help="Use this branch of the sessions that are named without one.",
)
@archive_options
@json_option
@color_option
def diff(  # noqa: PLR0913 (one parameter per option)
    *,
    old: str,
    new: str,
    branch: str | None,
    options: CommonOptions,
    as_json: bool,
    color: str,
) -> None:
    r"""Compare files at a turn with another turn, the disk or a commit.

    \b
    bygones diff last:1 last:3
    bygones diff src/app.py@5e551000:3
    bygones diff 5e551000:3 disk
    bygones diff last:2~2 last:2

    A and B are FILE@SESSION:TURN, SESSION:TURN for all files that the session changed, a
    file on disk, "disk", or git: and a commit, such as git:HEAD (default for B: disk). ~2
    after a turn names its branch, so that the sides can have different ones. The output
    is a unified diff. Files whose content is not known are named on stderr.
    """
    console = Console.for_stdout(color)
    with open_current(options) as archive:
        sides = _Side(old, archive, branch), _Side(new, archive, branch)
        if not any(side.chosen for side in sides):
            raise click.UsageError("name at least one turn, such as last:2")
        objects = list(_compare(sides, _list_paths(archive, sides)))
    if as_json:
        print_objects(objects)
    else:
        print_diffs(objects, console)


def print_diffs(objects: Iterable[FileDiffObject], console: Console) -> None:
    """Print a unified diff, in color on a terminal and exactly in a pipe."""
    objects = list(objects)
    unknown = [found.path for found in objects if found.state == "unknown"]
    text = "".join(found.diff for found in objects)
    if console.is_terminal or console.style.is_colored:
        rows = text.split("\n")[:-1]
        console.print_lines(style_diff_line(row, console) for row in rows)
    else:
        print_exact(text)  # so that it can be applied
    for path in unknown:
        sys.stderr.write(f"the content of {sanitize_name(path)} is not known\n")


class _FilesAt:
    """The files of a session at one point of a branch."""

    def __init__(
        self, archive: Archive, session: Session, branch: Branch, turn: int
    ) -> None:
        found = archive.file_library.with_git().files_at(
            session.id, turn, branch=branch.number, is_before=True
        )
        self.files = {path_key(file.path): file for file in found}
        self.label = f"{session.id[:8]}:{turn}" if turn else "before"

    def state(self, path: str) -> _State:
        file = self.files.get(path_key(path))
        version = file.version if file is not None else None
        if file is None or version is None:
            return _State(None)
        return _State(file.text, version.is_known)


def diff_session(
    archive: Archive, session: Session, branch: Branch
) -> Iterator[FileDiffObject]:
    """Yield what a branch of a session changed, from before it to its end."""
    before = _FilesAt(archive, session, branch, 0)
    after = _FilesAt(archive, session, branch, len(branch.turns))
    paths = {
        key: file.path for side in (before, after) for key, file in side.files.items()
    }
    return _compare((before, after), (paths[key] for key in sorted(paths)))


def _list_paths(archive: Archive, sides: tuple[_Side, _Side]) -> Iterable[str]:
    for side in sides:
        if side.path:
            file = open_file(archive, side.path, side.chosen)
            path = archive.file_library.present_path(file.path)
            named = os.path.normpath(Path(side.path).expanduser().absolute())
            # The project may have been moved without `bygones move`.
            is_moved = os.path.lexists(named) and not os.path.lexists(path)
            return [named if is_moved else path]
    paths = {key: f.path for side in sides for key, f in side.files.items()}
    return [paths[key] for key in sorted(paths)]


def _compare(
    sides: tuple[_ComparedSide, _ComparedSide], paths: Iterable[str]
) -> Iterator[FileDiffObject]:
    for path in paths:
        old, new = (side.state(path) for side in sides)
        if old.is_known and new.is_known:
            if old.text == new.text:
                continue
            hunks = build_patch(old.text, new.text)
            names = (f"{quote_name(path)}\t{side.label}" for side in sides)
            rows = list(format_patch(hunks, *names))
            state = "changed"
            if old.text is None or new.text is None:
                state = "created" if old.text is None else "deleted"
        else:
            rows, hunks, state = [], [], "unknown"
        marks = [line[:1] for hunk in hunks for line in hunk.lines]
        yield FileDiffObject(
            path=path,
            state=state,
            added_lines=marks.count("+"),
            removed_lines=marks.count("-"),
            diff="".join(f"{row}\n" for row in rows),
        )
