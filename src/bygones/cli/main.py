"""The entry point of the `bygones` command."""

from __future__ import annotations

import io
import os
import sys

from bygones import __version__

# `bygones --version` must import nothing else.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn


def entry_point() -> NoReturn:
    """Run a command and exit.

    The process exits without the interpreter's cleanup, which would take half of the
    time of a short command.
    """
    import atexit
    import gc

    # Whatever the user's umask is, no file or folder is writable by everyone.
    os.umask(os.umask(0o077) | 0o002)
    gc.disable()  # until the command is loaded: see bygones.cli.group
    code = main()
    atexit._run_exitfuncs()  # noqa: SLF001 (as the interpreter does)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            code = code or 1
    os._exit(code)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; it raises nothing.

    Without `arguments`, those of the process are used. A closed pipe is not an error.
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

        progress = f": {stop}" if stop.args else ""
        sys.stderr.write(f"\ninterrupted{progress}\n")
        return ExitCode.INTERRUPTED
    except (
        OSError
    ) as error:  # raised by our own output: commands' errors are handled in the group
        from bygones.errors import SystemFailure

        _discard_output()
        failure = SystemFailure((error.strerror or str(error)).lower())
        sys.stderr.write(f"error: {failure}\n\nhint: {failure.hint}\n")
        return failure.exit_code
    return code


def _run(args: Sequence[str]) -> int:
    if list(args) == ["--version"]:
        sys.stdout.write(f"bygones {__version__}\n")
        return 0
    if list(args) == ["statusline"]:
        from bygones.integrations.statusline_cache import print_status_line

        return print_status_line()
    if instruction := os.environ.get("_BYGONES_COMPLETE"):
        from bygones.cli.group import run_completion

        return run_completion(instruction)
    from bygones.cli.group import run

    return run(args)


def _replace_missing_streams() -> None:
    # A process can be started without stdout or stderr.
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            devnull = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 (open until the process ends)
            setattr(sys, name, devnull)


def _escape_unencodable_output() -> None:
    # File names need not be valid text; printing them must not raise.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _discard_output() -> None:
    # The interpreter flushes stdout again at exit, which would raise again.
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        sys.stdout = io.StringIO()
