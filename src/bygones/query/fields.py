"""The one table of the query language: its forms, its fields and its times.

The parser, the help text, the page in the documentation, the hints of the search
box and the description for agents are all made from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from bygones.model.parts import Role
from bygones.model.query import Flag, Has, Part

__all__ = ["BY_NAME", "FIELDS", "FORMS", "TIMES", "Field", "Form", "Value"]


class Value(StrEnum):
    """How a field's value is compared; upper and lower case never differ."""

    TEXT = "words"
    """Searched as text: words, phrases, beginnings of words."""
    PART = "part of it"
    """A piece of the whole; with ``*``, whole parts of a path up to its end."""
    NAME = "name"
    """The whole of it; with ``*``, what fits."""
    START = "beginning"
    """The beginning of it."""
    CHOICE = "one of a few"
    TIME = "time"


class Field(Struct, frozen=True, kw_only=True):
    """A name before the colon, what it means, and a query that shows it."""

    name: str
    meaning: str
    example: str
    value: Value
    choices: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    """Names that people try instead; only used to suggest this one."""
    other: str = ""
    """The field that is meant by a value which this one does not have."""

    @property
    def is_text(self) -> bool:
        """Whether it is searched as text; the others let through or keep out."""
        return self.value is Value.TEXT


class Form(Struct, frozen=True):
    """A way to write something, what it means, and an example."""

    form: str
    meaning: str
    example: str


FORMS = (
    Form(
        "word word",
        "the words, in any order; not all need to be there, more of them is better",
        "flaky retry test",
    ),
    Form('"a phrase"', "the words next to each other", '"connection reset by peer"'),
    Form("begin*", "words that begin so", "migrat*"),
    Form("-not", "without this; also before a field or a group", "timeout -docker"),
    Form(
        "a OR b",
        "one of the two beside it, or both; in upper case",
        "yarn OR pnpm lock",
    ),
    Form("( )", "a group", "(yarn OR pnpm) -(ci lock)"),
    Form(
        "/regex/", "a regular expression, case ignored", r"/E(NOENT|ACCES): \w+ denied/"
    ),
    Form("field:value", "only where the field has the value", "tool:Bash migration"),
    Form('field:"a b"', "a value with spaces", 'project:"my notes"'),
    Form("field:(a OR b)", "one of several values", "role:(user OR system)"),
    Form("\\word", "the word itself, where it would mean something else", "\\OR"),
)

FIELDS = (
    Field(
        name="project",
        meaning="part of the directory that was worked in",
        example="project:bygones",
        value=Value.PART,
        also=("dir", "cwd", "folder", "repo"),
    ),
    Field(
        name="tool",
        meaning="the name of a tool that Claude called",
        example="tool:Bash",
        value=Value.NAME,
    ),
    Field(
        name="answers",
        meaning="what a tool of this name gave back; beside is:error or in:result, "
        "tool: means this, and file: and cmd: mean those of the call",
        example="answers:Bash timeout",
        value=Value.NAME,
        also=("result", "output"),
    ),
    Field(
        name="file",
        meaning="part of the path of a file that a call names",
        example="file:src/*.py",
        value=Value.PART,
        also=("path", "filename"),
    ),
    Field(
        name="cmd",
        meaning="words of a command that was run",
        example='cmd:"git rebase"',
        value=Value.TEXT,
        also=("command", "shell", "bash"),
    ),
    Field(
        name="model",
        meaning="part of the name of a model that answered",
        example="model:opus",
        value=Value.PART,
    ),
    Field(
        name="branch",
        meaning="on the branch that counts, or on one that was left",
        example="branch:live",
        value=Value.CHOICE,
        choices=("live", "rewound"),
        other="git",
    ),
    Field(
        name="git",
        meaning="the git branch that was checked out",
        example="git:feature/*",
        value=Value.NAME,
    ),
    Field(
        name="entrypoint",
        meaning="the program in which Claude Code ran: cli, sdk-py, claude-vscode",
        example="entrypoint:sdk-*",
        value=Value.NAME,
        also=("program", "client", "app"),
    ),
    Field(
        name="role",
        meaning="whose side said it",
        example="role:user",
        value=Value.CHOICE,
        choices=tuple(Role),
        also=("from", "by", "author"),
    ),
    Field(
        name="agent",
        meaning="said in an agent run of this type or id; main: in none",
        example="agent:Explore",
        value=Value.NAME,
        also=("subagent",),
    ),
    Field(
        name="is",
        meaning="what is true of it",
        example="is:error",
        value=Value.CHOICE,
        choices=tuple(Flag),
    ),
    Field(
        name="has",
        meaning="what it holds besides text",
        example="has:edit",
        value=Value.CHOICE,
        choices=tuple(Has),
    ),
    Field(
        name="title",
        meaning="words of the session's title",
        example="title:(login OR signup)",
        value=Value.TEXT,
        also=("name", "subject"),
    ),
    Field(
        name="session",
        meaning="the beginning of the session's id",
        example="session:0f3c9a",
        value=Value.START,
        also=("id", "uuid"),
    ),
    Field(
        name="tag",
        meaning="a tag of the session",
        example="tag:release",
        value=Value.NAME,
        also=("label",),
    ),
    Field(
        name="before",
        meaning="said before this begins",
        example="before:2025-12-01",
        value=Value.TIME,
        also=("until", "older"),
    ),
    Field(
        name="after",
        meaning="said since this began",
        example="after:2w",
        value=Value.TIME,
        also=("since", "newer"),
    ),
    Field(
        name="on",
        meaning="said on this day, or in this week, month, year or range",
        example="on:yesterday",
        value=Value.TIME,
        also=("date", "during", "when"),
    ),
    Field(
        name="in",
        meaning="the words stand in this kind of text",
        example="in:prompt refactor",
        value=Value.CHOICE,
        choices=tuple(part for part in Part if part is not Part.TITLE),
    ),
)

TIMES = (
    Form("2025-12-01", "a day", "on:2025-12-01"),
    Form("2025-12", "a month", "on:2025-12"),
    Form("2025", "a year", "before:2025"),
    Form(
        "2025-12-01T10:30", "a minute, here or with an offset", "after:2025-12-01T10:30"
    ),
    Form("3h", "so long ago: min, h, d, w, mo, y", "after:3h"),
    Form("today", "also yesterday", "after:today"),
    Form("last week", "also this; also month, year", "on:last-month"),
    Form(
        "a..b", "from the first to the end of the second", "on:2025-12-01..2025-12-05"
    ),
)

OF_ANSWERS = {"tool": "answers", "file": "answers.file", "cmd": "answers.cmd"}
"""What fields of a call are called beside what only the answer to one can be.

Names with a point cannot be typed: they are written as the fields of the call.
"""

BY_NAME: Mapping[str, Field] = {
    **{field.name: field for field in FIELDS},
    **{
        OF_ANSWERS[field.name]: field
        for field in FIELDS
        if "." in OF_ANSWERS.get(field.name, "")
    },
}
