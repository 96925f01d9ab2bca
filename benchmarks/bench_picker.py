"""Measure the picker on a pseudo-terminal: its first paint, and a key until its results.

``python -m benchmarks.bench_picker ARCHIVE`` starts the picker in a terminal of 120
columns. The first paint is the CPU time of the process when the newest sessions are on
the screen, beside bare Python and an empty application of prompt_toolkit. For keys it is
the time from writing a character to the terminal until its results are written.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import NamedTuple

import pyte

_COLUMNS, _ROWS = 120, 40
_START_SECONDS = 2.0
_SETTLE_SECONDS = 0.6
_AIM_SECONDS = 0.05
_MAX_SECONDS = 20.0
_START = "from bygones.cli.main import entry_point; entry_point()"
_FOUND = re.compile(rb"[0-9,]+ session")
_EMPTY_APPLICATION = """
from prompt_toolkit.application import Application
from prompt_toolkit.layout import FormattedTextControl, Layout, Window
text = FormattedTextControl("0 sessions")
Application(layout=Layout(Window(text)), full_screen=True).run()
"""
TYPED = ("timeout", "flaky login", "parse error", "refactor", "value of dict", "async")
"""What is typed, one character after another, and erased again."""


class Moment(NamedTuple):
    """Time on the clock, and CPU time of the program."""

    wall: float
    cpu: float


class PickerTerminal:
    """A program on a pseudo-terminal, of which CPU and output are watched."""

    def __init__(self, code: str, words: Sequence[str] = ()) -> None:
        self._ours, theirs = pty.openpty()
        size = struct.pack("HHHH", _ROWS, _COLUMNS, 0, 0)
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, size)
        self._child = subprocess.Popen(
            [sys.executable, "-c", code, *words],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**os.environ, "TERM": "xterm-256color"},
            start_new_session=True,
        )
        os.close(theirs)

    def wait_for(self, pattern: re.Pattern[bytes]) -> bytes:
        """Return what was written until a pattern appeared in it."""
        written = b""
        until = time.monotonic() + _MAX_SECONDS
        while not pattern.search(written):
            if time.monotonic() > until:
                raise TimeoutError(written[-2000:].decode("utf-8", "replace"))
            if select.select([self._ours], [], [], 0.05)[0]:
                written += os.read(self._ours, 65536)
        return written

    def now(self) -> Moment:
        return Moment(time.perf_counter(), self.cpu_seconds())

    def read_for(self, seconds: float) -> list[tuple[Moment, bytes]]:
        """Return what is written within some time, and when."""
        pieces = []
        until = time.perf_counter() + seconds
        while (left := until - time.perf_counter()) > 0:
            if select.select([self._ours], [], [], left)[0]:
                piece = os.read(self._ours, 65536)
                pieces.append((self.now(), piece))
        return pieces

    def cpu_seconds(self) -> float:
        """Return the CPU time of all threads so far."""
        threads = Path(f"/proc/{self._child.pid}/task").iterdir()
        spent = [int((one / "schedstat").read_text().split()[0]) for one in threads]
        return sum(spent) / 1e9

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def close(self) -> None:
        self._child.kill()
        self._child.wait()
        os.close(self._ours)


def first_paint(code: str, words: Sequence[str] = ()) -> float:
    """Return the CPU seconds until the sessions are on the screen."""
    terminal = PickerTerminal(code, words)
    try:
        terminal.wait_for(_FOUND)
        return terminal.cpu_seconds()
    finally:
        terminal.close()


class KeyTimes(NamedTuple):
    """How long keys took to show their results."""

    wall: list[float]
    cpu: list[float]
    overtaken: int
    """Keys whose results came after the next key."""


def time_keys(words: Sequence[str], interval: float) -> KeyTimes:
    """Return the seconds from each key to its results, if keys are this far apart.

    What was written is replayed on a model of the screen afterwards. Results are there
    when the list changes while the search line shows what was typed so far; keys that
    do not change the list are left out.
    """
    terminal = PickerTerminal(_START, words)
    times = KeyTimes([], [], 0)
    screen = pyte.Screen(_COLUMNS, _ROWS)
    stream = pyte.ByteStream(screen)
    try:
        stream.feed(terminal.wait_for(_FOUND))
        for _, piece in terminal.read_for(_START_SECONDS):
            stream.feed(piece)
        for text in TYPED:
            typed: list[Moment] = []
            pieces: list[tuple[Moment, bytes]] = []
            for character in text:
                typed.append(terminal.now())
                terminal.type(character)
                pieces += terminal.read_for(interval)
            pieces += terminal.read_for(_SETTLE_SECONDS)
            times = _replay(screen, stream, text, typed, pieces, times)
            terminal.type("\x15")
            for _, piece in terminal.read_for(_SETTLE_SECONDS):
                stream.feed(piece)
    finally:
        terminal.close()
    return times


def _replay(  # noqa: PLR0913, PLR0917 (a screen, what was typed, what was written)
    screen: pyte.Screen,
    stream: pyte.ByteStream,
    text: str,
    typed: Sequence[Moment],
    pieces: Sequence[tuple[Moment, bytes]],
    times: KeyTimes,
) -> KeyTimes:
    found: dict[int, Moment] = {}
    shown = _list_of(screen)
    for at, piece in pieces:
        stream.feed(piece)
        echoed = screen.display[0][2:].rstrip()
        count = len(echoed) if text.startswith(echoed) else 0
        if _list_of(screen) != shown and count:
            shown = _list_of(screen)
            found.setdefault(count, at)
    overtaken = times.overtaken
    for number, at in found.items():
        if number < len(typed) and at.wall > typed[number].wall:
            overtaken += 1
        times.wall.append(at.wall - typed[number - 1].wall)
        times.cpu.append(at.cpu - typed[number - 1].cpu)
    return times._replace(overtaken=overtaken)


def _list_of(screen: pyte.Screen) -> list[str]:
    """Return the line of state and the list, without the preview beside it."""
    return [line[: _COLUMNS // 3] for line in screen.display[1:-2]]


def bare_seconds() -> float:
    """Return the CPU seconds of Python without a program."""
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    _, _, used = os.wait4(child.pid, 0)
    child.returncode = 0
    return used.ru_utime + used.ru_stime


def main(arguments: Sequence[str]) -> int:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("archive", type=Path)
    parser.add_argument("--home", type=Path, help="also check it for new transcripts")
    parser.add_argument("--times", type=int, default=7)
    parser.add_argument("--interval", type=float, default=0.12)
    options = parser.parse_args(arguments)
    words = ["--archive", str(options.archive)]
    words += ["--home", str(options.home)] if options.home else []
    with tempfile.TemporaryDirectory() as folder:
        # A program that was installed is compiled once; so must this one be.
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = folder
        first_paint(_START, words)
        first_paint(_EMPTY_APPLICATION)
        bare, empty, picker = [], [], []
        for _ in range(options.times):
            bare.append(bare_seconds())
            empty.append(first_paint(_EMPTY_APPLICATION))
            picker.append(first_paint(_START, words))
        keys = time_keys(words, options.interval)
    print("| first paint | CPU ms | x bare Python |")
    print("|---|---:|---:|")
    for name, spent in (("bare", bare), ("prompt_toolkit", empty), ("picker", picker)):
        factor = median(spent) / median(bare)
        print(f"| {name} | {median(spent) * 1000:.0f} | {factor:.1f} |")
    apart = f"{options.interval * 1000:.0f} ms apart"
    print(f"\n| {len(keys.wall)} keys, {apart} | p50 ms | p95 ms | above 50 ms |")
    print("|---|---:|---:|---:|")
    for name, spent in (("wall time", keys.wall), ("CPU time", keys.cpu)):
        slow = sum(1 for one in spent if one > _AIM_SECONDS)
        middle, high = median(spent) * 1000, quantiles(spent, n=20)[-1] * 1000
        print(f"| {name} | {middle:.0f} | {high:.0f} | {slow} |")
    print(f"\n{keys.overtaken} results came after the next key")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
