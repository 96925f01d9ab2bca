"""DISCOVER: one walk through a folder, one ``stat`` a file, no content read."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from bygones.model.base import Problem, SessionId, SourceFile, SourceId, SourceKind
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
from bygones.sources.paths import encode_path

__all__ = ["discover_sources", "is_source", "locate_dir"]

_INT64_MAX = 2**63 - 1


class _WalkedDir(Struct, frozen=True):
    """A folder of the walk, found but perhaps not listed yet."""

    native_path: str
    path: str
    """Its path as text, without a slash at the end."""
    name: str
    info: DirInfo


class _WalkRoot(Struct, frozen=True):
    """Where the walk began."""

    path: str
    """The walked folder, as sources name it."""
    prefix_length: int
    """How many characters of a source's id come before its relative path."""
    real_path: str
    """The folder with all links resolved."""
    info: DirInfo


def discover_sources(path: Path) -> Iterator[SourceFile | Problem]:
    """Yield what a home, a folder of transcripts or a single file holds.

    Lazy. The files of a folder come before its folders, each sorted by name, so the
    order depends on the names only. A file is found once: links within the folder
    are passed over because what they lead to is found itself, links out of it are
    problems. A file named by ``path`` itself is taken whatever its name is, unless
    it may hold secrets.
    """
    source = SourceId(encode_path(path))
    try:
        # "a/../b" is "b" only where "a" is no link.
        native = Path(os.path.realpath(path)) if ".." in path.parts else path.absolute()
        source = SourceId(encode_path(native))
        status = native.stat()
    except (OSError, ValueError) as error:
        yield problem_from_error(error, source)
        return
    if stat.S_ISDIR(status.st_mode):
        yield from _walk(native)
    elif stat.S_ISREG(status.st_mode):
        # Files are opened without following links, so the file itself is named.
        yield _single_file(Path(os.path.realpath(native)), status)
    else:
        yield source_problem("not-a-file", source, "not a regular file")


def is_source(path: Path) -> bool:
    """Whether a walk would take a file with this path, by its name and place."""
    return classify_file(locate_dir(path.parent), encode_path(path.name)) is not None


def _walk(path: Path) -> Iterator[SourceFile | Problem]:
    text = encode_path(path).rstrip("/")
    root = None
    pending = [_WalkedDir(str(path), text, path.name, locate_dir(path))]
    while pending:
        found = pending.pop()
        children, problem = _list_dir(found)
        if problem:
            yield problem
        folder = _with_detected_home(found, children)
        root = root or _make_root(folder)
        for child in children:
            seen = _check_entry(child, folder, root)
            if seen is not None:
                yield seen
        pending.extend(_subdirs(children, folder))


def _make_root(folder: _WalkedDir) -> _WalkRoot:
    real = os.path.realpath(folder.native_path)
    return _WalkRoot(folder.path or "/", len(folder.path) + 1, real, folder.info)


def _list_dir(folder: _WalkedDir) -> tuple[list[os.DirEntry[str]], Problem | None]:
    """Return what could be listed of a folder, by name, and what stopped it."""
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
    """Return the source or the problem that a name in a folder is, if it is one."""
    name = encode_path(child.name)
    role = classify_file(folder.info, name)
    source = SourceId(f"{folder.path}/{name}")
    try:
        if child.is_symlink():
            return _symlink_problem(child, source, folder.info, root)
        if role is None:
            return None
        if child.is_dir(follow_symlinks=False):
            is_odd = name.endswith(".jsonl")
            return source_problem("not-a-file", source, "a folder") if is_odd else None
        status = child.stat(follow_symlinks=False)
    except OSError as error:
        return problem_from_error(error, source)
    if not stat.S_ISREG(status.st_mode):
        return source_problem("not-a-file", source, "not a regular file")
    where = (root.path, source[root.prefix_length :])
    return _make_source(source, where, (role, folder.info), status)


def _subdirs(
    children: list[os.DirEntry[str]], folder: _WalkedDir
) -> Iterator[_WalkedDir]:
    """Yield the folders to go on with, last first: they are taken from the end."""
    folders = [child for child in children if _is_dir(child)]
    beside = {child.name for child in children} if folders else ()
    for child in reversed(folders):
        name = encode_path(child.name)
        below = classify_dir(folder.info, name, beside)
        if below is not None:
            yield _WalkedDir(child.path, f"{folder.path}/{name}", name, below)


def _is_dir(child: os.DirEntry[str]) -> bool:
    try:
        return child.is_dir(follow_symlinks=False)
    except OSError:
        return False  # reported when it was seen


def _symlink_problem(
    child: os.DirEntry[str], source: SourceId, info: DirInfo, root: _WalkRoot
) -> Problem | None:
    """Return the problem with a link, if it stands where a source could be."""
    name = encode_path(child.name)
    is_source = classify_file(info, name) is not None
    try:
        target = os.path.realpath(child.path, strict=True)
    except OSError as error:
        is_expected = is_source or info.dir_kind in {DirKind.HOME, DirKind.PROJECTS}
        return problem_from_error(error, source) if is_expected else None
    is_folder = child.is_dir()
    matters = classify_dir(info, name) is not None if is_folder else is_source
    if not matters or _is_inside_walk(target, root, is_dir=is_folder):
        return None
    return source_problem("link-out", source, f"leads to {encode_path(target)}")


def _is_inside_walk(target: str, root: _WalkRoot, *, is_dir: bool) -> bool:
    """Whether the walk comes by ``target`` without the link."""
    if target == root.real_path:
        return True
    inside = root.real_path.rstrip(os.sep) + os.sep
    if not target.startswith(inside):
        return False
    *above, last = encode_path(target[len(inside) :]).split("/")
    place = root.info
    for name in above:
        below = classify_dir(place, name)
        if below is None:
            return False
        place = below
    return (
        classify_dir(place, last) if is_dir else classify_file(place, last)
    ) is not None


def _single_file(path: Path, status: os.stat_result) -> SourceFile | Problem:
    name, folder = encode_path(path.name), encode_path(path.parent)
    source = SourceId(encode_path(path))
    if is_secret_file(name):
        return source_problem(
            "unreadable", source, "may hold secrets and is never read"
        )
    place = locate_dir(path.parent)
    role = classify_file(place, name) or FileRole(
        SourceKind.SESSION, SessionId(path.stem)
    )
    return _make_source(source, (folder, name), (role, place), status)


def _make_source(
    source: SourceId,
    home_and_path: tuple[str, str],
    role_and_dir: tuple[FileRole, DirInfo],
    status: os.stat_result,
) -> SourceFile:
    home, path = home_and_path
    role, place = role_and_dir
    return SourceFile(
        id=source,
        home=home,
        relative_path=path,
        kind=role.kind,
        size=status.st_size,
        mtime_ns=_clamp_to_int64(status.st_mtime_ns),
        inode=_clamp_to_int64(status.st_ino),
        ctime_ns=_clamp_to_int64(status.st_ctime_ns),
        project_key=place.project_key,
        session_id=role.session_id,
        agent_id=role.agent_id,
    )


def locate_dir(path: Path) -> DirInfo:
    """Return the place of a folder by its name and the names of all above it."""
    place = ANY_DIR
    for folder in reversed((path, *path.parents)):
        below = classify_dir(place, encode_path(folder.name)) or ANY_DIR
        signs = {sign for sign in HOME_MARKERS if os.path.lexists(folder / sign)}
        place = detect_home(below, folder.name, signs)
    return place


def _clamp_to_int64(number: int) -> int:
    """Return the nearest number that a database can hold: times may be any."""
    return max(-_INT64_MAX, min(number, _INT64_MAX))
