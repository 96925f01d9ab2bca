"""DISCOVER: one walk through a folder, one ``stat`` a file, no content read."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from bygones.model.ids import SessionId, SourceId
from bygones.model.problems import Problem
from bygones.model.sources import Source, SourceKind
from bygones.sources.names import path_text
from bygones.sources.opening import problem_at, problem_of
from bygones.sources.places import (
    HOME_SIGNS,
    LOOSE,
    Place,
    Role,
    Shelf,
    classify,
    descend,
    is_private,
    settle,
)

__all__ = ["discover", "is_source", "place_of"]

_LARGEST = 2**63 - 1


class _Folder(Struct, frozen=True):
    """A folder of the walk, found but perhaps not listed yet."""

    native: str
    text: str
    """Its path as text, without a slash at the end."""
    name: str
    place: Place


class _Root(Struct, frozen=True):
    """Where the walk began."""

    text: str
    """The walked folder, as sources name it."""
    skip: int
    """How many characters of a source's id come before its relative path."""
    real: str
    """The folder with all links resolved."""
    place: Place


def discover(path: Path) -> Iterator[Source | Problem]:
    """Yield what a home, a folder of transcripts or a single file holds.

    Lazy. The files of a folder come before its folders, each sorted by name, so the
    order depends on the names only. A file is found once: links within the folder
    are passed over because what they lead to is found itself, links out of it are
    problems. A file named by ``path`` itself is taken whatever its name is, unless
    it may hold secrets.
    """
    source = SourceId(path_text(path))
    try:
        # "a/../b" is "b" only where "a" is no link.
        native = Path(os.path.realpath(path)) if ".." in path.parts else path.absolute()
        source = SourceId(path_text(native))
        status = native.stat()
    except (OSError, ValueError) as error:
        yield problem_of(error, source)
        return
    if stat.S_ISDIR(status.st_mode):
        yield from _walk(native)
    elif stat.S_ISREG(status.st_mode):
        # Files are opened without following links, so the file itself is named.
        yield _single(Path(os.path.realpath(native)), status)
    else:
        yield problem_at("not-a-file", source, "not a regular file")


def is_source(path: Path) -> bool:
    """Whether a walk would take a file with this path, by its name and place."""
    return classify(place_of(path.parent), path_text(path.name)) is not None


def _walk(path: Path) -> Iterator[Source | Problem]:
    text = path_text(path).rstrip("/")
    root = None
    pending = [_Folder(str(path), text, path.name, place_of(path))]
    while pending:
        found = pending.pop()
        children, problem = _listed(found)
        if problem:
            yield problem
        folder = _settled(found, children)
        root = root or _rooted(folder)
        for child in children:
            seen = _seen(child, folder, root)
            if seen is not None:
                yield seen
        pending.extend(_folders(children, folder))


def _rooted(folder: _Folder) -> _Root:
    real = os.path.realpath(folder.native)
    return _Root(folder.text or "/", len(folder.text) + 1, real, folder.place)


def _listed(folder: _Folder) -> tuple[list[os.DirEntry[str]], Problem | None]:
    """Return what could be listed of a folder, by name, and what stopped it."""
    children: list[os.DirEntry[str]] = []
    problem = None
    try:
        with os.scandir(folder.native) as listing:
            children.extend(listing)
    except OSError as error:
        problem = problem_of(error, SourceId(folder.text or "/"))
    children.sort(key=attrgetter("name"))
    return children, problem


def _settled(folder: _Folder, children: list[os.DirEntry[str]]) -> _Folder:
    if folder.place.shelf is not Shelf.LOOSE:
        return folder
    names = {child.name for child in children}
    return replace(folder, place=settle(folder.place, folder.name, names))


def _seen(
    child: os.DirEntry[str], folder: _Folder, root: _Root
) -> Source | Problem | None:
    """Return the source or the problem that a name in a folder is, if it is one."""
    name = path_text(child.name)
    role = classify(folder.place, name)
    source = SourceId(f"{folder.text}/{name}")
    try:
        if child.is_symlink():
            return _linked(child, source, folder.place, root)
        if role is None:
            return None
        if child.is_dir(follow_symlinks=False):
            is_odd = name.endswith(".jsonl")
            return problem_at("not-a-file", source, "a folder") if is_odd else None
        status = child.stat(follow_symlinks=False)
    except OSError as error:
        return problem_of(error, source)
    if not stat.S_ISREG(status.st_mode):
        return problem_at("not-a-file", source, "not a regular file")
    where = (root.text, source[root.skip :])
    return _source(source, where, (role, folder.place), status)


def _folders(children: list[os.DirEntry[str]], folder: _Folder) -> Iterator[_Folder]:
    """Yield the folders to go on with, last first: they are taken from the end."""
    folders = [child for child in children if _is_folder(child)]
    beside = {child.name for child in children} if folders else ()
    for child in reversed(folders):
        name = path_text(child.name)
        below = descend(folder.place, name, beside)
        if below is not None:
            yield _Folder(child.path, f"{folder.text}/{name}", name, below)


def _is_folder(child: os.DirEntry[str]) -> bool:
    try:
        return child.is_dir(follow_symlinks=False)
    except OSError:
        return False  # reported when it was seen


def _linked(
    child: os.DirEntry[str], source: SourceId, place: Place, root: _Root
) -> Problem | None:
    """Return the problem with a link, if it stands where a source could be."""
    name = path_text(child.name)
    is_source = classify(place, name) is not None
    try:
        target = os.path.realpath(child.path, strict=True)
    except OSError as error:
        is_expected = is_source or place.shelf in {Shelf.HOME, Shelf.PROJECTS}
        return problem_of(error, source) if is_expected else None
    is_folder = child.is_dir()
    matters = descend(place, name) is not None if is_folder else is_source
    if not matters or _is_walked(target, root, is_folder=is_folder):
        return None
    return problem_at("link-out", source, f"leads to {path_text(target)}")


def _is_walked(target: str, root: _Root, *, is_folder: bool) -> bool:
    """Whether the walk comes by ``target`` without the link."""
    if target == root.real:
        return True
    inside = root.real.rstrip(os.sep) + os.sep
    if not target.startswith(inside):
        return False
    *above, last = path_text(target[len(inside) :]).split("/")
    place = root.place
    for name in above:
        below = descend(place, name)
        if below is None:
            return False
        place = below
    return (descend(place, last) if is_folder else classify(place, last)) is not None


def _single(path: Path, status: os.stat_result) -> Source | Problem:
    name, folder = path_text(path.name), path_text(path.parent)
    source = SourceId(path_text(path))
    if is_private(name):
        return problem_at("unreadable", source, "may hold secrets and is never read")
    place = place_of(path.parent)
    role = classify(place, name) or Role(SourceKind.SESSION, SessionId(path.stem))
    return _source(source, (folder, name), (role, place), status)


def _source(
    source: SourceId,
    where: tuple[str, str],
    meaning: tuple[Role, Place],
    status: os.stat_result,
) -> Source:
    home, path = where
    role, place = meaning
    return Source(
        id=source,
        home=home,
        path=path,
        kind=role.kind,
        size=status.st_size,
        mtime_ns=_within(status.st_mtime_ns),
        inode=_within(status.st_ino),
        ctime_ns=_within(status.st_ctime_ns),
        project=place.project,
        session=role.session,
        agent=role.agent,
    )


def place_of(path: Path) -> Place:
    """Return the place of a folder by its name and the names of all above it."""
    place = LOOSE
    for folder in reversed((path, *path.parents)):
        below = descend(place, path_text(folder.name)) or LOOSE
        signs = {sign for sign in HOME_SIGNS if os.path.lexists(folder / sign)}
        place = settle(below, folder.name, signs)
    return place


def _within(number: int) -> int:
    """Return the nearest number that a database can hold: times may be any."""
    return max(-_LARGEST, min(number, _LARGEST))
