"""Plan what undoing a session does to files on disk.

Paths come from transcripts: only regular files below a folder that the user trusts, or
that the user named, are changed, and no link is followed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from msgspec import Struct, structs

from bygones.files.diff import diff_lines
from bygones.files.disk import read_regular_file
from bygones.files.events import decode_bytes
from bygones.files.history import FileAt
from bygones.files.paths import belongs_to_git, path_key
from bygones.model.base import SessionId

_MAX_COMMAND = 100


class UndoAction(StrEnum):
    """What undoing does to a file."""

    WRITE = "write"
    CREATE = "create"
    DELETE = "delete"
    SAME = "same"
    """The file is as it was before."""
    SKIP = "skip"


class PlannedUndo(Struct, frozen=True, kw_only=True):
    """What undoing does to one file."""

    path: str
    action: UndoAction
    reason: str = ""
    """Why it is skipped, or what else happens to it."""
    can_force: bool = False
    """Whether it is skipped only because it would overwrite what is not explained."""
    before: bytes | None = None
    """The content on disk; none if there is no file."""
    after: bytes | None = None
    mode: int | None = None
    """The permissions of a file that is created; none if they are not known."""

    @property
    def is_change(self) -> bool:
        return self.action not in {UndoAction.SAME, UndoAction.SKIP}


class UndoEntry(Struct, frozen=True, kw_only=True):
    """A file that was changed, with both contents."""

    path: str
    before: bytes | None
    after: bytes | None
    real_folder: str = ""
    """Its folder without links; "" in entries of older versions."""
    mode: int | None = None
    """Its permissions, with which it is created again after it was deleted."""


class UndoRecord(Struct, frozen=True, kw_only=True):
    """What one run of undo changed."""

    id: str
    session_id: SessionId
    turn_number: int
    """Counted from 0."""
    made_at: datetime
    entries: tuple[UndoEntry, ...]
    is_redo: bool = False
    """Whether it took back another undo."""


def plan_undo(
    targets: Iterable[FileAt],
    current: dict[str, FileAt],
    *,
    trusted: Sequence[Path],
    force: bool = False,
    is_abandoned: bool = False,
) -> list[PlannedUndo]:
    """Return what undoing does to each file.

    ``targets`` are the files as they were before, ``current`` as they were after the
    last recorded event, by key. ``trusted`` are folders and files that may be changed.
    For an abandoned branch, ``current`` are the files at its end: only what it changed
    and is still there is undone, and nothing that came later is overwritten.
    """
    plans = []
    targets = list(targets)
    # A file that was renamed has its permissions at the new path.
    modes = {t.former_path: read_mode(t.path) for t in targets if t.former_path}
    for target in targets:
        after = current.get(path_key(target.path))
        plan = _plan_file(
            target, after, trusted=trusted, force=force and not is_abandoned
        )
        if is_abandoned and plan.can_force:
            plan = _keep_later_changes(plan, target, after)
        if plan.action is UndoAction.CREATE:
            plan = structs.replace(plan, mode=modes.get(plan.path))
        if plan.is_change and not _is_folder_writable(Path(plan.path)):
            plan = PlannedUndo(
                path=plan.path,
                action=UndoAction.SKIP,
                reason="its folder is read-only",
            )
        plans.append(plan)
    return plans


def _is_folder_writable(path: Path) -> bool:
    folder = next(folder for folder in path.parents if folder.exists())
    return os.access(folder, os.W_OK | os.X_OK)


def _keep_later_changes(
    plan: PlannedUndo, target: FileAt, after: FileAt | None
) -> PlannedUndo:
    """Return what happens to a file that is not as an abandoned branch left it."""
    disk = decode_bytes(plan.before) if plan.before is not None else None
    written = set(((after.text if after else None) or "").split("\n"))
    written -= set((target.text or "").split("\n"))
    if written.isdisjoint((disk or "").split("\n")):
        return PlannedUndo(path=plan.path, action=UndoAction.SAME)
    return PlannedUndo(
        path=plan.path,
        action=UndoAction.SKIP,
        reason="it was changed since the abandoned branch, in the same lines",
    )


def _plan_file(
    target: FileAt, current: FileAt | None, *, trusted: Sequence[Path], force: bool
) -> PlannedUndo:
    path = target.path
    reason, disk = _refuse_path(Path(path), trusted), None
    if not reason and (target.version is None or not target.version.is_known):
        reason = _explain_unknown(target)
    if not reason:
        try:
            disk = read_strictly(Path(path))
        except OSError as error:
            reason = error.strerror or str(error)
    disk_text = decode_bytes(disk) if disk is not None else None
    if disk is not None and disk_text is None:
        reason = "it is binary"
    if reason:
        return PlannedUndo(path=path, action=UndoAction.SKIP, reason=reason)
    text, reason, is_explained = _choose_text(target, current, disk_text)
    if disk_text in {target.text, text}:
        return PlannedUndo(path=path, action=UndoAction.SAME)
    after = None if text is None else _encode_like(text, disk)
    if not is_explained and not force:
        return PlannedUndo(
            path=path,
            action=UndoAction.SKIP,
            reason=reason,
            can_force=True,
            before=disk,
            after=after,
        )
    action = UndoAction.WRITE
    if after is None:
        action = UndoAction.DELETE
    elif disk is None:
        action = UndoAction.CREATE
    return PlannedUndo(
        path=path, action=action, reason=reason, before=disk, after=after
    )


def _explain_unknown(target: FileAt) -> str:
    renamed = f"; it was renamed from {target.former_path}"
    return f"its content before is not known{renamed if target.former_path else ''}"


def _explain_removal(target: FileAt, current: FileAt | None) -> str:
    """Return which command removed a file that is created again.

    If it renamed it, the new path may still exist.
    """
    version = current.version if current else None
    if target.text is None or version is None or version.exists or not version.command:
        return ""
    return f"removed or renamed by: {version.command[:_MAX_COMMAND]}"


def _choose_text(
    target: FileAt, current: FileAt | None, disk: str | None
) -> tuple[str | None, str, bool]:
    """Return the text to write, a remark, and whether all of it is explained."""
    if target.version is not None and not target.version.is_exact:
        return target.text, "a part of its content before is inferred", False
    known = current.text if current and current.version else None
    is_known = bool(current and current.version and current.version.is_known)
    if is_known and disk == known:
        return target.text, _explain_removal(target, current), True
    if target.text is not None and known is not None and disk is not None:
        merged = merge_texts(known, target.text, disk)
        if merged is not None:
            return merged, "changes since the session are kept", True
    if disk is None:
        return target.text, "it was deleted or renamed since", False
    return target.text, "it was changed since the last recorded version", False


def merge_texts(base: str, ours: str, theirs: str) -> str | None:
    """Return a text with the changes of both sides; none if they overlap."""
    base_lines, our_lines, their_lines = (t.split("\n") for t in (base, ours, theirs))
    changes = sorted(
        [
            (start, stop, our_lines[a:b])
            for start, stop, a, b in diff_lines(base_lines, our_lines)
        ]
        + [
            (start, stop, their_lines[a:b])
            for start, stop, a, b in diff_lines(base_lines, their_lines)
        ]
    )
    merged: list[str] = []
    at = 0
    previous: tuple[int, int, list[str]] | None = None
    for change in changes:
        start, stop, added = change
        if change == previous:
            continue  # both sides made the same change
        if previous is not None and start <= previous[1]:
            return None
        merged += base_lines[at:start]
        merged += added
        at, previous = stop, change
    return "\n".join([*merged, *base_lines[at:]])


def _refuse_path(path: Path, trusted: Sequence[Path]) -> str:
    """Return why a file may not be changed, or nothing if it may."""
    if not path.is_absolute() or ".." in path.parts:
        return "its path is not absolute"
    if path in trusted:
        root = path.parent
    else:
        roots = [folder for folder in trusted if path.is_relative_to(folder)]
        if not roots:
            return "it is outside of the project; name it to include it"
        root = roots[0]
    if belongs_to_git(str(path.relative_to(root))):
        return "it belongs to git"
    for folder in path.parents:
        if folder == root:
            break
        if folder.is_symlink():
            return "a folder above it is a link"
    return ""


def read_strictly(path: Path) -> bytes | None:
    """Return the content of a file; none if there is none. Raises `OSError`."""
    return read_regular_file(path, is_strict=True)


def _encode_like(text: str, disk: bytes | None) -> bytes:
    """Return a text with the line ends and the byte order mark of a file."""
    raw = disk or b""
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        return text.replace("\n", "\r\n" if b"\r" in raw else "\n").encode("utf-16")
    if b"\r\n" in raw and raw.count(b"\r\n") == raw.count(b"\n"):
        text = text.replace("\n", "\r\n")
    mark = b"\xef\xbb\xbf" if raw.startswith(b"\xef\xbb\xbf") else b""
    return mark + text.encode("utf-8", "surrogatepass")


def plan_redo(record: UndoRecord, *, force: bool = False) -> list[PlannedUndo]:
    """Return what undoing an undo does: files get what it replaced.

    If one of them was changed since, none is restored, so that `force` can still
    restore all of them.
    """
    plans = plan_entries(record.entries, force=force)
    if force or not any(plan.action is UndoAction.SKIP for plan in plans):
        return plans
    reason = "another file of this undo cannot be restored"
    return [
        structs.replace(plan, action=UndoAction.SKIP, reason=reason, can_force=True)
        if plan.is_change
        else plan
        for plan in plans
    ]


def plan_entries(
    entries: Iterable[UndoEntry], *, force: bool = False
) -> list[PlannedUndo]:
    """Return how files get the content that they had before an undo."""
    return [_plan_entry(entry, force=force) for entry in entries]


def _plan_entry(entry: UndoEntry, *, force: bool) -> PlannedUndo:
    reason, disk = "", None
    if entry.real_folder and entry.real_folder != real_folder(entry.path):
        reason = "a folder above it is a link"
    else:
        try:
            disk = read_strictly(Path(entry.path))
        except OSError as error:
            reason = error.strerror or str(error)
    if reason:
        return PlannedUndo(path=entry.path, action=UndoAction.SKIP, reason=reason)
    action = UndoAction.WRITE
    if disk == entry.before:
        action = UndoAction.SAME
    elif disk != entry.after and not force:
        action, reason = UndoAction.SKIP, "it was changed since"
    elif entry.before is None:
        action = UndoAction.DELETE
    elif disk is None:
        action = UndoAction.CREATE
    return PlannedUndo(
        path=entry.path,
        action=action,
        reason=reason,
        can_force=action is UndoAction.SKIP,
        before=disk,
        after=entry.before,
        mode=entry.mode,
    )


def read_mode(path: str) -> int | None:
    """Return the permissions of a file; none if there is none."""
    try:
        return stat.S_IMODE(os.lstat(path).st_mode)
    except OSError:
        return None


def real_folder(path: str) -> str:
    """Return the folder of a file without links."""
    return os.path.realpath(Path(path).parent)
