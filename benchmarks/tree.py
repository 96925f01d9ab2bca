"""Measure a program with all the processes it starts.

CPU seconds are those of the program and all its descendants, including ones that outlive
it: orphans are adopted and waited for. Peak memory is the resident memory of all of them
together, sampled a hundred times per second, or the peak that the system noted for the
largest, whichever is more; shared pages count twice. Without ``/proc`` it is the largest
process alone.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from resource import struct_rusage
from typing import NamedTuple

from benchmarks.run import Measure

__all__ = ["Failed", "Run", "follow", "offline"]

_EVERY = 0.01
_PATIENCE = 5.0
"""Seconds that what was left behind has for ending by itself."""
_SET_CHILD_SUBREAPER = 36
_PROC = Path("/proc")
_IS_LINUX = sys.platform == "linux"


class Run(NamedTuple):
    """What a program took with all its processes, and its output."""

    used: Measure
    wall: float
    output_text: str


class Failed(Exception):
    """A program ended with an error."""

    def __init__(self, code: int, output_text: str) -> None:
        super().__init__(code, output_text)
        self.code = code
        self.output_text = output_text

    def __str__(self) -> str:
        """Return the code and the last lines of the output."""
        lines = [line for line in self.output_text.splitlines() if line.strip()]
        return f"exit code {self.code}: {' · '.join(lines[-3:])}"


def offline() -> list[str]:
    """Return the command that runs a program without a network, if there is one."""
    unshare, true = shutil.which("unshare"), shutil.which("true")
    if not unshare or not true:
        return []
    command = [unshare, "--map-root-user", "--net", "--"]
    done = subprocess.run([*command, true], check=False, capture_output=True)
    return [] if done.returncode else command


def follow(command: Sequence[str], *, env: Mapping[str, str], output: Path) -> Run:
    """Run a program to its end, and all that it leaves behind.

    What it prints goes to the file ``output``.
    """
    _adopt_orphans()
    sampler = _Sampler()
    with output.open("wb") as file:
        start = time.monotonic()
        child = subprocess.Popen(command, stdout=file, stderr=file, env=env)
        sampler.start()
        _, status, used = os.wait4(child.pid, 0)
        wall = time.monotonic() - start
        child.returncode = os.waitstatus_to_exitcode(status)
    usages = [used, *_orphans()]
    sampler.stop()
    output_text = output.read_text("utf-8", "replace").replace("\r", "\n")
    if child.returncode:
        raise Failed(child.returncode, output_text)
    seconds = sum(used.ru_utime + used.ru_stime for used in usages)
    # On Linux ru_maxrss knows also what we had when we started the program.
    peak = sampler.peak if _IS_LINUX else max(used.ru_maxrss for used in usages)
    return Run(Measure(seconds, peak), wall, output_text)


def _adopt_orphans() -> None:
    """Become the parent of what a program leaves behind, to know what it took."""
    if _IS_LINUX:
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _orphans() -> Iterator[struct_rusage]:
    """Wait for what was left behind, and end it when it does not end by itself."""
    patience = time.monotonic() + _PATIENCE
    while True:
        try:
            pid, _, used = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid:
            yield used
        elif time.monotonic() > patience:
            for left in _children(os.getpid()):
                os.kill(left, signal.SIGTERM)
            patience = time.monotonic() + _PATIENCE
        else:
            time.sleep(_EVERY)


class _Sampler(threading.Thread):
    """Notes the most memory that all processes below this one had at one moment."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak = 0
        self._over = threading.Event()

    def run(self) -> None:
        while _IS_LINUX and not self._over.wait(_EVERY):
            seen = [_memory(pid) for pid in _below(os.getpid())]
            together = sum(now for now, _ in seen)
            self.peak = max([self.peak, together, *(most for _, most in seen)])

    def stop(self) -> None:
        self._over.set()
        self.join()


def _below(pid: int) -> Iterator[int]:
    for child in _children(pid):
        yield child
        yield from _below(child)


def _children(pid: int) -> list[int]:
    """Return the processes that any thread of a process has started."""
    found: list[int] = []
    for path in (_PROC / str(pid) / "task").glob("*/children"):
        try:
            found += map(int, path.read_text("ascii").split())
        except OSError:  # ended between the listing and the look
            continue
    return found


def _memory(pid: int) -> tuple[int, int]:
    """Return the bytes that a process has in memory, and the most it ever had."""
    try:
        status = (_PROC / str(pid) / "status").read_text("utf-8")
    except OSError:
        return 0, 0
    lines = dict(line.split(":", 1) for line in status.splitlines())
    now, most = (lines.get(key, "0").split()[0] for key in ("VmRSS", "VmHWM"))
    return int(now) * 1024, int(most) * 1024
