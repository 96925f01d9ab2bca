"""JSON objects for what commands report, and for usage."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date, datetime
from typing import Any

from msgspec import Raw, Struct

from bygones.model.base import RecordId, SessionId
from bygones.model.reports import (
    CallPlace,
    ContextReport,
    ContextRow,
    FailureRow,
    Grouping,
    LastVerification,
    LeftOutMessage,
    ModelRequest,
    ReportedCostRow,
    ToolRow,
    TurnRequests,
    UsageBlock,
    UsageReport,
    UsageRow,
    WarmUpTotal,
)
from bygones.schema.encoding import JsonObject, TokenCounts, to_usd


class IngestReportObject(JsonObject, frozen=True, kw_only=True, tag="ingest_report"):
    """What an import or a rebuild did; files are counted by what happened to them."""

    file_count: int
    new_count: int
    grown_count: int
    rewritten_count: int
    """Shrunk or rewritten, and stored as a new generation."""
    moved_count: int
    gone_count: int
    returned_count: int
    unchanged_count: int
    refused_count: int
    """Purged before, and not imported again."""
    problem_count: int
    stored_bytes: int
    record_count: int
    session_count: int
    """Sessions that were derived again."""


class DamageObject(JsonObject, frozen=True, kw_only=True, tag="damage"):
    """Bytes of a source that are not what was stored."""

    source: str
    generation: int
    start: int
    end: int
    reason: str
    is_gap: bool
    """Whether the bytes are missing."""
    session_id: str | None = None
    """The session that the bytes belong to, if known; from `repair`."""
    accepted_at: datetime | None = None
    """When it was accepted as lost, with `repair --accept-loss`."""


class VerificationObject(JsonObject, frozen=True, kw_only=True, tag="verification"):
    """The result of a verification, after its damages."""

    is_intact: bool
    source_count: int
    intact_source_count: int
    chunk_count: int
    verified_bytes: int
    damage_count: int
    database: str
    """What SQLite reports about the file: `ok`, or what is wrong."""
    has_index: bool
    is_index_current: bool
    is_index_compared: bool
    """Whether the index was compared with a rebuild; with `--deep`."""
    differences: tuple[str, ...]
    """Parts of the index that are damaged or differ from a rebuild."""
    recoverable_count: int
    """Damaged parts that `repair` can recover from files that still contain them."""
    accepted_count: int
    """Parts that were accepted as lost; they are not among the damages."""
    accepted_bytes: int


class RepairObject(JsonObject, frozen=True, kw_only=True, tag="repair"):
    """What a repair did, after the parts that are still damaged."""

    recovered_count: int
    recovered_bytes: int
    lost_count: int
    """Parts that are still damaged."""
    lost_bytes: int
    accepted_count: int
    """Parts that are accepted as lost, now or earlier."""
    accepted_bytes: int
    source_count: int
    is_index_rebuilt: bool
    damaged_file: str | None
    """The damaged database, if a new one was written."""


class BackupObject(JsonObject, frozen=True, kw_only=True, tag="backup"):
    """A backup that was written."""

    folder: str
    written_bytes: int


class FileObject(JsonObject, frozen=True, kw_only=True, tag="file"):
    """A file that is restored or purged, or would be."""

    path: str
    size_bytes: int
    state: str | None
    """What is at its path: `new` (nothing), `same`, `differs`, `damaged`, `taken` (a
    newer copy goes there) or `outside` (the path leads out of the home); null for
    `purge`."""


class RestoreObject(JsonObject, frozen=True, kw_only=True, tag="restore"):
    """The result of a restore, after its files."""

    written_count: int
    same_count: int
    skipped_count: int
    """Files that differ and were not overwritten."""
    written_bytes: int
    damaged_paths: tuple[str, ...]
    """Not written, because their bytes in the archive are damaged."""
    refused_paths: tuple[str, ...]
    """Not written, because the system refused it or a newer copy goes there."""
    copy_paths: tuple[str, ...]
    """Copies of the files that were overwritten."""
    is_dry_run: bool


class PurgeObject(JsonObject, frozen=True, kw_only=True, tag="purge"):
    """The result of a purge, after its files."""

    session_count: int
    file_count: int
    erased_bytes: int
    is_dry_run: bool


class ResumeObject(JsonObject, frozen=True, kw_only=True, tag="resume"):
    """How to continue a session in Claude Code."""

    session_id: SessionId
    directory: str | None
    """Where to run `claude --resume`."""
    home: str | None
    """The value that `CLAUDE_CONFIG_DIR` needs; null for the default home."""
    is_deleted: bool
    """Whether the transcript has to be restored first."""


class ForkObject(JsonObject, frozen=True, kw_only=True, tag="fork"):
    """A session that `fork` wrote."""

    session_id: SessionId
    forked_from: SessionId
    title: str
    path: str
    """The new transcript."""
    directory: str | None
    """Where to run `claude --resume`."""
    home: str | None
    """The value that `CLAUDE_CONFIG_DIR` needs; null for the default home."""
    message_count: int
    file_count: int
    """Other files that were written: agents, long outputs and backups."""


class MoveObject(JsonObject, frozen=True, kw_only=True, tag="move"):
    """What `move` moved in a home, or undid."""

    home: str
    old: str
    new: str
    session_count: int
    file_count: int
    history_count: int
    """Prompts in the history whose project was replaced."""
    is_dry_run: bool


class SyncedObject(Struct, frozen=True, kw_only=True):
    """What one side of a sync received."""

    session_ids: tuple[str, ...]
    """Sessions with something new."""
    file_count: int
    byte_count: int
    annotation_count: int
    """Sessions whose tags, notes or stars changed."""
    purged_count: int
    """Files that were purged there, and are not added again."""
    damaged_count: int
    """Files of which something is damaged or missing."""


class SyncObject(JsonObject, frozen=True, kw_only=True, tag="sync"):
    """What `sync` exchanged with another machine or a folder, or would exchange."""

    peer: str
    received: SyncedObject
    sent: SyncedObject
    unreadable_pack_count: int
    """Files of a shared folder that are damaged, or not completely copied yet."""
    is_dry_run: bool


class DoctorObject(JsonObject, frozen=True, kw_only=True, tag="doctor"):
    """The state of the installation and the archive."""

    python: str
    library_versions: dict[str, str]
    settings_path: str | None = None
    """The settings file, if there is one."""
    settings_errors: tuple[str, ...] = ()
    """Settings that are wrong, and ignored here."""
    has_archive: bool = False
    archive_bytes: int = 0
    index_bytes: int = 0
    is_private: bool = True
    """Whether only its owner can read the archive."""
    has_index: bool = False
    is_current: bool = False
    """Whether the homes have nothing new."""
    unindexed_count: int = 0
    """Sessions that could not be indexed."""
    is_purge_pending: bool = False
    """Whether a purge was interrupted, so that erased bytes may still be there."""
    last_verification: LastVerification | None = None
    session_count: int = 0
    project_count: int = 0
    file_count: int = 0
    gone_file_count: int = 0
    prompts_only_count: int = 0
    """Sessions that were deleted before they were archived, known by their prompts."""
    """Files that were deleted from the homes since."""
    versions: tuple[str, ...] = ()
    """Versions of Claude Code."""
    drift_count: int = 0
    """Types and fields that this version does not know."""
    problem_count: int = 0
    problem_session_count: int = 0


class RetentionObject(JsonObject, frozen=True, kw_only=True, tag="retention"):
    """How long Claude Code keeps the files of a home."""

    home: str
    file_count: int
    size_bytes: int
    days: int
    is_configured: bool
    """Whether `cleanupPeriodDays` is set; otherwise this is Claude Code's default."""
    settings_path: str
    """The file in which it can be set."""


class ExpiringSessionObject(
    JsonObject, frozen=True, kw_only=True, tag="expiring_session"
):
    """A session whose transcript Claude Code will delete, the next one first."""

    session_id: SessionId
    title: str
    home: str
    days_left: int
    """0 means the next start of Claude Code."""


class PushObject(JsonObject, frozen=True, kw_only=True, tag="push"):
    """What was sent to a hub, or would be."""

    is_dry_run: bool
    session_ids: tuple[SessionId, ...]
    file_count: int
    line_count: int
    redacted_bytes: int
    """After redaction, as the hub shows them."""
    sent_bytes: int
    """After compression."""
    request_count: int
    redactions: dict[str, int]
    """Redacted values by kind."""
    private_record_count: int
    """Records that are never sent."""
    foreign_line_count: int
    """Lines of sessions in projects that are not selected."""
    shared_file_count: int
    """Files that also contain such sessions."""
    long_line_count: int
    damaged_file_count: int
    failed_files: tuple[str, ...]
    """Files that could not be redacted."""
    unnameable_file_count: int
    """Files whose name cannot be sent."""
    erased_file_count: int
    """Files that were erased on the hub, and are not sent again."""
    erased_session_ids: tuple[SessionId, ...]


class ExportObject(JsonObject, frozen=True, kw_only=True, tag="export"):
    """What an export wrote and redacted."""

    path: str
    """What to open: the file of a session, the first page or the folder of several."""
    format: str
    files: tuple[str, ...]
    """The files of a single session."""
    session_count: int
    """Sessions that were written."""
    unchanged_count: int
    """Sessions that had not changed since the last export."""
    empty_count: int
    """Sessions without a message, which were skipped."""
    failed_sessions: tuple[SessionId, ...]
    """Sessions that could not be exported, or only without some of their texts."""
    unredacted_files: tuple[str, ...]
    """Files in the folder of this redacted export that may not be redacted."""
    written_bytes: int
    is_redacted: bool
    redactions: dict[str, int]
    """Redacted values by kind."""
    private_record_count: int
    """Records that were left out."""
    report_path: str | None
    """The file that lists every redaction."""


class LinkObject(JsonObject, frozen=True, kw_only=True, tag="link"):
    """Where a session is shown in a browser."""

    url: str
    """The URL with the token that opens the page."""
    session_id: SessionId
    record_id: RecordId | None
    """The record at which the page opens."""
    is_temporary: bool
    """Whether the page is served only until this command ends."""


class IntegrationObject(JsonObject, frozen=True, kw_only=True, tag="integration"):
    """A part that is added to Claude Code or removed from it."""

    description: str
    path: str
    """The file that it belongs in."""
    state: str
    """`missing`, `there`, `outdated`, or `taken` by something else, which stays."""
    is_needed: bool
    """Whether adding or removing it changes the file."""
    is_done: bool
    """Whether that was done now."""


class DemoObject(JsonObject, frozen=True, kw_only=True, tag="demo"):
    """A home with invented sessions and its archive."""

    folder: str
    home: str
    archive: str


class HelpObject(JsonObject, frozen=True, kw_only=True, tag="help"):
    """A command or another help topic."""

    topic: str
    summary: str
    page: str
    """The whole page, if one topic was requested."""


class TokenObject(JsonObject, frozen=True, kw_only=True, tag="token"):
    """A token of a hub, without its secret."""

    token_id: str
    person: str
    teams: tuple[str, ...]
    role: str
    label: str
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    revoked_at: datetime | None


class HubProjectObject(JsonObject, frozen=True, kw_only=True, tag="hub_project"):
    """A project of a hub, and who may see it."""

    project: str
    """A repository, such as `github.com/ann/shop`, or a directory."""
    session_count: int
    is_limited: bool
    """If not, the teams of each author see it."""
    teams: tuple[str, ...]
    """Teams that may see it, if it is limited."""
    people: tuple[str, ...]
    """People who may see it, besides authors and auditors."""


class AuditEventObject(JsonObject, frozen=True, kw_only=True, tag="audit_event"):
    """What an administrator or a sign-in changed on a hub."""

    occurred_at: datetime
    action: str
    person: str
    detail: str
    by: str


class ErasureObject(JsonObject, frozen=True, kw_only=True, tag="erasure"):
    """What was erased from a hub."""

    erased_at: datetime
    person: str | None
    """The selector; the sessions match all of it."""
    session_id: SessionId | None
    project: str | None
    before_at: datetime | None
    session_ids: tuple[SessionId, ...]
    file_count: int
    row_count: int
    blob_count: int
    """Objects in the raw store."""
    held_session_ids: tuple[SessionId, ...]
    """Sessions on hold, which were not erased."""


class BlockDetails(Struct, frozen=True, kw_only=True):
    """A block of five hours, as Anthropic limits subscriptions."""

    started_at: datetime
    ends_at: datetime
    is_active: bool
    tokens_per_minute: int
    cost_usd_per_hour: float | None
    projected_tokens: int | None
    """Expected tokens at its end at the current rate; null unless it is active."""
    projected_cost_usd: float | None

    @classmethod
    def from_block(cls, block: UsageBlock) -> BlockDetails:
        return cls(
            started_at=block.started_at,
            ends_at=block.ends_at,
            is_active=block.is_active,
            tokens_per_minute=block.tokens_per_minute,
            cost_usd_per_hour=to_usd(block.cost_per_hour),
            projected_tokens=block.projected_tokens,
            projected_cost_usd=to_usd(block.projected_cost),
        )


class UsageObject(JsonObject, frozen=True, kw_only=True, tag="usage"):
    """What one day, project, model or the like used."""

    key: str
    """The day (the first one of a week), directory, model, id or name; may be empty."""
    title: str
    """The title of the session, if rows are sessions."""
    reply_count: int
    tokens: TokenCounts
    web_search_count: int
    cost_usd: float | None
    unpriced_tokens: int
    """Tokens without a known price, which the cost does not include."""
    estimated_output_tokens: int
    """Output that was never counted, by the length of its text; in no other figure."""
    estimated_cost_usd: float | None
    """What that output would add to the cost."""
    models: tuple[str, ...]
    first_at: datetime | None
    last_at: datetime | None
    block: BlockDetails | None

    @classmethod
    def from_row(cls, row: UsageRow) -> UsageObject:
        return cls(
            key=row.key,
            title=row.title,
            reply_count=row.replies,
            tokens=TokenCounts(
                input=row.input_tokens,
                output=row.output_tokens,
                cache_write_5m=row.cache_write_5m_tokens,
                cache_write_1h=row.cache_write_1h_tokens,
                cache_read=row.cache_read_tokens,
            ),
            web_search_count=row.web_searches,
            cost_usd=to_usd(row.cost),
            unpriced_tokens=row.unpriced_tokens,
            estimated_output_tokens=row.estimated_output_tokens,
            estimated_cost_usd=to_usd(row.estimated_cost),
            models=row.models,
            first_at=row.first_at,
            last_at=row.last_at,
            block=BlockDetails.from_block(row.block) if row.block else None,
        )


class ToolUsageObject(JsonObject, frozen=True, kw_only=True, tag="tool_usage"):
    """What the results of a tool added to contexts."""

    tool_name: str
    result_count: int
    result_bytes: int
    estimated_tokens: int
    """Four bytes count as one token."""

    @classmethod
    def from_row(cls, row: ToolRow) -> ToolUsageObject:
        return cls(
            tool_name=row.key,
            result_count=row.calls,
            result_bytes=row.bytes,
            estimated_tokens=row.tokens,
        )


class ReportedCostDetails(Struct, frozen=True, kw_only=True):
    """Claude Code's own total compared with ours, for sessions that have one."""

    session_count: int
    reported_cost_usd: float | None
    computed_cost_usd: float | None
    """The cost that Bygones computes for the same sessions, up to the same times."""
    unrecorded_cost_usd: float | None
    """Of the difference: models that no record names."""
    unrecorded_models: tuple[str, ...]
    token_difference_usd: float | None
    """Of the difference: models with different token counts."""
    price_difference_usd: float | None
    """Of the difference: models with the same tokens at different prices."""
    unexplained_difference_usd: float | None
    """Of the difference: models that Claude Code's total does not name."""
    unpriced_tokens: int

    @classmethod
    def from_row(cls, row: ReportedCostRow) -> ReportedCostDetails:
        return cls(
            session_count=row.session_count,
            reported_cost_usd=to_usd(row.reported_cost),
            computed_cost_usd=to_usd(row.computed_cost),
            unrecorded_cost_usd=to_usd(row.unrecorded_cost),
            unrecorded_models=row.unrecorded_models,
            token_difference_usd=to_usd(row.token_difference),
            price_difference_usd=to_usd(row.price_difference),
            unexplained_difference_usd=to_usd(row.unexplained_difference),
            unpriced_tokens=row.unpriced_tokens,
        )


class WarmUpDetails(Struct, frozen=True, kw_only=True):
    """What warm-ups and replays of agents cost."""

    reply_count: int
    tokens: int
    cost_usd: float | None
    """null if no price is known."""

    @classmethod
    def from_total(cls, total: WarmUpTotal) -> WarmUpDetails:
        return cls(
            reply_count=total.replies, tokens=total.tokens, cost_usd=to_usd(total.cost)
        )


class UsageReportObject(JsonObject, frozen=True, kw_only=True, tag="usage_report"):
    """The total of a usage report, after its rows."""

    by: Grouping
    timezone: str
    """The time zone in which days start."""
    prices_date: date | None
    total: UsageObject
    unpriced_models: tuple[str, ...]
    reported_cost: ReportedCostDetails | None
    warm_ups: WarmUpDetails | None
    """Warm-ups and replays of agents, which the total does not include."""

    @classmethod
    def from_report(cls, report: UsageReport) -> UsageReportObject:
        reported, warm_ups = report.reported_cost, report.warm_ups
        return cls(
            by=report.by,
            timezone=report.timezone,
            prices_date=report.prices_date,
            total=UsageObject.from_row(report.total),
            unpriced_models=report.unpriced_models,
            reported_cost=ReportedCostDetails.from_row(reported) if reported else None,
            warm_ups=WarmUpDetails.from_total(warm_ups) if warm_ups else None,
        )


class ContextObject(JsonObject, frozen=True, kw_only=True, tag="context"):
    """The context at the end of a turn, or a compaction of it."""

    turn: int
    measured_at: datetime | None
    context_tokens: int
    """Input, cache writes and cache reads of the last reply."""
    peak_context_tokens: int
    """The largest context of all replies of the turn."""
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    input_tokens: int
    reply_count: int
    prompt: str
    """The start of the prompt."""
    compacted_from: int | None
    """Tokens before a compaction; null for a turn."""
    trigger: str | None
    """What caused a compaction."""

    @classmethod
    def from_row(cls, row: ContextRow) -> ContextObject:
        return cls(
            turn=row.turn_number + 1,
            measured_at=row.measured_at,
            context_tokens=row.tokens,
            peak_context_tokens=row.peak_tokens,
            output_tokens=row.output_tokens,
            cache_read_tokens=row.cache_read_tokens,
            cache_write_tokens=row.cache_write_tokens,
            input_tokens=row.input_tokens,
            reply_count=row.replies,
            prompt=row.prompt,
            compacted_from=row.compacted_from,
            trigger=row.trigger,
        )


class ContextReportObject(JsonObject, frozen=True, kw_only=True, tag="context_report"):
    """How the context of a session grew, after its turns."""

    session_id: SessionId
    title: str
    peak_context_tokens: int
    cache_hit_rate: float
    """The share of all input that was read from the cache, from 0 to 1."""
    compaction_count: int

    @classmethod
    def from_report(cls, report: ContextReport) -> ContextReportObject:
        return cls(
            session_id=report.session_id,
            title=report.title,
            peak_context_tokens=report.peak_tokens,
            cache_hit_rate=report.cache_hit_rate,
            compaction_count=report.compaction_count,
        )


class CallPlaceObject(Struct, frozen=True, kw_only=True):
    """Where a tool call is."""

    session_id: SessionId
    agent_id: str | None
    branch: int
    turn: int
    record_id: RecordId
    """The message that made the call; `show` accepts it."""
    called_at: datetime | None

    @classmethod
    def from_place(cls, place: CallPlace) -> CallPlaceObject:
        return cls(
            session_id=place.session_id,
            agent_id=place.agent_id,
            branch=place.branch_number + 1,
            turn=place.turn_number + 1,
            record_id=place.record_id,
            called_at=place.called_at,
        )


class FixObject(Struct, frozen=True, kw_only=True):
    """The call after a failure that succeeded."""

    place: CallPlaceObject
    label: str | None
    """The first line of the command, or the file; null if it could not be loaded."""
    step_tool: str | None
    """The tool of the last edit, command or other call before it; null if none."""
    step_label: str | None
    """The file or command of that call; null if it could not be loaded."""


class FailureObject(JsonObject, frozen=True, kw_only=True, tag="failure"):
    """Failed calls of a command or a tool in a project, with the last fix."""

    project: str | None
    tool_name: str
    command: str | None
    """Program and subcommand of a shell command, such as `npm test`."""
    failure_count: int
    fixed_count: int | None
    """Failures after which the command succeeded in the session; null for other tools."""
    session_count: int
    last_at: datetime | None
    place: CallPlaceObject
    """The last failure that was fixed, otherwise the last one."""
    label: str | None
    """The first line of its command, or its file; null if it could not be loaded."""
    error: str | None
    """The first line of its error; null if it could not be loaded."""
    fix: FixObject | None

    @classmethod
    def from_row(cls, row: FailureRow) -> FailureObject:
        fix = row.fix
        return cls(
            project=row.project,
            tool_name=row.tool_name,
            command=row.command,
            failure_count=row.failure_count,
            fixed_count=row.fixed_count,
            session_count=row.session_count,
            last_at=row.last_at,
            place=CallPlaceObject.from_place(row.place),
            label=row.label,
            error=row.error,
            fix=FixObject(
                place=CallPlaceObject.from_place(fix.place),
                label=fix.label,
                step_tool=fix.step_tool,
                step_label=fix.step_label,
            )
            if fix
            else None,
        )


class SentMessageObject(Struct, frozen=True, kw_only=True):
    """A message of a request."""

    role: str | None
    """Null if the transcript does not have the message."""
    content: tuple[dict[str, Any], ...]
    """The blocks of the message."""
    origins: tuple[str, ...]
    """Where each block is from: `transcript`, `injected` or `changed`."""
    other_fields: dict[str, Any]
    """Other fields of the message, such as `output_config`."""
    record_ids: tuple[RecordId, ...]
    is_summary: bool
    is_new: bool
    """Whether it was not in the last request of the turn before."""


class RequestObject(JsonObject, frozen=True, kw_only=True, tag="request"):
    """What the model was sent. It contains private texts, such as the system prompt."""

    session_id: SessionId
    turn: int
    number: int
    """The number of the request in its turn."""
    request_count: int
    is_derived: bool
    """Whether it was derived from the records, because the transcript has no requests."""
    request_id: str | None
    sent_at: datetime | None
    version: str | None
    query_source: str | None
    model: str | None
    effort: str | None
    params: Raw | None
    """The parameters as in the request."""
    system: tuple[str, ...]
    tools: tuple[dict[str, Any], ...]
    messages: tuple[SentMessageObject, ...]
    cache_breakpoints: tuple[str, ...]
    """Paths in the request up to which the API was asked to cache it."""
    base_id: str | None
    """The earlier request whose first messages it repeats."""
    kept_count: int
    """How many messages of that request it repeats."""
    shared_count: int
    """How many messages at its start were in the last request of the turn before."""
    dropped_count: int
    """How many messages of that request it does not contain."""
    left_out: tuple[LeftOutMessage, ...]
    """Prompts and replies on the branch that it does not contain."""

    @classmethod
    def from_request(
        cls, session_id: SessionId, turn: TurnRequests, index: int
    ) -> RequestObject:
        request: ModelRequest = turn.requests[index]
        before = turn.previous.messages if turn.previous else ()
        hashes = {message.hash for message in before}
        return cls(
            session_id=session_id,
            turn=turn.turn_number + 1,
            number=index + 1,
            request_count=len(turn.requests),
            is_derived=request.is_derived,
            request_id=request.id,
            sent_at=request.sent_at,
            version=request.version,
            query_source=request.query_source,
            model=request.model,
            effort=request.effort,
            params=request.params if bytes(request.params) else None,
            system=request.system,
            tools=tuple(tool.definition for tool in request.tools),
            messages=tuple(
                SentMessageObject(
                    role=message.role,
                    content=tuple(block.content for block in message.blocks),
                    origins=tuple(block.origin.value for block in message.blocks),
                    other_fields=message.other_fields,
                    record_ids=message.record_ids,
                    is_summary=message.is_summary,
                    is_new=message.hash not in hashes,
                )
                for message in request.messages
            ),
            cache_breakpoints=request.cache_breakpoints,
            base_id=request.base_id,
            kept_count=request.kept_count,
            shared_count=turn.count_shared(request),
            dropped_count=len(turn.dropped_messages(request)),
            left_out=turn.left_out[index],
        )


def usage_objects(
    report: UsageReport | ContextReport, rows: Iterable[UsageRow | ToolRow | ContextRow]
) -> Iterator[JsonObject]:
    """Yield some rows of a report, then its total."""
    for row in rows:
        match row:
            case UsageRow():
                yield UsageObject.from_row(row)
            case ToolRow():
                yield ToolUsageObject.from_row(row)
            case ContextRow():
                yield ContextObject.from_row(row)
    if isinstance(report, UsageReport):
        yield UsageReportObject.from_report(report)
    else:
        yield ContextReportObject.from_report(report)
