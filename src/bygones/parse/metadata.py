"""Facts and texts of records that are not messages: metadata, system, attachments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import msgspec
from msgspec import Raw, Struct

from bygones.model.base import DECODE_ERRORS, AgentId, ToolUseId, WireStruct
from bygones.model.metadata import (
    METADATA_BY_TYPE,
    VISIBLE_ATTACHMENT_TYPES,
    AgentNameRecord,
    Attachment,
    AttachmentRecord,
    ContinuedInRecord,
    CostStateRecord,
    FileDeltaRecord,
    FileSnapshotRecord,
    ForkContextRecord,
    HarnessStateRecord,
    HookReport,
    JournalRecord,
    LastPromptRecord,
    MetadataRecord,
    PrLinkRecord,
    QueuedCommand,
    QueueOperationRecord,
    RelocatedRecord,
    StructuredOutput,
    SummaryRecord,
    TagRecord,
    TaskSummaryRecord,
    TitleRecord,
    WorktreeStateRecord,
)
from bygones.model.nodes import (
    PREVIEW_LIMIT,
    AgentSidecar,
    CompactionFacts,
    DirectoryFacts,
    DurationFacts,
    IndexField,
    JournalFacts,
    LineageFacts,
    LocatedRecord,
    NodeExtra,
    NodeFacts,
    Origin,
    QueueFacts,
    RemoteFacts,
    ReportedCostFacts,
    RetractionFacts,
    TextSpan,
    TitleFacts,
    display_text,
    parse_user_text,
    typed_text,
    user_text_facts,
)
from bygones.model.projects import name_pull_request
from bygones.model.records import CompactionMetadata, SystemRecord
from bygones.parse.decode import content_text, known_names, replace_invalid_utf8
from bygones.parse.full import parse_record
from bygones.parse.usage import parse_reported_cost


def attachment_text(attachment: Attachment) -> str:
    """Return the text of an attachment, empty if it has none to show."""
    match attachment:
        case QueuedCommand():
            return content_text(attachment.prompt)
        case HookReport():
            parts = (
                _raw_text(attachment.blocking_error),
                _raw_text(attachment.content),
                attachment.stderr,
                attachment.stdout,
            )
            return "\n".join(part for part in parts if part)
        case StructuredOutput():
            return _raw_text(attachment.content) or _raw_text(attachment.output)
        case _:
            return ""


class _BlockingError(Struct, frozen=True, gc=False, rename="camel"):
    blocking_error: str


def _raw_text(raw: Raw) -> str:
    """Return a string unchanged, and any other value as JSON."""
    content = replace_invalid_utf8(bytes(raw))
    try:
        value = _decode_text_or_error(content)
    except DECODE_ERRORS:
        return content.decode("utf-8", "replace")
    return value if isinstance(value, str) else value.blocking_error


_decode_text_or_error = msgspec.json.Decoder(_BlockingError | str).decode

_MAX_DURATION_MS = 1e12
_MAX_COUNT = 1 << 53
"""Larger numbers are not counts."""
_TYPES_WITHOUT_FACTS = frozenset(
    (
        *FileSnapshotRecord.types,
        *FileDeltaRecord.types,
        *HarnessStateRecord.types,
        *(name for name, kind in METADATA_BY_TYPE.items() if kind.is_private),
    )
)
"""Types that add nothing to a node; snapshots and requests are many and large."""


def extract_metadata_facts(located_record: LocatedRecord) -> NodeFacts:
    """Return the facts of a record that is not a message."""
    if located_record.record.type in _TYPES_WITHOUT_FACTS:
        return NodeFacts()
    record = parse_record(located_record.raw, located_record.position)[-1]
    if isinstance(record, SystemRecord):
        return _system_facts(record)
    if isinstance(record, AttachmentRecord):
        return _attachment_facts(record)
    if isinstance(record, QueueOperationRecord):
        facts = _queued_text_facts(content_text(record.content))
        facts.extra = QueueFacts(record.operation or "")
        return facts
    extra = _extra_facts(record)
    title = extra.text if isinstance(extra, TitleFacts) else ""
    return NodeFacts(extra=extra, preview=title[:PREVIEW_LIMIT])


def _extra_facts(record: object) -> NodeExtra | None:
    if isinstance(record, MetadataRecord):
        return _title_facts(record) or _lineage_facts(record) or _session_facts(record)
    return None


def _title_facts(record: MetadataRecord) -> TitleFacts | None:
    match record:
        case SummaryRecord(summary=str(text)):
            return TitleFacts(text, record.leaf_uuid)
        case TitleRecord():
            return TitleFacts(record.custom_title or record.ai_title or "")
        case AgentNameRecord(agent_name=str(text)) | TagRecord(tag=str(text)):
            return TitleFacts(text)
        case LastPromptRecord():
            text, leaf = record.last_prompt or "", record.leaf_uuid
            return TitleFacts(text, leaf, is_explicit=bool(record.explicit))
        case _:
            return None


def _lineage_facts(record: MetadataRecord) -> LineageFacts | None:
    match record:
        case ContinuedInRecord():
            return LineageFacts(record.continued_in_session_id)
        case ForkContextRecord():
            return LineageFacts(record.parent_session_id, record.parent_last_uuid)
        case _:
            return None


def _session_facts(record: MetadataRecord) -> NodeExtra | None:
    match record:
        case RelocatedRecord(relocated_cwd=str(path)):
            return DirectoryFacts(path)
        case WorktreeStateRecord(worktree_session=place) if (
            place and place.original_cwd
        ):
            return DirectoryFacts(place.original_cwd, place.worktree_path or "")
        case PrLinkRecord(pr_url=str(url)):
            name = name_pull_request(url)
            return RemoteFacts(name) if name else None
        case JournalRecord():
            return JournalFacts(record.agent_id, record.label)
        case CostStateRecord():
            cost = parse_reported_cost(record)
            return ReportedCostFacts(cost) if cost else None
        case _:
            return None


def _system_facts(record: SystemRecord) -> NodeFacts:
    facts = NodeFacts(preview=(record.content or "")[:PREVIEW_LIMIT])
    if record.subtype == "compact_boundary":
        facts.extra = _compaction_facts(record.compaction or CompactionMetadata())
    elif record.subtype == "local_command":
        user_text = parse_user_text(record.content or "")
        facts.origin, facts.command = user_text.origin, user_text.command
        text = display_text(user_text, user_text.typed_text)
        facts.preview = text[:PREVIEW_LIMIT]
    elif record.subtype == "turn_duration" and record.duration_ms is not None:
        duration_ms = min(max(record.duration_ms, 0.0), _MAX_DURATION_MS)
        facts.extra = DurationFacts(int(duration_ms))
    elif record.retracted_message_uuids:
        facts.extra = RetractionFacts(record.retracted_message_uuids)
    elif record.subtype in {"api_error", "error"} and not facts.preview:
        facts.preview = _describe_api_error(record)[:PREVIEW_LIMIT]
    return facts


class _ApiError(Struct, frozen=True):
    """An API error; the details may be nested in `error` or `cause`."""

    status: int | None = None
    message: str | None = None
    code: str | None = None
    error: _ApiError | None = None
    cause: _ApiError | None = None


_decode_api_error = msgspec.json.Decoder(_ApiError, strict=False).decode


def _describe_api_error(record: SystemRecord) -> str:
    """Return the error and which try failed, as far as the record says."""
    try:
        error: _ApiError | None = _decode_api_error(record.error)
    except DECODE_ERRORS:
        error = None
    parts: dict[str, None] = {}
    while error is not None:
        details = (error.status, error.code, error.message)
        parts.update(dict.fromkeys(str(detail) for detail in details if detail))
        error = error.error or error.cause
    if record.retry_attempt is not None and record.max_retries is not None:
        parts[f"try {record.retry_attempt} of {record.max_retries}"] = None
    return " · ".join(parts)


def _plausible_count(tokens: int | None) -> int | None:
    return tokens if tokens is not None and abs(tokens) < _MAX_COUNT else None


def _compaction_facts(metadata: CompactionMetadata) -> CompactionFacts:
    messages = metadata.preserved_messages
    anchor = messages or metadata.preserved_segment
    return CompactionFacts(
        trigger=metadata.trigger,
        tokens_before=_plausible_count(metadata.pre_tokens),
        tokens_after=_plausible_count(metadata.post_tokens),
        preserved_ids=messages.uuids if messages else (),
        anchor_id=anchor.anchor_uuid if anchor else None,
    )


def _attachment_facts(record: AttachmentRecord) -> NodeFacts:
    attachment = record.attachment
    if isinstance(attachment, QueuedCommand):
        facts = _queued_command_facts(attachment)
    else:
        facts = NodeFacts()
        if (
            isinstance(attachment, Attachment)
            and attachment.type in VISIBLE_ATTACHMENT_TYPES
        ):
            facts.preview = attachment_text(attachment)[:PREVIEW_LIMIT]
    facts.subtype = attachment.type if attachment else None
    return facts


def _queued_command_facts(command: QueuedCommand) -> NodeFacts:
    facts = _queued_text_facts(content_text(command.prompt))
    sender = command.origin.kind if command.origin else None
    is_notification = command.command_mode == "task-notification"
    if facts.origin is Origin.PERSON and (
        is_notification or sender not in {None, "human"}
    ):
        facts.origin = Origin.NOTIFICATION
    return facts


def _queued_text_facts(content: str) -> NodeFacts:
    user_text = parse_user_text(content)
    text = (
        user_text.typed_text
        if user_text.origin is Origin.PERSON
        else display_text(user_text, user_text.typed_text)
    )
    return user_text_facts(user_text, user_text.origin, text)


def extract_metadata_spans(located_record: LocatedRecord) -> Iterator[TextSpan]:
    """Yield the indexed texts of a record that is not a message."""
    record = parse_record(located_record.raw, located_record.position)[-1]
    match record:
        case TitleRecord():
            title = record.custom_title or record.ai_title
            yield TextSpan(IndexField.TITLE, title or "")
        case SummaryRecord() | TaskSummaryRecord():
            yield TextSpan(IndexField.TITLE, record.summary or "")
        case SystemRecord():
            yield TextSpan(IndexField.TEXT, typed_text(record.content or ""))
        case AttachmentRecord(attachment=QueuedCommand() as queued):
            if queued.command_mode != "task-notification":
                typed = typed_text(content_text(queued.prompt))
                yield TextSpan(IndexField.TEXT, typed)
        case _:
            return


class _SidecarJson(WireStruct, frozen=True, kw_only=True):
    unused_fields: ClassVar[tuple[str, ...]] = (
        "isFork",
        "workflowPhase",
        "isBuiltIn",
        "launchedWithDefaults",
        "spawnDepth",
        "requestShape",
        "requestNonInteractive",
        "pickedEffortModel",
        "finished",
    )

    tool_use_id: str | None = None
    agent_type: str | None = None
    description: str | None = None
    name: str | None = None
    model: str | None = None
    parent_agent_id: str | None = None
    stopped_by_user: bool | None = None


_decode_sidecar = msgspec.json.Decoder(_SidecarJson, strict=False).decode
SIDECAR_FIELDS = known_names(_SidecarJson)
"""The known fields of an agent's `.meta.json` file."""


def parse_agent_sidecar(raw: bytes, agent: AgentId) -> AgentSidecar | None:
    """Decode the `.meta.json` file of an agent; `None` if it cannot be decoded."""
    try:
        meta = _decode_sidecar(raw)
    except DECODE_ERRORS:
        return None
    return AgentSidecar(
        agent_id=agent,
        tool_use_id=ToolUseId(meta.tool_use_id) if meta.tool_use_id else None,
        agent_type=meta.agent_type,
        description=meta.description,
        name=meta.name,
        model=meta.model,
        parent_agent_id=AgentId(meta.parent_agent_id) if meta.parent_agent_id else None,
        is_stopped_by_user=bool(meta.stopped_by_user),
    )
