"""The base class of all errors, and the exit codes."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import ClassVar, Self, dataclass_transform


class ExitCode(IntEnum):
    """How a command ended; `meaning` is printed in the documentation."""

    meaning: str

    def __new__(cls, code: int, meaning: str) -> Self:
        member = int.__new__(cls, code)
        member._value_ = code
        member.meaning = meaning
        return member

    SUCCESS = 0, "The command succeeded."
    FAILURE = 1, "The command failed, or a search found nothing."
    USAGE_ERROR = 2, "A command, an option, a name or a path is wrong."
    NO_ARCHIVE = 10, "There is no archive yet."
    ARCHIVE_TOO_NEW = 11, "A newer version of Bygones wrote the archive."
    ARCHIVE_IN_USE = 12, "Another command is writing to the archive."
    ARCHIVE_DAMAGED = 13, "The archive is damaged."
    INTERRUPTED = 130, "The command was interrupted with Ctrl-C."


UNEXPECTED_ERRORS = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What a mistake in our code raises; one session with it must not stop the others."""


_MAX_DESCRIPTION = 200


def describe_error(error: Exception) -> str:
    """Return the type and text of an unexpected error.

    That of a text that cannot be encoded has the whole text, so it is cut.
    """
    text = repr(error)
    if len(text) > _MAX_DESCRIPTION:
        return f"{text[: _MAX_DESCRIPTION - 1]}…"
    return text


@dataclass_transform(eq_default=False)
class BygonesError(Exception):
    """Base class of all errors.

    Subclasses declare their fields like a dataclass, and a `message` that is formatted
    with them: `message = "{self.path} does not exist"`.
    """

    message: ClassVar[str]
    hint: ClassVar[str]
    """What the user can do about it."""
    exit_code: ClassVar[ExitCode] = ExitCode.FAILURE
    _fields: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        # Not real dataclasses: importing `dataclasses` would slow down every start.
        new = [
            name
            for name, annotation in cls.__annotations__.items()
            if name not in cls._fields and not annotation.startswith("ClassVar")
        ]
        cls._fields = (*cls._fields, *new)

    def __init__(self, *args: object, **fields: object) -> None:
        super().__init__(*args)
        vars(self).update(zip(self._fields, args, strict=False))
        vars(self).update(fields)

    def __str__(self) -> str:
        return self.message.format(self=self)

    @property
    def lines(self) -> Sequence[str]:
        """The message as lines, for a terminal."""
        return (str(self),)
