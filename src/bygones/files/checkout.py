"""The files of a session as they were at a turn, in a new folder or git worktree."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import count
from pathlib import Path

from msgspec import Struct, structs

from bygones.errors import PathUnusable
from bygones.files.copies import make_folders
from bygones.files.git import GitRepository, find_repository
from bygones.files.history import FileAt
from bygones.files.paths import belongs_to_git, is_safe_relative, relative_to


class Checkout(Struct, frozen=True, kw_only=True):
    """Files that were written to a new place."""

    directory: str
    """The project's directory in it."""
    commit: str | None = None
    """The commit that a worktree starts from."""
    written: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    uncertain: tuple[str, ...] = ()
    """Files whose content is not known, or may have been changed by a command."""
    outside: tuple[str, ...] = ()
    """Files outside of the project, which are left out."""


def check_out_folder(files: Iterable[FileAt], project: str, folder: Path) -> Checkout:
    """Write files of a project to a new or empty folder.

    Raises `PathUnusable` if the folder is not empty.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise PathUnusable(f"{folder} is not empty")
    except OSError as error:
        raise PathUnusable(f"{folder}: {error.strerror or error}") from error
    return _apply(files, project, folder)


def check_out_worktree(
    files: Iterable[FileAt],
    project: str,
    *,
    name: str,
    git_branch: str | None,
    time: datetime | None,
) -> Checkout:
    """Write files of a project to a new git worktree beside its repository.

    The worktree starts from the last commit of the branch before a time.

    Raises `PathUnusable` if the project is not in a repository.
    """
    repository = find_repository(Path(project))
    if repository is None:
        raise PathUnusable(f"{project} is not in a git repository")
    commit = _find_commit(repository, git_branch, time)
    if commit is None:
        raise PathUnusable(f"the repository of {project} has no commit")
    root = repository.root
    folder = _unused_path(root.with_name(f"{root.name}-{name}"))
    if repository.run("worktree", "add", "--detach", str(folder), commit) is None:
        raise PathUnusable(f"git cannot add a worktree at {folder}")
    below = relative_to(project, str(root)) or ""
    checkout = _apply(files, str(root), folder)
    return structs.replace(checkout, directory=str(folder / below), commit=commit)


def _find_commit(
    repository: GitRepository, git_branch: str | None, time: datetime | None
) -> str | None:
    known = repository.resolve_commit(git_branch) if git_branch else None
    start = known or repository.head
    if start is None or time is None:
        return start
    before = f"--before={time.isoformat()}"
    output = repository.run("rev-list", "--max-count=1", before, start, "--")
    return output.decode().strip() if output else start


def _unused_path(path: Path) -> Path:
    for number in count():
        candidate = path.with_name(f"{path.name}-{number}") if number else path
        if not os.path.lexists(candidate):
            return candidate
    raise AssertionError


def _apply(files: Iterable[FileAt], root: str, folder: Path) -> Checkout:
    written, removed, uncertain, outside = [], [], [], []
    for file in files:
        name = relative_to(file.path, root)
        if name is None or not is_safe_relative(name) or belongs_to_git(name):
            outside.append(file.path)
            continue
        parts = name.split("/")
        if not file.is_certain:
            uncertain.append(name)
        try:
            if file.text is not None:
                raw = file.text.encode("utf-8", "surrogatepass")
                _replace(folder, parts, raw)
                written.append(name)
            elif file.exists is False and _remove(folder, parts):
                removed.append(name)
        except OSError as error:
            reason = error.strerror or str(error)
            raise PathUnusable(f"{folder.joinpath(*parts)}: {reason}") from error
    return Checkout(
        directory=str(folder),
        written=tuple(written),
        removed=tuple(removed),
        uncertain=tuple(uncertain),
        outside=tuple(outside),
    )


def _replace(folder: Path, parts: Sequence[str], raw: bytes) -> None:
    """Write a file below a folder without following a link; keep its mode."""
    make_folders(folder, parts[:-1])
    target = folder.joinpath(*parts)
    is_file = target.is_file() and not target.is_symlink()
    mode = target.stat().st_mode & 0o777 if is_file else None
    if os.path.lexists(target):
        target.unlink()
    with target.open("xb") as file:
        file.write(raw)
    if mode is not None:
        target.chmod(mode)


def _remove(folder: Path, parts: Sequence[str]) -> bool:
    target = folder
    for part in parts:
        if target.is_symlink():
            return False
        target = target / part
    if not os.path.lexists(target) or (target.is_dir() and not target.is_symlink()):
        return False
    target.unlink()
    return True
