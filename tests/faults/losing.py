"""Ingestions with a power cut at any moment.

The file operations of some ingestions are recorded once. From the recording, the disk
after a power cut at any moment can be computed.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any

from bygones.ingest import importer
from bygones.store import archive_db
from bygones.store.archive_db import UNFINISHED_SUFFIX
from bygones.store.archive_dir import ArchiveDir
from bygones.store.text_index import TextIndex
from tests.build import jsonl, prompt, reply, session_id, thread
from tests.faults.crashing import context, purge_first
from tests.faults.disk import Disk, FileOperation, intercept_writes, write_files
from tests.properties.homes import SCRATCH
from tests.store.sandbox import Sandbox

__all__ = ["Recording", "read_state", "record_ingestions"]

State = dict[str, list[bytes]] | None
"""All bytes of an archive by path and generation, or None without an archive."""


class Recording:
    """All file operations in order, and what was acknowledged before each of them."""

    def __init__(self) -> None:
        self.operations: list[FileOperation] = []
        self.states: list[State] = [None]
        self.acknowledged: list[int] = []
        """For each operation, the number of the state acknowledged before it."""
        self.texts: dict[int, dict[str, bytes]] = {}
        """The files of the text index, by the operation before which they were synced."""

    def record_operation(self, operation: FileOperation) -> None:
        self.operations.append(operation)
        self.acknowledged.append(len(self.states) - 1)

    def moments(self, every: int = 1) -> Iterator[tuple[int, Disk]]:
        """Yield the number of operations, and the disk after them."""
        disk = Disk()
        for number, operation in enumerate(self.operations, 1):
            disk.record(operation)
            if not number % every:
                yield number, disk


def read_state(sandbox: Sandbox) -> State:
    """Return the state of an archive, read by SQLite in a process of its own.

    Two SQLite libraries in one process would release each other's locks.
    """
    reading, writing = context().Pipe(duplex=False)
    child = context().Process(target=_send_state, args=(sandbox, writing))
    child.start()
    writing.close()
    state: State = reading.recv()
    child.join()
    return state


def _send_state(sandbox: Sandbox, connection: Connection) -> None:
    connection.send(sandbox.bytes())


def state_of(sandbox: Sandbox) -> State:
    try:
        return sandbox.bytes()
    except sqlite3.OperationalError as error:
        if "no such table" in str(error) or "unable to open" in str(error):
            return None
        raise


def record_ingestions(sandbox: Sandbox, patch: Any) -> Recording:  # noqa: ANN401 (pytest's)
    """Let a home grow and import it, several times; return everything that was written."""
    random = Random(3)  # noqa: S311 (the same every time)
    recording = Recording()
    original_commit, original_text_commit = importer.ImportRun._commit, TextIndex.commit
    original_publish, original_remove = (
        ArchiveDir.publish_index,
        ArchiveDir.remove_all_indexes,
    )
    original_create = archive_db._create_archive

    def commit(self: importer.ImportRun, *, is_last: bool = False) -> None:
        original_commit(self, is_last=is_last)
        recording.states.append(read_state(sandbox))

    def save_text_files() -> None:
        paths = (sandbox.archive / "index").rglob("text/*")
        files = {str(path): path.read_bytes() for path in paths if path.is_file()}
        recording.texts[len(recording.operations)] = files

    def commit_text(self: TextIndex) -> None:
        original_text_commit(self)
        save_text_files()

    def publish(self: ArchiveDir) -> None:
        before = str(self.index_path)
        original_publish(self)
        recording.record_operation(
            FileOperation("move", before, data=str(self.index_path).encode())
        )
        save_text_files()

    def remove(self: ArchiveDir) -> None:
        original_remove(self)
        recording.record_operation(
            FileOperation("move", str(self.folder / "index" / "any"))
        )
        save_text_files()

    def create(path: Path) -> None:
        original_create(path)
        new_name = str(path).encode()
        recording.record_operation(
            FileOperation("rename", f"{path}{UNFINISHED_SUFFIX}", data=new_name)
        )

    patch.setattr(archive_db, "_create_archive", create)
    patch.setattr(ArchiveDir, "publish_index", publish)
    patch.setattr(ArchiveDir, "remove_all_indexes", remove)
    patch.setattr(importer.ImportRun, "_commit", commit)
    patch.setattr(TextIndex, "commit", commit_text)
    patch.setattr(importer, "COMMIT_BYTES", 6000)
    with intercept_writes(recording.record_operation):
        for number in range(4):
            _grow(sandbox, random, number)
            sandbox.ingest()
            recording.states.append(read_state(sandbox))
        purge_first(sandbox.archive)
        recording.states.append(read_state(sandbox))
    return recording


def _grow(sandbox: Sandbox, random: Random, number: int) -> None:
    for session in range(3):
        path = sandbox.home.path / f"projects/-work-demo/{session_id(session)}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        words = " ".join(str(random.random()) for _ in range(random.choice([3, 200])))
        with path.open("ab") as file:
            file.write(jsonl(thread(prompt(f"{number} {words}"), reply(words))))
            if session == number:
                file.write(b'{"half')
    if number == 2:
        path.write_bytes(jsonl([prompt("begun anew")]))


def assert_survived(recording: Recording, number: int, files: dict[str, bytes]) -> None:
    """Compare the remaining data with the acknowledged state, or the one after it."""
    folder = Path(tempfile.mkdtemp(dir=SCRATCH))
    sandbox = Sandbox(folder)
    try:
        path = next(iter(recording.operations)).path
        archive_files = {
            name: raw for name, raw in files.items() if "/index/" not in name
        }
        write_files(archive_files, Path(path).parent, sandbox.archive)
        state: State = None
        if (sandbox.archive / "archive.db").exists():
            _assert_sound(sandbox.archive / "archive.db")
            state = state_of(sandbox) or None  # only empty tables
        acknowledged = recording.acknowledged[number - 1]
        assert state in recording.states[acknowledged : acknowledged + 2]
    finally:
        shutil.rmtree(folder)


def _assert_sound(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
