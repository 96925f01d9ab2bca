"""How much is tried, by one switch, and a place where what was reached is noted.

``BYGONES_SIZE`` is ``usual`` (with every test run), ``nightly`` or ``release``.
``BYGONES_FIGURES`` names a file for the figures: see :mod:`tests.faults.torture`.
``BYGONES_PART`` is the number of a part of a run that is cut in several: each part
tries with numbers of its own.
"""

from __future__ import annotations

import json
import os

__all__ = ["PART", "SIZES", "is_usual", "reached", "seeded", "sized"]

SIZES = ("usual", "nightly", "release")
_SIZE = SIZES.index(os.environ.get("BYGONES_SIZE", "usual"))
PART = int(os.environ.get("BYGONES_PART", "0"))


def sized(usual: int, nightly: int, release: int) -> int:
    """Return the number for the size that was asked for."""
    return (usual, nightly, release)[_SIZE]


def is_usual() -> bool:
    """Whether this is one of the runs that everybody waits for."""
    return _SIZE == 0


def seeded(number: int) -> int:
    """Return a seed that no other part of a run has."""
    return number + PART * 1_000_000


def reached(what: str, count: int) -> None:
    """Note that something was tried so often, with nothing wrong in the end."""
    path = os.environ.get("BYGONES_FIGURES")
    if path:
        line = json.dumps([what, count]) + "\n"
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(handle, line.encode())  # at once: several processes write here
        os.close(handle)
