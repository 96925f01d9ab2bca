"""The command line: from words to an exit code."""

from __future__ import annotations

import io
import os
import sys

from bygones import __version__

# Asking for the version must not wait for anything.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn


def entry_point() -> NoReturn:
    """Run one command as a program, and end it.

    Half of a short command's time would go into taking apart, object by object, what
    the system takes back at once; so the interpreter does not get to it.
    """
    import atexit
    import gc

    gc.disable()  # until the command is loaded: see bygones.cli.group
    code = main()
    atexit._run_exitfuncs()  # noqa: SLF001 (all that an ending has to do)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            code = code or 1
    os._exit(code)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; nothing it raises gets out.

    Without ``arguments`` those of the running program are taken. A reader that
    closes the pipe early has seen enough, which counts as done.
    """
    words = sys.argv[1:] if arguments is None else list(arguments)
    _replace_missing_streams()
    _escape_unencodable_output()
    try:
        code = _run(words)
        sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()
        return 0
    except KeyboardInterrupt as stop:
        from bygones.errors import ExitCode

        done = f": {stop}" if stop.args else ""
        sys.stderr.write(f"\ninterrupted{done}\n")
        return ExitCode.INTERRUPTED
    except OSError as error:  # commands' own end in the group; this is our output's
        from bygones.errors import SystemFailure

        _discard_output()
        refused = SystemFailure((error.strerror or str(error)).lower())
        sys.stderr.write(f"error: {refused}\n\nhint: {refused.hint}\n")
        return refused.exit_code
    return code


def _run(args: Sequence[str]) -> int:
    if list(args) == ["--version"]:
        sys.stdout.write(f"bygones {__version__}\n")
        return 0
    if list(args) == ["statusline"]:
        from bygones.cli.fastpath import print_status_line

        return print_status_line()
    if asking := os.environ.get("_BYGONES_COMPLETE"):
        from bygones.cli.group import run_completion

        return run_completion(asking)
    from bygones.cli.group import run

    return run(args)


def _replace_missing_streams() -> None:
    # A shell can start us without an output or without a place for errors.
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            nowhere = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 (open to the end)
            setattr(sys, name, nowhere)


def _escape_unencodable_output() -> None:
    # File names need not be valid text; printing one must not raise.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _discard_output() -> None:
    # The interpreter flushes once more on its way out, which would raise again.
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        sys.stdout = io.StringIO()
