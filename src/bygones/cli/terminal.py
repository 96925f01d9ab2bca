"""Manners at the terminal: width, colour, progress, tables, and text kept harmless.

What comes from a transcript may hold anything; nothing of it reaches a terminal
before ``sanitize_name`` has taken out what could steer it.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Mapping
from datetime import timedelta
from enum import StrEnum
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Self, TextIO

from bygones.render.numbers import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterator

_MIN_WIDTH = 40
_MIN_BAR_WIDTH = 10
_DEFAULT_WIDTH = 80
_PIPE_WIDTH = 100
"""How wide text is set that goes into a file or a pipe."""


class ColorMode(StrEnum):
    """When to use colour."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


def output_width(stream: TextIO, environ: Mapping[str, str]) -> int:
    """Return how wide to set text for ``stream``."""
    if not stream.isatty() and "COLUMNS" not in environ:
        return _PIPE_WIDTH
    return max(
        _MIN_WIDTH,
        _width_from_environment(environ) or _measure_width(stream) or _DEFAULT_WIDTH,
    )


def _width_from_environment(environ: Mapping[str, str]) -> int:
    told = environ.get("COLUMNS", "")
    return int(told) if told.isdecimal() else 0


def _measure_width(stream: TextIO) -> int:
    # Its own terminal: what is shown on stderr must fit even if stdout is a pipe.
    try:
        return os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        return 0


def is_color_enabled(
    mode: ColorMode, stream: TextIO, environ: Mapping[str, str] = os.environ
) -> bool:
    """Whether to colour what goes to ``stream``; ``NO_COLOR`` means what it says."""
    if mode is not ColorMode.AUTO:
        return mode is ColorMode.ALWAYS
    if environ.get("NO_COLOR") or environ.get("TERM") == "dumb":
        return False
    return stream.isatty()


class Style:
    """Marks text by its role, or leaves it as it is."""

    def __init__(self, *, is_colored: bool) -> None:
        self.is_colored = is_colored

    def _wrap(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.is_colored and text else text

    def heading(self, text: str) -> str:
        """Return the name of a section."""
        return self._wrap("1", text)

    def dim(self, text: str) -> str:
        """Return what explains the rest."""
        return self._wrap("2", text)

    def warning(self, text: str) -> str:
        """Return what deserves a look."""
        return self._wrap("33", text)

    def highlight(self, text: str) -> str:
        """Return what was looked for; without colours it stands between signs."""
        if not self.is_colored:
            return f"«{text}»"
        return self._wrap("1;33", text)

    def location(self, text: str) -> str:
        """Return a file and a line."""
        return self._wrap("36", text)


def shorten_path(path: str, *, cwd: Path | None = None, home: Path) -> str:
    """Return a path as one would type it in the folder ``cwd``, or anywhere."""
    for folder, sign in ((cwd, ""), (home, "~/")):
        if folder is None:
            continue
        above = folder.as_posix().rstrip("/") + "/"
        if path.startswith(above):
            return sign + path[len(above) :]
    return path


def format_size(size: int) -> str:
    """Return a number of bytes in the unit that suits it, in powers of a thousand."""
    amount = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 999.5:  # noqa: PLR2004 (would be rounded to a thousand)
            digits = 0 if unit == "B" or amount >= 99.95 else 1  # noqa: PLR2004
            return f"{amount:.{digits}f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"


class ProgressBar:
    """How far some work is, on one line that goes away again.

    Shown on a terminal only, and only once the work has taken a second.
    """

    def __init__(
        self,
        total: int,
        stream: TextIO | None = None,
        *,
        label: str = "",
        started_at: float | None = None,
    ) -> None:
        self.stream = stream or sys.stderr
        self.total = total
        self.done = 0
        self.label = label
        self.is_enabled = self.stream.isatty()
        self.started_at = time.monotonic()
        self.next_update = (self.started_at if started_at is None else started_at) + 1
        self.is_visible = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def advance(self, size: int) -> None:
        """Count ``size`` more bytes as done, and show it a few times a second."""
        self.done += size
        if self.is_enabled and time.monotonic() >= self.next_update:
            self.stream.write("\r" + self._line() + "\x1b[K")
            self.stream.flush()
            self.next_update = time.monotonic() + 0.1
            self.is_visible = True

    def clear(self) -> None:
        """Take the line away, before other output and at the end."""
        if self.is_visible:
            self.stream.write("\r\x1b[K")
            self.stream.flush()
            self.is_visible = False

    def format_amount(self, number: int) -> str:
        """Return how much of the work a number is."""
        return format_size(number)

    def _line(self) -> str:
        share = min(1.0, self.done / self.total) if self.total else 1.0
        told = f" {share:4.0%}  {self.format_amount(self.done)}"
        if self.total:
            told += f" of {self.format_amount(self.total)}"
        pace = self._rate_text()
        begin = f"{self.label}  " if self.label else ""
        room = output_width(self.stream, os.environ) - 2
        if len(begin + told + pace) + _MIN_BAR_WIDTH <= room:
            told += pace
        room = max(0, min(30, room - len(begin + told)))
        full = int(room * share)
        return begin + "█" * full + "░" * (room - full) + told

    def _rate_text(self) -> str:
        """Return how fast it goes, and how long that means."""
        taken = time.monotonic() - self.started_at
        if not self.done or taken < 1:
            return ""
        rate = self.done / taken
        left = timedelta(seconds=max(0.0, self.total - self.done) / rate)
        told = f"  {self.format_amount(int(rate))}/s"
        return (
            f"{told}  {format_duration(left)} left" if self.done < self.total else told
        )


class CountProgressBar(ProgressBar):
    """The same for work that is counted and not weighed."""

    def format_amount(self, number: int) -> str:
        """Return the number itself."""
        return f"{number:,}"


class StagedProgressBar:
    """The progress of work in stages: one bar at a time, on the same line."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream
        self.started_at = time.monotonic()
        self.bar: ProgressBar | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def begin(self, stage: str, total: int) -> None:
        """Begin a stage: its size is in bytes, or in sessions."""
        self.end()
        kind = CountProgressBar if stage == "sessions" else ProgressBar
        self.bar = kind(total, self.stream, label=stage, started_at=self.started_at)

    def advance(self, amount: int) -> None:
        """Count some more of the stage as done."""
        if self.bar is not None:
            self.bar.advance(amount)

    def end(self) -> None:
        """End the stage, and take its line away."""
        if self.bar is not None:
            self.bar.clear()
            self.bar = None


_NO_PAGER_VALUES = {"", "cat"}
_SHELL_CHARACTERS = frozenset("|&;<>()$`\\\"'*?[#~=%\n")
_MIN_HEIGHT = 4
_DEFAULT_HEIGHT = 22


def print_paged(lines: Iterable[str], *, is_terminal: bool) -> None:
    """Write lines; those that do not fit on the terminal's screen through a pager.

    A reader who has seen enough and leaves the pager ends the command.
    """
    words = pager_command(os.environ, _configured_pager()) if is_terminal else []
    waiting = iter(lines)
    if not words:
        _write_lines(waiting)
        return
    first = list(islice(waiting, _page_height()))
    following = next(waiting, None)
    if following is None:
        _write_lines(iter(first))
        return
    _pipe_through(words, chain(first, (following,), waiting))


def _configured_pager() -> str | None:
    from pathlib import Path

    from bygones.config import load_settings

    return load_settings(os.environ, Path.home()).pager


def pager_command(
    environ: Mapping[str, str], configured: str | None = None
) -> list[str]:
    """Return the pager's words: as set, else ``less``; none where there is none."""
    import shlex
    import shutil

    wanted = configured if configured is not None else environ.get("PAGER")
    if wanted is not None:
        if wanted.strip() in _NO_PAGER_VALUES:
            return []
        # What is more than a program and its options is for a shell, as git has it.
        is_plain = not any(sign in _SHELL_CHARACTERS for sign in wanted)
        return shlex.split(wanted) if is_plain else ["sh", "-c", wanted]
    found = shutil.which("less")
    return [found] if found and environ.get("TERM") != "dumb" else []


def _page_height() -> int:
    try:
        lines = os.get_terminal_size(sys.stdout.fileno()).lines
    except (OSError, ValueError):
        lines = 0
    return lines - 2 if lines > _MIN_HEIGHT else _DEFAULT_HEIGHT


def _write_lines(lines: Iterator[str]) -> None:
    for line in lines:
        sys.stdout.write(f"{line}\n")


def _pipe_through(command: list[str], lines: Iterator[str]) -> None:
    import subprocess

    # Colours as they are, nothing where it fits after all, the screen left as it was.
    surroundings = {"LESS": "FRX", "LV": "-c", **os.environ}
    try:
        pager = subprocess.Popen(  # noqa: S603 (the user's own choice)
            command,
            stdin=subprocess.PIPE,
            env=surroundings,
            encoding="utf-8",
            errors="backslashreplace",
        )
    except OSError:
        _write_lines(lines)
        return
    try:
        with pager:
            if pager.stdin is not None:
                for line in lines:
                    pager.stdin.write(f"{line}\n")
    except BrokenPipeError:
        pass
    except KeyboardInterrupt:
        # The pager has the terminal: it decides when to go.
        pager.wait()
