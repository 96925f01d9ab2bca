"""Reading stretches in a process of its own: asked through a pipe, told through one.

Ends when the pipe does, whatever became of who asked.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from struct import Struct
from subprocess import DEVNULL, PIPE, Popen
from typing import IO

import msgspec

from recollect.ingest.gist import Gist, Stretch, gist_of
from recollect.ingest.pace import uncollected

__all__ = ["Reader", "spare_cores"]

_LENGTH = Struct("<Q")
_encode = msgspec.msgpack.Encoder().encode
_gist = msgspec.msgpack.Decoder(Gist).decode
_stretch = msgspec.msgpack.Decoder(Stretch).decode
_PIPE = 1 << 20
"""Bytes in a pipe, where the system lets us choose: a stretch fits in."""
_AWAY = (OSError, EOFError, ValueError, msgspec.MsgspecError)
"""What is raised if the other process is not there, or could not read a stretch."""


def spare_cores() -> int:
    """Return how many processes can work beside this one."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) - 1
    return (os.cpu_count() or 1) - 1


class Reader:
    """Another process that reads; where it cannot, this one does."""

    def __init__(self) -> None:
        self._child: Popen[bytes] | None = None
        self._is_away = not sys.executable

    def read(self, stretch: Stretch) -> Gist:
        """Return the gist of a stretch."""
        if not self._is_away:
            try:
                return self._ask(stretch)
            except _AWAY:
                self._is_away = True
        return gist_of(stretch)

    def _ask(self, stretch: Stretch) -> Gist:
        if self._child is None:
            self._child = _start()
        asked, told = self._child.stdin, self._child.stdout
        if asked is None or told is None:
            raise EOFError
        _send(asked, _encode(stretch))
        return _gist(_receive(told))

    def close(self) -> None:
        """Let the other process end."""
        if self._child is None:
            return
        for pipe in (self._child.stdin, self._child.stdout):
            with suppress(OSError):
                if pipe is not None:
                    pipe.close()
        self._child.wait()
        self._child = None


def _start() -> Popen[bytes]:
    # Not in the terminal's group: who interrupts us, interrupts us alone. And nothing
    # is imported from the folder that we are called in: it is anybody's.
    return Popen(  # noqa: S603 (ourselves)
        [sys.executable, "-P", "-m", __name__],
        stdin=PIPE,
        stdout=PIPE,
        stderr=DEVNULL,
        start_new_session=True,
        pipesize=_PIPE,
    )


def _send(pipe: IO[bytes], raw: bytes) -> None:
    pipe.write(_LENGTH.pack(len(raw)))
    pipe.write(raw)
    pipe.flush()


def _receive(pipe: IO[bytes]) -> bytes:
    head = pipe.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    raw = pipe.read(*_LENGTH.unpack(head))
    if not raw:
        raise EOFError
    return raw


def _work(asked: IO[bytes], told: IO[bytes]) -> None:
    with uncollected():
        while True:
            _send(told, _encode(gist_of(_stretch(_receive(asked)))))


if __name__ == "__main__":
    try:
        _work(sys.stdin.buffer, sys.stdout.buffer)
    except (*_AWAY, KeyboardInterrupt):
        # Nobody asks any more; or who asks will read this stretch without us.
        os._exit(0)
