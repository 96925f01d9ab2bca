"""Ingestions on a disk whose power may go at any moment.

An ingestion is recorded once, write by write. Afterwards any number of moments can be
looked at: what would be on the disk if the power went there.
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

from bygones.ingest import importer as running
from bygones.store import archive_db as chunking
from bygones.store.archive_db import UNFINISHED_SUFFIX
from bygones.store.archive_dir import ArchiveDir
from bygones.store.text_index import TextIndex
from tests.build import jsonl, prompt, reply, session_id, thread
from tests.faults.crashing import context, purge_first
from tests.faults.disk import Act, Disk, lay, listening
from tests.properties.homes import SCRATCH
from tests.store.sandbox import Sandbox

__all__ = ["Recorded", "record", "told"]

State = dict[str, list[bytes]] | None
"""All bytes of an archive, by path and generation; none of one that is not there."""


class Recorded:
    """What was written, in order, and what had been acknowledged by then."""

    def __init__(self) -> None:
        self.acts: list[Act] = []
        self.states: list[State] = [None]
        self.acknowledged: list[int] = []
        """For each act, the number of the state acknowledged before it."""
        self.texts: dict[int, dict[str, bytes]] = {}
        """The files of the words, by the act before which they were made certain."""

    def hear(self, act: Act) -> None:
        self.acts.append(act)
        self.acknowledged.append(len(self.states) - 1)

    def moments(self, every: int = 1) -> Iterator[tuple[int, Disk]]:
        """Yield how many acts were done, and the disk after them."""
        disk = Disk()
        for number, act in enumerate(self.acts, 1):
            disk.hear(act)
            if not number % every:
                yield number, disk


def told(sandbox: Sandbox) -> State:
    """Return the state, read without the product, and in a program of its own.

    Two engines in one program, each of which locks the file, would undo the locks of
    one another.
    """
    reading, writing = context().Pipe(duplex=False)
    child = context().Process(target=_tell, args=(sandbox, writing))
    child.start()
    writing.close()
    state: State = reading.recv()
    child.join()
    return state


def _tell(sandbox: Sandbox, to: Connection) -> None:
    to.send(sandbox.bytes())


def state_of(sandbox: Sandbox) -> State:
    try:
        return sandbox.bytes()
    except sqlite3.OperationalError as error:
        if "no such table" in str(error) or "unable to open" in str(error):
            return None
        raise


def record(sandbox: Sandbox, patch: Any) -> Recorded:  # noqa: ANN401 (pytest's)
    """Let a home grow and import it, several times; return everything that was written."""
    random = Random(3)  # noqa: S311 (the same every time)
    recorded = Recorded()
    inner, said = running.ImportRun._commit, TextIndex.commit
    finished, dropped = ArchiveDir.publish_index, ArchiveDir.remove_all_indexes
    made = chunking._create_archive

    def commit(self: running.ImportRun, *, is_last: bool = False) -> None:
        inner(self, is_last=is_last)
        recorded.states.append(told(sandbox))

    def look() -> None:
        found = (sandbox.archive / "index").rglob("text/*")
        files = {str(path): path.read_bytes() for path in found if path.is_file()}
        recorded.texts[len(recorded.acts)] = files

    def say(self: TextIndex) -> None:
        said(self)
        look()

    def finish(self: ArchiveDir) -> None:
        before = str(self.index_path)
        finished(self)
        recorded.hear(Act("move", before, raw=str(self.index_path).encode()))
        look()

    def drop(self: ArchiveDir) -> None:
        dropped(self)
        recorded.hear(Act("move", str(self.folder / "index" / "any")))
        look()

    def make(path: Path) -> None:
        made(path)
        raw = str(path).encode()
        recorded.hear(Act("rename", f"{path}{UNFINISHED_SUFFIX}", raw=raw))

    patch.setattr(chunking, "_create_archive", make)
    patch.setattr(ArchiveDir, "publish_index", finish)
    patch.setattr(ArchiveDir, "remove_all_indexes", drop)
    patch.setattr(running.ImportRun, "_commit", commit)
    patch.setattr(TextIndex, "commit", say)
    patch.setattr(running, "COMMIT_BYTES", 6000)
    with listening(recorded.hear):
        for number in range(4):
            _grow(sandbox, random, number)
            sandbox.ingest()
            recorded.states.append(told(sandbox))
        purge_first(sandbox.archive)
        recorded.states.append(told(sandbox))
    return recorded


def _grow(sandbox: Sandbox, random: Random, number: int) -> None:
    for one in range(3):
        path = sandbox.home.path / f"projects/-work-demo/{session_id(one)}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        words = " ".join(str(random.random()) for _ in range(random.choice([3, 200])))
        with path.open("ab") as file:
            file.write(jsonl(thread(prompt(f"{number} {words}"), reply(words))))
            if one == number:
                file.write(b'{"half')
    if number == 2:
        path.write_bytes(jsonl([prompt("begun anew")]))


def assert_survived(recorded: Recorded, number: int, files: dict[str, bytes]) -> None:
    """Hold what is left against what was acknowledged: that, or one step more."""
    folder = Path(tempfile.mkdtemp(dir=SCRATCH))
    found = Sandbox(folder)
    try:
        path = next(iter(recorded.acts)).path
        kept = {name: raw for name, raw in files.items() if "/index/" not in name}
        lay(kept, Path(path).parent, found.archive)
        state: State = None
        if (found.archive / "archive.db").exists():
            _assert_sound(found.archive / "archive.db")
            state = state_of(found) or None  # tables alone hold nothing
        least = recorded.acknowledged[number - 1]
        assert state in recorded.states[least : least + 2]
    finally:
        shutil.rmtree(folder)


def _assert_sound(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
