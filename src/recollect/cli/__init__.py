"""The command line: from words to an exit code."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence

from recollect import __version__
from recollect.errors import ExitCode

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; nothing it raises gets out.

    Without ``arguments`` those of the running program are taken. A reader that
    closes the pipe early has seen enough, which counts as done.
    """
    words = sys.argv[1:] if arguments is None else list(arguments)
    _accept_every_name()
    try:
        code = _run(words)
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_output()
        return ExitCode.DONE
    except KeyboardInterrupt:
        sys.stderr.write("\ninterrupted\n")
        return ExitCode.INTERRUPTED
    return code


def _run(words: Sequence[str]) -> int:
    if list(words) == ["--version"]:
        sys.stdout.write(f"recollect {__version__}\n")
        return ExitCode.DONE
    # Asking for the version must not wait for click.
    from recollect.cli.group import run  # noqa: PLC0415

    return run(words or ["--help"])


def _accept_every_name() -> None:
    # File names need not be valid text; printing one must not raise.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _drop_output() -> None:
    # The interpreter flushes once more on its way out, which would raise again.
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        sys.stdout = io.StringIO()
