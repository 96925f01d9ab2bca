"""What texts of a record are: who produced them, and what of them is indexed."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from bygones.model.ids import ToolUseId
from bygones.model.query import Part

__all__ = ["Command", "IndexField", "Notification", "Origin", "Passage", "Said", "Told"]


class Origin(StrEnum):
    """Who really produced a user text; a caller is what started an agent run."""

    PERSON = "person"
    CALLER = "caller"
    TOOL = "tool"
    COMMAND = "command"
    COMMAND_OUTPUT = "command-output"
    SHELL = "shell"
    SHELL_OUTPUT = "shell-output"
    MEMORY = "memory"
    INTERRUPT = "interrupt"
    COMPACTION = "compaction"
    NOTIFICATION = "notification"
    TEAMMATE = "teammate"
    HOOK = "hook"
    HARNESS = "harness"
    WARMUP = "warm-up"


class Command(Struct, frozen=True):
    """A slash command: its name with the slash, and what was typed behind it."""

    name: str
    args: str = ""
    message: str = ""
    contents: str = ""


class Notification(Struct, frozen=True):
    """The news that a background task ended, or how it goes."""

    task: str = ""
    tool_use: ToolUseId | None = None
    status: str = ""
    summary: str = ""
    result: str = ""


class Told(Struct, frozen=True):
    """A user text with what a person typed told apart from what was put around it."""

    origin: Origin
    typed: str = ""
    """What a person typed, exactly; empty unless the origin is a person."""
    command: Command | None = None
    notification: Notification | None = None
    output: str = ""
    """What a command or the shell printed, or what was put into the shell."""


class IndexField(StrEnum):
    """The kinds of text that can be searched, each with its own weight."""

    TEXT = "text"
    THINKING = "thinking"
    TOOL = "tool"
    PATH = "path"
    COMMAND = "command"
    INPUT = "input"
    RESULT = "result"
    TITLE = "title"


class Passage(Struct, frozen=True, gc=False):
    """Some text of a record that is indexed under one field."""

    field: IndexField
    text: str
    is_cut: bool = False
    is_error: bool = False


class Said(Struct, frozen=True, gc=False):
    """What a record says in one part: a document of the text index."""

    part: Part
    text: str
    is_error: bool = False
