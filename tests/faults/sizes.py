"""The size of test runs, and a file in which their figures are recorded.

``BYGONES_SIZE`` is ``usual`` (with every test run), ``nightly`` or ``release``.
``BYGONES_FIGURES`` names a file for the figures: see :mod:`tests.faults.torture`.
``BYGONES_PART`` is the number of a part of a run that is split: each part uses its
own seeds.
"""

from __future__ import annotations

import json
import os

__all__ = ["PART", "SIZES", "is_usual", "reached", "seeded", "sized"]

SIZES = ("usual", "nightly", "release")
_SIZE = SIZES.index(os.environ.get("BYGONES_SIZE", "usual"))
PART = int(os.environ.get("BYGONES_PART", "0"))


def sized(usual: int, nightly: int, release: int) -> int:
    """Return the number for the selected size."""
    return (usual, nightly, release)[_SIZE]


def is_usual() -> bool:
    """Whether this is a normal test run."""
    return _SIZE == 0


def seeded(number: int) -> int:
    """Return a seed that is unique to this part of a run."""
    return number + PART * 1_000_000


def reached(what: str, count: int) -> None:
    """Record how often something was tried without finding a fault."""
    path = os.environ.get("BYGONES_FIGURES")
    if path:
        line = json.dumps([what, count]) + "\n"
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(
            handle, line.encode()
        )  # in one write, because several processes append
        os.close(handle)
