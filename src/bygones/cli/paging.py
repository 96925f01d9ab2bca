"""Long output through a pager, where somebody reads it on a terminal."""

from __future__ import annotations

import os
import sys
from itertools import chain, islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

__all__ = ["page_out", "pager_words"]

_NO_PAGER = {"", "cat"}
_OF_SHELLS = frozenset("|&;<>()$`\\\"'*?[#~=%\n")
_SMALLEST = 4
_USUAL = 22


def page_out(lines: Iterable[str], *, on_terminal: bool) -> None:
    """Write lines; those that do not fit on the terminal's screen through a pager.

    A reader who has seen enough and leaves the pager ends the command.
    """
    words = pager_words(os.environ, _set_pager()) if on_terminal else []
    waiting = iter(lines)
    if not words:
        _write(waiting)
        return
    first = list(islice(waiting, _height()))
    following = next(waiting, None)
    if following is None:
        _write(iter(first))
        return
    _through(words, chain(first, (following,), waiting))


def _set_pager() -> str | None:
    from pathlib import Path  # noqa: PLC0415 (only for a terminal)

    from bygones.settings import read_settings  # noqa: PLC0415 (only for a terminal)

    return read_settings(os.environ, Path.home()).pager


def pager_words(environ: Mapping[str, str], told: str | None = None) -> list[str]:
    """Return the pager's words: as set, else ``less``; none where there is none."""
    import shlex  # noqa: PLC0415 (only for a terminal)
    import shutil  # noqa: PLC0415 (only for a terminal)

    wanted = told if told is not None else environ.get("PAGER")
    if wanted is not None:
        if wanted.strip() in _NO_PAGER:
            return []
        # What is more than a program and its options is for a shell, as git has it.
        is_plain = not any(sign in _OF_SHELLS for sign in wanted)
        return shlex.split(wanted) if is_plain else ["sh", "-c", wanted]
    found = shutil.which("less")
    return [found] if found and environ.get("TERM") != "dumb" else []


def _height() -> int:
    try:
        lines = os.get_terminal_size(sys.stdout.fileno()).lines
    except (OSError, ValueError):
        lines = 0
    return lines - 2 if lines > _SMALLEST else _USUAL


def _write(lines: Iterator[str]) -> None:
    for line in lines:
        sys.stdout.write(f"{line}\n")


def _through(words: list[str], lines: Iterator[str]) -> None:
    import subprocess  # noqa: PLC0415 (only for a terminal)

    # Colours as they are, nothing where it fits after all, the screen left as it was.
    surroundings = {"LESS": "FRX", "LV": "-c", **os.environ}
    try:
        pager = subprocess.Popen(  # noqa: S603 (the user's own choice)
            words,
            stdin=subprocess.PIPE,
            env=surroundings,
            encoding="utf-8",
            errors="backslashreplace",
        )
    except OSError:
        _write(lines)
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
