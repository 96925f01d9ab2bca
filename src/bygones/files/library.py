"""Histories of files in an archive."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cached_property, lru_cache

from bygones.errors import AmbiguousSelector, ArchiveDamaged, NotInArchive
from bygones.files.events import find_branch
from bygones.files.history import BranchLog, FileAt, FileHistory, files_at
from bygones.files.origins import LineOrigin
from bygones.files.paths import file_name, path_key
from bygones.files.replay import Version
from bygones.model.base import SessionId
from bygones.model.sessions import Branch, Session
from bygones.model.summary import IndexedEdit
from bygones.store.protocols import StoreReader

_WORKTREE = re.compile(r"/(?:\.claude/)?\.?worktrees/[^/]+(?=/)")
_MAX_CACHED_SESSIONS = 64


class FileLibrary:
    """Finds files in an archive, and loads the sessions that changed them."""

    def __init__(
        self, reader: StoreReader, load_session: Callable[[SessionId], Session]
    ) -> None:
        self._reader = reader
        self._load_session = lru_cache(_MAX_CACHED_SESSIONS)(load_session)

    def open(self, path: str, absolute_path: str = "") -> ArchivedFile:
        """Return the history of a file by its path, or by the end of its path.

        Raises `NotInArchive`, or `AmbiguousSelector` if several files end like this.
        """
        edits = self._find_edits(path)
        keys = _choose_keys(edits, path, absolute_path or path)
        by_key = {key: [e for e in edits if path_key(e.path) == key] for key in keys}
        groups = {_canonical(key): key for key in sorted(keys, key=len, reverse=True)}
        if len(groups) > 1:
            names = [by_key[key][-1].path for key in groups.values()]
            raise AmbiguousSelector("file", path, names)
        (key,) = groups.values()
        canonical = _canonical(key)
        related = {
            path_key(edit.path): edit.path
            for edit in edits
            if _canonical(path_key(edit.path)) == canonical
        }
        related.pop(key)
        return ArchivedFile(self, by_key[key][-1].path, tuple(related.values()))

    def _find_edits(self, path: str) -> list[IndexedEdit]:
        name = file_name(path)
        edits = self._reader.edits.edits_with_suffix(name) if name else []
        if not edits:
            raise NotInArchive("changed file", path)
        return edits

    def sessions_of(self, key: str) -> list[SessionId]:
        """Return the sessions that changed a file, oldest change first."""
        edits = self._reader.edits.edits_with_suffix(file_name(key))
        own = (edit.session_id for edit in edits if path_key(edit.path) == key)
        return list(dict.fromkeys(own))

    def log(
        self,
        session_id: SessionId,
        *,
        branch: int = 0,
        stop_turn: int | None = None,
        stop_time: float | None = None,
    ) -> BranchLog:
        """Return the calls of a branch, up to a turn or time.

        Raises `NotInArchive` if there is no such session or branch.
        """
        session = self._load_session(session_id)
        return BranchLog(
            session,
            _require_branch(session, branch),
            stop_turn=stop_turn,
            stop_time=stop_time,
            load_backup=self._load_backup,
        )

    def files_at(
        self, session_id: SessionId, turn: int, *, branch: int = 0, is_before: bool
    ) -> list[FileAt]:
        """Return the files that a session changed, as they were at a turn.

        That is after the turn, or before it; before it includes files which the session
        changed later only.
        """
        stop = turn if is_before else turn + 1
        log = self.log(session_id, branch=branch, stop_turn=stop)
        return list(files_at(log, looks_ahead=is_before))

    def _load_backup(self, session_id: SessionId, name: str) -> bytes | None:
        session = self._load_session(session_id)
        homes = dict.fromkeys(source.home for source in session.sources)
        owners = (session.id, *(lineage.session_id for lineage in session.lineage))
        byte_store = self._reader.byte_store
        for home in homes:
            for owner in owners:
                stored = byte_store.find_source(home, f"file-history/{owner}/{name}")
                if stored is not None:
                    place = (stored.number, stored.generation)
                    try:
                        return byte_store.read_bytes(*place, 0, stored.stored_bytes)
                    except ArchiveDamaged:
                        return None
        return None


def _require_branch(session: Session, number: int) -> Branch:
    branch = find_branch(session, number)
    if branch is None:
        raise NotInArchive("branch", str(number))
    return branch


def _canonical(key: str) -> str:
    """Return a path as it would be outside of a worktree."""
    return _WORKTREE.sub("", key)


def _choose_keys(
    edits: Sequence[IndexedEdit], path: str, absolute_path: str
) -> list[str]:
    """Return the files that a path may mean: itself, or those that end most like it."""
    keys = list(dict.fromkeys(path_key(edit.path) for edit in edits))
    wanted = path_key(absolute_path)
    if wanted in keys:
        return [wanted]
    suffix = path_key(path).lstrip("./")
    if named := [key for key in keys if f"/{key}".endswith(f"/{suffix}")]:
        return named
    # A project that was moved: the end of the path is the same.
    scores = {key: _common_suffix(key, wanted) for key in keys}
    best = max(scores.values())
    if best < 2:  # noqa: PLR2004 (a name alone says too little)
        raise NotInArchive("changed file", path)
    return [key for key, score in scores.items() if score == best]


def _common_suffix(a: str, b: str) -> int:
    """Return how many parts at the end of two paths are equal."""
    count = 0
    for part, other in zip(a.split("/")[::-1], b.split("/")[::-1], strict=False):
        if part != other:
            break
        count += 1
    return count


class ArchivedFile:
    """A file that sessions changed, with all its versions.

    Example::

        file = archive.file("src/app.py")
        for version in file.versions:
            print(version.time, version.kind, version.place.session_id)
        print(file.at("5e551000", 3).text)
    """

    def __init__(
        self, library: FileLibrary, path: str, related_paths: Sequence[str] = ()
    ) -> None:
        self.path = path
        self.related_paths = related_paths
        """The same file in worktrees."""
        self._library = library
        self._key = path_key(path)

    @cached_property
    def history(self) -> FileHistory:
        """The versions on the live branches of all sessions."""
        return self._open_history(None)

    def _open_history(self, stop_time: float | None) -> FileHistory:
        logs = [
            self._library.log(session_id, stop_time=stop_time)
            for session_id in self._library.sessions_of(self._key)
        ]
        return FileHistory(self.path, self._key, logs)

    @property
    def versions(self) -> Sequence[Version]:
        """All versions, oldest first; abandoned branches are left out."""
        return self.history.versions

    def text(self, number: int = -1) -> str | None:
        """Return the content of a version; none if it is unknown or deleted."""
        return self.history.text(number)

    def blame(self, number: int = -1) -> list[tuple[str, LineOrigin]]:
        """Return the lines of a version with their origins, by default of the last."""
        text = self.text(number)
        if text is None:
            return []
        lines = text.split("\n")
        if lines[-1] == "":
            lines.pop()
        return list(zip(lines, self.history.origins(number), strict=False))

    def at(
        self,
        session: str,
        turn: int | None = None,
        *,
        branch: int = 0,
        is_before: bool = False,
    ) -> FileAt:
        """Return the file as it was after a turn of a session, or before it.

        Turns count from 0; without one it is the last. Other sessions count up to the
        end of that turn.
        """
        session_id = SessionId(session)
        stop = None if turn is None else turn + (not is_before)
        log = self._library.log(session_id, branch=branch, stop_turn=stop)
        others = [
            self._library.log(other, stop_time=log.end)
            for other in self._library.sessions_of(self._key)
            if other != session_id
        ]
        logs = [*others, log]
        return FileHistory(self.path, self._key, logs, looks_ahead=is_before).last

    def at_time(self, time: datetime) -> FileAt:
        """Return the file as it was at a time."""
        return self._open_history(time.timestamp()).last
