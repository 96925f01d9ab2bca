"""The terminal: width, colour, progress bars and the pager."""

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
_MAX_BAR_WIDTH = 30
_DEFAULT_WIDTH = 80
_PIPE_WIDTH = 100
"""The width of text in a file or a pipe."""


class ColorMode(StrEnum):
    """When to use colour."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


def output_width(stream: TextIO, environ: Mapping[str, str]) -> int:
    if not stream.isatty() and "COLUMNS" not in environ:
        return _PIPE_WIDTH
    return max(
        _MIN_WIDTH,
        _width_from_environment(environ) or _measure_width(stream) or _DEFAULT_WIDTH,
    )


def _width_from_environment(environ: Mapping[str, str]) -> int:
    columns = environ.get("COLUMNS", "")
    return int(columns) if columns.isdecimal() else 0


def _measure_width(stream: TextIO) -> int:
    # Not shutil.get_terminal_size(): stderr may be a terminal though stdout is a pipe.
    try:
        return os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        return 0


def is_color_enabled(
    mode: ColorMode, stream: TextIO, environ: Mapping[str, str] = os.environ
) -> bool:
    if mode is not ColorMode.AUTO:
        return mode is ColorMode.ALWAYS
    if environ.get("NO_COLOR") or environ.get("TERM") == "dumb":
        return False
    return stream.isatty()


class Style:
    """Colours text by its role, or returns it unchanged."""

    def __init__(self, *, is_colored: bool) -> None:
        self.is_colored = is_colored

    def _wrap(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.is_colored and text else text

    def heading(self, text: str) -> str:
        return self._wrap("1", text)

    def dim(self, text: str) -> str:
        return self._wrap("2", text)

    def warning(self, text: str) -> str:
        return self._wrap("33", text)

    def highlight(self, text: str) -> str:
        """Mark a match; without colours, by quotation marks."""
        if not self.is_colored:
            return f"«{text}»"
        return self._wrap("1;33", text)

    def location(self, text: str) -> str:
        return self._wrap("36", text)


def shorten_path(path: str, *, cwd: Path | None = None, home: Path) -> str:
    """Return a path relative to `cwd`, or with `~` for the home directory."""
    for folder, prefix in ((cwd, ""), (home, "~/")):
        if folder is None:
            continue
        parent = folder.as_posix().rstrip("/") + "/"
        if path.startswith(parent):
            return prefix + path[len(parent) :]
    return path


def format_size(size: int) -> str:
    """Return a number of bytes in powers of a thousand."""
    amount = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 999.5:  # noqa: PLR2004 (would round to 1000)
            digits = 0 if unit == "B" or amount >= 99.95 else 1  # noqa: PLR2004
            return f"{amount:.{digits}f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"


class ProgressBar:
    """A progress bar on one line, which is removed at the end.

    It is shown on a terminal only, once the work has taken a second.
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
        """Add to the amount that is done; redraws at most ten times a second."""
        self.done += size
        if self.is_enabled and time.monotonic() >= self.next_update:
            self.stream.write("\r" + self._line() + "\x1b[K")
            self.stream.flush()
            self.next_update = time.monotonic() + 0.1
            self.is_visible = True

    def clear(self) -> None:
        """Remove the line, before other output and at the end."""
        if self.is_visible:
            self.stream.write("\r\x1b[K")
            self.stream.flush()
            self.is_visible = False

    def format_amount(self, number: int) -> str:
        return format_size(number)

    def _line(self) -> str:
        share = min(1.0, self.done / self.total) if self.total else 1.0
        amount = f" {share:4.0%}  {self.format_amount(self.done)}"
        if self.total:
            amount += f" of {self.format_amount(self.total)}"
        rate = self._rate_text()
        label = f"{self.label}  " if self.label else ""
        width = output_width(self.stream, os.environ) - 2
        if len(label + amount + rate) + _MIN_BAR_WIDTH <= width:
            amount += rate
        bar_width = max(0, min(_MAX_BAR_WIDTH, width - len(label + amount)))
        filled = int(bar_width * share)
        return label + "█" * filled + "░" * (bar_width - filled) + amount

    def _rate_text(self) -> str:
        """Return the rate and the remaining time."""
        elapsed = time.monotonic() - self.started_at
        if not self.done or elapsed < 1:
            return ""
        rate = self.done / elapsed
        left = timedelta(seconds=max(0.0, self.total - self.done) / rate)
        text = f"  {self.format_amount(int(rate))}/s"
        return (
            f"{text}  {format_duration(left)} left" if self.done < self.total else text
        )


class CountProgressBar(ProgressBar):
    """A progress bar for items instead of bytes."""

    def format_amount(self, number: int) -> str:
        return f"{number:,}"


class StagedProgressBar:
    """Progress of work in stages, with one bar at a time."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream
        self.started_at = time.monotonic()
        self.bar: ProgressBar | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def begin(self, stage: str, total: int) -> None:
        """Start a stage; its size is in bytes, or in sessions."""
        self.end()
        kind = CountProgressBar if stage == "sessions" else ProgressBar
        self.bar = kind(total, self.stream, label=stage, started_at=self.started_at)

    def advance(self, amount: int) -> None:
        if self.bar is not None:
            self.bar.advance(amount)

    def end(self) -> None:
        if self.bar is not None:
            self.bar.clear()
            self.bar = None


_NO_PAGER_VALUES = {"", "cat"}
_SHELL_CHARACTERS = frozenset("|&;<>()$`\\\"'*?[#~=%\n")
_MIN_HEIGHT = 4
_DEFAULT_HEIGHT = 22


def print_paged(lines: Iterable[str], *, is_terminal: bool) -> None:
    """Print lines, through a pager if they do not fit on the terminal.

    Quitting the pager ends the command.
    """
    command = pager_command(os.environ, _configured_pager()) if is_terminal else []
    remaining = iter(lines)
    if not command:
        _write_lines(remaining)
        return
    first_page = list(islice(remaining, _page_height()))
    following = next(remaining, None)
    if following is None:
        _write_lines(iter(first_page))
        return
    _pipe_through(command, chain(first_page, (following,), remaining))


def _configured_pager() -> str | None:
    from pathlib import Path

    from bygones.config import load_settings

    return load_settings(os.environ, Path.home()).pager


def pager_command(
    environ: Mapping[str, str], configured: str | None = None
) -> list[str]:
    """Return the command of the pager; empty if there is none."""
    import shlex
    import shutil

    pager = configured if configured is not None else environ.get("PAGER")
    if pager is not None:
        if pager.strip() in _NO_PAGER_VALUES:
            return []
        # As in git, a shell runs what is more than a program and its options.
        needs_shell = any(char in _SHELL_CHARACTERS for char in pager)
        return ["sh", "-c", pager] if needs_shell else shlex.split(pager)
    less = shutil.which("less")
    return [less] if less and environ.get("TERM") != "dumb" else []


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

    # Pass colours through, quit if one screen is enough, and keep the text on screen.
    environ = {"LESS": "FRX", "LV": "-c", **os.environ}
    try:
        pager = subprocess.Popen(  # noqa: S603 (configured by the user)
            command,
            stdin=subprocess.PIPE,
            env=environ,
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
        # The pager owns the terminal and decides when to exit.
        pager.wait()
