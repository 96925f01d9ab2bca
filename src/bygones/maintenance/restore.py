"""Write original files back, also to another directory or as an earlier generation."""

from __future__ import annotations

import os
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from errno import EDQUOT, ENOSPC, EROFS
from filecmp import cmp
from hashlib import sha256
from itertools import chain, count
from pathlib import Path
from secrets import token_hex

import msgspec
from msgspec import Struct, structs

from bygones.errors import ArchiveDamaged
from bygones.model.base import (
    NullProgress,
    ProgressReporter,
    SourceId,
    SourceKind,
    decode_path,
)
from bygones.model.machines import is_on_this_machine
from bygones.model.path_case import ignores_case
from bygones.sources.layout import REPLACED_FILE_SUFFIX, TEMP_FILE_PREFIX, project_key
from bygones.sources.lines import iter_raw_lines
from bygones.store.archive_db import ArchiveDB, StoredSource
from bygones.store.archive_dir import ArchiveDir
from bygones.store.archive_repair import missing_fragment
from bygones.store.connect import (
    create_folders,
    fetch_one,
    fsync_folder,
    lock_file,
    try_lock,
)
from bygones.store.local_reader import LocalReader
from bygones.store.protocols import StoreReader

_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_text = msgspec.json.Decoder(str).decode
_encode = msgspec.json.Encoder().encode
_CWD_KEY = b'"cwd"'
_PARENT_KEY = b'"realParentDir"'
_PARENT_FIELD = re.compile(rb'("realParentDir"\s*:\s*)("(?:[^"\\]|\\.)*")')
_FILE_HISTORY_PREFIX = "file-history-"
_HOME_LEVEL_KINDS = frozenset(
    {
        SourceKind.CHECKPOINT,
        SourceKind.FILE_HISTORY,
        SourceKind.HISTORY,
        SourceKind.PLAN,
        SourceKind.TASK,
        SourceKind.TODO,
    }
)
"""Files in the home itself, not in the folder of a project."""


def name_home_folders(homes: Iterable[str]) -> dict[str, str]:
    """Return a unique folder name for each home.

    Names are compared without case, because some file systems ignore it.
    """
    keys = {home: project_key(home) for home in homes}
    counts = Counter(key.casefold() for key in keys.values())
    return {
        home: key if counts[key.casefold()] == 1 else f"{key}.{_short_hash(home)}"
        for home, key in keys.items()
    }


def _short_hash(home: str) -> str:
    return sha256(home.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def default_home() -> Path:
    """Return the home in which Claude Code on this machine works."""
    variable = os.environ.get("CLAUDE_CONFIG_DIR", "").strip()
    return Path(variable).absolute() if variable else Path.home() / ".claude"


def escapes_home(path: str) -> bool:
    """Whether a path leads out of its home.

    A scan never finds such a path, but the archive may come from another user.
    """
    parts = path.split("/")
    return "\0" in path or any(part in {"", ".", ".."} for part in parts)


def target_path(
    stored_source: StoredSource, home: str | None = None, project: str | None = None
) -> Path:
    """Return where a file belongs: below its own home, or below another.

    `project` is the current directory of its project; the file goes to the folder where
    Claude Code looks for it. Files outside project folders are only moved into one in
    another home.
    """
    home_parts = (stored_source.home if home is None else home).rstrip("/").split("/")
    parts = stored_source.path.split("/")
    if project is not None:
        key = project_key(project)
        if stored_source.project in parts:
            parts[parts.index(stored_source.project)] = key
        elif home is None and stored_source.project in home_parts:
            home_parts[_last_index(home_parts, stored_source.project)] = key
        elif home is not None and stored_source.kind not in _HOME_LEVEL_KINDS:
            parts = ["projects", key, *_path_below_project(stored_source, parts)]
    return Path(decode_path("/".join((*home_parts, *parts))))


def _last_index(parts: list[str], name: str) -> int:
    return len(parts) - 1 - parts[::-1].index(name)


def _path_below_project(stored_source: StoredSource, parts: list[str]) -> list[str]:
    """Return the part of a path that belongs to the session: its file or folder."""
    return parts[
        parts.index(stored_source.session) if stored_source.session in parts else -1 :
    ]


def cwd_rewriter(old: str, new: str) -> Callable[[bytes], bytes]:
    """Return a function that changes the working directory in a line.

    In a record of the file history it changes the directories of files: Claude Code
    restores a file only if its directory is the recorded one. A directory outside
    `old` stays unchanged, and so does every other byte.
    """

    def rewrite(line: bytes) -> bytes:
        if _PARENT_KEY in line:
            line = _with_parents(line, old, new)
        if _CWD_KEY not in line:
            return line
        try:
            fields = _decode(line)
            cwd = _text(fields["cwd"])
        except (KeyError, ValueError):
            return line
        moved = moved_directory(cwd, old, new)
        return line if moved is None else _with_cwd(line, fields, moved)

    return rewrite


def _with_parents(line: bytes, old: str, new: str) -> bytes:
    """Return a record of the file history with other directories of its files."""

    def replace(match: re.Match[bytes]) -> bytes:
        moved = moved_directory(_text(match[2]), old, new)
        return match[0] if moved is None else match[1] + _encode(moved)

    try:
        if not _text(_decode(line)["type"]).startswith(_FILE_HISTORY_PREFIX):
            return line
        return _PARENT_FIELD.sub(replace, line)
    except (KeyError, ValueError):
        return line


def moved_directory(cwd: str, old: str, new: str) -> str | None:
    """Return a directory after a move of it or one above it; none if it stays."""
    prefix = old.rstrip("/\\")
    start, rest = cwd[: len(prefix)], cwd[len(prefix) :]
    is_same = start == prefix or (ignores_case(cwd) and start.lower() == prefix.lower())
    if not is_same or (rest and rest[0] not in "/\\"):
        return None
    return new.rstrip("/\\") + rest


def _with_cwd(line: bytes, fields: Mapping[str, msgspec.Raw], cwd: str) -> bytes:
    """Return a line with another value of its top-level `cwd`."""
    old_value, value = bytes(fields["cwd"]), _encode(cwd)
    start = 0
    for match in re.finditer(rb'"cwd"\s*:\s*', line):
        if line.startswith(old_value, match.end()):
            start = match.end()
            changed = line[:start] + value + line[start + len(old_value) :]
            if bytes(_decode(changed)["cwd"]) == value:
                return changed
    return line


_TEMP_NAME = re.compile(rf"{re.escape(TEMP_FILE_PREFIX)}[0-9a-f]{{16}}")
_NEW_FILE_FLAGS = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)


class TargetState(StrEnum):
    """What is at the target path of a file."""

    NEW = "new"
    """Nothing."""
    SAME = "same"
    """The same bytes."""
    DIFFERS = "differs"
    """Something else."""
    DAMAGED = "damaged"
    """Something that can't be compared, because the archive's bytes are damaged."""
    TAKEN = "taken"
    """Another file of the same plan, which is written first."""
    OUTSIDE = "outside"
    """The path leads out of the home; nothing is written there."""


class WriteResult(Struct, frozen=True, kw_only=True):
    """What happened to a file."""

    target_state: TargetState
    """What was there when it was written, which may differ from the plan."""
    size: int
    backup_copy: Path | None = None
    """Where the previous file was copied to, if it was replaced."""

    @property
    def is_written(self) -> bool:
        return self.target_state is TargetState.NEW or self.backup_copy is not None


def write_file(
    path: Path,
    parts: Iterable[bytes],
    mtime_ns: int,
    written: set[tuple[int, int]],
    *,
    overwrite: bool,
) -> WriteResult:
    """Write a file next to its path, and rename it when it is complete.

    If another process writes the same file, its result is checked again: nothing
    unknown is ever replaced, and even with `overwrite` no file in `written`.
    """
    create_folders(path.parent)
    temp_path, handle = _create_temp_file(path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            size = sum(file.write(raw) for raw in parts)
            file.flush()
            os.fsync(file.fileno())
            os.utime(temp_path, ns=(mtime_ns, mtime_ns))
            identity = _identity(os.fstat(file.fileno()))
            if os.name == "nt":  # pragma: no cover (an open file cannot be moved there)
                file.close()
            state, copy = _move_into_place(
                temp_path, path, written, overwrite=overwrite
            )
    finally:
        with suppress(OSError):  # leftovers are removed next time
            temp_path.unlink(missing_ok=True)
    result = WriteResult(target_state=state, size=size, backup_copy=copy)
    if result.is_written:
        written.add(identity)
    return result


def remove_leftovers(folder: Path) -> None:
    """Delete temporary files that killed processes left in a folder."""
    if os.name == "nt":  # pragma: no cover (files in use can't be recognized there)
        return
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if _TEMP_NAME.fullmatch(entry.name) and entry.is_file(
                follow_symlinks=False
            ):
                _remove_leftover(Path(entry.path))


def _remove_leftover(path: Path) -> None:
    with suppress(OSError):
        handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
        try:
            if try_lock(handle):
                path.unlink()
        finally:
            os.close(handle)


def _create_temp_file(folder: Path) -> tuple[Path, int]:
    """Create a temporary file that is locked while it is open.

    Its name has a fixed length, so it is valid wherever the file's own name is.
    """
    while True:
        path = folder / f"{TEMP_FILE_PREFIX}{token_hex(8)}"
        handle = os.open(path, _NEW_FILE_FLAGS, 0o600)
        lock_file(handle)
        if path.exists():
            return path, handle
        os.close(handle)  # another process removed it before it was locked


def _move_into_place(
    temp_path: Path, path: Path, written: set[tuple[int, int]], *, overwrite: bool
) -> tuple[TargetState, Path | None]:
    if _link_if_free(temp_path, path):
        return TargetState.NEW, None
    if _identity(path.lstat()) in written:
        return TargetState.SAME if _is_equal(
            path, temp_path
        ) else TargetState.TAKEN, None
    if not overwrite:
        return TargetState.SAME if _is_equal(
            path, temp_path
        ) else TargetState.DIFFERS, None
    copy = _backup_copy(path)
    if _is_equal(copy, temp_path):
        copy.unlink()
        return TargetState.SAME, None
    temp_path.replace(path)
    return TargetState.DIFFERS, copy


def _link_if_free(temp_path: Path, path: Path) -> bool:
    """Give a file its name unless that exists, even since a moment ago."""
    try:
        os.link(temp_path, path)
    except FileExistsError:
        return False
    except OSError:  # not every file system has hard links
        if os.path.lexists(path):
            return False
        temp_path.replace(path)
    return True


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _is_equal(path: Path, other: Path) -> bool:
    return path.is_file() and cmp(path, other, shallow=False)


def _backup_copy(path: Path) -> Path:
    """Give an existing file a second, unused name."""
    for number in count():
        copy = path.with_name(
            f"{path.name}{REPLACED_FILE_SUFFIX}{f'-{number}' if number else ''}"
        )
        if os.path.lexists(copy):
            continue
        try:
            os.link(path, copy, follow_symlinks=False)
        except FileExistsError:
            continue
        except OSError:  # not every file system has hard links
            shutil.copy2(path, copy, follow_symlinks=False)
        return copy
    raise AssertionError


_GENERATION_COLUMNS = (
    "kept",
    "size",
    "mtime_ns",
    "ctime_ns",
    "inode",
    "head",
    "tail",
    "rest",
)


def older_generation(
    archive_db: ArchiveDB, stored_source: StoredSource, generations_back: int
) -> StoredSource | None:
    """Return a source as it was a number of generations before."""
    if generations_back == 0:
        return stored_source
    generation = stored_source.generation - generations_back
    if generation < 0:
        return None
    sql = f"SELECT {', '.join(_GENERATION_COLUMNS)} FROM generation"  # noqa: S608 (our names)
    place = (stored_source.number, generation)
    row = fetch_one(archive_db.db, f"{sql} WHERE source = ? AND generation = ?", place)
    if row is None:
        return None
    columns = dict(zip(_GENERATION_COLUMNS, row, strict=True))
    stored_bytes = columns.pop("kept")
    return structs.replace(
        stored_source, generation=generation, stored_bytes=stored_bytes, **columns
    )


LineRewriter = Callable[[bytes], bytes]
"""Returns a line of a transcript as it should be written."""

_FATAL_ERRNOS = frozenset({ENOSPC, EDQUOT, EROFS})
"""Errors that every other file would get too."""


class PlannedFile(Struct, frozen=True, kw_only=True):
    """A file to be written, and what is at its path."""

    number: int
    generation: int
    generations_back: int = 0
    """How many generations before the newest."""
    path: str
    size: int
    state: TargetState


class RestoreResult(Struct, kw_only=True):
    """What was restored."""

    written: int = 0
    same: int = 0
    skipped: list[str] = []
    """Files that differ and were left alone."""
    damaged: list[str] = []
    """Files that were not written because their stored bytes are damaged."""
    refused: list[tuple[str, str]] = []
    """Files that were not written, and why."""
    bytes: int = 0
    copies: list[str] = []
    """Copies of the files that were replaced."""


def plan_restore(  # noqa: PLR0913 (all but two by name and optional)
    archive_dir: ArchiveDir,
    sources: Iterable[StoredSource],
    *,
    target: Path | None = None,
    project: str | None = None,
    rewrite: LineRewriter | None = None,
    generations_back: int = 0,
) -> list[PlannedFile]:
    """Return what a restore would do: to the original paths, or below `target`.

    `project` is the current directory of the project; its transcripts go to the folder
    where Claude Code looks for them. Files of several homes get a folder each below
    `target`. With `generations_back`, files are written as they were before they were
    rewritten so many times; files without such a generation are left out. If files
    would have the same path, the newest wins.
    """
    generations = (
        older_generation(archive_dir.byte_store, source, generations_back)
        for source in sources
    )
    chosen = [source for source in generations if source is not None]
    has_several_homes = len({source.home for source in chosen}) > 1
    folders = (
        name_home_folders(archive_dir.byte_store.homes())
        if target and has_several_homes
        else {}
    )
    plans = []
    taken: set[Path] = set()
    # If two copies would have the same path, the newest wins.
    for source in sorted(chosen, key=lambda source: -source.mtime_ns):
        home = str(target / folders.get(source.home, "")) if target else None
        if home is None and not is_on_this_machine(source.home):
            home = str(default_home())
        if escapes_home(source.path):
            plans.append(
                _plan_file(source, source.path, TargetState.OUTSIDE, generations_back)
            )
            continue
        path = target_path(source, home, project)
        if path in taken:
            path = target_path(source, home)
        state = _target_state(
            archive_dir,
            source,
            path,
            rewrite=rewrite,
            generations_back=generations_back,
        )
        if path in taken:
            state = TargetState.TAKEN
        taken.add(path)
        plans.append(_plan_file(source, str(path), state, generations_back))
    # The sort is stable: the first file of a path stays first.
    return sorted(plans, key=lambda plan: plan.path)


def _plan_file(
    stored_source: StoredSource, path: str, state: TargetState, generations_back: int
) -> PlannedFile:
    return PlannedFile(
        number=stored_source.number,
        generation=stored_source.generation,
        generations_back=generations_back,
        path=path,
        size=stored_source.size,
        state=state,
    )


def _target_state(
    archive_dir: ArchiveDir,
    stored_source: StoredSource,
    path: Path,
    *,
    rewrite: LineRewriter | None,
    generations_back: int,
) -> TargetState:
    if not os.path.lexists(path):
        return TargetState.NEW
    if not path.is_file():
        return TargetState.DIFFERS
    try:
        # In one transaction: a small chunk is replaced while others write.
        with archive_dir.byte_store.read_transaction():
            source = (
                archive_dir.byte_store.source(stored_source.number) or stored_source
            )
            source = (
                older_generation(archive_dir.byte_store, source, generations_back)
                or stored_source
            )
            if rewrite is None and path.stat().st_size != source.size:
                return TargetState.DIFFERS
            return _compare_file(path, _bytes_to_write(archive_dir, source, rewrite))
    except ArchiveDamaged:
        return TargetState.DAMAGED


def _compare_file(path: Path, parts: Iterable[bytes]) -> TargetState:
    with path.open("rb") as file:
        for raw in parts:
            if file.read(len(raw)) != raw:
                return TargetState.DIFFERS
        return TargetState.DIFFERS if file.read(1) else TargetState.SAME


def restore(
    archive_dir: ArchiveDir,
    plans: Sequence[PlannedFile],
    *,
    overwrite: bool = False,
    rewrite: LineRewriter | None = None,
    progress: ProgressReporter | None = None,
) -> RestoreResult:
    """Write the files of a plan.

    Files that differ are left alone unless `overwrite` is set; then they are copied
    first. A file is written next to its path and renamed, so that a part of it is never
    seen; one with damaged bytes is not written. Errors of single files are reported in
    the result. A written file is not replaced by another of the same plan.
    """
    result = RestoreResult()
    written_folders: set[Path] = set()
    written_files: set[tuple[int, int]] = set()
    progress = progress or NullProgress()
    plans = _without_escaping(plans, result)
    progress.begin("restoring", sum(plan.size for plan in plans))
    for folder in {Path(plan.path).parent for plan in plans}:
        remove_leftovers(folder)
    for plan in plans:
        if archive_dir.byte_store.source(plan.number) is None:
            continue
        if plan.state is TargetState.SAME:
            result.same += 1
        elif plan.state is TargetState.DIFFERS and not overwrite:
            result.skipped.append(plan.path)
        else:
            try:
                outcome = _restore_file(
                    archive_dir,
                    plan,
                    written_files,
                    overwrite=overwrite,
                    rewrite=rewrite,
                )
                written_folders.add(Path(plan.path).parent)
                _record_outcome(result, plan, outcome)
            except ArchiveDamaged:
                result.damaged.append(plan.path)
            except OSError as error:
                if error.errno in _FATAL_ERRNOS:
                    raise
                result.refused.append((plan.path, error.strerror or str(error)))
        progress.advance(plan.size)
    for folder in written_folders:
        fsync_folder(folder)
    progress.end()
    return result


def _restore_file(
    archive_dir: ArchiveDir,
    plan: PlannedFile,
    written: set[tuple[int, int]],
    *,
    overwrite: bool,
    rewrite: LineRewriter | None,
) -> WriteResult:
    archive_db = archive_dir.byte_store
    with archive_db.read_transaction():
        source = archive_db.source(plan.number)
        if source is None:
            raise ArchiveDamaged(archive_db.path, f"source {plan.number} is missing")
        source = older_generation(archive_db, source, plan.generations_back) or source
        return write_file(
            Path(plan.path),
            _bytes_to_write(archive_dir, source, rewrite),
            source.mtime_ns,
            written,
            overwrite=overwrite and plan.state is not TargetState.TAKEN,
        )


def _without_escaping(
    plans: Iterable[PlannedFile], result: RestoreResult
) -> list[PlannedFile]:
    """Return the files with a path inside their home; refuse the others."""
    valid = []
    for plan in plans:
        if plan.state is TargetState.OUTSIDE:
            result.refused.append((plan.path, "the name leads out of the home"))
        else:
            valid.append(plan)
    return valid


def _record_outcome(
    result: RestoreResult, plan: PlannedFile, outcome: WriteResult
) -> None:
    if outcome.is_written:
        result.written += 1
        result.bytes += outcome.size
        result.copies += [str(outcome.backup_copy)] if outcome.backup_copy else []
    elif outcome.target_state is TargetState.SAME:
        result.same += 1
    elif TargetState.TAKEN in (outcome.target_state, plan.state):
        result.refused.append((plan.path, "another copy of it goes there"))
    else:
        result.skipped.append(plan.path)


def _bytes_to_write(
    archive_dir: ArchiveDir, stored_source: StoredSource, rewrite: LineRewriter | None
) -> Iterator[bytes]:
    """Yield the bytes to write: as stored, or rewritten line by line."""
    chunks = read_stored_bytes(archive_dir, stored_source)
    if rewrite is None or not stored_source.kind.is_transcript:
        return chunks
    return map(rewrite, iter_raw_lines(chunks))


def read_stored_bytes(
    archive_dir: ArchiveDir, stored_source: StoredSource
) -> Iterator[bytes]:
    """Yield all stored bytes of a source, including its unfinished last line.

    Raises `ArchiveDamaged` if any of them is damaged or missing.
    """
    archive_db = archive_dir.byte_store
    place = (stored_source.number, stored_source.generation)
    for _, raw in archive_db.read_chunks(*place):
        yield raw
    if fragment := archive_db.fragment(*place):
        yield fragment
    elif missing_fragment(archive_db, *place):
        detail = f"the last line of source {stored_source.number} is missing"
        raise ArchiveDamaged(archive_db.path, detail)


def read_source(reader: StoreReader, source: SourceId) -> Iterator[bytes]:
    """Yield all stored bytes of a source; of a team store without damaged chunks."""
    stored_source = reader.byte_store.source_by_id(source)
    if stored_source is None:
        return iter(())
    if isinstance(reader, LocalReader):
        return read_stored_bytes(reader.archive_dir, stored_source)
    chunks = reader.byte_store.try_read_chunks(
        stored_source.number, stored_source.generation
    )
    fragment = reader.byte_store.fragment(
        stored_source.number, stored_source.generation
    )
    return chain((raw for _, raw in chunks if raw is not None), [fragment])


def read_source_lines(
    reader: StoreReader, sources: Iterable[SourceId]
) -> Iterator[bytes]:
    """Yield the lines of several sources, each with its newline."""
    for source in sources:
        yield from iter_raw_lines(chain(read_source(reader, source), [b"\n"]))
