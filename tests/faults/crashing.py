"""Tasks that can be killed: at any moment, or at any of their commit points.

The commit points are the functions that write. They are wrapped here, in the child
process, so that the product has no code for tests.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import Any

from bygones.ingest import indexer
from bygones.ingest.run import ingest
from bygones.maintenance.purge import purge
from bygones.maintenance.restore import plan_restore, restore
from bygones.maintenance.verify import rebuild
from bygones.store import archive_db, connect
from bygones.store.archive_db import ArchiveDB
from bygones.store.archive_dir import ArchiveDir
from bygones.store.derived_tables import DerivedTables
from bygones.store.index_db import IndexDB
from bygones.store.text_index import TextIndex
from tests.faults.disk import listening
from tests.faults.mutations import MUTATIONS, Patch, patch
from tests.faults.racing import race

__all__ = [
    "BEFORE",
    "POINTS",
    "TASKS",
    "add_step",
    "context",
    "points_of",
    "purge_first",
    "run",
    "start",
]

POINTS: dict[str, tuple[type, tuple[str, ...]]] = {
    "archive": (
        ArchiveDB,
        (
            "add_source",
            "start_generation",
            "move_source",
            "set_gone",
            "save_read_state",
            "add_chunk",
            "pop_small_last_chunk",
            "set_fragment",
        ),
    ),
    "index": (
        IndexDB,
        (
            "save_indexed_source",
            "remove_source",
            "add_nodes",
            "save_last_record",
            "mark_text_index_current",
        ),
    ),
    "sessions": (
        DerivedTables,
        (
            "create_deferred_indexes",
            "mark_titled_sessions_dirty",
            "insert_session",
            "delete_session",
        ),
    ),
    "words": (TextIndex, ("add", "remove", "remove_after", "commit")),
    "folder": (
        ArchiveDir,
        ("begin_index_build", "publish_index", "remove_all_indexes"),
    ),
}
"""What is written, by part: each call is a point before and a point behind it."""
BEFORE = "before "
"""Begins the names of points that are before a call."""

Strike = Callable[[str], None]
"""Called with the name of each point that is passed."""


def _patch(send_signal: Strike) -> None:
    """Have every commit point call a function before and behind it."""
    for owner, names in POINTS.values():
        for name in names:
            _wrap(owner, name, send_signal)
    # Sessions in batches of one, so that there are commits between them.
    patch(indexer, "_FAMILIES_PER_COMMIT", 1)


def _wrap(owner: object, name: str, send_signal: Strike) -> None:
    inner = getattr(owner, name)

    def wrapped(*words: Any, **more: Any) -> object:  # noqa: ANN401 (handed through)
        send_signal(BEFORE + name)
        found = inner(*words, **more)
        send_signal(name)
        return found

    setattr(owner, name, wrapped)


class _Killer:
    """Counts the points that are passed, and kills its own process at one of them."""

    def __init__(self, at: int) -> None:
        self.left = at
        self.passed: list[str] = []

    def __call__(self, name: str) -> None:
        self.passed.append(name)
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def add_step(patch: Patch) -> None:
    """Be a version with a step more, to which an archive must be brought."""
    more = [*connect.migration_steps(), (connect.LATEST_VERSION + 1, _STEP)]
    patch(connect, "migration_steps", lambda: iter(more))
    patch(connect, "LATEST_VERSION", connect.LATEST_VERSION + 1)
    patch(archive_db, "LATEST_VERSION", connect.LATEST_VERSION)


def _migrate(folder: Path, home: Path) -> None:
    add_step(patch)
    ingest(folder, [home])


_STEP = "-- More.\nCREATE TABLE more (id INTEGER) STRICT; INSERT INTO more VALUES (1);"


def _restore(folder: Path, home: Path) -> None:
    with ArchiveDir(folder) as opened:
        plans = plan_restore(opened, opened.byte_store.sources(), target=home)
        restore(opened, plans, overwrite=True)


def purge_first(folder: Path) -> None:
    """Purge the source that was imported first."""
    with ArchiveDir(folder) as opened:
        kept = opened.byte_store.source(1)
    purge(folder, [kept] if kept else [])


TASKS: dict[str, Callable[[Path, Path], object]] = {
    "ingest": lambda folder, home: ingest(folder, [home]),
    "rebuild": lambda folder, _: rebuild(folder),
    "migrate": _migrate,
    "restore": _restore,
    "purge": lambda folder, _: purge_first(folder),
}
"""What is done to an archive, and with a home."""

CALLS = (
    (os, ("fsync", "utime", "link", "open")),
    (Path, ("replace", "rename", "unlink", "mkdir")),
    (shutil, ("rmtree", "copy2")),
    (ArchiveDB, ("_load_chunk",)),
)
"""What the product asks of the system itself, and where it fetches what it writes next:
each is a point as well."""


def run(  # noqa: PLR0913 (all but three by name and optional)
    folder: Path,
    home: Path,
    at: int = 0,
    *,
    task: str = "ingest",
    mutation: str = "",
    started: Connection | None = None,
) -> None:
    """Run a task; be killed at the n-th point, or never if that is 0.

    ``started`` is notified when the task starts.
    """
    # Tests in the background ignore Ctrl-C; here it must arrive.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if mutation:
        {**MUTATIONS, "race": race}[mutation](patch)
    if started is not None:
        started.send_bytes(b"started")
    if at:
        _run_with(_Killer(at), task, folder, home)
    else:
        TASKS[task](folder, home)


def _run_with(send_signal: Strike, task: str, folder: Path, home: Path) -> None:
    _patch(send_signal)
    if task in ("ingest", "rebuild"):
        TASKS[task](folder, home)
        return
    # These write little with functions of ours: every write is a point.
    for owner, names in CALLS:
        for name in names:
            _wrap(owner, name, send_signal)
    with listening(lambda act: send_signal(f"{act.task} {Path(act.path).name}")):
        TASKS[task](folder, home)


def _counted(folder: Path, home: Path, told: Path, *, task: str, mutation: str) -> None:
    killer = _Killer(0)
    if mutation:
        MUTATIONS[mutation](patch)
    _run_with(killer, task, folder, home)
    told.write_text("\n".join(killer.passed), "utf-8")


def context() -> ForkServerContext:
    """Return a way to start children quickly: each is a copy of one that is ready."""
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(["tests.faults.crashing"])
    return found


def start(  # noqa: PLR0913 (as above)
    folder: Path,
    home: Path,
    at: int = 0,
    *,
    task: str = "ingest",
    mutation: str = "",
    started: Connection | None = None,
) -> ForkServerProcess:
    """Start a task in a child process."""
    child = context().Process(
        target=run,
        args=(folder, home, at),
        kwargs={"task": task, "mutation": mutation, "started": started},
    )
    child.start()
    return child


def points_of(folder: Path, home: Path, task: str, mutation: str = "") -> list[str]:
    """Run a task; return the names of the points that it passes."""
    told = folder.with_name("points.txt")
    child = context().Process(
        target=_counted,
        args=(folder, home, told),
        kwargs={"task": task, "mutation": mutation},
    )
    child.start()
    child.join()
    assert child.exitcode == 0
    return told.read_text("utf-8").splitlines()
