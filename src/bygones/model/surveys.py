"""What a survey of files says: rows of counts, fit for a table and for JSON.

Every row is written with its name under ``row``, so that a program can take the rows
it knows and leave the others.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Self

from msgspec import Struct

from bygones.model.ids import AgentId
from bygones.model.sources import SourceKind

__all__ = [
    "SCHEMA",
    "ContentKind",
    "ContentRow",
    "DriftKind",
    "DriftRow",
    "FileClass",
    "FileFacts",
    "FilesRow",
    "KeptRow",
    "ProblemRow",
    "ProblemsRow",
    "RecordsRow",
    "StartRow",
    "Survey",
    "TotalRow",
    "VersionRow",
]

SCHEMA = 1
"""Counts up when a row or a field changes its meaning or goes, not when one comes."""


class _Meaning(StrEnum):
    """A name with the sentence that the documentation prints for it."""

    meaning: str

    def __new__(cls, name: str, meaning: str) -> Self:
        """Make a member that is its name and carries its meaning."""
        member = str.__new__(cls, name)
        member._value_ = name
        member.meaning = meaning
        return member


class FileClass(_Meaning):
    """What a transcript is by what it holds, never by its size or name alone."""

    CONVERSATION = "conversation", "prompts, answers and what belongs to them"
    MIXED = "mixed", "summaries of other sessions first, then a conversation"
    SUMMARY_ONLY = "summary-only", "nothing but summaries of other sessions"
    HISTORY_ONLY = "file-history-only", "nothing but snapshots of edited files"
    METADATA_ONLY = "metadata-only", "titles, modes and the like, no conversation"
    AGENT_TASK = "agent task", "an agent run that a tool call started"
    AGENT_WARMUP = "agent warm-up", "an agent run whose prompt is the word Warmup"
    AGENT_REPLAY = "agent replay", "a copy of the conversation for the harness itself"
    AGENT_INCOMPLETE = "incomplete agent", "an agent run without a prompt"
    EMPTY = "empty", "no bytes, or only blank lines"
    UNKNOWN = "unknown", "nothing that this version can read"


class ContentKind(_Meaning):
    """What bytes of a transcript are for; every byte is of exactly one kind."""

    TEXT = "text", "words of people and of Claude"
    THINKING = "thinking", "Claude's reasoning"
    INPUT = "tool input", "what tools were called with"
    RESULT = "tool results", "what tools answered to the model"
    OUTCOME = "outcomes", "the same answers as structured values, toolUseResult"
    IMAGE = "images", "images and documents"
    ATTACHMENT = "attachments", "what the harness added to the context"
    PROGRESS = "progress", "signs of life of running tools"
    SNAPSHOT = "snapshots", "lists of files backed up at a message"
    METADATA = "metadata", "titles, modes, queue operations and the like"
    UNKNOWN = "unknown", "records of types that this version does not know"
    ENVELOPE = "envelope", "ids, times, paths, usage and the JSON around it all"
    UNREAD = "unread", "bytes in which no record was found"


class DriftKind(_Meaning):
    """What can turn up in transcripts that this version has not met."""

    RECORD = "record", "a type of record"
    SUBTYPE = "system", "a subtype of system record"
    ATTACHMENT = "attachment", "a type of attachment"
    PROGRESS = "progress", "a type of progress"
    BLOCK = "block", "a type of content block"
    FIELD = "field", "a field of a record of a known type"


class FileFacts(Struct, frozen=True, kw_only=True):
    """What the class of a file depends on; the numbers count records."""

    summaries: int = 0
    snapshots: int = 0
    metadata: int = 0
    """Known records outside the tree that are neither summaries nor snapshots."""
    nodes: int = 0
    """Records of the tree, messages among them."""
    messages: int = 0
    sidechains: int = 0
    """Messages that belong to an agent run."""
    unknown: int = 0
    oddities: int = 0
    """Problems other than blank lines."""
    begins_with_summary: bool = False
    """Whether a summary stands before the first record of the tree."""
    first_prompt: str | None = None
    """The first text that entered from outside, or at least its beginning."""
    agent: AgentId | None = None
    """As the records say, or else the name of the file."""
    is_agent_by_name: bool = False


class _Row(Struct, frozen=True, kw_only=True, tag_field="row"):
    """One object of the output."""


class StartRow(_Row, frozen=True, kw_only=True, tag="inspect"):
    """What the rows that follow are."""

    schema: int = SCHEMA
    bygones: str
    places: tuple[str, ...]
    """The files and folders that were asked for."""


class FilesRow(_Row, frozen=True, kw_only=True, tag="files", rename={"kind": "class"}):
    """Transcripts of one class."""

    kind: FileClass
    files: int
    bytes: int


class KeptRow(_Row, frozen=True, kw_only=True, tag="kept"):
    """Files of one kind that lie beside transcripts and were not read."""

    kind: SourceKind
    files: int
    bytes: int


class RecordsRow(_Row, frozen=True, kw_only=True, tag="records"):
    """Records of one type; ``subtype`` tells systems, attachments, progress apart."""

    type: str
    subtype: str | None = None
    is_known: bool
    records: int
    bytes: int


class VersionRow(_Row, frozen=True, kw_only=True, tag="version"):
    """Records that one version of Claude Code wrote."""

    version: str
    records: int


class ContentRow(_Row, frozen=True, kw_only=True, tag="content"):
    """Bytes of one kind."""

    kind: ContentKind
    bytes: int


class DriftRow(_Row, frozen=True, kw_only=True, tag="drift"):
    """Something that this version of Bygones has not met, by who wrote it."""

    kind: DriftKind
    name: str
    version: str | None
    records: int

    @classmethod
    def of(cls, kind: str, name: str, version: str, records: int) -> Self:
        """Return what the index counts under a kind, a name and a version."""
        told = next(one for one in DriftKind if one == kind)
        return cls(kind=told, name=name, version=version or None, records=records)


class ProblemRow(_Row, frozen=True, kw_only=True, tag="problem"):
    """One problem and where it is; without a line it is about the whole file."""

    kind: str
    source: str
    line: int | None
    """Counted from one."""
    offset: int
    length: int
    detail: str = ""


class ProblemsRow(_Row, frozen=True, kw_only=True, tag="problems"):
    """Problems of one kind, and the first few of them."""

    kind: str
    meaning: str
    problems: int
    first: tuple[ProblemRow, ...]


class TotalRow(_Row, frozen=True, kw_only=True, tag="total"):
    """The sums; ``bytes`` is the sum of all content rows and of all files rows."""

    files: int
    bytes: int
    lines: int
    unread_lines: int
    """Lines that gave no record, only problems."""
    records: int
    problems: int
    sessions: int
    agents: int
    first: datetime | None
    last: datetime | None
    overflow: int
    """Records left out of some count because it had too many different names."""


class Survey(Struct, frozen=True, kw_only=True):
    """What some files hold, in counts."""

    files: tuple[FilesRow, ...]
    kept: tuple[KeptRow, ...]
    records: tuple[RecordsRow, ...]
    versions: tuple[VersionRow, ...]
    content: tuple[ContentRow, ...]
    drift: tuple[DriftRow, ...]
    problems: tuple[ProblemsRow, ...]
    total: TotalRow
