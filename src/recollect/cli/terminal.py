"""Manners at the terminal: width, colour, progress, tables, and text kept harmless.

What comes from a transcript may hold anything; nothing of it reaches a terminal
before :func:`~recollect.render.safe.safe_name` has taken out what could steer it.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Self, TextIO

from recollect.render.safe import safe_name as plain
from recollect.render.widths import fit_left, fit_right, width

__all__ = [
    "Colour",
    "Paint",
    "ProgressBar",
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
    return max(_NARROWEST, shutil.get_terminal_size((80, 24)).columns)


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


def short_path(path: str, *, here: Path, home: Path) -> str:
    """Return a path as one would type it in the folder ``here``."""
    for folder, sign in ((here, ""), (home, "~/")):
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

    def __init__(self, total: int, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stderr
        self.total = total
        self.reached = 0
        self.is_wanted = self.stream.isatty()
        self.next = time.monotonic() + 1
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

    def _line(self) -> str:
        share = min(1.0, self.reached / self.total) if self.total else 1.0
        told = f" {share:4.0%}  {readable_size(self.reached)}"
        if self.total:
            told += f" of {readable_size(self.total)}"
        room = min(30, columns(self.stream, os.environ) - len(told) - 2)
        full = int(room * share)
        return "█" * full + "░" * (room - full) + told
