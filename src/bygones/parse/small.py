"""Records that are no messages: what they say of the structure, and their texts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from zlib import crc32

import msgspec
from msgspec import Struct

from bygones.model.attachments import (
    SPEAKING,
    Attachment,
    AttachmentRecord,
    QueuedCommand,
)
from bygones.model.metadata import (
    AgentName,
    ContinuedIn,
    CostState,
    FileDelta,
    FileSnapshot,
    ForkContext,
    Journal,
    LastPrompt,
    MetadataRecord,
    QueueOperation,
    QuietRecord,
    Relocated,
    Summary,
    Tag,
    TaskSummary,
    Title,
    WorktreeState,
)
from bygones.model.nodes import (
    HEAD_LIMIT,
    CompactionFacts,
    CostFacts,
    DurationFacts,
    Extra,
    JournalFacts,
    LineageFacts,
    PlaceFacts,
    QueueFacts,
    RetractionFacts,
    TitleFacts,
)
from bygones.model.records import Compaction, SystemRecord
from bygones.model.sketches import Sketched
from bygones.model.texts import IndexField, Origin, Passage
from bygones.parse.attached import text_of_attachment
from bygones.parse.bills import claim_of
from bygones.parse.full import parse_record
from bygones.parse.machine import read_text, said
from bygones.parse.texts import text_of_content, typed_text

__all__ = ["small_facts", "small_texts"]

_LONGEST = 1e12
_MOST = 1 << 53
"""Numbers above it are no counts of anything."""
_SILENT = frozenset((*FileSnapshot.types, *FileDelta.types, *QuietRecord.types))
"""Types that add nothing to the structure; snapshots are many and large."""


def small_facts(sketched: Sketched) -> dict[str, Any]:
    """Return what a record that is no message says of the structure."""
    if sketched.sketch.type in _SILENT:
        return {}
    record = parse_record(sketched.raw, sketched.position)[-1]
    if isinstance(record, SystemRecord):
        return _system(record)
    if isinstance(record, AttachmentRecord):
        return _attachment(record)
    if isinstance(record, QueueOperation):
        text = text_of_content(record.content)
        return {"extra": QueueFacts(record.operation or "")} | _queued(text)
    extra = _extra(record)
    return {} if extra is None else {"extra": extra, "head": _title_head(extra)}


def _title_head(extra: Extra) -> str:
    return extra.text[:HEAD_LIMIT] if isinstance(extra, TitleFacts) else ""


def _extra(record: object) -> Extra | None:
    if isinstance(record, MetadataRecord):
        return _title(record) or _relation(record) or _note(record)
    return None


def _title(record: MetadataRecord) -> TitleFacts | None:
    match record:
        case Summary(summary=str(text)):
            return TitleFacts(text, record.leaf_uuid)
        case Title():
            return TitleFacts(record.custom_title or record.ai_title or "")
        case AgentName(agent_name=str(text)) | Tag(tag=str(text)):
            return TitleFacts(text)
        case LastPrompt():
            text, leaf = record.last_prompt or "", record.leaf_uuid
            return TitleFacts(text, leaf, explicit=bool(record.explicit))
        case _:
            return None


def _relation(record: MetadataRecord) -> LineageFacts | None:
    match record:
        case ContinuedIn():
            return LineageFacts(record.continued_in_session_id)
        case ForkContext():
            return LineageFacts(record.parent_session_id, record.parent_last_uuid)
        case _:
            return None


def _note(record: MetadataRecord) -> Extra | None:
    match record:
        case Relocated(relocated_cwd=str(path)):
            return PlaceFacts(path)
        case WorktreeState(worktree_session=place) if place and place.original_cwd:
            return PlaceFacts(place.original_cwd)
        case Journal():
            return JournalFacts(record.agent_id, record.label)
        case CostState():
            claim = claim_of(record)
            return CostFacts(claim) if claim else None
        case _:
            return None


_FAILURES = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def _system(record: SystemRecord) -> dict[str, Any]:
    facts: dict[str, Any] = {"head": (record.content or "")[:HEAD_LIMIT]}
    if record.subtype == "compact_boundary":
        facts["extra"] = _compaction(record.compaction or Compaction())
    elif record.subtype == "local_command":
        told = read_text(record.content or "")
        facts |= {"origin": told.origin, "command": told.command}
        facts["head"] = said(told, told.typed)[:HEAD_LIMIT]
    elif record.subtype == "turn_duration" and record.duration_ms is not None:
        facts["extra"] = DurationFacts(int(min(record.duration_ms, _LONGEST)))
    elif record.retracted_message_uuids:
        facts["extra"] = RetractionFacts(record.retracted_message_uuids)
    elif record.subtype in {"api_error", "error"} and not facts["head"]:
        facts["head"] = _failure(record)[:HEAD_LIMIT]
    return facts


class _Failure(Struct, frozen=True):
    """What an API error says of itself, in whichever of its shapes."""

    status: int | None = None
    message: str | None = None
    code: str | None = None
    error: _Failure | None = None
    cause: _Failure | None = None


_failure_of = msgspec.json.Decoder(_Failure, strict=False).decode


def _failure(record: SystemRecord) -> str:
    """Return which error it was and which try failed, as far as it is told."""
    try:
        found: _Failure | None = _failure_of(record.error)
    except _FAILURES:
        found = None
    parts: dict[str, None] = {}
    while found is not None:
        told = (found.status, found.code, found.message)
        parts.update(dict.fromkeys(str(part) for part in told if part))
        found = found.error or found.cause
    if record.retry_attempt is not None and record.max_retries is not None:
        parts[f"try {record.retry_attempt} of {record.max_retries}"] = None
    return " · ".join(parts)


def _counted(tokens: int | None) -> int | None:
    """Return a count that can be one."""
    return tokens if tokens is not None and abs(tokens) < _MOST else None


def _compaction(facts: Compaction) -> CompactionFacts:
    kept = facts.preserved_messages
    segment = facts.preserved_segment
    return CompactionFacts(
        trigger=facts.trigger,
        before=_counted(facts.pre_tokens),
        after=_counted(facts.post_tokens),
        preserved=kept.uuids if kept else (),
        anchor=kept.anchor_uuid if kept else segment.anchor_uuid if segment else None,
    )


def _attachment(record: AttachmentRecord) -> dict[str, Any]:
    attachment = record.attachment
    facts: dict[str, Any] = {"subtype": attachment.type if attachment else None}
    if isinstance(attachment, Attachment) and attachment.type in SPEAKING:
        facts["head"] = text_of_attachment(attachment)[:HEAD_LIMIT]
    if isinstance(attachment, QueuedCommand):
        facts |= _queued(text_of_content(attachment.prompt))
        sender = attachment.origin.kind if attachment.origin else None
        is_news = attachment.command_mode == "task-notification"
        if facts["origin"] is Origin.PERSON and (is_news or sender not in _PEOPLE):
            facts["origin"] = Origin.NOTIFICATION
    return facts


_PEOPLE = {None, "human"}


def _queued(content: str) -> dict[str, Any]:
    told = read_text(content)
    text = told.typed if told.origin is Origin.PERSON else said(told, told.typed)
    return {
        "origin": told.origin,
        "head": text[:HEAD_LIMIT],
        "digest": crc32(text.encode("utf-8", "replace")) if text else 0,
        "command": told.command,
        "notification": told.notification,
    }


def small_texts(sketched: Sketched) -> Iterator[Passage]:
    """Yield the texts of a record that is no message."""
    record = parse_record(sketched.raw, sketched.position)[-1]
    match record:
        case Title():
            title = record.custom_title or record.ai_title
            yield Passage(IndexField.TITLE, title or "")
        case Summary() | TaskSummary():
            yield Passage(IndexField.TITLE, record.summary or "")
        case SystemRecord():
            yield Passage(IndexField.TEXT, record.content or "")
        case AttachmentRecord(attachment=QueuedCommand() as queued):
            if queued.command_mode != "task-notification":
                typed = typed_text(text_of_content(queued.prompt))
                yield Passage(IndexField.TEXT, typed)
        case _:
            return
