"""What every error has: a sentence, a hint and an exit code."""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar, Self

__all__ = ["BygonesError", "ExitCode"]


class ExitCode(IntEnum):
    """How a command ended; ``meaning`` is the sentence the documentation prints."""

    meaning: str

    def __new__(cls, code: int, meaning: str) -> Self:
        """Make a member that is its code and carries its meaning."""
        member = int.__new__(cls, code)
        member._value_ = code
        member.meaning = meaning
        return member

    DONE = 0, "The command did what was asked."
    FAILED = 1, "The command could not do what was asked."
    ASKED_WRONGLY = 2, "The command, an option or a path was given wrongly."
    NO_ARCHIVE = 10, "There is no archive yet."
    ARCHIVE_TOO_NEW = 11, "A newer version of Bygones wrote the archive."
    ARCHIVE_IN_USE = 12, "Another command is writing to the archive."
    ARCHIVE_DAMAGED = 13, "Some bytes of the archive are not what was stored."
    INTERRUPTED = 130, "The command was interrupted with Ctrl-C."


class BygonesError(Exception):
    """Any error of ours: a sentence, a hint on what to do, and an exit code."""

    exit_code: ClassVar[ExitCode] = ExitCode.FAILED
    hint: ClassVar[str]
