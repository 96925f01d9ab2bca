"""What went wrong, as a sentence, a hint and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from itertools import pairwise

from bygones.errors import (
    ArchiveMissing,
    BygonesError,
    ExitCode,
    NameUnreadable,
    NoHome,
    NothingToShow,
    QueryError,
    SystemRefused,
)

__all__ = ["report", "reported"]

_DEBUG = "BYGONES_DEBUG"
_GONE = "the directory that you are in is not there any more"
_COMMAND = "`bygones (ingest|list|projects|rebuild|verify)"
"""How a hint names a command that is about an archive."""
_NO_MEMORY = ("failed to map segment", "annot allocate memory", "start new thread")
"""What is said where memory is wanted for something, and there is none."""


def reported(error: Exception, words: Sequence[str]) -> int:
    """Say what went wrong with a command, and return its exit code.

    A closed pipe passes through; nobody is shown a traceback unasked.
    """
    if isinstance(error, BrokenPipeError):
        raise error
    known = error if isinstance(error, BygonesError) else _translated(error)
    if isinstance(error, FileNotFoundError) and _is_gone():
        return report(_GONE, "go to one that is there", ExitCode.ASKED_WRONGLY)
    if type(known) is ArchiveMissing:
        known = _missing(known, words)
    is_ours = known is error or not os.environ.get(_DEBUG)
    if known is None or not is_ours:
        return _report_unexpected(error)
    code = report(str(known), _hint(known.hint, words), known.exit_code)
    if isinstance(known, QueryError):
        pointed = known.pointed.replace("\n", "\n    ")
        sys.stderr.write(f"\n    {pointed}\n")
    return code


def _is_gone() -> bool:
    """Whether somebody has removed the directory one is in."""
    from bygones.cli.asked import here  # noqa: PLC0415 (only for an error)

    return here() is None


def _missing(error: ArchiveMissing, words: Sequence[str]) -> ArchiveMissing:
    """Return what is the case where there is no archive: maybe there is no home."""
    if _given("--home", words):
        return error
    from bygones.cli.asked import homes_of  # noqa: PLC0415 (only for an error)

    try:
        homes_of(())
    except NoHome:
        return NothingToShow(error.path)
    except BygonesError:
        pass  # whoever ingests is told
    return error


def report(sentence: str, hint: str, code: int) -> int:
    """Say a sentence and a hint, and return the exit code."""
    sys.stderr.write(f"error: {_printable(sentence)}\n\nhint: {_printable(hint)}\n")
    return code


def _hint(hint: str, words: Sequence[str]) -> str:
    """Return a hint in which commands are about what was named: archive, homes."""
    import re  # noqa: PLC0415 (only for an error)
    from shlex import quote  # noqa: PLC0415

    archives, homes = _given("--archive", words)[:1], _given("--home", words)

    def completed(found: re.Match[str]) -> str:
        told = [f"--archive {quote(one)}" for one in archives]
        if found[1] == "ingest":
            told += [f"--home {quote(one)}" for one in homes]
        return " ".join((found[0], *told))

    return re.sub(_COMMAND, completed, hint)


def _given(option: str, words: Sequence[str]) -> list[str]:
    """Return what was given with an option, as it was typed."""
    given = []
    for word, following in pairwise((*words, "")):
        name, sign, value = word.partition("=")
        if name == option:
            given.append(value if sign else following)
    return given


def _translated(error: Exception) -> BygonesError | None:
    """Return what a system's or an engine's error means to a person."""
    if isinstance(error, OSError):
        reason = error.strerror or str(error)
        name = f"{error.filename}: " if error.filename is not None else ""
        return SystemRefused(f"{name}{reason.lower()}")
    if isinstance(error, UnicodeEncodeError):
        return NameUnreadable(error.object)
    if _is_of_memory(error):
        return SystemRefused("there is not enough memory")
    if type(error).__module__ != "apsw":
        return None
    # Whoever has such an error has loaded the engine already.
    from bygones.store.connect import translated  # noqa: PLC0415

    return translated(error)


def _is_of_memory(error: Exception) -> bool:
    """Whether the system gave no memory, for values, a thread or a library."""
    return isinstance(error, MemoryError) or (
        isinstance(error, ImportError | RuntimeError)
        and any(sign in str(error) for sign in _NO_MEMORY)
    )


def _report_unexpected(error: Exception) -> int:
    if os.environ.get(_DEBUG):
        import traceback  # noqa: PLC0415 (only for whoever asks)

        traceback.print_exception(error)
    sentence = f"this should not have happened: {type(error).__name__}: {error}"
    return report(
        sentence, f"re-run with {_DEBUG}=1 for the traceback", ExitCode.FAILED
    )


def _printable(text: str) -> str:
    # A name taken from a transcript or a folder must not steer the terminal.
    return "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape").decode("ascii")
        for sign in text
    )
