"""The files that shell commands changed, as recorded with their results."""

from __future__ import annotations

from msgspec import Struct

from bygones.model.base import wire_name
from bygones.model.nodes import ChangedFile

SHELL_EDITS_KEY = b'"bashEditDiff"'
"""Every record with the edits of a shell command contains this."""


class DiffHunk(Struct, frozen=True, gc=False):
    """The lines of a hunk; nothing else is used."""

    lines: list[str] = []


class RawShellEdit(Struct, frozen=True, gc=False, rename=wire_name):
    """A changed file with its patch."""

    file_path: str | None = None
    hunks: list[DiffHunk] | None = None
    created: bool | None = None
    deleted: bool | None = None


class RawShellEdits(Struct, frozen=True, gc=False, rename=wire_name):
    """The changed files: the first five with a patch, and the paths of all."""

    files: list[RawShellEdit] | None = None
    changed_files: list[str] | None = None


def count_patch_lines(hunks: list[DiffHunk] | None) -> tuple[int, int]:
    """Return the number of added and of removed lines."""
    marks = [line[:1] for hunk in hunks or () for line in hunk.lines]
    return marks.count("+"), marks.count("-")


def list_changed_files(edits: RawShellEdits | None) -> tuple[ChangedFile, ...]:
    """Return all changed files; those without a patch last."""
    files: dict[str, ChangedFile] = {}
    for file in (edits.files or ()) if edits else ():
        if not file.file_path:
            continue
        added, removed = count_patch_lines(file.hunks)
        files[file.file_path] = ChangedFile(
            path=file.file_path,
            added_lines=added,
            removed_lines=removed,
            is_new_file=bool(file.created),
            is_deleted=bool(file.deleted),
            has_diff=bool(file.hunks),
        )
    for path in (edits.changed_files or ()) if edits else ():
        if path:
            files.setdefault(path, ChangedFile(path=path, has_diff=False))
    return tuple(files.values())
