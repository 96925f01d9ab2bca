"""From a sketch to a node: what a record contributes to its session's structure."""

from __future__ import annotations

from typing import Any
from zlib import crc32

import msgspec
from msgspec import Struct

from recollect.model.attachments import (
    SPEAKING,
    Attachment,
    AttachmentRecord,
    QueuedCommand,
)
from recollect.model.metadata import (
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
    Title,
    WorktreeState,
)
from recollect.model.nodes import (
    HEAD_LIMIT,
    Beside,
    CompactionFacts,
    CostFacts,
    DurationFacts,
    Extra,
    JournalFacts,
    LineageFacts,
    Node,
    PlaceFacts,
    QueueFacts,
    RetractionFacts,
    TitleFacts,
)
from recollect.model.records import Compaction, SystemRecord
from recollect.model.sketches import Sketch, SketchBlock, Sketched
from recollect.model.texts import Origin, Told
from recollect.parse.attached import text_of_attachment
from recollect.parse.bills import billing_of, claim_of, told_of, usage_of
from recollect.parse.facts import block_fact, result_facts
from recollect.parse.machine import read_text
from recollect.parse.texts import text_of_content

__all__ = ["node_of"]

_LONGEST = 1e12
_MOST = 1 << 53
"""Numbers above it are no counts of anything."""
_SENDERS = {
    "human": None,
    "task-notification": Origin.NOTIFICATION,
    "peer": Origin.TEAMMATE,
    "channel": Origin.TEAMMATE,
    "coordinator": Origin.TEAMMATE,
}
"""What the record's own word on its sender means; none leaves it to the text."""


def node_of(sketched: Sketched) -> Node:
    """Return the node of a record, whatever its type."""
    sketch = sketched.sketch
    facts: dict[str, Any] = {}
    if sketch.type in {"user", "assistant"}:
        facts = _message(sketch)
    elif sketch.type == "progress":
        facts = _progress(sketch)
    else:
        facts = _small_record(sketched)
    return Node(
        position=sketched.position,
        kind=sketch.type or "",
        subtype=facts.pop("subtype", sketch.subtype),
        uuid=sketch.uuid,
        parent=sketch.parent_uuid,
        logical_parent=sketch.logical_parent_uuid,
        session=sketch.session_id,
        agent=facts.pop("agent", sketch.agent_id),
        time=sketch.timestamp,
        is_sidechain=sketch.is_sidechain,
        is_meta=sketch.is_meta,
        is_error=sketch.is_api_error_message,
        cwd=sketch.cwd,
        git_branch=sketch.git_branch,
        version=sketch.version,
        slug=sketch.slug,
        entrypoint=sketch.entrypoint,
        team=sketch.team_name,
        request=sketch.request_id,
        source_call=sketch.source_tool_use or sketch.parent_tool_use,
        source_record=sketch.source_tool_assistant,
        forked_from=_forked_from(sketch),
        supersedes=sketch.supersedes_uuids,
        **facts,
    )


def _forked_from(sketch: Sketch) -> LineageFacts | None:
    origin = sketch.forked_from
    return LineageFacts(origin.session_id, origin.message_uuid) if origin else None


def _message(sketch: Sketch) -> dict[str, Any]:
    message = sketch.message
    if message is None:
        return {"origin": Origin.HARNESS if sketch.type == "user" else None}
    content = message.content
    blocks = (
        [SketchBlock(type="text", text=content)]
        if isinstance(content, str)
        else content or []
    )
    facts: dict[str, Any] = {
        "message": message.id,
        "model": message.model,
        "blocks": tuple(map(block_fact, blocks)),
    }
    if message.usage is not None:
        facts["usage"] = usage_of(message.usage)
        facts["billing"] = billing_of(message.usage)
    if sketch.type == "user":
        facts |= _user(sketch, blocks)
    else:
        text = next((block.text for block in blocks if block.text), "")
        facts["head"] = text[:HEAD_LIMIT]
    return facts


def _user(sketch: Sketch, blocks: list[SketchBlock]) -> dict[str, Any]:
    if any(block.tool_use_id for block in blocks):
        facts, head = result_facts(sketch.tool_use_result, blocks)
        beside = _beside(sketch, [block for block in blocks if block.text])
        found = {"origin": Origin.TOOL, "result": facts, "head": head}
        return found if beside is None else {**found, "beside": beside}
    tolds = [read_text(block.text) for block in blocks if block.text is not None]
    typed = "\n".join(told.typed for told in tolds if told.typed)
    has_media = any(block.type in {"image", "document"} for block in blocks)
    told = _leading(tolds, has_media=has_media)
    origin = _origin(sketch, told)
    text = typed if origin in {Origin.PERSON, Origin.CALLER} else _said(told, typed)
    return {
        "origin": origin,
        "head": text[:HEAD_LIMIT],
        "digest": crc32(text.encode("utf-8", "replace")) if text else 0,
        "command": told.command,
        "notification": told.notification,
    }


def _beside(sketch: Sketch, blocks: list[SketchBlock]) -> Beside | None:
    """Return what somebody says in a record of results, if it is not the harness."""
    if not blocks:
        return None
    said = _user(sketch, blocks)
    if said["origin"] in {Origin.HARNESS, Origin.HOOK}:
        return None
    return Beside(said["origin"], said["head"], said["digest"])


def _leading(tolds: list[Told], *, has_media: bool) -> Told:
    """Return the text that says what a record is: a person's before any other."""
    persons = (told for told in tolds if told.typed.strip())
    first = next(persons, None)
    if first is not None or has_media:
        return first or Told(Origin.PERSON)
    machine = (told for told in tolds if told.origin is not Origin.PERSON)
    return next(machine, Told(Origin.HARNESS))


def _origin(sketch: Sketch, told: Told) -> Origin:
    if sketch.is_compact_summary:
        return Origin.COMPACTION
    origin = told.origin
    if sketch.origin is not None and origin is Origin.PERSON:
        sender = _SENDERS.get(sketch.origin.kind or "human", Origin.HARNESS)
        origin = sender or origin
    if origin is Origin.PERSON and (sketch.is_meta or sketch.source_tool_use):
        origin = Origin.HARNESS
    if origin is Origin.PERSON and _is_compact(told.typed):
        origin = Origin.COMMAND
    if origin is Origin.PERSON and sketch.is_sidechain:
        return Origin.CALLER
    return origin


def _is_compact(typed: str) -> bool:
    """Whether the text is ``/compact`` as typed; the command is recorded again."""
    return typed == "/compact" or typed.startswith("/compact ")


def _said(told: Told, typed: str) -> str:
    if told.command is not None:
        return f"{told.command.name} {told.command.args}".strip()
    if told.notification is not None:
        return told.notification.summary
    return told.output or typed


def _progress(sketch: Sketch) -> dict[str, Any]:
    if sketch.progress is None:
        return {}
    agent = sketch.progress.agent_id or sketch.agent_id
    facts: dict[str, Any] = {"subtype": sketch.progress.type, "agent": agent}
    if sketch.progress.type == "agent_progress":
        facts["extra"] = told_of(sketch.progress.message)
    return facts


_SILENT = frozenset((*FileSnapshot.types, *FileDelta.types, *QuietRecord.types))
"""Types that add nothing to the structure; snapshots are many and large."""


def _small_record(sketched: Sketched) -> dict[str, Any]:
    if sketched.sketch.type in _SILENT:
        return {}
    from recollect.parse.full import parse_record  # noqa: PLC0415 (heavy, and rare)

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
        facts["head"] = _said(told, told.typed)[:HEAD_LIMIT]
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


def _queued(text: str) -> dict[str, Any]:
    told = read_text(text)
    said = told.typed if told.origin is Origin.PERSON else _said(told, told.typed)
    return {
        "origin": told.origin,
        "head": said[:HEAD_LIMIT],
        "digest": crc32(said.encode("utf-8", "replace")) if said else 0,
        "command": told.command,
        "notification": told.notification,
    }
