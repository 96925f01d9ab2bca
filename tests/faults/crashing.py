"""An ingestion that can be killed: at any moment, or at any of its commit points.

The commit points are the functions that write; they are wrapped here, in the child,
so that the product knows nothing of its being tested.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import Any

from recollect.ingest import derive, ingest
from recollect.store.chunks import Chunks
from recollect.store.derived import Derived
from recollect.store.index import Index
from recollect.store.text import TextIndex
from recollect.store.vault import Vault
from recollect.upkeep import rebuild

__all__ = ["POINTS", "count_points", "run", "start"]

POINTS: dict[str, tuple[type, tuple[str, ...]]] = {
    "archive": (
        Chunks,
        (
            "add_source",
            "begin_anew",
            "move",
            "set_gone",
            "set_mark",
            "add_chunk",
            "take_last_chunk",
            "set_fragment",
        ),
    ),
    "index": (
        Index,
        ("set_seen", "forget_source", "add_nodes", "note_next", "note_level"),
    ),
    "sessions": (Derived, ("finish_schema", "spread_titles", "write", "remove")),
    "words": (TextIndex, ("add", "remove", "remove_after", "commit")),
    "folder": (Vault, ("begin_index", "finish_index", "drop_index")),
}
"""What is written, by part: each call is a point before and a point behind it."""


def _patch(strike: Callable[[], None]) -> None:
    """Have every commit point call a function before and behind it."""
    for owner, names in POINTS.values():
        for name in names:
            _wrap(owner, name, strike)
    # Sessions in batches of one, so that there are commits between them.
    vars(derive)["_BATCH"] = 1


def _wrap(owner: type, name: str, strike: Callable[[], None]) -> None:
    inner = getattr(owner, name)

    def wrapped(*words: Any, **more: Any) -> object:  # noqa: ANN401 (handed through)
        strike()
        found = inner(*words, **more)
        strike()
        return found

    setattr(owner, name, wrapped)


class _Killer:
    """Counts the points that are passed, and kills its own process at one of them."""

    def __init__(self, at: int) -> None:
        self.left = at
        self.passed = 0

    def __call__(self) -> None:
        self.passed += 1
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def run(folder: Path, home: Path, at: int = 0, *, anew: bool = False) -> None:
    """Ingest, or rebuild; be killed at the n-th point, or never if that is 0."""
    if at:
        _patch(_Killer(at))
    if anew:
        rebuild(folder)
    else:
        ingest(folder, [home])


def _counted(folder: Path, home: Path, told: Path, *, anew: bool) -> None:
    killer = _Killer(0)
    _patch(killer)
    run(folder, home, anew=anew)
    told.write_text(str(killer.passed), "utf-8")


def context() -> ForkServerContext:
    """Return a way to start children quickly: each is a copy of one that is ready."""
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(["tests.faults.crashing"])
    return found


def start(
    folder: Path, home: Path, at: int = 0, *, anew: bool = False
) -> ForkServerProcess:
    """Begin an ingestion in a child."""
    child = context().Process(
        target=run, args=(folder, home, at), kwargs={"anew": anew}
    )
    child.start()
    return child


def count_points(folder: Path, home: Path, *, anew: bool = False) -> int:
    """Return how many points an ingestion passes; it is done afterwards."""
    told = folder.with_name("points.txt")
    child = context().Process(
        target=_counted, args=(folder, home, told), kwargs={"anew": anew}
    )
    child.start()
    child.join()
    assert child.exitcode == 0
    return int(told.read_text("utf-8"))
