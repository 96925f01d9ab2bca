"""Run programs against each other: CPU seconds and peak memory, best of several.

Wall time depends on what else the machine does, so CPU seconds of the child process are
compared, and only within one run.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

_EVERY = 0.01

__all__ = ["Arm", "Measure", "measure", "ratios", "title"]


class Arm(NamedTuple):
    """One of the programs that are compared."""

    name: str
    command: Sequence[str]


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
    child = subprocess.Popen(arm.command, stdout=subprocess.DEVNULL)
    peak = 0
    pid = 0
    while pid == 0:
        peak = max(peak, _peak(child.pid))
        pid, status, used = os.wait4(child.pid, os.WNOHANG)
        time.sleep(_EVERY if pid == 0 else 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, arm.name)
    unit = 1 if sys.platform == "darwin" else 1024
    return Measure(used.ru_utime + used.ru_stime, peak or used.ru_maxrss * unit)


def _peak(pid: int) -> int:
    """Return the most memory that a process has had since it became itself.

    The figure that a parent gets at the end is never below the parent's own memory,
    which the child had between fork and exec.
    """
    try:
        status = Path(f"/proc/{pid}/status").read_text("ascii", "replace")
    except OSError:
        return 0
    found = re.search(r"^VmHWM:\s+(\d+) kB", status, re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def ratios(
    measures: dict[str, Measure], *, size: int, against: Sequence[str]
) -> Iterable[str]:
    """Yield a Markdown table: each arm's speed, and how many times the others'."""
    names = "".join(f" times {name} |" for name in against)
    yield f"| variant | CPU s | MB per CPU s |{names} peak MB |"
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
