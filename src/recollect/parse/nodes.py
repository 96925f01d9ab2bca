"""From a sketch to a node: what a record contributes to its session's structure."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, TypeVar
from zlib import crc32

import msgspec
from msgspec import Raw, Struct, structs

from recollect.model.attachments import AttachmentRecord, QueuedCommand
from recollect.model.ids import AgentId
from recollect.model.metadata import (
    AgentName,
    ContinuedIn,
    CostState,
    ForkContext,
    Journal,
    LastPrompt,
    MetadataRecord,
    QueueOperation,
    Relocated,
    Summary,
    Tag,
    Title,
    WorktreeState,
)
from recollect.model.nodes import (
    HEAD_LIMIT,
    BlockFact,
    CompactionFacts,
    CostFacts,
    DurationFacts,
    Extra,
    JournalFacts,
    LineageFacts,
    Node,
    PlaceFacts,
    QueueFacts,
    ResultFacts,
    RetractionFacts,
    TitleFacts,
)
from recollect.model.records import Compaction, SystemRecord
from recollect.model.sketches import Sketch, SketchBlock, Sketched
from recollect.model.texts import Origin, Told
from recollect.model.usage import Usage, WireUsage
from recollect.model.wire import wire_name
from recollect.parse.decode import decode_struct
from recollect.parse.full import parse_record
from recollect.parse.machine import read_text
from recollect.parse.salvage import sound_text
from recollect.parse.texts import text_of_content

__all__ = ["node_of", "usage_of"]

T = TypeVar("T", bound=Struct)

_SENDERS = {
    "human": None,
    "task-notification": Origin.NOTIFICATION,
    "peer": Origin.TEAMMATE,
    "channel": Origin.TEAMMATE,
    "coordinator": Origin.TEAMMATE,
}
"""What the record's own word on its sender means; none leaves it to the text."""
_NOTE_LIMIT = 200


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
        "blocks": tuple(map(_block, blocks)),
    }
    if message.usage is not None:
        facts["usage"] = usage_of(message.usage)
    if sketch.type == "user":
        facts |= _user(sketch, blocks)
    else:
        text = next((block.text for block in blocks if block.text), "")
        facts["head"] = text[:HEAD_LIMIT]
    return facts


def _user(sketch: Sketch, blocks: list[SketchBlock]) -> dict[str, Any]:
    if any(block.tool_use_id for block in blocks):
        return _tool_results(sketch, blocks)
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


def _tool_results(sketch: Sketch, blocks: list[SketchBlock]) -> dict[str, Any]:
    facts = _result(sketch.tool_use_result)
    head = ""
    for block in blocks:
        content = bytes(block.content)
        if block.is_error and not head:
            head = text_of_content(block.content)[:HEAD_LIMIT]
        named = (
            _AGENT_TAIL.search(content[-_TAIL:])
            if b"agentId" in content[-_TAIL:]
            else None
        )
        if named and (facts is None or facts.agent is None):
            told = AgentId(named[1].decode())
            facts = structs.replace(facts or ResultFacts(), told_agent=told)
    return {"origin": Origin.TOOL, "result": facts, "head": head}


_AGENT_TAIL = re.compile(rb"agentId: ([A-Za-z0-9_-]+)")
_TAIL = 600


def _leading(tolds: list[Told], *, has_media: bool) -> Told:
    """Return the text that says what a record is: a person's before any other."""
    persons = (told for told in tolds if told.origin is Origin.PERSON and told.typed)
    first = next(persons, None)
    if first is not None or has_media:
        return first or Told(Origin.PERSON)
    return tolds[0] if tolds else Told(Origin.HARNESS)


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


class _Input(Struct, frozen=True, gc=False):
    """What tells one call of a tool from another."""

    file_path: str | None = None
    notebook_path: str | None = None
    path: str | None = None
    command: str | None = None
    description: str | None = None
    pattern: str | None = None
    query: str | None = None
    url: str | None = None
    skill: str | None = None
    subject: str | None = None
    plan: str | None = None
    prompt: str | None = None
    subagent_type: str | None = None


_input = msgspec.json.Decoder(_Input).decode
_FAILURES = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def _tolerant(kind: type[T], decode: Callable[[Raw], T], raw: Raw) -> T:
    """Decode fast, and field by field where a field is odd."""
    try:
        return decode(raw)
    except _FAILURES:
        pass
    try:
        return decode_struct(kind, sound_text(bytes(raw)), lambda _path, _reason: None)
    except _FAILURES:
        return kind()


def _block(block: SketchBlock) -> BlockFact:
    if block.name is not None:
        return _call(block)
    if block.tool_use_id is not None:
        return BlockFact(
            kind=block.type,
            id=block.tool_use_id,
            size=len(bytes(block.content)),
            is_error=bool(block.is_error),
        )
    text = block.text if block.text is not None else block.thinking
    if text is None:
        return BlockFact(kind=block.type, size=len(bytes(block.source)))
    raw = text.encode("utf-8", "replace")
    return BlockFact(kind=block.type, digest=crc32(raw), size=len(raw))


def _call(block: SketchBlock) -> BlockFact:
    known = _tolerant(_Input, _input, block.input)
    path = known.file_path or known.notebook_path
    note = path or known.command or known.description or known.pattern or known.query
    note = note or known.url or known.skill or known.subject or known.path or known.plan
    prompt = known.prompt
    return BlockFact(
        kind=block.type,
        id=block.id,
        name=block.name,
        note=note[:_NOTE_LIMIT] if note else None,
        path=path,
        agent_type=known.subagent_type,
        digest=crc32(prompt.encode("utf-8", "replace")) if prompt else 0,
        size=len(bytes(block.input)),
    )


class _Hunk(Struct, frozen=True, gc=False):
    lines: list[str] = []


class _File(Struct, frozen=True, gc=False, rename=wire_name):
    file_path: str | None = None


class _Outcome(Struct, frozen=True, gc=False, rename=wire_name):
    type: str | None = None
    status: str | None = None
    agent_id: str | None = None
    file_path: str | None = None
    file: _File | None = None
    structured_patch: list[_Hunk] | None = None
    old_string: Raw = Raw()
    run_id: str | None = None
    task_id: str | None = None
    background_task_id: str | None = None
    persisted_output_path: str | None = None
    total_duration_ms: float | None = None
    total_tokens: float | None = None
    total_tool_use_count: float | None = None
    search_count: int | None = None


_outcome = msgspec.json.Decoder(_Outcome, strict=False).decode


def _result(raw: Raw) -> ResultFacts | None:
    if bytes(raw)[:1] != b"{":
        return None
    outcome = _tolerant(_Outcome, _outcome, raw)
    patch = [line[:1] for hunk in outcome.structured_patch or () for line in hunk.lines]
    facts = ResultFacts(
        agent=AgentId(outcome.agent_id) if outcome.agent_id else None,
        status=outcome.status,
        duration_ms=_whole(outcome.total_duration_ms),
        tokens=_whole(outcome.total_tokens),
        tool_count=_whole(outcome.total_tool_use_count),
        path=outcome.file_path or (outcome.file.file_path if outcome.file else None),
        added=patch.count("+"),
        removed=patch.count("-"),
        has_patch=bool(patch),
        is_new=outcome.type == "create",
        run=outcome.run_id or outcome.task_id or outcome.background_task_id,
        stored_at=outcome.persisted_output_path,
        searches=outcome.search_count or 0,
    )
    return facts if facts != _NO_FACTS else None


_NO_FACTS = ResultFacts()


def _whole(value: float | None) -> int | None:
    return int(value) if value is not None and math.isfinite(value) else None


def usage_of(wire: WireUsage) -> Usage:
    """Return the counts of one record, none of them negative.

    The split of cache writes is believed where it says more than the flat count,
    which was written as zero for a while; an unsplit rest is of the short kind.
    """
    split = wire.cache_creation
    long = _count(split.ephemeral_1h_input_tokens) if split else 0
    short = _count(split.ephemeral_5m_input_tokens) if split else 0
    rest = _count(wire.cache_creation_input_tokens) - long - short
    return Usage(
        input=_count(wire.input_tokens),
        output=_count(wire.output_tokens),
        cache_write_5m=short + max(rest, 0),
        cache_write_1h=long,
        cache_read=_count(wire.cache_read_input_tokens),
        web_searches=_count(
            wire.server_tool_use.web_search_requests if wire.server_tool_use else 0
        ),
    )


def _count(tokens: int | None) -> int:
    return max(tokens or 0, 0)


def _progress(sketch: Sketch) -> dict[str, Any]:
    if sketch.progress is None:
        return {}
    agent = sketch.progress.agent_id or sketch.agent_id
    return {"subtype": sketch.progress.type, "agent": agent}


def _small_record(sketched: Sketched) -> dict[str, Any]:
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
        case CostState(total_cost_usd=float(dollars)) if math.isfinite(dollars * 1e6):
            return CostFacts(round(dollars * 1e6))
        case _:
            return None


def _system(record: SystemRecord) -> dict[str, Any]:
    facts: dict[str, Any] = {"head": (record.content or "")[:HEAD_LIMIT]}
    if record.subtype == "compact_boundary":
        facts["extra"] = _compaction(record.compaction or Compaction())
    elif record.subtype == "local_command":
        told = read_text(record.content or "")
        facts |= {"origin": told.origin, "command": told.command}
        facts["head"] = _said(told, told.typed)[:HEAD_LIMIT]
    elif record.subtype == "turn_duration" and record.duration_ms is not None:
        facts["extra"] = DurationFacts(int(record.duration_ms))
    elif record.retracted_message_uuids:
        facts["extra"] = RetractionFacts(record.retracted_message_uuids)
    return facts


def _compaction(facts: Compaction) -> CompactionFacts:
    kept = facts.preserved_messages
    segment = facts.preserved_segment
    return CompactionFacts(
        trigger=facts.trigger,
        before=facts.pre_tokens,
        after=facts.post_tokens,
        preserved=kept.uuids if kept else (),
        anchor=kept.anchor_uuid if kept else segment.anchor_uuid if segment else None,
    )


def _attachment(record: AttachmentRecord) -> dict[str, Any]:
    attachment = record.attachment
    facts: dict[str, Any] = {"subtype": attachment.type if attachment else None}
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
