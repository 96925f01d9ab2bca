"""Faults that the harnesses must catch: each is a plausible bug of the product.

A mutation is applied in the tested program and never removed; in a test it goes through
``monkeypatch``.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, nullcontext
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from stat import S_ISDIR
from typing import Any

import tantivy
from apsw import SQLITE_OPEN_READONLY, SQLITE_OPEN_READWRITE, Connection, FullError
from msgspec.structs import replace

from bygones.archive import Archive
from bygones.assemble.summary import summarize_session
from bygones.ingest import changes, derive, run
from bygones.ingest import importer as running
from bygones.ingest.changes import ChangeDetector, ChangedSource
from bygones.maintenance.restore import RestoreResult, TargetState, WriteResult
from bygones.model.base import Problem, SourceFile, SourceId
from bygones.model.sessions import Session
from bygones.model.summary import SessionSummary
from bygones.render.html import markup
from bygones.sources import lines, walk
from bygones.sources.fingerprint import SourceChange
from bygones.sources.layout import DirInfo, classify_file
from bygones.sources.lines import read_line_blocks
from bygones.store import archive_db, archive_dir, connect, index_db, text_index
from bygones.store.archive_db import ArchiveDB, StoredSource
from bygones.store.archive_dir import ArchiveDir
from bygones.store.compression import CompressionQueue, HashedFrame, decompress
from bygones.store.connect import writer_lock
from bygones.store.index_db import IndexDB

__all__ = ["MUTATIONS", "Set", "put"]

Set = Callable[[object, str, object], None]
"""Replaces an attribute, as :func:`put` or ``monkeypatch.setattr`` do."""


def put(owner: object, name: str, value: object) -> None:
    """Replace an attribute; raise AttributeError if there is none of that name."""
    getattr(owner, name)
    setattr(owner, name, value)


def _lazily(opened: Callable[..., Connection]) -> Callable[..., Connection]:
    def lazy(path: Path, *, write: bool, **more: int) -> Connection:
        db = opened(path, write=write, **more)
        db.pragma("synchronous", "NORMAL")
        return db

    return lazy


def lazy_archive(put: Set) -> None:
    """Acknowledge in the archive what no sync has made certain."""
    put(archive_db, "open_archive_db", _lazily(connect.open_archive_db))


def lazy_index(put: Set) -> None:
    """Let the rows of the index be less durable than its words."""
    put(index_db, "open_index_db", _lazily(connect.open_index_db))


def offset_first(put: Set) -> None:
    """Note how far a source was read before its bytes are in the archive."""
    kept = ArchiveDB.save_read_state

    def early(self: ArchiveDB, *words: object) -> None:
        kept(self, *words)  # type: ignore[arg-type]
        if self.db.in_transaction:
            self.db.execute("COMMIT")
            self.db.execute("BEGIN IMMEDIATE")

    put(ArchiveDB, "save_read_state", early)
    put(running, "COMMIT_BYTES", 1)


def half_built(put: Set) -> None:
    """Build an index where readers look for it, and note early what it has seen."""
    begun, finished, seen = (
        ArchiveDir.begin_index_build,
        ArchiveDir.publish_index,
        IndexDB.save_indexed_source,
    )

    def begin(self: ArchiveDir) -> None:
        begun(self)
        finished(self)

    def early(self: IndexDB, *words: object) -> None:
        seen(self, *words)  # type: ignore[arg-type]
        if self.db.in_transaction:
            self.db.execute("COMMIT")
            self.db.execute("BEGIN IMMEDIATE")

    put(ArchiveDir, "begin_index_build", begin)
    put(ArchiveDir, "publish_index", lambda _: None)
    put(IndexDB, "save_indexed_source", early)


def numbered_first(put: Set) -> None:
    """Note that an archive is of a version before it is."""

    def hasty(db: Connection, _path: Path) -> int:
        found = int(str(db.pragma("user_version")))
        for number, sql in connect.migration_steps():
            if number > found:
                db.pragma("user_version", number)
                db.execute(sql)
        return found

    put(archive_db, "migrate", hasty)


def index_last(put: Set) -> None:
    """Erase what is purged first, and then the index that refers to it."""
    dropped, packed = ArchiveDir.remove_all_indexes, ArchiveDB.vacuum
    waiting: list[ArchiveDir] = []

    def drop(self: ArchiveDir) -> None:
        waiting.append(self)

    def pack(self: ArchiveDB) -> bool:
        for opened in waiting:
            dropped(opened)
        return packed(self)

    put(ArchiveDir, "remove_all_indexes", drop)
    put(ArchiveDB, "vacuum", pack)


def engine_unheard(put: Set) -> None:
    """Pass messages of the text engine on to the user."""
    put(text_index, "_system_failure", lambda _: None)


def restoring_in_place(put: Set) -> None:
    """Write a restored file where it belongs, and not beside it first."""

    def write(
        path: Path, raws: Iterable[bytes], mtime_ns: int, *_: object, overwrite: bool
    ) -> WriteResult:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb" if overwrite else "xb", buffering=0) as file:
            size = sum(file.write(raw) for raw in raws)
        os.utime(path, ns=(mtime_ns, mtime_ns))
        return WriteResult(target_state=TargetState.NEW, size=size)

    put(import_module(RestoreResult.__module__), "write_file", write)


def never_synced(put: Set) -> None:
    """Give a file its name before the disk has its bytes."""
    put(os, "fsync", lambda _: None)


def files_unsynced(put: Set) -> None:
    """Wait for names of files, and not for their bytes."""
    inner = os.fsync

    def sync(handle: int) -> None:
        if S_ISDIR(os.fstat(handle).st_mode):
            inner(handle)

    put(os, "fsync", sync)


def names_unsynced(put: Set) -> None:
    """Note that words are there before the disk has the name of their file."""
    put(text_index, "fsync_folder", lambda _: None)


def open_words(put: Set) -> None:
    """Let the text engine make its files as it likes."""
    put(text_index, "_PRIVATE_UMASK", 0)


def hasty(put: Set) -> None:
    """Take a line that is being written for a whole one."""
    inner = read_line_blocks

    def read(
        source: SourceFile, *, target_size: int, start: int = 0
    ) -> Iterator[tuple[int, bytes] | Problem]:
        for found in inner(source, target_size=target_size, start=start):
            if isinstance(found, Problem) or found[1].endswith(b"\n"):
                yield found
            else:
                yield found[0], found[1] + b"\n"

    put(running, "read_line_blocks", read)


def trusting_times(put: Set) -> None:
    """Take a file of the same size and time for the same file."""

    def looks_same(source: SourceFile, kept: StoredSource, **_: bool) -> bool:
        return (source.size, source.mtime_ns) == (kept.size, kept.mtime_ns)

    put(changes, "_looks_same", looks_same)


def comparing_twice(put: Set) -> None:
    """Trust that a file is as it was when it was compared."""
    put(running.ImportRun, "_has_lost_fragment", lambda *_: False)


def index_unchecked(put: Set) -> None:
    """Trust the files of the index, whatever happened to them."""
    put(archive_dir, "find_damage", lambda _: "")


def moves_unknown(put: Set) -> None:
    """Take a file that has another name for a new one, and keep it twice."""
    put(changes._MissingSources, "find_candidates", lambda *_: [])


def always_anew(put: Set) -> None:
    """Begin a new generation whenever a file grew, with all that is kept already."""
    inner = ChangeDetector._classify_growth

    def growth(
        self: ChangeDetector, source: SourceFile, kept: StoredSource
    ) -> SourceChange | Problem:
        found = inner(self, source, kept)
        return SourceChange.REWRITTEN if found is SourceChange.APPENDED else found

    put(ChangeDetector, "_classify_growth", growth)


def following_links(put: Set) -> None:
    """Take what a link leads to for a file of the home."""

    def followed(
        child: os.DirEntry[str], source: SourceId, place: DirInfo, root: walk._WalkRoot
    ) -> SourceFile | None:
        role = classify_file(place, child.name)
        where = (root.path, source[root.prefix_length :])
        return (
            walk._make_source(source, where, (role, place), child.stat())
            if role
            else None
        )

    put(walk, "_symlink_problem", followed)
    put(lines, "_OPEN_FLAGS", os.O_RDONLY)


def hash_unheeded(put: Set) -> None:
    """Take whatever can be unpacked for what was stored."""
    put(
        ArchiveDB,
        "_decompress_verified",
        lambda _self, _what, _expected, frame, *_: decompress(frame),
    )


def forgetful_only(put: Set) -> None:
    """Take rows away on a purge, and leave their bytes where they lie."""

    def opened(path: Path, *, write: bool, latest_version: int) -> Connection:
        db = connect.open_archive_db(path, write=write, latest_version=latest_version)
        if write:
            db.pragma("secure_delete", "OFF")
        return db

    put(archive_db, "open_archive_db", opened)
    put(ArchiveDB, "vacuum", lambda _: True)


def words_left(put: Set) -> None:
    """Remove the rows of an index that was purged, and not its words."""

    def dropped(self: ArchiveDir) -> None:
        self._close_index()
        for rows in (self.folder / "index").rglob("index.db*"):
            rows.unlink()
        self._open_index(None)

    put(ArchiveDir, "remove_all_indexes", dropped)
    put(ArchiveDir, "_remove_other_indexes", lambda *_: None)


def piecemeal(put: Set) -> None:
    """Keep every piece that a source grows by as a chunk of its own."""
    put(ArchiveDB, "pop_small_last_chunk", lambda _self, kept: (kept.stored_bytes, b""))


def copied_only(put: Set) -> None:
    """Back up by copying the file, without what is in the log beside it."""
    put(
        ArchiveDB, "backup", lambda self, path: path.write_bytes(self.path.read_bytes())
    )


def any_version(put: Set) -> None:
    """Take an archive for one's own, whatever version has written it."""
    put(archive_db, "LATEST_VERSION", 9999)
    put(connect, "LATEST_VERSION", 9999)


def by_the_clock(put: Set) -> None:
    """Use the time of the import as the end of a session."""

    def now(session: Session) -> SessionSummary:
        return replace(summarize_session(session), ended_at=datetime.now(UTC))

    put(derive, "summarize_session", now)


def lockless(put: Set) -> None:
    """Let several write at once."""
    put(run, "writer_lock", lambda *_, **__: nullcontext())


def patient(put: Set) -> None:
    """Make pages wait for a limited time until no process writes."""
    opened, beats = ArchiveDir.__init__, "beat"

    def go_on(beat: Path) -> None:
        while beat.parent.exists():
            beat.touch()
            time.sleep(0.05)

    def open_(self: ArchiveDir, folder: Path, *, write: bool = False) -> None:
        if write:
            beat = folder / beats
            threading.Thread(target=go_on, args=(beat,), daemon=True).start()
        opened(self, folder, write=write)

    put(ArchiveDir, "__init__", open_)
    if "serve" not in sys.argv:
        return  # who takes something in shows no pages
    app = import_module("bygones.web.app")
    answered = app._handle_request

    def wait(row: object, visit: Any) -> object:  # noqa: ANN401 (handed through)
        beat = visit.pool.folder / beats
        until = time.monotonic() + 4
        while beat.exists() and time.monotonic() < until:
            if time.time() - beat.stat().st_mtime > 0.3:
                break
            time.sleep(0.02)
        return answered(row, visit)

    put(app, "_handle_request", wait)


def leaking(put: Set) -> None:
    """Hold whatever a page was asked for, for ever."""
    app = import_module("bygones.web.app")  # few need it, and it is long in coming
    answered = app._handle_request
    held: list[bytes] = []

    def answer(*asked: object) -> object:
        held.append(b"x" * 3_000_000)
        return answered(*asked)

    put(app, "_handle_request", answer)


def rereading(put: Set) -> None:
    """Look into every file, whatever its size and its times say."""
    put(changes, "_looks_same", lambda *_, **__: False)


def looking_through_all(put: Set) -> None:
    """Look for every file among all that are known, one by one."""
    inner = ChangeDetector._check_known

    def known(
        self: ChangeDetector, source: SourceFile, kept: StoredSource
    ) -> list[ChangedSource]:
        for one in self._stored_sources.values():
            kept = one if one.id == source.id else kept
        return inner(self, source, kept)

    put(ChangeDetector, "_check_known", known)


def listing_all(put: Set) -> None:
    """Make a line of every session before the first of them is shown."""
    inner = Archive.sessions

    def sessions(
        self: Archive, *words: object, **more: object
    ) -> Iterator[SessionSummary]:
        return iter(list(inner(self, *words, **more)))  # type: ignore[arg-type]

    put(Archive, "sessions", sessions)


def dropped_when_gone(put: Set) -> None:
    """Let go of what is kept of a file once that is gone."""
    inner = ArchiveDB.set_gone

    def drop(self: ArchiveDB, numbers: Iterable[int], when: int | None) -> None:
        gone = list(numbers)
        inner(self, gone, when)
        for number in gone if when else []:
            self.db.execute("DELETE FROM chunk WHERE source = ?", (number,))

    put(ArchiveDB, "set_gone", drop)


def full_for_damaged(put: Set) -> None:
    """Take an archive on a full disk for a damaged one."""
    refusals = [one for one in connect._SYSTEM_ERRORS if one is not FullError]
    put(connect, "_SYSTEM_ERRORS", tuple(refusals))
    put(connect, "_CORRUPTION_ERRORS", (*connect._CORRUPTION_ERRORS, FullError))


def hoarding(put: Set) -> None:
    """Hold what is pressed several times, and for ever."""
    held: list[bytes] = []

    def add(
        self: CompressionQueue, raw: bytes, then: Callable[[HashedFrame], None]
    ) -> None:
        held.extend(raw + bytes([number]) for number in range(9))
        inner(self, raw, then)

    inner = CompressionQueue.submit
    put(CompressionQueue, "submit", add)


def unescaped(put: Set) -> None:
    """Write what a transcript says into pages as it stands."""
    put(markup, "escape", lambda text: text)


def lone_readers(put: Set) -> None:
    """Make readers hold the writer's lock."""
    opened = ArchiveDir.__init__
    held = ExitStack()

    def alone(self: ArchiveDir, folder: Path, *, write: bool = False) -> None:
        opened(self, folder, write=write)
        if not write:
            held.enter_context(writer_lock(folder, timeout=0))

    put(ArchiveDir, "__init__", alone)


def notes_of_readers(put: Set) -> None:
    """Open an archive only where readers can leave what they share with writers."""

    def connected(path: Path, *, write: bool) -> Connection:
        how = SQLITE_OPEN_READWRITE if write else SQLITE_OPEN_READONLY
        return Connection(str(path), flags=how)

    put(connect, "_connect", connected)


def words_where_they_lie(put: Set) -> None:
    """Open words only where the text engine can leave its lock."""

    def opened(self: text_index.TextIndex) -> None:
        self.index = tantivy.Index.open(str(self.folder))

    put(text_index.TextIndex, "_open", opened)


MUTATIONS: dict[str, Callable[[Set], None]] = {
    one.__name__: one
    for one in (
        lazy_archive,
        lazy_index,
        offset_first,
        half_built,
        numbered_first,
        index_last,
        engine_unheard,
        restoring_in_place,
        never_synced,
        files_unsynced,
        names_unsynced,
        open_words,
        hasty,
        trusting_times,
        comparing_twice,
        index_unchecked,
        moves_unknown,
        always_anew,
        following_links,
        hash_unheeded,
        forgetful_only,
        words_left,
        piecemeal,
        copied_only,
        any_version,
        by_the_clock,
        lockless,
        patient,
        leaking,
        rereading,
        looking_through_all,
        listing_all,
        dropped_when_gone,
        full_for_damaged,
        hoarding,
        unescaped,
        lone_readers,
        notes_of_readers,
        words_where_they_lie,
    )
}
