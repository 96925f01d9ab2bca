"""Running the real command, in a pipe and on a terminal."""

from __future__ import annotations

import os
import re
import select
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

__all__ = ["Screen", "Terminal", "command_line", "run_piped"]

_TERMINAL = {"TERM": "xterm", "NO_COLOR": ""}
_COLOR = re.compile(r"\x1b\[[0-9;]*[mK]")


def command_line(*words: str | Path) -> list[str]:
    """Return what starts the command as a program of its own."""
    return [sys.executable, "-m", "bygones", *map(str, words)]


def run_piped(*words: str | Path, given: str = "") -> subprocess.CompletedProcess[str]:
    """Return how the command ended, and what it wrote into pipes."""
    return subprocess.run(
        command_line(*words), input=given, capture_output=True, text=True, check=False
    )


class Terminal:
    """The command on a terminal of some width."""

    def __init__(
        self,
        *words: str | Path,
        columns: int = 80,
        rows: int = 40,
        program: Sequence[str] = (),
    ) -> None:
        import fcntl
        import pty
        import struct
        import termios

        self._ours, theirs = pty.openpty()
        size = struct.pack("HHHH", rows, columns, 0, 0)
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, size)
        self.child = subprocess.Popen(
            [*program, *map(str, words)] if program else command_line(*words),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={"BYGONES_PAGER": "cat", **os.environ, **_TERMINAL},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 (no threads here)
        )
        os.close(theirs)
        self.raw = b""

    @property
    def shown(self) -> str:
        """All that was written so far, without colors."""
        text = self.raw.decode("utf-8", "replace").replace("\r\n", "\n")
        return _COLOR.sub("", text)

    def type(self, text: str) -> None:
        """Type something; ``\\x03`` is Ctrl-C."""
        os.write(self._ours, text.encode())

    def read_until(self, met: Callable[[str], bool], *, seconds: float = 60) -> str:
        """Return what is shown once a condition is met."""
        until = time.monotonic() + seconds
        while not met(self.shown):
            assert time.monotonic() < until, self.shown
            if not self._read():
                break
        return self.shown

    def end(self) -> int:
        """Read to the end and return the exit code."""
        while self._read():
            pass
        os.close(self._ours)
        return self.child.wait(60)

    def _read(self) -> bool:
        try:
            piece = os.read(self._ours, 65536)
        except OSError:  # how Linux says that the other end is closed
            return False
        self.raw += piece
        return bool(piece)


class Screen(Terminal):
    """The command on a terminal whose screen can be looked at."""

    def __init__(
        self,
        *words: str | Path,
        columns: int = 80,
        rows: int = 24,
        program: Sequence[str] = (),
    ) -> None:
        import pyte

        self.screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self.screen)
        self._fed = 0
        super().__init__(*words, columns=columns, rows=rows, program=program)

    @property
    def lines(self) -> list[str]:
        """What is on the screen, without spaces at the ends of lines."""
        self._stream.feed(self.raw[self._fed :])
        self._fed = len(self.raw)
        return [line.rstrip() for line in self.screen.display]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def wait_for(self, *texts: str, gone: str = "\0", seconds: float = 25) -> str:
        """Return the screen once it has all texts, and the other one is gone."""
        until = time.monotonic() + seconds
        while not all(one in self.text for one in texts) or gone in self.text:
            assert time.monotonic() < until, f"no {texts} on:\n{self.text}"
            if select.select([self._ours], [], [], 0.2)[0] and not self._read():
                break
        assert all(one in self.text for one in texts), self.text
        return self.text

    def styles_of(self, text: str) -> set[tuple[str, str, bool]]:
        """Return colors, and whether it is reversed, of the characters of a text."""
        for number, line in enumerate(self.lines):
            at = line.find(text)
            if at >= 0:
                cells = [self.screen.buffer[number][at + n] for n in range(len(text))]
                return {(cell.fg, cell.bg, cell.reverse) for cell in cells}
        raise AssertionError(f"no {text!r} on:\n{self.text}")

    def click(self, text: str) -> None:
        """Click on the first place on the screen that has a text."""
        row = next(n for n, line in enumerate(self.lines) if text in line)
        column = self.lines[row].index(text) + 1
        self.type(f"\x1b[<0;{column};{row + 1}M\x1b[<0;{column};{row + 1}m")

    def resize(self, columns: int, rows: int) -> None:
        import fcntl
        import struct
        import termios

        self.screen.resize(rows, columns)
        size = struct.pack("HHHH", rows, columns, 0, 0)
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, size)
