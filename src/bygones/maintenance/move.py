"""Move what Claude Code stores about a project that was renamed or moved.

Claude Code finds sessions by the directory of their project. A move writes the files of
the project, and of those below it, for the new directory, and keeps the originals until
it is undone or deleted. Everything is written before an original is put away.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Raw, Struct, structs

from bygones.errors import PathUnusable
from bygones.maintenance.restore import (
    TargetState,
    cwd_rewriter,
    moved_directory,
    remove_leftovers,
    write_file,
)
from bygones.model.base import DECODE_ERRORS, UUID_PATTERN
from bygones.sources.layout import HISTORY_FILE, project_key
from bygones.store.annotations import remove_move, store_move
from bygones.store.archive_db import ArchiveDB
from bygones.store.connect import fsync_folder, writer_lock

MOVES_FOLDER = ".bygones-moves"
"""In the home: originals of the files that were moved."""
_JOURNAL = "move.json"
_ORIGINALS = "originals"
_MAX_HEAD_LINES = 500
"""Lines of a transcript that are searched for its directory."""
_NEWER_NS = 1_000_000
"""How much newer a moved file is, so that it counts as the current one."""
_decode = msgspec.json.Decoder(dict[str, Raw]).decode


class MovedFile(Struct, frozen=True, kw_only=True):
    """A file of a project; paths are relative to the home."""

    source: str
    target: str
    size: int

    @property
    def is_transcript(self) -> bool:
        """Whether its lines are rewritten."""
        return self.source.endswith(".jsonl")


class MovePlan(Struct, frozen=True, kw_only=True):
    """What is moved in a home."""

    home: str
    old: str
    new: str
    files: tuple[MovedFile, ...]
    history_lines: int
    """Prompts in the history of the home that name the project."""
    taken: tuple[str, ...] = ()
    """Targets that exist with other content."""

    @property
    def session_count(self) -> int:
        """The number of transcripts of sessions."""
        return sum(
            1
            for file in self.files
            if UUID_PATTERN.fullmatch(Path(file.source).stem) and file.is_transcript
        )


class _Journal(Struct, frozen=True, kw_only=True):
    """What a move does, written before it starts."""

    old: str
    new: str
    files: tuple[MovedFile, ...]
    is_done: bool = False


def plan_move(home: Path, old: str, new: str) -> MovePlan:
    """Return which files of a home belong to a directory or one below it."""
    files = [
        file
        for folder in sorted((home / "projects").glob("*/"))
        if not folder.is_symlink()
        for file in _plan_folder(home, folder, old, new)
    ]
    rewrite = cwd_rewriter(old, new)
    taken = [
        file.target
        for file in files
        if os.path.lexists(home / file.target) and not _is_moved(home, file, rewrite)
    ]
    history = home / HISTORY_FILE
    lines = _read_lines(history) if history.is_file() else []
    rewritten = _history_rewriter(old, new)
    return MovePlan(
        home=str(home),
        old=old,
        new=new,
        files=tuple(files),
        history_lines=sum(rewritten(line) != line for line in lines),
        taken=tuple(taken),
    )


def _plan_folder(home: Path, folder: Path, old: str, new: str) -> Iterator[MovedFile]:
    """Yield the files of one project's folder that belong to the moved directory."""
    transcripts = sorted(folder.glob("*.jsonl"))
    directories = {path: _find_directory(path, folder.name) for path in transcripts}
    moved = {
        path: there
        for path, directory in directories.items()
        if directory
        and (there := moved_directory(directory, old, new)) is not None
        and there != directory
    }
    if not moved and (transcripts or folder.name != project_key(old)):
        return
    target = folder.with_name(project_key(next(iter(moved.values()), new)))
    stems = {path.stem for path in moved}
    is_whole = len(moved) == len(transcripts)
    for path in sorted(folder.rglob("*")):
        top = path.relative_to(folder).parts[0].partition(".")[0]
        if path.is_symlink() or not path.is_file():
            continue
        if is_whole or top in stems:
            yield MovedFile(
                source=path.relative_to(home).as_posix(),
                target=(target / path.relative_to(folder)).relative_to(home).as_posix(),
                size=path.stat().st_size,
            )


def _find_directory(path: Path, key: str) -> str | None:
    """Return the directory in which a session started: that of its folder."""
    first = None
    with path.open("rb") as file:
        for _, line in zip(range(_MAX_HEAD_LINES), file, strict=False):
            with suppress(KeyError, *DECODE_ERRORS):
                cwd = msgspec.json.decode(_decode(line)["cwd"], type=str)
                if project_key(cwd) == key:
                    return cwd
                first = first or cwd
    return first


def _read_lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def _moved_lines(
    path: Path, file: MovedFile, rewrite: Callable[[bytes], bytes]
) -> Iterator[bytes]:
    """Yield the content of an original as it is in the new place."""
    with path.open("rb") as stream:
        if file.is_transcript:
            yield from map(rewrite, stream)
        else:
            yield from iter(lambda: stream.read(1 << 20), b"")


def _is_moved(home: Path, file: MovedFile, rewrite: Callable[[bytes], bytes]) -> bool:
    """Whether the target has the content that it would get."""
    parts = _moved_lines(home / file.source, file, rewrite)
    target = home / file.target
    return target.is_file() and _find_added(target, parts) == []


def _history_rewriter(old: str, new: str) -> Callable[[bytes], bytes]:
    """Return a function that changes the project in a line of the history."""

    def rewrite(line: bytes) -> bytes:
        try:
            fields = _decode(line)
            project = msgspec.json.decode(fields["project"], type=str)
        except (KeyError, *DECODE_ERRORS):
            return line
        moved = moved_directory(project, old, new)
        if moved is None:
            return line
        fields["project"] = Raw(msgspec.json.encode(moved))
        end = b"\n" if line.endswith(b"\n") else b""
        return msgspec.json.encode(fields) + end

    return rewrite


def move_project(plan: MovePlan) -> Path:
    """Move files as planned; return the folder that has the originals.

    After an interruption the same move continues. Raises `PathUnusable` if a file is in
    the way.
    """
    home = Path(plan.home)
    if plan.taken:
        raise PathUnusable(f"{home / plan.taken[0]} exists with other content")
    folder, journal = _open_journal(home, plan)
    _remove_leftovers(home, journal)
    rewrite = cwd_rewriter(plan.old, plan.new)
    for file in plan.files:
        _write_target(home, file, rewrite)
    for file in journal.files:
        _put_away(home, folder, file)
    _rewrite_history(home, folder, _history_rewriter(plan.old, plan.new))
    _write_journal(folder, structs.replace(journal, is_done=True))
    return folder


def remember_move(folder: Path, old: str, new: str) -> None:
    """Let the archive in a folder list both names of a directory as one project."""
    with writer_lock(folder):
        archive_db = ArchiveDB(folder, write=True)
        try:
            store_move(archive_db.db, old, new)
        finally:
            archive_db.close()


def forget_move(folder: Path, old: str, new: str) -> None:
    """Let the archive in a folder forget a move that was undone."""
    with writer_lock(folder):
        archive_db = ArchiveDB(folder, write=True)
        try:
            remove_move(archive_db.db, old, new)
        finally:
            archive_db.close()


def _open_journal(home: Path, plan: MovePlan) -> tuple[Path, _Journal]:
    """Continue the journal of the same move if it was interrupted, or start one."""
    journal = _Journal(old=plan.old, new=plan.new, files=plan.files)
    folder = _last_journal(home)
    if folder is not None:
        last = _read_journal(folder)
        if not last.is_done and (last.old, last.new) == (plan.old, plan.new):
            known = {file.source for file in last.files}
            added = [file for file in plan.files if file.source not in known]
            journal = structs.replace(last, files=(*last.files, *added))
            _write_journal(folder, journal)
            return folder, journal
    number = int(folder.name) + 1 if folder else 1
    folder = home / MOVES_FOLDER / str(number)
    folder.mkdir(parents=True, exist_ok=True)
    _write_journal(folder, journal)
    return folder, journal


def _remove_leftovers(home: Path, journal: _Journal) -> None:
    """Delete what a move that was killed left of the file it was writing."""
    for folder in {(home / file.target).parent for file in journal.files}:
        remove_leftovers(folder)


def _last_journal(home: Path) -> Path | None:
    found = [
        path.parent
        for path in (home / MOVES_FOLDER).glob(f"*/{_JOURNAL}")
        if path.parent.name.isdecimal()
    ]
    return max(found, key=lambda path: int(path.name), default=None)


def _read_journal(folder: Path) -> _Journal:
    try:
        raw = (folder / _JOURNAL).read_bytes()
        return msgspec.json.decode(raw, type=_Journal)
    except DECODE_ERRORS as error:
        raise PathUnusable(f"{folder / _JOURNAL} is damaged") from error


def _write_journal(folder: Path, journal: _Journal) -> None:
    _write_atomically(folder / _JOURNAL, msgspec.json.encode(journal))


def _write_atomically(path: Path, raw: bytes) -> None:
    temp_path = path.with_name(f"{path.name}.part")
    with temp_path.open("wb") as file:
        file.write(raw)
        file.flush()
        os.fsync(file.fileno())
    temp_path.replace(path)
    fsync_folder(path.parent)


def _write_target(
    home: Path, file: MovedFile, rewrite: Callable[[bytes], bytes]
) -> None:
    source, target = home / file.source, home / file.target
    time_ns = source.stat().st_mtime_ns + _NEWER_NS
    parts = _moved_lines(source, file, rewrite)
    result = write_file(target, parts, time_ns, set(), overwrite=False)
    if result.target_state not in {TargetState.NEW, TargetState.SAME}:
        raise PathUnusable(f"{target} exists with other content")
    fsync_folder(target.parent)


def _put_away(home: Path, folder: Path, file: MovedFile) -> None:
    """Move an original into the folder of the move, and remove empty folders."""
    source, kept = home / file.source, folder / _ORIGINALS / file.source
    if source.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        source.rename(kept)
    _remove_empty(source.parent, home / "projects")


def _remove_empty(folder: Path, top: Path) -> None:
    while folder != top and top in folder.parents:
        try:
            folder.rmdir()
        except OSError:
            return
        folder = folder.parent


def _rewrite_history(
    home: Path, folder: Path, rewrite: Callable[[bytes], bytes]
) -> None:
    """Rewrite the history of prompts; what is added meanwhile is kept."""
    path, kept = home / HISTORY_FILE, folder / _ORIGINALS / HISTORY_FILE
    if not path.is_file():
        return
    lines = _read_lines(path)
    changed = [rewrite(line) for line in lines]
    if changed == lines:
        return
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        _write_atomically(kept, b"".join(lines))
    with path.open("rb") as original:
        _write_atomically(path, b"".join(changed))
        # Another process may have added lines to the file that was replaced.
        original.seek(sum(map(len, lines)))
        late = original.read()
    if late:
        with path.open("ab") as file:
            file.write(late)


def undo_move(home: Path) -> MovePlan | None:
    """Undo the last move in a home; return what it was, or none if there is none.

    Sessions that were continued since keep what was added.
    """
    folder = _last_journal(home)
    if folder is None:
        return None
    journal = _read_journal(folder)
    plan = _plan_of_journal(home, journal)
    _remove_leftovers(home, journal)
    for file in journal.files:
        _move_back(home, folder, file, journal)
    kept = folder / _ORIGINALS / HISTORY_FILE
    if kept.is_file():
        forward = _history_rewriter(journal.old, journal.new)
        backward = _history_rewriter(journal.new, journal.old)
        originals = _read_lines(kept)
        current = _read_lines(home / HISTORY_FILE)
        is_prefix = [forward(line) for line in originals] == current[: len(originals)]
        rest = current[len(originals) :] if is_prefix else current
        lines = [*(originals if is_prefix else ()), *map(backward, rest)]
        _write_atomically(home / HISTORY_FILE, b"".join(lines))
        kept.unlink()
    shutil.rmtree(folder)
    with suppress(OSError):
        folder.parent.rmdir()
    return plan


def plan_undo_move(home: Path) -> MovePlan | None:
    """Return the move in a home that would be undone, or none if there is none."""
    folder = _last_journal(home)
    return _plan_of_journal(home, _read_journal(folder)) if folder else None


def _plan_of_journal(home: Path, journal: _Journal) -> MovePlan:
    return MovePlan(
        home=str(home),
        old=journal.old,
        new=journal.new,
        files=journal.files,
        history_lines=0,
    )


def _move_back(home: Path, folder: Path, file: MovedFile, journal: _Journal) -> None:
    rewrite = cwd_rewriter(journal.old, journal.new)
    back = cwd_rewriter(journal.new, journal.old)
    source, target = home / file.source, home / file.target
    kept = folder / _ORIGINALS / file.source
    original = kept if kept.exists() else source
    if not original.exists():
        return
    added = _find_added(target, _moved_lines(original, file, rewrite))
    if added:
        lines = map(back, added) if file.is_transcript else iter(added)
        _write_atomically(original, b"".join((original.read_bytes(), *lines)))
    if original is kept:
        if os.path.lexists(source):
            raise PathUnusable(f"{source} exists again")
        source.parent.mkdir(parents=True, exist_ok=True)
        kept.rename(source)
        _make_newer(source, target)
    if added is not None and source != target:
        target.unlink(missing_ok=True)
        _remove_empty(target.parent, home / "projects")


def _make_newer(source: Path, target: Path) -> None:
    """Let a restored file count as the current one, not the copy that is removed."""
    with suppress(OSError):
        time_ns = max(source.stat().st_mtime_ns, target.stat().st_mtime_ns + _NEWER_NS)
        os.utime(source, ns=(time_ns, time_ns))


def _find_added(target: Path, parts: Iterator[bytes]) -> list[bytes] | None:
    """Return the lines that were added to a moved file; none if it was replaced."""
    if not target.is_file():
        return []
    with target.open("rb") as file:
        for part in parts:
            if file.read(len(part)) != part:
                return None
        return list(file)
