"""Running the real command, in a pipe and on a terminal."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

__all__ = ["Terminal", "piped", "words_of"]

_TERMINAL = {"TERM": "xterm", "NO_COLOR": ""}
_COLOR = re.compile(r"\x1b\[[0-9;]*[mK]")


def words_of(*words: str | Path) -> list[str]:
    """Return what starts the command as a program of its own."""
    return [sys.executable, "-m", "bygones", *map(str, words)]


def piped(*words: str | Path, given: str = "") -> subprocess.CompletedProcess[str]:
    """Return how the command ended, and what it wrote into pipes."""
    return subprocess.run(
        words_of(*words), input=given, capture_output=True, text=True, check=False
    )


class Terminal:
    """The command on a terminal of some width."""

    def __init__(self, *words: str | Path, columns: int = 80, rows: int = 40) -> None:
        import fcntl
        import pty
        import struct
        import termios

        self._ours, theirs = pty.openpty()
        size = struct.pack("HHHH", rows, columns, 0, 0)
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, size)
        self.child = subprocess.Popen(
            words_of(*words),
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
