"""Runs programs against each other: CPU seconds and peak memory, best of several.

Seconds of the clock say more about who else uses the machine than about the program,
so CPU seconds of the child process are compared, and only within one run.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from typing import NamedTuple

__all__ = ["Arm", "Measure", "measure", "ratios", "title"]


class Arm(NamedTuple):
    """One of the programs that are compared."""

    name: str
    words: Sequence[str]


class Measure(NamedTuple):
    """What one run of an arm took."""

    seconds: float
    """Of the processor, in the program and in the system for it."""
    peak: int
    """Bytes of memory."""


def measure(arms: Sequence[Arm], *, times: int = 3) -> dict[str, Measure]:
    """Return the best run of each arm.

    The arms take turns, so that a slow minute of the machine meets all of them.
    """
    runs: dict[str, list[Measure]] = {arm.name: [] for arm in arms}
    for _ in range(times):
        for arm in arms:
            runs[arm.name].append(_run(arm))
    return {
        name: Measure(min(r.seconds for r in found), min(r.peak for r in found))
        for name, found in runs.items()
    }


def _run(arm: Arm) -> Measure:
    child = subprocess.Popen(arm.words, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, arm.name)
    unit = 1 if sys.platform == "darwin" else 1024
    return Measure(used.ru_utime + used.ru_stime, used.ru_maxrss * unit)


def ratios(
    measures: dict[str, Measure], *, size: int, against: Sequence[str]
) -> Iterable[str]:
    """Yield a Markdown table: each arm's speed, and how many times the others'."""
    names = "".join(f" times {name} |" for name in against)
    yield f"| arm | CPU s | MB per CPU s |{names} peak MB |"
    yield "|---|---:|---:|" + "---:|" * (len(against) + 1)
    for name, found in measures.items():
        times = "".join(
            f" {measures[other].seconds / found.seconds:.2f} |" for other in against
        )
        speed = size / 1e6 / found.seconds
        yield (
            f"| {name} | {found.seconds:.2f} | {speed:.0f} |{times}"
            f" {found.peak / 1e6:.0f} |"
        )


def title(text: str) -> str:
    """Return the heading of a table."""
    return f"\n## {text}\n"
