"""Ids, positions, source files, problems, progress, and the base of structs in transcripts."""

from __future__ import annotations

import os
import re
from datetime import datetime
from enum import StrEnum
from importlib import import_module
from reprlib import Repr
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NewType, Protocol, cast

from msgspec import Meta, MsgspecError, Raw, Struct, structs

from bygones.errors import InvalidSelector, SessionsNotIndexed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bygones.model.sessions import Message, Session, ToolCall

AgentId = NewType("AgentId", str)
"""Also part of the agent's file name."""

MessageId = NewType("MessageId", str)
"""The id of a reply in the API; all records of the reply share it."""

ProjectKey = NewType("ProjectKey", str)
"""The name of a folder in `projects`; cannot be decoded to a path."""

RecordId = NewType("RecordId", str)
"""The `uuid` of a record."""

SessionId = NewType("SessionId", str)

SourceId = NewType("SourceId", str)
"""The path of a source, with forward slashes."""

ToolUseId = NewType("ToolUseId", str)
"""Links a tool use to its result."""


class Position(Struct, frozen=True, order=True, gc=False, array_like=True):
    """A range of bytes in a source, usually a line.

    `generation` increases when the source was truncated or rewritten; offsets can be
    compared within one generation only.
    """

    source_id: SourceId
    generation: int
    offset: int
    length: int


class Line(Struct, frozen=True, gc=False):
    """The bytes between two newlines of a source, without the newline."""

    position: Position
    raw: bytes
    """With the newline if the line is very long and `split_block` returned it."""
    has_newline: bool = True
    """Only the last line of a source may lack it."""
    repeats: int = 1
    """How many identical lines this one is the first of, if a reader merges them."""


def require_valid_text(text: str) -> str:
    """Return a name from the command line, or raise if it is not valid Unicode.

    Python represents invalid bytes as lone surrogates, which databases reject.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidSelector(text) from None
    return text


DECODE_ERRORS = (MsgspecError, UnicodeDecodeError, RecursionError)
"""The exceptions that decoding JSON with msgspec can raise."""

UUID_PATTERN = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")

TOOL_USE_TYPES = ("tool_use", "server_tool_use", "mcp_tool_use")
"""Types of blocks that are tool calls."""
ID_LENGTH = Meta(max_length=1_000)
"""A longer id or name is shortened: the index has it in many places."""
PATH_LENGTH = Meta(max_length=32_767)
"""The longest path that any system allows."""
AwareDatetime = Annotated[datetime, Meta(tz=True)]
"""A datetime with a time zone."""
_IRREGULAR_NAMES = {
    "session_id_again": "session_id",
    "source_tool_assistant": "sourceToolAssistantUUID",
    "source_tool_use": "sourceToolUseID",
    "tool_use_ref": "toolUseID",
    "parent_tool_use": "parentToolUseID",
    "cost_usd": "costUSD",
    "total_cost_usd": "totalCostUSD",
    "total_api_duration": "totalAPIDuration",
    "total_api_duration_without_retries": "totalAPIDurationWithoutRetries",
    "compaction": "compactMetadata",
    "microcompaction": "microcompactMetadata",
    "hooks": "hookInfos",
    "progress": "data",
    "sender": "from",
    "version_number": "v",
    "cleared_attachments": "clearedAttachmentUUIDs",
}


def wire_name(field: str) -> str:
    """Return the name of a struct's field in transcripts."""
    if field in _IRREGULAR_NAMES:
        return _IRREGULAR_NAMES[field]
    first, *rest = field.split("_")
    return first + "".join(word.capitalize() for word in rest)


_shorten_value = Repr()
_shorten_value.maxstring = _shorten_value.maxother = 60
_MAX_REPR = 240


class ShortStruct(Struct, frozen=True):
    """Base class of values with long texts or many parts, which `repr` shortens."""

    def __repr__(self) -> str:
        return _short_repr(self)


def _short_repr(value: Struct) -> str:
    fields = ((name, getattr(value, name)) for name in value.__struct_fields__)
    shown = ", ".join(f"{name}={_show(one)}" for name, one in fields if one)
    end = "…" if len(shown) > _MAX_REPR else ""
    return f"{type(value).__name__}({shown[:_MAX_REPR]}{end})"


def _show(value: object) -> str:
    return _shorten_value.repr(bytes(value) if isinstance(value, Raw) else value)


class WireStruct(ShortStruct, frozen=True, kw_only=True, rename=wire_name):
    """Base class of values in transcripts; every field may be missing."""

    is_private: ClassVar[bool] = False
    """Whether it is never indexed, shown or exported."""
    unused_fields: ClassVar[tuple[str, ...]] = ()
    """Names in transcripts of fields that are known but not decoded."""


class ForkedFrom(WireStruct, frozen=True, kw_only=True):
    """The record of another session that a record was copied from."""

    session_id: Annotated[SessionId, ID_LENGTH] | None = None
    message_uuid: Annotated[RecordId, ID_LENGTH] | None = None


class SourceKind(StrEnum):
    """The kind of a source file, by its path in the home."""

    SESSION = "session"
    AGENT = "agent"
    JOURNAL = "journal"
    SIDECAR = "sidecar"
    TOOL_RESULT = "tool-result"
    WORKFLOW = "workflow"
    FILE_HISTORY = "file-history"
    CHECKPOINT = "checkpoint"
    """Written by our hooks: contents of files that shell commands changed."""
    TODO = "todo"
    TASK = "task"
    PLAN = "plan"
    HISTORY = "history"

    @property
    def is_transcript(self) -> bool:
        """Whether the lines of the file are records of a conversation."""
        return self in {SourceKind.SESSION, SourceKind.AGENT}


class SourceFile(Struct, frozen=True, kw_only=True):
    """One file of a home, as a walk saw it."""

    id: SourceId
    home: str
    """The folder that was walked."""
    relative_path: str
    """Relative to `home`, with forward slashes."""
    kind: SourceKind
    size: int
    mtime_ns: int
    inode: int = 0
    ctime_ns: int = 0
    """Changes with every write, even if `mtime_ns` is set back."""
    project_key: ProjectKey | None = None
    session_id: SessionId | None = None
    """From the name of the file or its folder."""
    agent_id: AgentId | None = None


class ProblemKind(Struct, frozen=True):
    """A kind of problem, with an explanation."""

    name: str
    meaning: str


PROBLEM_KINDS = {
    kind.name: kind
    for kind in (
        ProblemKind("vanished", "the file disappeared before it was opened"),
        ProblemKind("unreadable", "the file or folder could not be opened or read"),
        ProblemKind("shrunk", "the file is shorter than it was before"),
        ProblemKind("not-a-file", "a folder or device is named like a transcript"),
        ProblemKind("link-out", "a link points outside the home and was not followed"),
        ProblemKind("blank", "the line is empty"),
        ProblemKind("cut-line", "the last line is incomplete"),
        ProblemKind("not-json", "all or part of the line is not valid JSON"),
        ProblemKind("spliced", "one line contains several or incomplete records"),
        ProblemKind("nul-run", "the line consists of zero bytes"),
        ProblemKind("bom", "a byte order mark before the first record"),
        ProblemKind("repaired", "invalid characters or numbers were replaced"),
        ProblemKind("too-deep", "values are nested too deeply to decode"),
        ProblemKind("too-many", "the line has too many values to decode"),
        ProblemKind("too-many-records", "the file has too many short records"),
        ProblemKind("not-an-object", "the line is JSON but not an object"),
        ProblemKind("no-type", "the record has no type"),
        ProblemKind(
            "odd-field",
            "a field has an unexpected type or a path is too long and was ignored,"
            " or an id is too long and was shortened",
        ),
        ProblemKind("long-text", "only the start of a very long text was indexed"),
        ProblemKind("self-parent", "a record names itself as its parent"),
        ProblemKind("cycle", "records are each other's parents"),
        ProblemKind("ghost", "the parent of a record is missing"),
        ProblemKind("clash", "two records share an id and differ in content"),
        ProblemKind("double-result", "a tool call has more than one result"),
        ProblemKind("lost-result", "a tool result has no matching tool call"),
        ProblemKind("damaged", "bytes in the archive are damaged"),
        ProblemKind("lost", "bytes are lost, and the loss was accepted"),
        ProblemKind("mixed-sessions", "a file contains records of several sessions"),
    )
}
"""All kinds of problems by name."""


class Problem(Struct, frozen=True):
    """Something odd in a source; it is stored with the records and shown.

    The same problem on several lines is one object: `position` starts with the first
    line and ends with the last one.
    """

    kind: str
    position: Position
    detail: str = ""
    count: int = 1
    """How often it was found between start and end."""

    def __post_init__(self) -> None:
        if self.kind not in PROBLEM_KINDS:
            raise ValueError(self.kind)


_PRIVATE_USE_BASE = 0xEF00
"""Byte `0xNN` (never below 0x80) is written as the character `U+EFNN`."""

_NEEDS_ESCAPE = "[\udc80-\udcff\uef80-\uefff]"
_ESCAPED = "[\uef80-\uefff]"


def encode_path(path: str | os.PathLike[str]) -> str:
    """Return a path as text with forward slashes.

    Bytes that are not valid UTF-8 become characters of the private use area.
    """
    native = os.fspath(path)
    if os.sep != "/":
        native = native.replace(os.sep, "/")
    if native.isascii():
        return native
    text = os.fsencode(native).decode("utf-8", "surrogateescape")
    return re.sub(_NEEDS_ESCAPE, lambda match: _escape(match[0]), text)


def decode_path(text: str) -> str:
    """Return the native path for a text from `encode_path`."""
    if text.isascii():
        return text
    escaped = re.sub(
        _ESCAPED, lambda match: chr(ord(match[0]) - _PRIVATE_USE_BASE + 0xDC00), text
    )
    try:
        return os.fsdecode(escaped.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:
        return text  # not made by encode_path, so it names no file


def _escape(character: str) -> str:
    raw = character.encode("utf-8", "surrogateescape")
    return "".join(chr(_PRIVATE_USE_BASE + byte) for byte in raw)


class ProgressReporter(Protocol):
    """Receives the progress of an operation, stage by stage."""

    def begin(self, stage: str, total: int) -> None:
        """Start a stage; `total` is in bytes, or in sessions or rows."""

    def advance(self, amount: int) -> None:
        """Add to what is done of the current stage."""

    def end(self) -> None:
        """End the current stage."""


class NullProgress:
    """A `ProgressReporter` that ignores everything."""

    def begin(self, stage: str, total: int) -> None:
        pass

    def advance(self, amount: int) -> None:
        pass

    def end(self) -> None:
        pass


class IngestReport(Struct, kw_only=True):
    """How many sources an ingestion found new, changed or gone, and its problems."""

    files: int = 0
    new: int = 0
    grown: int = 0
    rewritten: int = 0
    """Shrunk or rewritten: stored as a new generation."""
    moved: int = 0
    gone: int = 0
    returned: int = 0
    unchanged: int = 0
    refused: int = 0
    """Purged earlier, therefore not imported again."""
    bytes: int = 0
    records: int = 0
    derived_sessions: int = 0
    updated_sessions: list[SessionId] = []
    """The derived sessions that have changed."""
    session_count: int = 0
    """Sessions in the archive, without empty ones."""
    empty_count: int = 0
    """Sessions without a message."""
    problems: list[Problem] = []
    failure: SessionsNotIndexed | None = None
    """Which sessions could not be indexed; all others are."""

    def __repr__(self) -> str:
        return _short_repr(self)

    @property
    def changed(self) -> int:
        """Sources with new content or a new place."""
        return self.new + self.grown + self.rewritten + self.moved

    def merge_interrupted(self, interrupted: IngestReport) -> IngestReport:
        """Return the report of this run and of an interrupted run before it.

        What the interrupted run had committed is unchanged to this one.
        """
        names = (
            "new",
            "grown",
            "rewritten",
            "moved",
            "gone",
            "returned",
            "bytes",
            "records",
        )
        counts = {
            name: max(getattr(self, name), getattr(interrupted, name)) for name in names
        }
        changed = sum(counts[name] for name in ("new", "grown", "rewritten", "moved"))
        unchanged = self.unchanged - (changed - self.changed)
        return structs.replace(self, **counts, unchanged=unchanged)


_MAX_SHOWN = 40


class ValueLibrary(Protocol):
    """The functions of `bygones.library` that values call."""

    def message_text(self, message: Message) -> str: ...

    def call_input(self, call: ToolCall) -> dict[str, Any]: ...

    def call_output(self, call: ToolCall) -> str | None: ...

    def session_cost_usd(self, session: Session) -> float | None: ...

    def to_dict(self, value: object) -> dict[str, Any]: ...

    def to_dicts(self, value: object) -> list[dict[str, Any]]: ...

    def to_html(self, value: object) -> str: ...

    def html_table(
        self, columns: Sequence[str], rows: Iterable[Sequence[object]]
    ) -> str: ...


def value_library() -> ValueLibrary:
    """Return `bygones.library`, which is imported when a value first needs it."""
    return cast("ValueLibrary", import_module("bygones.library"))


def shorten(text: str | None) -> str:
    """Return the start of a text on one line, for the representation of a value."""
    line = " ".join((text or "")[: _MAX_SHOWN * 4].split())
    return line if len(line) <= _MAX_SHOWN else f"{line[: _MAX_SHOWN - 1]}…"
