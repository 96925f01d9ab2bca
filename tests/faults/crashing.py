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
from tests.faults.disk import intercept_writes
from tests.faults.mutations import MUTATIONS, Patch, patch
from tests.faults.racing import race

__all__ = [
    "BEFORE",
    "POINTS",
    "TASKS",
    "add_step",
    "context",
    "purge_first",
    "record_points",
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
"""Functions that write, by part: there is a point before and after each call."""
BEFORE = "before "
"""The prefix of points before a call."""

PointCallback = Callable[[str], None]
"""Called with the name of each point."""


def _patch(on_point: PointCallback) -> None:
    """Call a function before and after every commit point."""
    for owner, names in POINTS.values():
        for name in names:
            _wrap(owner, name, on_point)
    # Sessions in batches of one, so that there are commits between them.
    patch(indexer, "_FAMILIES_PER_COMMIT", 1)


def _wrap(owner: object, name: str, on_point: PointCallback) -> None:
    inner = getattr(owner, name)

    def wrapped(*args: Any, **kwargs: Any) -> object:  # noqa: ANN401 (passed through)
        on_point(BEFORE + name)
        result = inner(*args, **kwargs)
        on_point(name)
        return result

    setattr(owner, name, wrapped)


class _Killer:
    """Counts the points that are passed, and kills its own process at one of them."""

    def __init__(self, at: int) -> None:
        self.remaining = at
        self.passed: list[str] = []

    def __call__(self, name: str) -> None:
        self.passed.append(name)
        self.remaining -= 1
        if self.remaining == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def add_step(patch: Patch) -> None:
    """Add a migration step, so that the archive must be migrated."""
    steps = [*connect.migration_steps(), (connect.LATEST_VERSION + 1, _STEP)]
    patch(connect, "migration_steps", lambda: iter(steps))
    patch(connect, "LATEST_VERSION", connect.LATEST_VERSION + 1)
    patch(archive_db, "LATEST_VERSION", connect.LATEST_VERSION)


def _migrate(folder: Path, home: Path) -> None:
    add_step(patch)
    ingest(folder, [home])


_STEP = "-- More.\nCREATE TABLE more (id INTEGER) STRICT; INSERT INTO more VALUES (1);"


def _restore(folder: Path, home: Path) -> None:
    with ArchiveDir(folder) as archive_dir:
        plans = plan_restore(archive_dir, archive_dir.byte_store.sources(), target=home)
        restore(archive_dir, plans, overwrite=True)


def purge_first(folder: Path) -> None:
    """Purge the source that was imported first."""
    with ArchiveDir(folder) as archive_dir:
        source = archive_dir.byte_store.source(1)
    purge(folder, [source] if source else [])


TASKS: dict[str, Callable[[Path, Path], object]] = {
    "ingest": lambda folder, home: ingest(folder, [home]),
    "rebuild": lambda folder, _: rebuild(folder),
    "migrate": _migrate,
    "restore": _restore,
    "purge": lambda folder, _: purge_first(folder),
}
"""The tasks, which get the archive and a home."""

CALLS = (
    (os, ("fsync", "utime", "link", "open")),
    (Path, ("replace", "rename", "unlink", "mkdir")),
    (shutil, ("rmtree", "copy2")),
    (ArchiveDB, ("load_chunk",)),
)
"""System calls of the product, and where it loads what it writes next: each is a point
as well."""


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

    ``started`` is notified when the task starts. There may be several mutations, with
    spaces in between.
    """
    # Tests in the background ignore Ctrl-C; here it must arrive.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for name in mutation.split():
        {**MUTATIONS, "race": race}[name](patch)
    if started is not None:
        started.send_bytes(b"started")
    if at:
        _run_with(_Killer(at), task, folder, home)
    else:
        TASKS[task](folder, home)


def _run_with(on_point: PointCallback, task: str, folder: Path, home: Path) -> None:
    _patch(on_point)
    if task in ("ingest", "rebuild"):
        TASKS[task](folder, home)
        return
    # These tasks write mostly through SQLite: every write is a point.
    for owner, names in CALLS:
        for name in names:
            _wrap(owner, name, on_point)
    with intercept_writes(
        lambda operation: on_point(f"{operation.kind} {Path(operation.path).name}")
    ):
        TASKS[task](folder, home)


def _count_points(
    folder: Path, home: Path, output: Path, *, task: str, mutation: str
) -> None:
    killer = _Killer(0)
    if mutation:
        MUTATIONS[mutation](patch)
    _run_with(killer, task, folder, home)
    output.write_text("\n".join(killer.passed), "utf-8")


def context() -> ForkServerContext:
    """Return a context that starts children quickly, as forks of a prepared process."""
    forkserver = multiprocessing.get_context("forkserver")
    forkserver.set_forkserver_preload(["tests.faults.crashing"])
    return forkserver


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


def record_points(folder: Path, home: Path, task: str, mutation: str = "") -> list[str]:
    """Run a task; return the names of the points that it passes."""
    output = folder.with_name("points.txt")
    child = context().Process(
        target=_count_points,
        args=(folder, home, output),
        kwargs={"task": task, "mutation": mutation},
    )
    child.start()
    child.join()
    assert child.exitcode == 0
    return output.read_text("utf-8").splitlines()
