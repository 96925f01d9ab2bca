"""Finds the source files in a folder, with one `stat` per file and without opening any."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from bygones.model.base import (
    Problem,
    SessionId,
    SourceFile,
    SourceId,
    SourceKind,
    encode_path,
)
from bygones.sources.layout import (
    ANY_DIR,
    HOME_MARKERS,
    DirInfo,
    DirKind,
    FileRole,
    classify_dir,
    classify_file,
    detect_home,
    is_secret_file,
)
from bygones.sources.lines import problem_from_error, source_problem

_INT64_MAX = 2**63 - 1


class _WalkedDir(Struct, frozen=True):
    """A folder that the walk found."""

    native_path: str
    path: str
    """The encoded path, without a trailing slash."""
    name: str
    info: DirInfo


class _WalkRoot(Struct, frozen=True):
    """The folder that the walk started in."""

    path: str
    """The encoded path."""
    prefix_length: int
    """Characters of a source's id before its relative path."""
    real_path: str
    """The path with all symbolic links resolved."""
    info: DirInfo


def discover_sources(path: Path) -> Iterator[SourceFile | Problem]:
    """Yield the sources in a home, a folder of transcripts or a single file.

    Files come before folders, both sorted by name. Each file is found once: symbolic
    links within the folder are ignored because their target is found itself, links out
    of the folder are problems. If `path` is a file, it is a source whatever its name is,
    unless it may contain secrets.
    """
    source = SourceId(encode_path(path))
    try:
        # "a/../b" is "b" only if "a" is not a symbolic link.
        native = Path(os.path.realpath(path)) if ".." in path.parts else path.absolute()
        source = SourceId(encode_path(native))
        status = native.stat()
    except (OSError, ValueError) as error:
        yield problem_from_error(error, source)
        return
    if stat.S_ISDIR(status.st_mode):
        yield from _walk(native)
    elif stat.S_ISREG(status.st_mode):
        # Files are opened without following links, so resolve them here.
        yield _single_file(Path(os.path.realpath(native)), status)
    else:
        yield source_problem("not-a-file", source, "not a regular file")


def is_source(path: Path) -> bool:
    """Whether a walk would find a file with this path, by its name and folder."""
    return classify_file(locate_dir(path.parent), encode_path(path.name)) is not None


def _walk(path: Path) -> Iterator[SourceFile | Problem]:
    text = encode_path(path).rstrip("/")
    root = None
    pending = [_WalkedDir(str(path), text, path.name, locate_dir(path))]
    while pending:
        folder = pending.pop()
        children, problem = _list_dir(folder)
        if problem:
            yield problem
        folder = _with_detected_home(folder, children)
        root = root or _make_root(folder)
        for child in children:
            source = _check_entry(child, folder, root)
            if source is not None:
                yield source
        pending.extend(_subdirs(children, folder))


def _make_root(folder: _WalkedDir) -> _WalkRoot:
    real = os.path.realpath(folder.native_path)
    return _WalkRoot(folder.path or "/", len(folder.path) + 1, real, folder.info)


def _list_dir(folder: _WalkedDir) -> tuple[list[os.DirEntry[str]], Problem | None]:
    """Return the entries of a folder sorted by name, and the problem if it failed."""
    children: list[os.DirEntry[str]] = []
    problem = None
    try:
        with os.scandir(folder.native_path) as listing:
            children.extend(listing)
    except OSError as error:
        problem = problem_from_error(error, SourceId(folder.path or "/"))
    children.sort(key=attrgetter("name"))
    return children, problem


def _with_detected_home(
    folder: _WalkedDir, children: list[os.DirEntry[str]]
) -> _WalkedDir:
    if folder.info.dir_kind is not DirKind.ANY:
        return folder
    names = {child.name for child in children}
    return replace(folder, info=detect_home(folder.info, folder.name, names))


def _check_entry(
    child: os.DirEntry[str], folder: _WalkedDir, root: _WalkRoot
) -> SourceFile | Problem | None:
    """Return the source or the problem that an entry of a folder is, if any."""
    name = encode_path(child.name)
    role = classify_file(folder.info, name)
    source = SourceId(f"{folder.path}/{name}")
    try:
        if child.is_symlink():
            return _symlink_problem(child, source, folder.info, root)
        if role is None:
            return None
        if child.is_dir(follow_symlinks=False):
            is_transcript = name.endswith(".jsonl")
            problem = source_problem("not-a-file", source, "a folder")
            return problem if is_transcript else None
        status = child.stat(follow_symlinks=False)
    except OSError as error:
        return problem_from_error(error, source)
    if not stat.S_ISREG(status.st_mode):
        return source_problem("not-a-file", source, "not a regular file")
    home_and_path = (root.path, source[root.prefix_length :])
    return _make_source(source, home_and_path, (role, folder.info), status)


def _subdirs(
    children: list[os.DirEntry[str]], folder: _WalkedDir
) -> Iterator[_WalkedDir]:
    """Yield the folders to walk, in reverse order for a stack."""
    folders = [child for child in children if _is_dir(child)]
    siblings = {child.name for child in children} if folders else ()
    for child in reversed(folders):
        name = encode_path(child.name)
        info = classify_dir(folder.info, name, siblings)
        if info is not None:
            yield _WalkedDir(child.path, f"{folder.path}/{name}", name, info)


def _is_dir(child: os.DirEntry[str]) -> bool:
    try:
        return child.is_dir(follow_symlinks=False)
    except OSError:
        return False  # _check_entry reports it


def _symlink_problem(
    child: os.DirEntry[str], source: SourceId, info: DirInfo, root: _WalkRoot
) -> Problem | None:
    """Return the problem with a symbolic link, if it could be a source."""
    name = encode_path(child.name)
    is_source = classify_file(info, name) is not None
    try:
        target = os.path.realpath(child.path, strict=True)
    except OSError as error:
        is_expected = is_source or info.dir_kind in {DirKind.HOME, DirKind.PROJECTS}
        return problem_from_error(error, source) if is_expected else None
    is_dir = child.is_dir()
    is_relevant = classify_dir(info, name) is not None if is_dir else is_source
    if not is_relevant or _is_inside_walk(target, root, is_dir=is_dir):
        return None
    return source_problem("link-out", source, f"leads to {encode_path(target)}")


def _is_inside_walk(target: str, root: _WalkRoot, *, is_dir: bool) -> bool:
    """Whether the walk finds `target` without the link."""
    if target == root.real_path:
        return True
    prefix = root.real_path.rstrip(os.sep) + os.sep
    if not target.startswith(prefix):
        return False
    *parents, last = encode_path(target[len(prefix) :]).split("/")
    info: DirInfo | None = root.info
    for name in parents:
        info = classify_dir(info, name) if info is not None else None
    if info is None:
        return False
    found = classify_dir(info, last) if is_dir else classify_file(info, last)
    return found is not None


def _single_file(path: Path, status: os.stat_result) -> SourceFile | Problem:
    name, folder = encode_path(path.name), encode_path(path.parent)
    source = SourceId(encode_path(path))
    if is_secret_file(name):
        return source_problem(
            "unreadable", source, "may hold secrets and is never read"
        )
    info = locate_dir(path.parent)
    role = classify_file(info, name) or FileRole(
        SourceKind.SESSION, SessionId(path.stem)
    )
    return _make_source(source, (folder, name), (role, info), status)


def _make_source(
    source: SourceId,
    home_and_path: tuple[str, str],
    role_and_dir: tuple[FileRole, DirInfo],
    status: os.stat_result,
) -> SourceFile:
    home, path = home_and_path
    role, info = role_and_dir
    return SourceFile(
        id=source,
        home=home,
        relative_path=path,
        kind=role.kind,
        size=status.st_size,
        mtime_ns=_clamp_to_int64(status.st_mtime_ns),
        inode=_clamp_to_int64(status.st_ino),
        ctime_ns=_clamp_to_int64(status.st_ctime_ns),
        project_key=info.project_key,
        session_id=role.session_id,
        agent_id=role.agent_id,
    )


def locate_dir(path: Path) -> DirInfo:
    """Return the role of a folder, by its name and the names of its parents."""
    info = ANY_DIR
    for folder in reversed((path, *path.parents)):
        info = classify_dir(info, encode_path(folder.name)) or ANY_DIR
        markers = {name for name in HOME_MARKERS if os.path.lexists(folder / name)}
        info = detect_home(info, folder.name, markers)
    return info


def _clamp_to_int64(number: int) -> int:
    """Return the nearest number that SQLite can store: a file may have any time."""
    return max(-_INT64_MAX, min(number, _INT64_MAX))
