"""What a hub stands on: an engine and a raw store, by their addresses."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bygones.team.contract import TeamStore
from bygones.team.objects import RawObjects, open_objects
from bygones.team.opening import RAW_NOTE, open_store

__all__ = ["opened", "scratch"]

_SCRATCH = "bygones-hub-"


@contextmanager
def opened(store: str, raw: str) -> Iterator[tuple[TeamStore, RawObjects]]:
    """Open an engine, its schema brought up to date, and a raw store."""
    objects = open_objects(raw)
    engine = open_store(store)
    try:
        engine.prepare()
        # Whoever reads the engine by its address finds the raw store by this.
        engine.set_note(*RAW_NOTE, _whole(raw).encode())
        yield engine, objects
    finally:
        engine.close()


@contextmanager
def scratch() -> Iterator[Path]:
    """Give this hub a place for what it derives, and remove those of hubs that died.

    Sources lie there for a moment; nothing of them may stay.
    """
    root = Path(tempfile.gettempdir())
    for left in root.glob(f"{_SCRATCH}*"):
        number = left.name.removeprefix(_SCRATCH).partition("-")[0]
        if number.isdecimal() and not _lives(int(number)):
            shutil.rmtree(left, ignore_errors=True)
    before = tempfile.tempdir
    own = tempfile.mkdtemp(prefix=f"{_SCRATCH}{os.getpid()}-")
    tempfile.tempdir = own
    try:
        yield Path(own)
    finally:
        tempfile.tempdir = before
        shutil.rmtree(own, ignore_errors=True)


def _whole(raw: str) -> str:
    return raw if "://" in raw else str(Path(raw).absolute())


def _lives(number: int) -> bool:
    if os.name == "nt":
        return True  # there, asking whether a process lives would end it
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
