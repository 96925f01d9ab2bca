"""Reports: usage, the growth of a context, requests, the survey of transcripts, verification.

Costs are integers in billionths of a dollar, so sums are exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime
from enum import StrEnum
from typing import Any, Self

from msgspec import Raw, Struct

from bygones.model.base import (
    AgentId,
    Problem,
    RecordId,
    SessionId,
    ShortStruct,
    SourceKind,
    value_library,
)

NANOS_PER_DOLLAR = 10**9


class Grouping(StrEnum):
    """The key that usage is grouped by."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    BLOCK = "block"
    PROJECT = "project"
    SESSION = "session"
    MODEL = "model"
    AGENT = "agent"
    BRANCH = "branch"
    GIT = "git"
    """The git branches of the session."""
    ENTRYPOINT = "entrypoint"
    PERSON = "person"
    TOOL = "tool"


class UsageBlock(Struct, frozen=True, kw_only=True):
    """Five hours from the first reply, as in the limits of subscriptions."""

    started_at: datetime
    ends_at: datetime
    is_active: bool = False
    """Whether it has not ended yet."""
    tokens_per_minute: int = 0
    """From the first reply to the last one or now, at least over 15 minutes."""
    cost_per_hour: int = 0
    projected_tokens: int | None = None
    """At the end of the block at the current rate; only while it is active."""
    projected_cost: int | None = None


class UsageRow(Struct, frozen=True, kw_only=True):
    """The usage of one day, project, model or other group."""

    key: str
    """The day (for weeks the first), directory, model, id or name; may be empty."""
    title: str = ""
    """Of a session."""
    replies: int
    tokens: int
    """All tokens."""
    input_tokens: int
    output_tokens: int
    cache_write_5m_tokens: int
    cache_write_1h_tokens: int
    cache_read_tokens: int
    web_searches: int = 0
    cost: int | None = None
    """Billionths of a dollar, of what has a price; `None` if nothing has."""
    unpriced_tokens: int = 0
    """Tokens without a known price."""
    estimated_output_tokens: int = 0
    """Output that was not counted, estimated from the text; not part of `tokens`."""
    estimated_cost: int = 0
    """The cost of the estimated output; not part of `cost`."""
    models: tuple[str, ...] = ()
    first_at: datetime | None = None
    last_at: datetime | None = None
    block: UsageBlock | None = None

    @property
    def cache_hit_rate(self) -> float:
        """The share of input tokens that was read from the cache."""
        context = self.tokens - self.output_tokens
        return self.cache_read_tokens / context if context else 0.0


class ToolRow(Struct, frozen=True, kw_only=True):
    """What the results of a tool added to contexts."""

    key: str
    calls: int
    bytes: int
    tokens: int
    """Estimated: four bytes per token."""


class ReportedCostRow(Struct, frozen=True, kw_only=True):
    """The reported and the computed cost of sessions with a reported cost."""

    session_count: int
    reported_cost: int
    """Billionths of a dollar, reported by Claude Code."""
    computed_cost: int
    """The cost of these sessions up to the same times."""
    unrecorded_cost: int = 0
    """Part of the difference: models without any record."""
    unrecorded_models: tuple[str, ...] = ()
    token_difference: int = 0
    """Part of the difference: models with different token counts."""
    price_difference: int = 0
    """Part of the difference: models with the same tokens at different prices."""
    unexplained_difference: int = 0
    """Rest of the difference: models that are not in the reported cost."""
    unpriced_tokens: int = 0


class WarmUpTotal(Struct, frozen=True, kw_only=True):
    """Tokens and cost of the warm-ups and replays of agents, which are not shown."""

    replies: int
    tokens: int
    cost: int | None
    """In billionths of a dollar; `None` if no price is known."""


class UsageReport(Struct, frozen=True, kw_only=True):
    """A usage report."""

    by: Grouping
    timezone: str
    """The time zone of days."""
    prices_date: date | None
    """The date of the price table."""
    rows: tuple[UsageRow | ToolRow, ...] = ()
    total: UsageRow
    unpriced_models: tuple[str, ...] = ()
    """Models and terms without a price."""
    reported_cost: ReportedCostRow | None = None
    warm_ups: WarmUpTotal | None = None
    """What warm-ups and replays of agents cost; not part of the total."""

    def __iter__(self) -> Iterator[UsageRow | ToolRow]:
        """Iterate over the rows."""
        return iter(self.rows)

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.rows)

    def __bool__(self) -> bool:
        """Return `True`: a report without rows is a report."""
        return True

    def __repr__(self) -> str:
        return f"<UsageReport by {self.by}: {len(self.rows)} rows>"

    def to_dict(self) -> dict[str, Any]:
        """Return its total in JSON schema 2."""
        return value_library().to_dict(self)

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return its rows in JSON schema 2."""
        return value_library().to_dicts(self)

    def _repr_html_(self) -> str:
        return value_library().to_html(self)


class UsageCell(Struct, frozen=True, gc=False):
    """The usage of one group on one day."""

    day: str
    """As ISO date; empty if the time is unknown."""
    group: str
    tokens: int
    cost: int | None = None
    """Billionths of a dollar; `None` for tools, whose results have no price alone."""


class UsageSeries(ShortStruct, frozen=True, kw_only=True):
    """Usage by day, divided into groups, and by hour of the week."""

    by: Grouping
    """What days are divided by."""
    cells: tuple[UsageCell, ...] = ()
    """By day, then by group."""
    hours: tuple[tuple[int, ...], ...] = ()
    """Replies by weekday, Monday first, and hour of the day."""


class ContextRow(Struct, frozen=True, kw_only=True):
    """The context at the end of a turn, or after a compaction."""

    turn_number: int
    measured_at: datetime | None = None
    tokens: int
    """Input, cache writes and cache reads of the last reply."""
    peak_tokens: int = 0
    """Maximum of all replies of the turn."""
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    input_tokens: int = 0
    replies: int = 0
    prompt: str = ""
    """The beginning of the prompt."""
    compacted_from: int | None = None
    """Tokens before the compaction, if the row is one."""
    trigger: str | None = None


class ContextReport(ShortStruct, frozen=True, kw_only=True):
    """How the context grew along the live branch of a session."""

    session_id: SessionId
    title: str
    rows: tuple[ContextRow, ...] = ()
    peak_tokens: int
    cache_hit_rate: float
    """The share of input tokens that was read from the cache."""
    compaction_count: int


class BlockOrigin(StrEnum):
    """Where a block of a request comes from."""

    TRANSCRIPT = "transcript"
    CHANGED = "changed"
    """A tool result that differs from the one in the transcript."""
    INJECTED = "injected"
    """Added by Claude Code, for example CLAUDE.md or a reminder."""


class SentBlock(Struct, frozen=True, kw_only=True):
    """A block of a message that the model was sent."""

    kind: str
    text: str
    content: dict[str, Any]
    """The block as in the request."""
    origin: BlockOrigin
    is_cache_breakpoint: bool = False
    is_summary: bool = False
    """Whether it is the summary of a compaction."""


class SentMessage(Struct, frozen=True, kw_only=True):
    """A message of a request; without a role if the transcript does not have it."""

    hash: str
    role: str | None = None
    blocks: tuple[SentBlock, ...] = ()
    record_ids: tuple[RecordId, ...] = ()
    """The records that it was made of."""
    other_fields: dict[str, Any] = {}
    """Fields of the message in the request, such as the effort from here on."""

    @property
    def is_summary(self) -> bool:
        """Whether it contains the summary of a compaction."""
        return any(block.is_summary for block in self.blocks)


class SentTool(Struct, frozen=True, kw_only=True):
    """A tool that a request offered to the model."""

    name: str
    description: str
    definition: dict[str, Any]


class ModelRequest(Struct, frozen=True, kw_only=True):
    """A request to the model: recorded, or derived from the tree."""

    id: str | None = None
    sent_at: datetime | None = None
    version: str | None = None
    query_source: str | None = None
    model: str | None = None
    effort: str | None = None
    max_tokens: int | None = None
    params: Raw = Raw()
    """The other parameters as JSON."""
    system: tuple[str, ...] = ()
    tools: tuple[SentTool, ...] = ()
    has_shape: bool = False
    """Whether the system prompt and the tools are known."""
    messages: tuple[SentMessage, ...] = ()
    cache_breakpoints: tuple[str, ...] = ()
    base_id: str | None = None
    """The earlier request whose first messages it repeats."""
    kept_count: int = 0
    """How many messages it repeats."""
    after_id: RecordId | None = None
    """The last record before it."""
    answer_ids: tuple[RecordId, ...] = ()
    is_derived: bool = False
    """Whether it was derived from the tree, because the transcript has no requests."""


class LeftOutMessage(Struct, frozen=True, kw_only=True):
    """A prompt or a reply on the branch that a request does not contain."""

    record_id: RecordId
    role: str
    preview: str
    reason: str


class TurnRequests(ShortStruct, frozen=True, kw_only=True):
    """The requests of a turn, and the last one of the turn before."""

    turn_number: int
    turn_count: int
    prompt: str
    requests: tuple[ModelRequest, ...]
    previous: ModelRequest | None = None
    left_out: tuple[tuple[LeftOutMessage, ...], ...] = ()
    """What each request leaves out."""

    def count_shared(self, request: ModelRequest) -> int:
        """Return how many messages at its start a request shares with the previous."""
        count = 0
        before = self.previous.messages if self.previous else ()
        for old, new in zip(before, request.messages, strict=False):
            if old.hash != new.hash:
                break
            count += 1
        return count

    def dropped_messages(self, request: ModelRequest) -> tuple[SentMessage, ...]:
        """Return the messages of the previous request that this one does not contain."""
        hashes = {message.hash for message in request.messages}
        before = self.previous.messages if self.previous else ()
        return tuple(message for message in before if message.hash not in hashes)


class _DescribedEnum(StrEnum):
    """A string enum whose members have an explanation."""

    meaning: str

    def __new__(cls, name: str, meaning: str) -> Self:
        member = str.__new__(cls, name)
        member._value_ = name
        member.meaning = meaning
        return member


class FileClass(_DescribedEnum):
    """The class of a transcript, by its content."""

    CONVERSATION = "conversation", "prompts, replies and what belongs to them"
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
    """The purpose of bytes in a transcript; every byte has exactly one kind."""

    TEXT = "text", "words of people and of Claude"
    THINKING = "thinking", "Claude's reasoning"
    INPUT = "tool input", "what tools were called with"
    RESULT = "tool results", "what tools answered to the model"
    OUTCOME = "outcomes", "the same results as structured values, toolUseResult"
    IMAGE = "images", "images and documents"
    ATTACHMENT = "attachments", "what the harness added to the context"
    PROGRESS = "progress", "progress of running tools"
    SNAPSHOT = "snapshots", "lists of files backed up at a message"
    METADATA = "metadata", "titles, modes, queue operations and the like"
    UNKNOWN = "unknown", "records of types that this version does not know"
    ENVELOPE = "envelope", "ids, times, paths, usage and the JSON around it all"
    UNREAD = "unread", "bytes in which no record was found"


class DriftKind(_DescribedEnum):
    """Kinds of names in transcripts that this version may not know."""

    RECORD = "record", "a type of record"
    SUBTYPE = "system", "a subtype of system record"
    ATTACHMENT = "attachment", "a type of attachment"
    PROGRESS = "progress", "a type of progress"
    BLOCK = "block", "a type of content block"
    FIELD = "field", "a field of a record of a known type"
    VERSION = "version", "a version of Claude Code newer than the known ones"


class FileFacts(Struct, frozen=True, kw_only=True):
    """The facts that determine the class of a file; numbers count records."""

    summaries: int = 0
    snapshots: int = 0
    metadata: int = 0
    """Known records outside the tree that are neither summaries nor snapshots."""
    nodes: int = 0
    """Records of the tree, including messages."""
    messages: int = 0
    sidechains: int = 0
    """Messages that belong to an agent run."""
    unknown: int = 0
    problems: int = 0
    """Problems other than blank lines."""
    begins_with_summary: bool = False
    """Whether there is a summary before the first record of the tree."""
    first_prompt: str | None = None
    """The beginning of the first user text."""
    agent_id: AgentId | None = None
    """From the records if possible, otherwise from the file name."""
    is_named_like_agent: bool = False


class _SurveyRow(Struct, frozen=True, kw_only=True, tag_field="type"):
    """Base class of the rows of a survey."""


class FileClassRow(_SurveyRow, frozen=True, kw_only=True, tag="file_class"):
    """Transcripts of one class."""

    kind: FileClass
    files: int
    bytes: int


class UnreadFilesRow(_SurveyRow, frozen=True, kw_only=True, tag="unread_files"):
    """Files of one kind that are not transcripts and were not read."""

    kind: SourceKind
    files: int
    bytes: int


class RecordTypeRow(_SurveyRow, frozen=True, kw_only=True, tag="record_type"):
    """Records of one type and subtype."""

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
    """A name that this version of Bygones does not know."""

    kind: DriftKind
    name: str
    version: str | None
    records: int

    @classmethod
    def from_counts(cls, kind: str, name: str, version: str, records: int) -> Self:
        """Return the row for a count in the index."""
        drift_kind = next(member for member in DriftKind if member == kind)
        return cls(kind=drift_kind, name=name, version=version or None, records=records)


class ProblemRow(_SurveyRow, frozen=True, kw_only=True, tag="problem"):
    """One problem, or several of a kind; without a line it concerns the whole file."""

    kind: str
    source: str
    count: int = 1
    """How often it was found, from `offset` to `offset` + `length`."""
    line: int | None = None
    """The first line, counted from 1; `None` if it is unknown."""
    offset: int
    length: int
    detail: str = ""

    @classmethod
    def from_problem(cls, problem: Problem) -> Self:
        position = problem.position
        return cls(
            kind=problem.kind,
            source=position.source_id,
            count=problem.count,
            offset=position.offset,
            length=position.length,
            detail=problem.detail,
        )


class ProblemKindRow(_SurveyRow, frozen=True, kw_only=True, tag="problem_kind"):
    """Problems of one kind, with a few examples."""

    kind: str
    meaning: str
    problems: int
    examples: tuple[ProblemRow, ...]


class SurveyTotalRow(_SurveyRow, frozen=True, kw_only=True, tag="survey"):
    """The totals; `bytes` equals the sum of the content rows and of the file rows."""

    files: int
    bytes: int
    lines: int
    unread_lines: int
    """Lines without a record."""
    records: int
    problems: int
    sessions: int
    agents: int
    first_at: datetime | None
    last_at: datetime | None
    overflow: int
    """Records that were not counted because there were too many different names."""


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
    """The content of transcripts, in counts."""

    files: tuple[FileClassRow, ...]
    unread_files: tuple[UnreadFilesRow, ...]
    records: tuple[RecordTypeRow, ...]
    versions: tuple[VersionRow, ...]
    content: tuple[ContentRow, ...]
    drift: tuple[DriftRow, ...]
    problems: tuple[ProblemKindRow, ...]
    total: SurveyTotalRow


class LastVerification(Struct, frozen=True, kw_only=True):
    """The last verification of an archive."""

    verified_at: datetime
    is_intact: bool
    is_deep: bool = False
    """Whether the index was compared with a rebuilt one."""
    source_count: int = 0
    verified_bytes: int = 0
    """Bytes whose hashes were checked."""
    damage_count: int = 0
    accepted_bytes: int = 0
    """Damaged bytes that the user accepted as lost."""
    unverified_bytes: int = 0
    """Bytes that were added since."""


class CallPlace(Struct, frozen=True, kw_only=True):
    """Where a tool call is."""

    session_id: SessionId
    agent_id: str | None
    branch_number: int
    turn_number: int
    record_id: RecordId
    """The message that made the call."""
    called_at: datetime | None


class FailureFix(Struct, frozen=True, kw_only=True):
    """The first call after a failure that succeeded with the same command or tool."""

    place: CallPlace
    label: str | None
    """The command or the file; `None` if it could not be loaded."""
    step_tool: str | None
    """The tool of the last edit, command or other call before it."""
    step_label: str | None


class FailureRow(Struct, frozen=True, kw_only=True):
    """Failed calls of a command or a tool in a project.

    The error is that of the last failure that was fixed, otherwise of the last one.
    """

    project: str | None
    tool_name: str
    command: str | None
    """Program and subcommand of a shell command, such as `npm test`."""
    failure_count: int
    fixed_count: int | None
    """Failures after which the command succeeded in the session; none for other tools."""
    session_count: int
    last_at: datetime | None
    place: CallPlace
    label: str | None
    """The whole command, or the file; `None` if it could not be loaded."""
    error: str | None
    """The first line of the error; `None` if it could not be loaded."""
    fix: FailureFix | None

    def __repr__(self) -> str:
        name = self.command or self.tool_name
        return (
            f"<FailureRow {name!r} {self.failure_count} failures in {self.project!r}>"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return it in JSON schema 2."""
        return value_library().to_dict(self)
