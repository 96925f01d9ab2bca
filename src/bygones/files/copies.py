"""Write copies of files below a folder, and nowhere else."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from bygones.errors import PathUnusable
from bygones.files.history import FileAt
from bygones.files.paths import belongs_to_git, is_safe_relative, relative_to

_OUTSIDE = "outside"
"""The folder for files that are not in the project."""

_RENAMED_GIT = "dot-git"


class PlannedCopy(Struct, frozen=True, kw_only=True):
    """A file to write, and the parts of its path below the folder."""

    path: str
    folder: Path
    parts: tuple[str, ...]
    text: str


def plan_copies(
    files: Iterable[FileAt], folder: Path, project: str = ""
) -> list[PlannedCopy]:
    """Return where files whose content is known are written below a folder.

    Paths come from transcripts, so each part of them is checked. Those outside of the
    project go to a folder of their own. No file is written where git looks for its
    settings.
    """
    plans = []
    for file in files:
        if file.text is None:
            continue
        inside = relative_to(file.path, project) if project else None
        parts = (inside or file.path).replace("\\", "/").split("/")
        if inside is None:
            parts = [_OUTSIDE, *(part.replace(":", "") for part in parts)]
        safe = tuple(
            _RENAMED_GIT if belongs_to_git(part) else part
            for part in parts
            if part not in {"", ".", ".."}
        )
        if safe and is_safe_relative("/".join(safe)):
            plans.append(
                PlannedCopy(path=file.path, folder=folder, parts=safe, text=file.text)
            )
    return plans


def write_copies(plans: Sequence[PlannedCopy]) -> dict[str, str]:
    """Write copies, and return where each file was written.

    No link is followed below the folder, and a file with other content is not replaced.

    Raises `PathUnusable`.
    """
    written = {}
    for plan in plans:
        target = plan.folder.joinpath(*plan.parts)
        raw = plan.text.encode("utf-8", "surrogatepass")
        try:
            make_folders(plan.folder, plan.parts[:-1])
            _create(target, raw)
        except OSError as error:
            raise PathUnusable(f"{target}: {error.strerror or error}") from error
        written[plan.path] = str(target)
    return written


def make_folders(folder: Path, parts: Sequence[str]) -> None:
    """Create folders below a folder, without following a link."""
    folder.mkdir(parents=True, exist_ok=True)
    for part in parts:
        folder = folder / part
        with suppress(FileExistsError):
            folder.mkdir()
        if folder.is_symlink() or not folder.is_dir():
            raise NotADirectoryError(20, "it is a link or a file", str(folder))


def _create(target: Path, raw: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    try:
        descriptor = os.open(target, flags, 0o600)
    except FileExistsError:
        is_same = not target.is_symlink() and target.read_bytes() == raw
        if not is_same:
            raise
        return
    with open(descriptor, "wb") as file:  # noqa: PTH123 (a descriptor)
        file.write(raw)
