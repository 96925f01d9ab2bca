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
from bygones.ingest import changes, derive, importer, run
from bygones.ingest.changes import ChangeDetector, ChangedSource
from bygones.maintenance.restore import RestoreResult, TargetState, WriteResult
from bygones.model.base import Problem, SourceFile, SourceId
from bygones.model.conversations import StoredTurn
from bygones.model.sessions import Branch, Session
from bygones.model.summary import SessionSummary
from bygones.render.html import markup
from bygones.sources import lines, walk
from bygones.sources.fingerprint import SourceChange
from bygones.sources.layout import DirInfo, classify_file
from bygones.sources.lines import read_line_blocks
from bygones.store import (
    archive_db,
    archive_dir,
    connect,
    index_db,
    messages,
    text_index,
)
from bygones.store.archive_db import ArchiveDB, StoredSource
from bygones.store.archive_dir import ArchiveDir
from bygones.store.compression import CompressionQueue, HashedFrame, decompress
from bygones.store.connect import writer_lock
from bygones.store.index_db import IndexDB

__all__ = ["MUTATIONS", "Patch", "patch"]

Patch = Callable[[object, str, object], None]
"""Replaces an attribute, as :func:`patch` or ``monkeypatch.setattr`` do."""


def patch(owner: object, name: str, value: object) -> None:
    """Replace an attribute; raise AttributeError if there is none of that name."""
    getattr(owner, name)
    setattr(owner, name, value)


def _without_full_sync(open_db: Callable[..., Connection]) -> Callable[..., Connection]:
    def open_without_full_sync(path: Path, *, write: bool, **kwargs: int) -> Connection:
        db = open_db(path, write=write, **kwargs)
        db.pragma("synchronous", "NORMAL")
        return db

    return open_without_full_sync


def skip_archive_syncs(patch: Patch) -> None:
    """Commit to the archive without waiting for a sync."""
    patch(archive_db, "open_archive_db", _without_full_sync(connect.open_archive_db))


def skip_index_syncs(patch: Patch) -> None:
    """Make the rows of the index less durable than its text index."""
    patch(index_db, "open_index_db", _without_full_sync(connect.open_index_db))


def commit_offset_first(patch: Patch) -> None:
    """Commit the read offset of a source before its bytes."""
    original = ArchiveDB.save_read_state

    def save_and_commit(self: ArchiveDB, *args: object) -> None:
        original(self, *args)  # type: ignore[arg-type]
        if self.db.in_transaction:
            self.db.execute("COMMIT")
            self.db.execute("BEGIN IMMEDIATE")

    patch(ArchiveDB, "save_read_state", save_and_commit)
    patch(importer, "COMMIT_BYTES", 1)


def publish_index_early(patch: Patch) -> None:
    """Build an index in its final place, and commit early which sources it has."""
    original_begin, original_publish, original_save = (
        ArchiveDir.begin_index_build,
        ArchiveDir.publish_index,
        IndexDB.save_indexed_source,
    )

    def begin(self: ArchiveDir) -> None:
        original_begin(self)
        original_publish(self)

    def save_and_commit(self: IndexDB, *args: object) -> None:
        original_save(self, *args)  # type: ignore[arg-type]
        if self.db.in_transaction:
            self.db.execute("COMMIT")
            self.db.execute("BEGIN IMMEDIATE")

    patch(ArchiveDir, "begin_index_build", begin)
    patch(ArchiveDir, "publish_index", lambda _: None)
    patch(IndexDB, "save_indexed_source", save_and_commit)


def set_version_first(patch: Patch) -> None:
    """Set the version of an archive before its migration runs."""

    def migrate(db: Connection, _path: Path) -> int:
        version = int(str(db.pragma("user_version")))
        for number, sql in connect.migration_steps():
            if number > version:
                db.pragma("user_version", number)
                db.execute(sql)
        return version

    patch(archive_db, "migrate", migrate)


def remove_index_last(patch: Patch) -> None:
    """Purge data from the archive first, and then remove the index that refers to it."""
    original_remove, original_vacuum = ArchiveDir.remove_all_indexes, ArchiveDB.vacuum
    delayed: list[ArchiveDir] = []

    def remove_later(self: ArchiveDir) -> None:
        delayed.append(self)

    def vacuum(self: ArchiveDB) -> bool:
        for delayed_dir in delayed:
            original_remove(delayed_dir)
        return original_vacuum(self)

    patch(ArchiveDir, "remove_all_indexes", remove_later)
    patch(ArchiveDB, "vacuum", vacuum)


def show_engine_errors(patch: Patch) -> None:
    """Show error messages of the text engine to the user."""
    patch(text_index, "_system_failure", lambda _: None)


def restore_in_place(patch: Patch) -> None:
    """Write a restored file in place, without a temporary file."""

    def write(
        path: Path, raws: Iterable[bytes], mtime_ns: int, *_: object, overwrite: bool
    ) -> WriteResult:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb" if overwrite else "xb", buffering=0) as file:
            size = sum(file.write(raw) for raw in raws)
        os.utime(path, ns=(mtime_ns, mtime_ns))
        return WriteResult(target_state=TargetState.NEW, size=size)

    patch(import_module(RestoreResult.__module__), "write_file", write)


def skip_all_fsyncs(patch: Patch) -> None:
    """Rename files without syncing anything."""
    patch(os, "fsync", lambda _: None)


def skip_file_fsyncs(patch: Patch) -> None:
    """Sync folders, but not files."""
    inner = os.fsync

    def sync(handle: int) -> None:
        if S_ISDIR(os.fstat(handle).st_mode):
            inner(handle)

    patch(os, "fsync", sync)


def skip_folder_fsyncs(patch: Patch) -> None:
    """Mark the text index as current before its folder is synced."""
    patch(text_index, "fsync_folder", lambda _: None)


def public_text_index(patch: Patch) -> None:
    """Let the text engine create files with its default permissions."""
    patch(text_index, "_PRIVATE_UMASK", 0)


def import_partial_lines(patch: Patch) -> None:
    """Treat a line that is still being written as complete."""
    inner = read_line_blocks

    def read(
        source: SourceFile, *, target_size: int, start: int = 0
    ) -> Iterator[tuple[int, bytes] | Problem]:
        for found in inner(source, target_size=target_size, start=start):
            if isinstance(found, Problem) or found[1].endswith(b"\n"):
                yield found
            else:
                yield found[0], found[1] + b"\n"

    patch(importer, "read_line_blocks", read)


def trust_file_times(patch: Patch) -> None:
    """Treat a file with the same size and mtime as unchanged."""

    def looks_same(source: SourceFile, stored: StoredSource, **_: bool) -> bool:
        return (source.size, source.mtime_ns) == (stored.size, stored.mtime_ns)

    patch(changes, "_looks_same", looks_same)


def skip_fragment_check(patch: Patch) -> None:
    """Assume that a file does not change after it was compared."""
    patch(importer.ImportRun, "_has_lost_fragment", lambda *_: False)


def skip_index_check(patch: Patch) -> None:
    """Open the index without checking its files for damage."""
    patch(archive_dir, "find_damage", lambda _: "")


def ignore_moves(patch: Patch) -> None:
    """Treat a renamed file as new, and store it twice."""
    patch(changes._MissingSources, "find_candidates", lambda *_: [])


def always_start_generation(patch: Patch) -> None:
    """Start a new generation whenever a file grew, with everything stored already."""
    inner = ChangeDetector._classify_growth

    def classify_growth(
        self: ChangeDetector, source: SourceFile, stored: StoredSource
    ) -> SourceChange | Problem:
        found = inner(self, source, stored)
        return SourceChange.REWRITTEN if found is SourceChange.APPENDED else found

    patch(ChangeDetector, "_classify_growth", classify_growth)


def follow_links(patch: Patch) -> None:
    """Follow symbolic links out of the home."""

    def make_source(
        child: os.DirEntry[str],
        source: SourceId,
        dir_info: DirInfo,
        root: walk._WalkRoot,
    ) -> SourceFile | None:
        role = classify_file(dir_info, child.name)
        location = (root.path, source[root.prefix_length :])
        return (
            walk._make_source(source, location, (role, dir_info), child.stat())
            if role
            else None
        )

    patch(walk, "_symlink_problem", make_source)
    patch(lines, "_OPEN_FLAGS", os.O_RDONLY)


def ignore_hashes(patch: Patch) -> None:
    """Accept any chunk that can be decompressed, whatever its hash."""
    patch(
        ArchiveDB,
        "decompress_verified",
        lambda _self, _what, _expected, frame, *_: decompress(frame),
    )


def delete_rows_only(patch: Patch) -> None:
    """Delete rows on a purge, and leave their bytes in free pages."""

    def open_db(path: Path, *, write: bool, latest_version: int) -> Connection:
        db = connect.open_archive_db(path, write=write, latest_version=latest_version)
        if write:
            db.pragma("secure_delete", "OFF")
        return db

    patch(archive_db, "open_archive_db", open_db)
    patch(ArchiveDB, "vacuum", lambda _: True)


def leave_text_index(patch: Patch) -> None:
    """Remove the rows of an index on a purge, but not its text index."""

    def remove_rows(self: ArchiveDir) -> None:
        self._close_index()
        for path in (self.folder / "index").rglob("index.db*"):
            path.unlink()
        self._open_index(None)

    patch(ArchiveDir, "remove_all_indexes", remove_rows)
    patch(ArchiveDir, "_remove_other_indexes", lambda *_: None)


def never_merge_chunks(patch: Patch) -> None:
    """Store every appended piece as a chunk of its own."""
    patch(
        ArchiveDB,
        "pop_small_last_chunk",
        lambda _self, stored: (stored.stored_bytes, b""),
    )


def back_up_main_file_only(patch: Patch) -> None:
    """Back up by copying the database file without its WAL."""
    patch(
        ArchiveDB, "backup", lambda self, path: path.write_bytes(self.path.read_bytes())
    )


def accept_any_version(patch: Patch) -> None:
    """Open an archive of any version."""
    patch(archive_db, "LATEST_VERSION", 9999)
    patch(connect, "LATEST_VERSION", 9999)


def use_import_time(patch: Patch) -> None:
    """Use the time of the import as the end of a session."""

    def summarize(session: Session) -> SessionSummary:
        return replace(summarize_session(session), ended_at=datetime.now(UTC))

    patch(derive, "summarize_session", summarize)


def skip_writer_lock(patch: Patch) -> None:
    """Let several processes write at once."""
    patch(run, "writer_lock", lambda *_, **__: nullcontext())


def wait_for_writers(patch: Patch) -> None:
    """Make pages wait for a limited time until no process writes."""
    original_init, file_name = ArchiveDir.__init__, "beat"

    def touch_regularly(heartbeat: Path) -> None:
        while heartbeat.parent.exists():
            heartbeat.touch()
            time.sleep(0.05)

    def open_(self: ArchiveDir, folder: Path, *, write: bool = False) -> None:
        if write:
            heartbeat = folder / file_name
            threading.Thread(
                target=touch_regularly, args=(heartbeat,), daemon=True
            ).start()
        original_init(self, folder, write=write)

    patch(ArchiveDir, "__init__", open_)
    if "serve" not in sys.argv:
        return  # an ingest serves no pages
    app = import_module("bygones.web.app")
    original_handle = app._handle_request

    def wait(row: object, context: Any) -> object:  # noqa: ANN401 (passed through)
        heartbeat = context.pool.folder / file_name
        until = time.monotonic() + 4
        while heartbeat.exists() and time.monotonic() < until:
            if time.time() - heartbeat.stat().st_mtime > 0.3:
                break
            time.sleep(0.02)
        return original_handle(row, context)

    patch(app, "_handle_request", wait)


def leak_memory(patch: Patch) -> None:
    """Leak memory with every request."""
    app = import_module("bygones.web.app")  # slow to import, and rarely needed
    original_handle = app._handle_request
    leaked: list[bytes] = []

    def answer(*args: object) -> object:
        leaked.append(b"x" * 3_000_000)
        return original_handle(*args)

    patch(app, "_handle_request", answer)


def reread_all_files(patch: Patch) -> None:
    """Read every file, even if its size and times are unchanged."""
    patch(changes, "_looks_same", lambda *_, **__: False)


def scan_all_sources(patch: Patch) -> None:
    """Search for every file by scanning all known sources."""
    inner = ChangeDetector._check_known

    def check_known(
        self: ChangeDetector, source: SourceFile, stored: StoredSource
    ) -> list[ChangedSource]:
        for one in self._stored_sources.values():
            stored = one if one.id == source.id else stored
        return inner(self, source, stored)

    patch(ChangeDetector, "_check_known", check_known)


def list_all_sessions(patch: Patch) -> None:
    """Load all sessions before the first one is shown."""
    inner = Archive.sessions

    def sessions(
        self: Archive, *args: object, **kwargs: object
    ) -> Iterator[SessionSummary]:
        return iter(list(inner(self, *args, **kwargs)))  # type: ignore[arg-type]

    patch(Archive, "sessions", sessions)


def delete_missing_sources(patch: Patch) -> None:
    """Delete the stored content of a file once the file is gone."""
    inner = ArchiveDB.set_gone

    def delete(self: ArchiveDB, numbers: Iterable[int], when: int | None) -> None:
        missing = list(numbers)
        inner(self, missing, when)
        for number in missing if when else []:
            self.db.execute("DELETE FROM chunk WHERE source = ?", (number,))

    patch(ArchiveDB, "set_gone", delete)


def report_full_disk_as_damage(patch: Patch) -> None:
    """Report an archive on a full disk as damaged."""
    system_errors = [one for one in connect._SYSTEM_ERRORS if one is not FullError]
    patch(connect, "_SYSTEM_ERRORS", tuple(system_errors))
    patch(connect, "_CORRUPTION_ERRORS", (*connect._CORRUPTION_ERRORS, FullError))


def keep_compressed_data(patch: Patch) -> None:
    """Keep several copies of compressed data in memory."""
    kept_data: list[bytes] = []

    def add(
        self: CompressionQueue, raw: bytes, then: Callable[[HashedFrame], None]
    ) -> None:
        kept_data.extend(raw + bytes([number]) for number in range(9))
        inner(self, raw, then)

    inner = CompressionQueue.submit
    patch(CompressionQueue, "submit", add)


def skip_escaping(patch: Patch) -> None:
    """Write text from transcripts into pages without escaping."""
    patch(markup, "escape", lambda text: text)


def lock_for_readers(patch: Patch) -> None:
    """Make readers hold the writer's lock."""
    original_init = ArchiveDir.__init__
    locks = ExitStack()

    def init(self: ArchiveDir, folder: Path, *, write: bool = False) -> None:
        original_init(self, folder, write=write)
        if not write:
            locks.enter_context(writer_lock(folder, timeout=0))

    patch(ArchiveDir, "__init__", init)


def require_writable_database(patch: Patch) -> None:
    """Open an archive only where readers can create SQLite's shared-memory file."""

    def connect_db(path: Path, *, write: bool) -> Connection:
        flags = SQLITE_OPEN_READWRITE if write else SQLITE_OPEN_READONLY
        return Connection(str(path), flags=flags)

    patch(connect, "_connect", connect_db)


def require_writable_text_index(patch: Patch) -> None:
    """Open the text index only where the text engine can create its lock file."""

    def open_index(self: text_index.TextIndex) -> None:
        self.index = tantivy.Index.open(str(self.folder))

    patch(text_index.TextIndex, "_open", open_index)


def store_whole_branches(patch: Patch) -> None:
    """Walk every branch from its start to store its own turns."""

    def stored_turns(branch: Branch) -> list[StoredTurn]:
        turns = []
        start = 0
        for turn in branch.turns:
            has_prompt = turn.prompt is not None
            turns.append(
                StoredTurn(start, turn.number, has_prompt, turn.usage, turn.duration)
            )
            start += len(turn.messages)
        return turns

    patch(messages, "stored_turns", stored_turns)


MUTATIONS: dict[str, Callable[[Patch], None]] = {
    one.__name__: one
    for one in (
        skip_archive_syncs,
        skip_index_syncs,
        commit_offset_first,
        publish_index_early,
        set_version_first,
        remove_index_last,
        show_engine_errors,
        restore_in_place,
        skip_all_fsyncs,
        skip_file_fsyncs,
        skip_folder_fsyncs,
        public_text_index,
        import_partial_lines,
        trust_file_times,
        skip_fragment_check,
        skip_index_check,
        ignore_moves,
        always_start_generation,
        follow_links,
        ignore_hashes,
        delete_rows_only,
        leave_text_index,
        never_merge_chunks,
        back_up_main_file_only,
        accept_any_version,
        use_import_time,
        skip_writer_lock,
        wait_for_writers,
        leak_memory,
        reread_all_files,
        scan_all_sources,
        list_all_sessions,
        delete_missing_sources,
        report_full_disk_as_damage,
        keep_compressed_data,
        skip_escaping,
        lock_for_readers,
        require_writable_database,
        require_writable_text_index,
        store_whole_branches,
    )
}
