"""The query language as tables: syntax forms, fields and times.

The parser, the matcher, the help text, the reference documentation, the hints of the
search box and the tool description for agents are all generated from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from textwrap import wrap

from msgspec import Struct
from msgspec.structs import replace

from bygones.model.base import AgentId
from bygones.model.query import (
    MAIN_AGENT,
    And,
    FieldTerm,
    FieldValue,
    Flag,
    HasValue,
    Not,
    Or,
    Part,
    Term,
)
from bygones.model.summary import Role, SessionSummary


class FieldType(StrEnum):
    """How a field's value is compared; case is ignored, except for directories."""

    TEXT = "words"
    """Searched as text: words, phrases, prefixes."""
    SUBSTRING = "part of it"
    """A part of the value; with ``*``, whole path components up to the end."""
    DIRECTORY = "part of a path, or a directory"
    """The same; an absolute path, or one that starts with ``~`` or ``.``, is that
    directory and all below it."""
    EXACT = "name"
    """The whole value; ``*`` matches anything."""
    PREFIX = "beginning"
    """The beginning of the value."""
    CHOICE = "one of a few"
    TIME = "time"


class FieldLevel(StrEnum):
    """What has to be known to decide whether a field has a value."""

    SESSION = "session"
    """The session's summary is enough."""
    KIND = "kind"
    """The kind of a text is enough: its part, and whether it is an error."""
    TEXT = "text"
    """The text has to be looked at, or the record that it is in."""


class SearchableText(Struct, frozen=True, kw_only=True):
    """One text of a session, with all that the fields of a query ask about."""

    session: SessionSummary
    """With its annotations."""
    part: Part
    role: Role | None = None
    tool_names: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    result_tools: tuple[str, ...] = ()
    """The tools that returned it."""
    result_paths: tuple[str, ...] = ()
    result_commands: tuple[str, ...] = ()
    """The paths and commands of the calls that returned it."""
    agent_id: AgentId | None = None
    """The agent run that it is part of."""
    agent_type: str | None = None
    is_abandoned: bool = False
    """Whether it is on an abandoned branch."""
    is_error: bool = False
    is_hidden: bool = False
    """Whether it is in an agent run that is not shown."""
    sent_at: datetime | None = None
    has: frozenset[HasValue] = frozenset()
    text: str = ""

    @property
    def flags(self) -> frozenset[Flag]:
        """What is true of the text, or of its session."""
        known = {
            Flag.ERROR: self.is_error,
            Flag.ABANDONED: self.is_abandoned,
            Flag.AGENT: self.agent_id is not None,
            Flag.STARRED: self.session.is_starred,
            Flag.EMPTY: self.session.is_empty,
            Flag.HIDDEN: self.is_hidden,
        }
        true_flags = (flag for flag, is_true in known.items() if is_true)
        return frozenset((*self.session.flags, *true_flags))


FieldGetter = Callable[[SearchableText], Iterable[str | None]]


class QueryField(Struct, frozen=True, kw_only=True):
    """A field: its name, what it means, an example, and how to get its values."""

    name: str
    meaning: str
    example: str
    value_type: FieldType
    values: FieldGetter
    """The values that a text has; empty for fields of times."""
    result_values: FieldGetter | None = None
    """The values of the call that a text is the result of."""
    is_unique: bool = False
    """Whether sessions rarely share a value."""
    level: FieldLevel = FieldLevel.TEXT
    value_levels: Mapping[str, FieldLevel] = {}
    """Values of another level than the field's."""
    choices: tuple[str, ...] = ()
    former_name: str = ""
    """A name of earlier versions that is still accepted."""
    mistaken_names: tuple[str, ...] = ()
    """Names that users try instead; only used to suggest this one."""
    fallback_field: str = ""
    """The field that a value which this one does not have is meant for."""

    @property
    def is_text(self) -> bool:
        """Whether it is searched as text; the other fields only filter."""
        return self.value_type is FieldType.TEXT

    def level_of(self, value: str) -> FieldLevel:
        """Return what has to be known to compare the field with a value."""
        return self.value_levels.get(value.casefold(), self.level)


class SyntaxForm(Struct, frozen=True):
    """A form of the syntax, what it means, and an example."""

    syntax: str
    meaning: str
    example: str


SYNTAX_FORMS = (
    SyntaxForm(
        "word word",
        "these words in any order; sessions with more of them come first",
        "flaky retry test",
    ),
    SyntaxForm(
        '"a phrase"', "the words next to each other", '"connection reset by peer"'
    ),
    SyntaxForm("start*", "words that start with this", "migrat*"),
    SyntaxForm("-not", "exclude a word, a field or a group", "timeout -docker"),
    SyntaxForm(
        "a OR b",
        "either or both; OR must be in upper case",
        "yarn OR pnpm lock",
    ),
    SyntaxForm("( )", "a group", "(yarn OR pnpm) -(ci lock)"),
    SyntaxForm(
        "/regex/",
        "a regular expression; case is ignored",
        r"/E(NOENT|ACCES): \w+ denied/",
    ),
    SyntaxForm(
        "field:value",
        "only messages or sessions whose field has this value",
        "tool:Bash migration",
    ),
    SyntaxForm('field:"a b"', "a value with spaces", 'project:"my notes"'),
    SyntaxForm("field:(a OR b)", "one of several values", "role:(user OR system)"),
    SyntaxForm("\\word", "this word literally, without a special meaning", "\\OR"),
)

FIELDS = (
    QueryField(
        name="project",
        meaning="part of a directory of the project; a path that starts with /, ~ or . "
        "includes everything below it",
        example="project:bygones",
        value_type=FieldType.DIRECTORY,
        values=lambda text: text.session.project_names,
        level=FieldLevel.SESSION,
        mistaken_names=("dir", "cwd", "folder", "repo"),
    ),
    QueryField(
        name="person",
        meaning="who pushed the session to a hub",
        example="person:ann",
        value_type=FieldType.EXACT,
        values=lambda text: (text.session.person,),
        level=FieldLevel.SESSION,
        mistaken_names=("owner", "colleague"),
    ),
    QueryField(
        name="tool",
        meaning="a tool that Claude called",
        example="tool:Bash",
        value_type=FieldType.EXACT,
        values=lambda text: text.tool_names,
    ),
    QueryField(
        name="result-of",
        meaning="results of this tool; with is:error or in:result, tool:, file: and "
        "cmd: also refer to results",
        example="result-of:Bash timeout",
        value_type=FieldType.EXACT,
        values=lambda text: text.result_tools,
        former_name="answers",
        mistaken_names=("result", "output"),
    ),
    QueryField(
        name="file",
        meaning="part of the path of a file in a tool call",
        example="file:src/*.py",
        value_type=FieldType.SUBSTRING,
        values=lambda text: text.paths,
        result_values=lambda text: text.result_paths,
        mistaken_names=("path", "filename"),
    ),
    QueryField(
        name="cmd",
        meaning="words of a command that was run",
        example='cmd:"git rebase"',
        value_type=FieldType.TEXT,
        values=lambda text: text.commands,
        result_values=lambda text: text.result_commands,
        mistaken_names=("command", "shell", "bash"),
    ),
    QueryField(
        name="model",
        meaning="part of the name of a model that was used",
        example="model:opus",
        value_type=FieldType.SUBSTRING,
        values=lambda text: text.session.models,
        level=FieldLevel.SESSION,
    ),
    QueryField(
        name="branch",
        meaning="which branch it is on",
        example="branch:live",
        value_type=FieldType.CHOICE,
        values=lambda text: ("abandoned" if text.is_abandoned else "live",),
        choices=("live", "abandoned"),
        fallback_field="git",
    ),
    QueryField(
        name="git",
        meaning="the git branch that was checked out",
        example="git:feature/*",
        value_type=FieldType.EXACT,
        values=lambda text: text.session.git_branches,
        level=FieldLevel.SESSION,
    ),
    QueryField(
        name="entrypoint",
        meaning="the program in which Claude Code ran: cli, sdk-py, claude-vscode",
        example="entrypoint:sdk-*",
        value_type=FieldType.EXACT,
        values=lambda text: text.session.entrypoints,
        level=FieldLevel.SESSION,
        mistaken_names=("program", "client", "app"),
    ),
    QueryField(
        name="role",
        meaning="who wrote it",
        example="role:user",
        value_type=FieldType.CHOICE,
        values=lambda text: (text.role,),
        level=FieldLevel.KIND,
        choices=tuple(Role),
        mistaken_names=("from", "by", "author"),
    ),
    QueryField(
        name="agent",
        meaning="in an agent run of this type or with this id; main: not in an agent run",
        example="agent:Explore",
        value_type=FieldType.EXACT,
        values=lambda text: (text.agent_id, text.agent_type),
        value_levels={MAIN_AGENT: FieldLevel.KIND},
        mistaken_names=("subagent",),
    ),
    QueryField(
        name="is",
        meaning="a property",
        example="is:error",
        value_type=FieldType.CHOICE,
        values=lambda text: text.flags,
        level=FieldLevel.SESSION,
        value_levels={
            Flag.ERROR: FieldLevel.KIND,
            Flag.AGENT: FieldLevel.KIND,
            # Never true in the text index.
            Flag.HIDDEN: FieldLevel.KIND,
            Flag.ABANDONED: FieldLevel.TEXT,
        },
        choices=tuple(Flag),
    ),
    QueryField(
        name="has",
        meaning="content besides text",
        example="has:edit",
        value_type=FieldType.CHOICE,
        values=lambda text: text.has,
        value_levels={HasValue.THINKING: FieldLevel.KIND},
        choices=tuple(HasValue),
    ),
    QueryField(
        name="title",
        meaning="words of the session title",
        example="title:(login OR signup)",
        value_type=FieldType.TEXT,
        values=lambda text: (text.session.title.text,),
        is_unique=True,
        level=FieldLevel.SESSION,
        mistaken_names=("name", "subject"),
    ),
    QueryField(
        name="session",
        meaning="the start of the session id",
        example="session:0f3c9a",
        value_type=FieldType.PREFIX,
        values=lambda text: (text.session.id, *text.session.contained_ids),
        is_unique=True,
        level=FieldLevel.SESSION,
        mistaken_names=("id", "uuid"),
    ),
    QueryField(
        name="tag",
        meaning="a tag of the session",
        example="tag:release",
        value_type=FieldType.EXACT,
        values=lambda text: text.session.tags,
        level=FieldLevel.SESSION,
        mistaken_names=("label",),
    ),
    QueryField(
        name="before",
        meaning="before this day or time",
        example="before:2025-12-01",
        value_type=FieldType.TIME,
        values=lambda _: (),
        mistaken_names=("until", "older"),
    ),
    QueryField(
        name="after",
        meaning="since this day or time",
        example="after:2w",
        value_type=FieldType.TIME,
        values=lambda _: (),
        mistaken_names=("since", "newer"),
    ),
    QueryField(
        name="on",
        meaning="on this day, or in this week, month, year or range",
        example="on:yesterday",
        value_type=FieldType.TIME,
        values=lambda _: (),
        mistaken_names=("date", "during", "when"),
    ),
    QueryField(
        name="in",
        meaning="the kind of text",
        example="in:prompt refactor",
        value_type=FieldType.CHOICE,
        values=lambda text: (text.part,),
        level=FieldLevel.KIND,
        choices=tuple(part for part in Part if part is not Part.TITLE),
    ),
)

TIME_FORMS = (
    SyntaxForm("2025-12-01", "a day", "on:2025-12-01"),
    SyntaxForm("2025-12", "a month", "on:2025-12"),
    SyntaxForm("2025", "a year", "before:2025"),
    SyntaxForm(
        "2025-12-01T10:30",
        "a minute, in local time or with an offset",
        "after:2025-12-01T10:30",
    ),
    SyntaxForm("3h", "this long ago: min, h, d, w, mo or y", "after:3h"),
    SyntaxForm("today", "today or yesterday", "after:today"),
    SyntaxForm("last week", "last or this week, month or year", "on:last-month"),
    SyntaxForm(
        "a..b",
        "from the start of the first to the end of the second",
        "on:2025-12-01..2025-12-05",
    ),
)

RESULT_FIELDS = {"tool": "result-of", "file": "result.file", "cmd": "result.cmd"}
"""The fields that the fields of a call become in a query about results.

Names with a dot cannot be typed: they are formatted as the fields of the call.
"""

FIELDS_BY_NAME: Mapping[str, QueryField] = {
    **{field.name: field for field in FIELDS},
    **{field.former_name: field for field in FIELDS if field.former_name},
    **{
        RESULT_FIELDS[field.name]: replace(field, values=field.result_values)
        for field in FIELDS
        if field.result_values is not None
    },
}


def iter_leaves(term: Term) -> Iterator[Term]:
    """Yield the terms of a tree that are neither And, Or nor Not."""
    if isinstance(term, Not):
        yield from iter_leaves(term.term)
    elif isinstance(term, And | Or):
        for part in term.terms:
            yield from iter_leaves(part)
    else:
        yield term


def term_level(term: Term) -> FieldLevel:
    """Return what has to be known to decide whether a term holds.

    Times are of the text: whether a session overlaps them says nothing about a text.
    """
    levels = {_leaf_level(leaf) for leaf in iter_leaves(term)}
    return levels.pop() if len(levels) == 1 else FieldLevel.TEXT


def _leaf_level(term: Term) -> FieldLevel:
    if isinstance(term, FieldValue):
        return FIELDS_BY_NAME[term.field].level_of(term.value)
    if isinstance(term, FieldTerm):
        return FIELDS_BY_NAME[term.field].level
    return FieldLevel.TEXT


_MARGIN = 2


class QueryHint(Struct, frozen=True):
    """Something that can be typed into a query, for the search box."""

    insert: str
    """The text to insert; after a colon the user types a value."""
    meaning: str
    example: str
    choices: tuple[str, ...] = ()
    """All values, for a field that has only a few."""


def list_hints() -> tuple[QueryHint, ...]:
    """Return hints for all syntax forms, then for all fields."""
    forms = [
        QueryHint(form.syntax, form.meaning, form.example) for form in SYNTAX_FORMS
    ]
    fields = [
        QueryHint(f"{field.name}:", field.meaning, field.example, field.choices)
        for field in FIELDS
    ]
    return (*forms, *fields)


def format_query_help(width: int = 80) -> str:
    """Return the reference of the query language as text."""
    forms = [(form.syntax, form.meaning, form.example) for form in SYNTAX_FORMS]
    fields = [
        (f"{field.name}:", _describe_field(field), field.example) for field in FIELDS
    ]
    times = [(form.syntax, form.meaning, form.example) for form in TIME_FORMS]
    return "\n".join(
        [
            *_format_section("What to type", forms, width),
            *_format_section("Fields", fields, width),
            *_format_section("Times, for before: after: on:", times, width),
        ]
    )


def _describe_field(field: QueryField) -> str:
    choices = f": {', '.join(field.choices)}" if field.choices else ""
    return field.meaning + choices


def _format_section(
    title: str, rows: Sequence[tuple[str, str, str]], width: int
) -> Iterator[str]:
    yield f"{title}\n"
    column = max(len(name) for name, _, _ in rows) + 2 * _MARGIN
    room = max(width - column, 20)
    for name, meaning, example in rows:
        lines = wrap(meaning, room, break_on_hyphens=False)
        first, *more = (*lines, *wrap(f"e.g. {example}", room))
        yield f"{' ' * _MARGIN}{name}".ljust(column) + first
        for line in more:
            yield " " * column + line
    yield ""
