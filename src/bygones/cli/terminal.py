"""Manners at the terminal: width, colour, progress, tables, and text kept harmless.

What comes from a transcript may hold anything; nothing of it reaches a terminal
before :func:`~bygones.render.safe.safe_name` has taken out what could steer it.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Self, TextIO

from bygones.render.figures import lasting
from bygones.render.safe import safe_name as plain
from bygones.render.widths import fit_left, fit_right, width

__all__ = [
    "Colour",
    "CountBar",
    "Paint",
    "ProgressBar",
    "StageBar",
    "columns",
    "fit_left",
    "fit_right",
    "has_colour",
    "plain",
    "readable_size",
    "short_path",
    "table",
    "width",
]

_NARROWEST = 40
_SHORTEST_BAR = 10
_USUAL_WIDTH = 80
_PLAIN_WIDTH = 100
"""How wide text is set that goes into a file or a pipe."""


class Colour(StrEnum):
    """When to use colour."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


def columns(stream: TextIO, environ: Mapping[str, str]) -> int:
    """Return how wide to set text for ``stream``."""
    if not stream.isatty() and "COLUMNS" not in environ:
        return _PLAIN_WIDTH
    return max(_NARROWEST, _told(environ) or _measured(stream) or _USUAL_WIDTH)


def _told(environ: Mapping[str, str]) -> int:
    told = environ.get("COLUMNS", "")
    return int(told) if told.isdecimal() else 0


def _measured(stream: TextIO) -> int:
    # Its own terminal: what is shown on stderr must fit even if stdout is a pipe.
    try:
        return os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        return 0


def has_colour(
    choice: Colour, stream: TextIO, environ: Mapping[str, str] = os.environ
) -> bool:
    """Whether to colour what goes to ``stream``; ``NO_COLOR`` means what it says."""
    if choice is not Colour.AUTO:
        return choice is Colour.ALWAYS
    if environ.get("NO_COLOR") or environ.get("TERM") == "dumb":
        return False
    return stream.isatty()


class Paint:
    """Marks text by its role, or leaves it as it is."""

    def __init__(self, *, coloured: bool) -> None:
        self.coloured = coloured

    def _in(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.coloured and text else text

    def heading(self, text: str) -> str:
        """Return the name of a section."""
        return self._in("1", text)

    def faint(self, text: str) -> str:
        """Return what explains the rest."""
        return self._in("2", text)

    def alert(self, text: str) -> str:
        """Return what deserves a look."""
        return self._in("33", text)

    def mark(self, text: str) -> str:
        """Return what was looked for; without colours it stands between signs."""
        if not self.coloured:
            return f"«{text}»"
        return self._in("1;33", text)

    def place(self, text: str) -> str:
        """Return a file and a line."""
        return self._in("36", text)


def table(rows: Iterable[Sequence[str]], *, right: str = "", gap: int = 2) -> list[str]:
    """Return rows of plain text as lines with their columns below each other.

    ``right`` has a letter for each column: ``r`` sets it to the right, anything else
    to the left. The last column is not padded.
    """
    cells = [[plain(cell) for cell in row] for row in rows]
    widest = [max(map(width, column)) for column in zip(*cells, strict=True)]
    lines = []
    for row in cells:
        padded = [
            " " * (room - width(cell)) + cell
            if right[number : number + 1] == "r"
            else cell + " " * (room - width(cell))
            for number, (cell, room) in enumerate(zip(row, widest, strict=True))
        ]
        lines.append((" " * gap).join(padded).rstrip())
    return lines


def short_path(path: str, *, here: Path | None = None, home: Path) -> str:
    """Return a path as one would type it in the folder ``here``, or anywhere."""
    for folder, sign in ((here, ""), (home, "~/")):
        if folder is None:
            continue
        above = folder.as_posix().rstrip("/") + "/"
        if path.startswith(above):
            return sign + path[len(above) :]
    return path


def readable_size(size: int) -> str:
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
        what: str = "",
        since: float | None = None,
    ) -> None:
        self.stream = stream or sys.stderr
        self.total = total
        self.reached = 0
        self.what = what
        self.is_wanted = self.stream.isatty()
        self.begun = time.monotonic()
        self.next = (self.begun if since is None else since) + 1
        self.is_shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def advance(self, size: int) -> None:
        """Count ``size`` more bytes as done, and show it a few times a second."""
        self.reached += size
        if self.is_wanted and time.monotonic() >= self.next:
            self.stream.write("\r" + self._line() + "\x1b[K")
            self.stream.flush()
            self.next = time.monotonic() + 0.1
            self.is_shown = True

    def clear(self) -> None:
        """Take the line away, before other output and at the end."""
        if self.is_shown:
            self.stream.write("\r\x1b[K")
            self.stream.flush()
            self.is_shown = False

    def amount(self, number: int) -> str:
        """Return how much of the work a number is."""
        return readable_size(number)

    def _line(self) -> str:
        share = min(1.0, self.reached / self.total) if self.total else 1.0
        told = f" {share:4.0%}  {self.amount(self.reached)}"
        if self.total:
            told += f" of {self.amount(self.total)}"
        pace = self._pace()
        begin = f"{self.what}  " if self.what else ""
        room = columns(self.stream, os.environ) - 2
        if len(begin + told + pace) + _SHORTEST_BAR <= room:
            told += pace
        room = max(0, min(30, room - len(begin + told)))
        full = int(room * share)
        return begin + "█" * full + "░" * (room - full) + told

    def _pace(self) -> str:
        """Return how fast it goes, and how long that means."""
        taken = time.monotonic() - self.begun
        if not self.reached or taken < 1:
            return ""
        rate = self.reached / taken
        left = timedelta(seconds=max(0.0, self.total - self.reached) / rate)
        told = f"  {self.amount(int(rate))}/s"
        return f"{told}  {lasting(left)} left" if self.reached < self.total else told


class CountBar(ProgressBar):
    """The same for work that is counted and not weighed."""

    def amount(self, number: int) -> str:
        """Return the number itself."""
        return f"{number:,}"


class StageBar:
    """The progress of work in stages: one bar at a time, on the same line."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream
        self.since = time.monotonic()
        self.bar: ProgressBar | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def begin(self, what: str, total: int) -> None:
        """Begin a stage: its size is in bytes, or in sessions."""
        self.end()
        kind = CountBar if what == "sessions" else ProgressBar
        self.bar = kind(total, self.stream, what=what, since=self.since)

    def advance(self, amount: int) -> None:
        """Count some more of the stage as done."""
        if self.bar is not None:
            self.bar.advance(amount)

    def end(self) -> None:
        """End the stage, and take its line away."""
        if self.bar is not None:
            self.bar.clear()
            self.bar = None
