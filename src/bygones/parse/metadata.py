"""What attachments say to a reader."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from zlib import crc32

import msgspec
from msgspec import Raw, Struct

from bygones.model.base import AgentId, ToolUseId, WireStruct
from bygones.model.metadata import (
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
    Origin,
    QueueFacts,
    ReportedCostFacts,
    RetractionFacts,
    TextSpan,
    TitleFacts,
)
from bygones.model.records import CompactionMetadata, SystemRecord
from bygones.parse.decode import replace_invalid_utf8
from bygones.parse.full import parse_record
from bygones.parse.harness_text import display_text, parse_user_text
from bygones.parse.texts import content_text, typed_text
from bygones.parse.usage import parse_reported_cost


def attachment_text(attachment: Attachment) -> str:
    """Return the text of an attachment, or nothing where it has none to show."""
    match attachment:
        case QueuedCommand():
            return content_text(attachment.prompt)
        case HookReport():
            told = (attachment.blocking_error, attachment.content)
            parts = [*map(_raw_text, told), attachment.stderr, attachment.stdout]
            return "\n".join(part for part in parts if part)
        case StructuredOutput():
            return _raw_text(attachment.content) or _raw_text(attachment.output)
        case _:
            return ""


class _BlockingError(Struct, frozen=True, gc=False, rename="camel"):
    blocking_error: str


def _raw_text(raw: Raw) -> str:
    """Return a text as it is, and any other value as JSON."""
    content = replace_invalid_utf8(bytes(raw))
    try:
        told = _decode_text_or_error(content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return content.decode("utf-8", "replace")
    return told if isinstance(told, str) else told.blocking_error


_decode_text_or_error = msgspec.json.Decoder(_BlockingError | str).decode


_MAX_DURATION_MS = 1e12
_MAX_COUNT = 1 << 53
"""Numbers above it are no counts of anything."""
_TYPES_WITHOUT_FACTS = frozenset(
    (*FileSnapshotRecord.types, *FileDeltaRecord.types, *HarnessStateRecord.types)
)
"""Types that add nothing to the structure; snapshots are many and large."""


def extract_metadata_facts(located_record: LocatedRecord) -> dict[str, Any]:
    """Return what a record that is no message says of the structure."""
    if located_record.record.type in _TYPES_WITHOUT_FACTS:
        return {}
    record = parse_record(located_record.raw, located_record.position)[-1]
    if isinstance(record, SystemRecord):
        return _system_facts(record)
    if isinstance(record, AttachmentRecord):
        return _attachment_facts(record)
    if isinstance(record, QueueOperationRecord):
        text = content_text(record.content)
        return {"extra": QueueFacts(record.operation or "")} | _queued_text_facts(text)
    extra = _extra_facts(record)
    return {} if extra is None else {"extra": extra, "preview": _title_head(extra)}


def _title_head(extra: NodeExtra) -> str:
    return extra.text[:PREVIEW_LIMIT] if isinstance(extra, TitleFacts) else ""


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
            return DirectoryFacts(place.original_cwd)
        case JournalRecord():
            return JournalFacts(record.agent_id, record.label)
        case CostStateRecord():
            claim = parse_reported_cost(record)
            return ReportedCostFacts(claim) if claim else None
        case _:
            return None


_DECODE_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def _system_facts(record: SystemRecord) -> dict[str, Any]:
    facts: dict[str, Any] = {"preview": (record.content or "")[:PREVIEW_LIMIT]}
    if record.subtype == "compact_boundary":
        facts["extra"] = _compaction_facts(record.compaction or CompactionMetadata())
    elif record.subtype == "local_command":
        told = parse_user_text(record.content or "")
        facts |= {"origin": told.origin, "command": told.command}
        facts["preview"] = display_text(told, told.typed_text)[:PREVIEW_LIMIT]
    elif record.subtype == "turn_duration" and record.duration_ms is not None:
        facts["extra"] = DurationFacts(int(min(record.duration_ms, _MAX_DURATION_MS)))
    elif record.retracted_message_uuids:
        facts["extra"] = RetractionFacts(record.retracted_message_uuids)
    elif record.subtype in {"api_error", "error"} and not facts["preview"]:
        facts["preview"] = _describe_api_error(record)[:PREVIEW_LIMIT]
    return facts


class _ApiError(Struct, frozen=True):
    """What an API error says of itself, in whichever of its shapes."""

    status: int | None = None
    message: str | None = None
    code: str | None = None
    error: _ApiError | None = None
    cause: _ApiError | None = None


_decode_api_error = msgspec.json.Decoder(_ApiError, strict=False).decode


def _describe_api_error(record: SystemRecord) -> str:
    """Return which error it was and which try failed, as far as it is told."""
    try:
        found: _ApiError | None = _decode_api_error(record.error)
    except _DECODE_ERRORS:
        found = None
    parts: dict[str, None] = {}
    while found is not None:
        told = (found.status, found.code, found.message)
        parts.update(dict.fromkeys(str(part) for part in told if part))
        found = found.error or found.cause
    if record.retry_attempt is not None and record.max_retries is not None:
        parts[f"try {record.retry_attempt} of {record.max_retries}"] = None
    return " · ".join(parts)


def _plausible_count(tokens: int | None) -> int | None:
    """Return a count that can be one."""
    return tokens if tokens is not None and abs(tokens) < _MAX_COUNT else None


def _compaction_facts(facts: CompactionMetadata) -> CompactionFacts:
    kept = facts.preserved_messages
    segment = facts.preserved_segment
    return CompactionFacts(
        trigger=facts.trigger,
        tokens_before=_plausible_count(facts.pre_tokens),
        tokens_after=_plausible_count(facts.post_tokens),
        preserved_ids=kept.uuids if kept else (),
        anchor_id=kept.anchor_uuid
        if kept
        else segment.anchor_uuid
        if segment
        else None,
    )


def _attachment_facts(record: AttachmentRecord) -> dict[str, Any]:
    attachment = record.attachment
    facts: dict[str, Any] = {"subtype": attachment.type if attachment else None}
    if (
        isinstance(attachment, Attachment)
        and attachment.type in VISIBLE_ATTACHMENT_TYPES
    ):
        facts["preview"] = attachment_text(attachment)[:PREVIEW_LIMIT]
    if isinstance(attachment, QueuedCommand):
        facts |= _queued_text_facts(content_text(attachment.prompt))
        sender = attachment.origin.kind if attachment.origin else None
        is_news = attachment.command_mode == "task-notification"
        if facts["origin"] is Origin.PERSON and (
            is_news or sender not in _HUMAN_SENDERS
        ):
            facts["origin"] = Origin.NOTIFICATION
    return facts


_HUMAN_SENDERS = {None, "human"}


def _queued_text_facts(content: str) -> dict[str, Any]:
    told = parse_user_text(content)
    text = (
        told.typed_text
        if told.origin is Origin.PERSON
        else display_text(told, told.typed_text)
    )
    return {
        "origin": told.origin,
        "preview": text[:PREVIEW_LIMIT],
        "digest": crc32(text.encode("utf-8", "replace")) if text else 0,
        "command": told.command,
        "notification": told.notification,
    }


def extract_metadata_spans(located_record: LocatedRecord) -> Iterator[TextSpan]:
    """Yield the texts of a record that is no message."""
    record = parse_record(located_record.raw, located_record.position)[-1]
    match record:
        case TitleRecord():
            title = record.custom_title or record.ai_title
            yield TextSpan(IndexField.TITLE, title or "")
        case SummaryRecord() | TaskSummaryRecord():
            yield TextSpan(IndexField.TITLE, record.summary or "")
        case SystemRecord():
            yield TextSpan(IndexField.TEXT, record.content or "")
        case AttachmentRecord(attachment=QueuedCommand() as queued):
            if queued.command_mode != "task-notification":
                typed = typed_text(content_text(queued.prompt))
                yield TextSpan(IndexField.TEXT, typed)
        case _:
            return


class _SidecarJson(WireStruct, frozen=True, kw_only=True):
    tool_use_id: str | None = None
    agent_type: str | None = None
    description: str | None = None
    name: str | None = None
    model: str | None = None
    parent_agent_id: str | None = None
    stopped_by_user: bool | None = None


_decode_sidecar = msgspec.json.Decoder(_SidecarJson, strict=False).decode


def parse_agent_sidecar(raw: bytes, agent: AgentId) -> AgentSidecar | None:
    """Return what an agent's sidecar says, or ``None`` where it cannot be read."""
    try:
        meta = _decode_sidecar(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
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
