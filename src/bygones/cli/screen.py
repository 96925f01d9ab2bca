"""For whom a command prints: a person at a terminal, or whatever reads a pipe."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from bygones.cli.paging import page_out
from bygones.cli.telling import since
from bygones.cli.terminal import Colour, Paint, columns, has_colour

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Screen", "iso_time"]


class Screen(NamedTuple):
    """What is known of the place where text goes."""

    now: datetime
    paint: Paint
    on_terminal: bool = False
    is_iso: bool = True
    room: int | None = None
    """Columns; ``None``: nothing is cut or left out."""

    @classmethod
    def of(cls, colour: str = Colour.AUTO, *, iso: bool = False) -> Screen:
        """Return what stdout is."""
        on_terminal = sys.stdout.isatty()
        return cls(
            now=datetime.now(UTC),  # noqa: TID251 (a face knows the clock)
            paint=Paint(coloured=has_colour(Colour(colour), sys.stdout)),
            on_terminal=on_terminal,
            is_iso=iso or not on_terminal,
            room=columns(sys.stdout, os.environ) if on_terminal else None,
        )

    def when(self, time: datetime | None) -> str:
        """Return a time as this reader wants it: how long ago, or exactly."""
        return iso_time(time) if self.is_iso else since(time, self.now)

    def show(self, lines: Iterable[str]) -> None:
        """Print lines, many of them on a terminal through a pager."""
        page_out(lines, on_terminal=self.on_terminal)


def iso_time(time: datetime | None) -> str:
    """Return a time of this machine to the second, as programs read it."""
    return time.astimezone().isoformat(timespec="seconds") if time else ""
