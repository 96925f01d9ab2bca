"""What was spent, summed: the rows of a report on usage.

Money is in billionths of a dollar, a whole number; the sums behind it are exact.
"""

from __future__ import annotations

from datetime import date, datetime
from enum import StrEnum
from typing import Self

from msgspec import Struct

from bygones.model.base import AgentId, Problem, SessionId, SourceKind

NANOS_PER_DOLLAR = 10**9
"""Of the unit of money in a dollar."""


class Grouping(StrEnum):
    """By what usage is summed."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    BLOCK = "block"
    PROJECT = "project"
    SESSION = "session"
    MODEL = "model"
    AGENT = "agent"
    BRANCH = "branch"
    ENTRYPOINT = "entrypoint"
    TOOL = "tool"


class UsageBlock(Struct, frozen=True, kw_only=True):
    """Five hours from the first answer on, as Anthropic limits subscriptions."""

    started_at: datetime
    ends_at: datetime
    is_active: bool = False
    """It is not over, and there was an answer in it."""
    tokens_per_minute: int = 0
    """From its first answer to its last, or to now; over a quarter hour at least."""
    cost_per_hour: int = 0
    projected_tokens: int | None = None
    """At its end, if it goes on so; only while it is active."""
    projected_cost: int | None = None


class UsageRow(Struct, frozen=True, kw_only=True):
    """What was spent in one day, in one project, with one model or the like."""

    key: str
    """The day (of a week, the first), directory, model, id or name; ``""``: none."""
    title: str = ""
    """Of a session."""
    answers: int
    tokens: int
    """All of them, whatever they cost."""
    input_tokens: int
    output_tokens: int
    cache_write_5m_tokens: int
    cache_write_1h_tokens: int
    cache_read_tokens: int
    web_searches: int = 0
    cost: int | None = None
    """Billionths of a dollar, of what has a price; nothing where nothing has one."""
    unpriced_tokens: int = 0
    """Tokens of models or terms whose price is not known."""
    estimated_output_tokens: int = 0
    """Output that was never counted, by the length of the text; in no other figure."""
    estimated_cost: int = 0
    """What that would add to the cost."""
    models: tuple[str, ...] = ()
    first_at: datetime | None = None
    last_at: datetime | None = None
    block: UsageBlock | None = None

    @property
    def cache_hit_rate(self) -> float:
        """The share of all contexts that was read from the cache."""
        context = self.tokens - self.output_tokens
        return self.cache_read_tokens / context if context else 0.0


class ToolRow(Struct, frozen=True, kw_only=True):
    """What the results of a tool put into contexts."""

    key: str
    calls: int
    bytes: int
    tokens: int
    """By their length: four bytes are about one token."""


class ReportedCostRow(Struct, frozen=True, kw_only=True):
    """Claude Code's own total beside ours, for the sessions that have one."""

    session_count: int
    reported_cost: int
    """Billionths of a dollar, as Claude Code says."""
    computed_cost: int
    """What we count in these sessions up to the same moments."""
    unrecorded_cost: int = 0
    """Of the difference: models that only Claude Code names; no record has them."""
    unrecorded_models: tuple[str, ...] = ()
    token_difference: int = 0
    """Of the difference: models of which the two count other tokens."""
    price_difference: int = 0
    """Of the difference: models with the same tokens at other prices."""
    unexplained_difference: int = 0
    """What no model explains: our answers of models that the total does not name."""
    unpriced_tokens: int = 0


class UsageReport(Struct, frozen=True, kw_only=True):
    """The answer to a question about usage; printed last, without its rows."""

    by: Grouping
    timezone: str
    """In which days begin."""
    prices_date: date | None
    """The day of the table of prices."""
    rows: tuple[UsageRow | ToolRow, ...] = ()
    total: UsageRow
    unpriced_models: tuple[str, ...] = ()
    """Models, and terms, that have no price."""
    reported_cost: ReportedCostRow | None = None


class ContextRow(Struct, frozen=True, kw_only=True):
    """What was in context when a turn ended, or what a compaction made of it."""

    turn_number: int
    measured_at: datetime | None = None
    tokens: int
    """In context: input, cache writes and cache reads of the last answer."""
    peak_tokens: int = 0
    """The most of all its answers."""
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    input_tokens: int = 0
    answers: int = 0
    prompt: str = ""
    """Its beginning."""
    compacted_from: int | None = None
    """Tokens before a compaction: this row is one."""
    trigger: str | None = None


class ContextReport(Struct, frozen=True, kw_only=True):
    """How a session's context grew along its live branch; printed without its rows."""

    session_id: SessionId
    title: str
    rows: tuple[ContextRow, ...] = ()
    peak_tokens: int
    cache_hit_rate: float
    """The share of all contexts that was read from the cache."""
    compaction_count: int


class _DescribedEnum(StrEnum):
    """A name with the sentence that the documentation prints for it."""

    meaning: str

    def __new__(cls, name: str, meaning: str) -> Self:
        """Make a member that is its name and carries its meaning."""
        member = str.__new__(cls, name)
        member._value_ = name
        member.meaning = meaning
        return member


class FileClass(_DescribedEnum):
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


class ContentKind(_DescribedEnum):
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


class DriftKind(_DescribedEnum):
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
    problems: int = 0
    """Problems other than blank lines."""
    begins_with_summary: bool = False
    """Whether a summary stands before the first record of the tree."""
    first_prompt: str | None = None
    """The first text that entered from outside, or at least its beginning."""
    agent_id: AgentId | None = None
    """As the records say, or else the name of the file."""
    is_named_like_agent: bool = False


class _SurveyRow(Struct, frozen=True, kw_only=True, tag_field="type"):
    """A part of a survey, encoded as JSON unchanged."""


class FileClassRow(_SurveyRow, frozen=True, kw_only=True, tag="file_class"):
    """Transcripts of one class."""

    kind: FileClass
    files: int
    bytes: int


class UnreadFilesRow(_SurveyRow, frozen=True, kw_only=True, tag="unread_files"):
    """Files of one kind that lie beside transcripts and were not read."""

    kind: SourceKind
    files: int
    bytes: int


class RecordTypeRow(_SurveyRow, frozen=True, kw_only=True, tag="record_type"):
    """Records of one type; ``subtype`` tells systems, attachments, progress apart."""

    record_type: str
    subtype: str | None = None
    is_known: bool
    records: int
    bytes: int


class VersionRow(_SurveyRow, frozen=True, kw_only=True, tag="version"):
    """Records that one version of Claude Code wrote."""

    version: str
    records: int


class ContentRow(_SurveyRow, frozen=True, kw_only=True, tag="content_kind"):
    """Bytes of one kind."""

    kind: ContentKind
    bytes: int


class DriftRow(_SurveyRow, frozen=True, kw_only=True, tag="drift"):
    """Something that this version of Bygones has not met, by who wrote it."""

    kind: DriftKind
    name: str
    version: str | None
    records: int

    @classmethod
    def from_counts(cls, kind: str, name: str, version: str, records: int) -> Self:
        """Return what the index counts under a kind, a name and a version."""
        told = next(one for one in DriftKind if one == kind)
        return cls(kind=told, name=name, version=version or None, records=records)


class ProblemRow(_SurveyRow, frozen=True, kw_only=True, tag="problem"):
    """One problem and where it is; without a line it is about the whole file."""

    kind: str
    source: str
    line: int | None = None
    """Counted from 1; null where it is not known, or if the whole file is meant."""
    offset: int
    length: int
    detail: str = ""

    @classmethod
    def from_problem(cls, problem: Problem) -> Self:
        position = problem.position
        return cls(
            kind=problem.kind,
            source=position.source_id,
            offset=position.offset,
            length=position.length,
            detail=problem.detail,
        )


class ProblemKindRow(_SurveyRow, frozen=True, kw_only=True, tag="problem_kind"):
    """Problems of one kind, and the first few of them."""

    kind: str
    meaning: str
    problems: int
    examples: tuple[ProblemRow, ...]


class SurveyTotalRow(_SurveyRow, frozen=True, kw_only=True, tag="survey"):
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
    first_at: datetime | None
    last_at: datetime | None
    overflow: int
    """Records left out of some count because it had too many different names."""


SurveyObject = (
    FileClassRow
    | UnreadFilesRow
    | RecordTypeRow
    | VersionRow
    | ContentRow
    | DriftRow
    | ProblemRow
    | ProblemKindRow
    | SurveyTotalRow
)


class Survey(Struct, frozen=True, kw_only=True):
    """What some files hold, in counts."""

    files: tuple[FileClassRow, ...]
    unread_files: tuple[UnreadFilesRow, ...]
    records: tuple[RecordTypeRow, ...]
    versions: tuple[VersionRow, ...]
    content: tuple[ContentRow, ...]
    drift: tuple[DriftRow, ...]
    problems: tuple[ProblemKindRow, ...]
    total: SurveyTotalRow


class LastVerification(Struct, frozen=True, kw_only=True):
    """When an archive was last verified, and what that found."""

    verified_at: datetime
    is_sound: bool
    is_deep: bool = False
    """Whether the index was compared with a rebuild as well."""
    source_count: int = 0
    verified_bytes: int = 0
    """That were read and compared with their hashes."""
    damage_count: int = 0
    unverified_bytes: int = 0
    """Bytes that came since, and that nobody has verified."""
