"""The light pass: one decode a line, building nothing that ingestion does not use."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import MAXYEAR, MINYEAR, UTC, datetime
from functools import cache
from typing import Any, TypeVar
from zlib import crc32

import msgspec
from msgspec import Raw, Struct, structs

from bygones.model.base import TOOL_USE_TYPES, AgentId, Line, Problem, wire_name
from bygones.model.nodes import (
    PREVIEW_LIMIT,
    LightBlock,
    LightMessage,
    LightRecord,
    LineageFacts,
    LocatedRecord,
    NodeBlock,
    Origin,
    RecordNode,
    ResultFacts,
    SideText,
    UserText,
)
from bygones.parse.decode import (
    FieldHook,
    InvalidFieldCallback,
    SalvagedObject,
    decode_struct,
    raw_head,
    raw_size,
    raw_tail,
    replace_invalid_utf8,
    salvage_line,
)
from bygones.parse.harness_text import display_text, parse_user_text
from bygones.parse.texts import content_text
from bygones.parse.usage import parse_billing, parse_progress_usage, parse_usage

_decode_light = msgspec.json.Decoder(LightRecord).decode
_LIST_DECODER = msgspec.json.Decoder(list[Raw])
_STRING_DECODER = msgspec.json.Decoder(str)
_DECODE_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def parse_line_light(line: Line) -> tuple[LocatedRecord | Problem, ...]:
    """Return the sketches on a line, with its problems before them.

    A sound line gives exactly one sketch. Nothing raises.
    """
    try:
        sketch = _decode_light(line.raw)
    except _DECODE_ERRORS:
        return _parse_damaged(line)
    if sketch.type is None:
        return _parse_damaged(line)
    return (LocatedRecord(sketch, line.position, line.raw),)


def _parse_damaged(line: Line) -> tuple[LocatedRecord | Problem, ...]:
    found: list[LocatedRecord | Problem] = []
    for part in salvage_line(line):
        if isinstance(part, SalvagedObject):
            found.extend(_decode_salvaged(part))
        else:
            found.append(part)
    return tuple(found)


def _decode_salvaged(salvaged: SalvagedObject) -> list[LocatedRecord | Problem]:
    problems: list[LocatedRecord | Problem] = []

    def odd(path: str, reason: str) -> None:
        problems.append(Problem("odd-field", salvaged.position, f"{path}: {reason}"))

    try:
        sketch = decode_struct(LightRecord, salvaged.raw, odd, hooks=_HOOKS)
    except RecursionError:
        return [Problem("too-deep", salvaged.position)]
    if sketch.type is None:
        return [*problems, Problem("no-type", salvaged.position)]
    return [*problems, LocatedRecord(sketch, salvaged.position, salvaged.raw)]


def _decode_content(
    raw: Raw, path: str, on_invalid: InvalidFieldCallback
) -> str | list[LightBlock] | None:
    """Decode content of any shape: a text, a block, a list with bare strings in it."""
    match bytes(memoryview(raw)[:1]):
        case b'"':
            return _STRING_DECODER.decode(raw)
        case b"[":
            blocks = enumerate(_LIST_DECODER.decode(raw))
            return [
                _decode_block(block, f"{path}[{at}]", on_invalid)
                for at, block in blocks
            ]
        case b"{":
            return [_decode_block(raw, path, on_invalid)]
        case _:
            on_invalid(path, "neither text nor a list of blocks")
            return None


def _decode_block(raw: Raw, path: str, on_invalid: InvalidFieldCallback) -> LightBlock:
    match bytes(memoryview(raw)[:1]):
        case b"{":
            return decode_struct(LightBlock, raw, on_invalid, path=path)
        case b'"':
            return LightBlock(type="text", text=_STRING_DECODER.decode(raw))
        case _:
            return LightBlock()


_HOOKS: dict[tuple[type, str], FieldHook] = {(LightMessage, "content"): _decode_content}


T = TypeVar("T", bound=Struct)

_NOTE_LIMIT = 200
_MAX_COUNT = 1 << 53
"""Numbers above it are no counts of anything."""
_AGENT_ID_PATTERN = rb"agentId: ([A-Za-z0-9_-]+)"
_TAIL_SIZE = 600
_STORED_PATH_PATTERN = (
    rb"<persisted-output>.{0,200}?[Ss]aved to: ([^\n]+?)(?:\\n|\n|<|$)"
)
_STORED_HEAD_SIZE = 4_000


def extract_result_facts(
    raw: Raw, blocks: Sequence[LightBlock]
) -> tuple[ResultFacts | None, str]:
    """Return what a record with results says beyond their text, and its first error.

    What the structured outcome leaves out may stand in the text for the model: which
    agent it was, and where a long output is kept.
    """
    facts = _outcome_facts(raw)
    head = ""
    for block in blocks:
        if block.is_error and not head:
            head = content_text(block.content)[:PREVIEW_LIMIT]
        tail = raw_tail(block.content, _TAIL_SIZE)
        named = re.search(_AGENT_ID_PATTERN, tail) if b"agentId" in tail else None
        if named and (facts is None or facts.agent_id is None):
            told = AgentId(named[1].decode())
            facts = structs.replace(facts or ResultFacts(), mentioned_agent_id=told)
        stored = _find_stored_path(raw_head(block.content, _STORED_HEAD_SIZE))
        if stored and (facts is None or facts.stored_path is None):
            facts = structs.replace(facts or ResultFacts(), stored_path=stored)
    return facts, head


def _find_stored_path(content: bytes) -> str | None:
    """Return the path in the words that stand for an output that is kept elsewhere."""
    if b"<persisted-output>" not in content:
        return None
    found = re.search(_STORED_PATH_PATTERN, content)
    return found[1].decode("utf-8", "replace").replace("\\\\", "\\") if found else None


class _ToolInput(Struct, frozen=True, gc=False):
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


@cache
def _struct_decoder(struct_type: type[T], *, strict: bool) -> Callable[[Raw], T]:
    # Made when the first is met: whoever reads a text meets none.
    return msgspec.json.Decoder(struct_type, strict=strict).decode


_FACT_DECODE_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def _decode_tolerant(struct_type: type[T], raw: Raw, *, strict: bool = True) -> T:
    """Decode fast, and field by field where a field is odd."""
    try:
        found: T = _struct_decoder(struct_type, strict=strict)(raw)
    except _FACT_DECODE_ERRORS:
        pass
    else:
        return found
    try:
        return decode_struct(
            struct_type, replace_invalid_utf8(bytes(raw)), lambda _path, _reason: None
        )
    except _FACT_DECODE_ERRORS:
        return struct_type()


def build_node_block(block: LightBlock) -> NodeBlock:
    """Return a block without its content."""
    # Some gateways give every block an empty name and an empty id.
    if block.name or block.type in TOOL_USE_TYPES:
        return _build_tool_call_block(block)
    if block.tool_use_id:
        return NodeBlock(
            kind=block.type,
            id=block.tool_use_id,
            size=raw_size(block.content),
            is_error=bool(block.is_error),
        )
    text = block.text if block.text is not None else block.thinking
    if text is None:
        return NodeBlock(kind=block.type, size=raw_size(block.source))
    raw = text.encode("utf-8", "replace")
    return NodeBlock(kind=block.type, digest=crc32(raw), size=len(raw))


def _build_tool_call_block(block: LightBlock) -> NodeBlock:
    known = _decode_tolerant(_ToolInput, block.input)
    path = known.file_path or known.notebook_path
    note = path or known.command or known.description or known.pattern or known.query
    note = note or known.url or known.skill or known.subject or known.path or known.plan
    prompt = known.prompt
    return NodeBlock(
        kind=block.type,
        id=block.id or None,
        name=block.name or "",
        label=note[:_NOTE_LIMIT] if note else None,
        path=path,
        agent_type=known.subagent_type,
        digest=crc32(prompt.encode("utf-8", "replace")) if prompt else 0,
        size=raw_size(block.input),
    )


class _DiffHunk(Struct, frozen=True, gc=False):
    lines: list[str] = []


class _OutcomeFile(Struct, frozen=True, gc=False, rename=wire_name):
    file_path: str | None = None


class _RawOutcome(Struct, frozen=True, gc=False, rename=wire_name):
    type: str | None = None
    status: str | None = None
    agent_id: str | None = None
    resumed_agent_id: str | None = None
    file_path: str | None = None
    file: _OutcomeFile | None = None
    structured_patch: list[_DiffHunk] | None = None
    old_string: str | None = None
    new_string: str | None = None
    content: Raw = Raw()
    run_id: str | None = None
    task_id: str | None = None
    background_task_id: str | None = None
    persisted_output_path: str | None = None
    total_duration_ms: float | None = None
    total_tokens: float | None = None
    total_tool_use_count: float | None = None
    search_count: int | None = None


def _outcome_facts(raw: Raw) -> ResultFacts | None:
    if raw_head(raw, 1) != b"{":
        return None
    outcome = _decode_tolerant(_RawOutcome, raw, strict=False)
    patch = [line[:1] for hunk in outcome.structured_patch or () for line in hunk.lines]
    added, removed = (
        (patch.count("+"), patch.count("-")) if patch else _count_changed_lines(outcome)
    )
    agent = outcome.agent_id or outcome.resumed_agent_id
    facts = ResultFacts(
        agent_id=AgentId(agent) if agent else None,
        status=outcome.status,
        duration_ms=_to_int(outcome.total_duration_ms),
        tokens=_to_int(outcome.total_tokens),
        tool_call_count=_to_int(outcome.total_tool_use_count),
        path=outcome.file_path or (outcome.file.file_path if outcome.file else None),
        added_lines=added,
        removed_lines=removed,
        has_patch=bool(patch),
        is_new_file=outcome.type == "create",
        run_id=outcome.run_id or outcome.task_id or outcome.background_task_id,
        stored_path=outcome.persisted_output_path,
        web_searches=_to_int(outcome.search_count) or 0,
    )
    return facts if facts != _NO_FACTS else None


_NO_FACTS = ResultFacts()
_decode_string = msgspec.json.Decoder(str).decode


def _count_changed_lines(outcome: _RawOutcome) -> tuple[int, int]:
    """Return the lines that came and went, where no patch tells of them."""
    added = outcome.new_string or ""
    if outcome.type == "create" and raw_head(outcome.content, 1) == b'"':
        added = _decode_string(replace_invalid_utf8(bytes(outcome.content)))
    return len(added.splitlines()), len((outcome.old_string or "").splitlines())


def _to_int(value: float | None) -> int | None:
    return int(value) if value is not None and abs(value) < _MAX_COUNT else None


_SENDER_ORIGINS = {
    "human": None,
    "task-notification": Origin.NOTIFICATION,
    "peer": Origin.TEAMMATE,
    "channel": Origin.TEAMMATE,
    "coordinator": Origin.TEAMMATE,
}
"""What the record's own word on its sender means; none leaves it to the text."""


def build_node(located_record: LocatedRecord) -> RecordNode:
    """Return the node of a record, whatever its type."""
    sketch = located_record.record
    facts: dict[str, Any] = {}
    if sketch.type in {"user", "assistant"}:
        facts = _message_facts(sketch)
    elif sketch.type == "progress":
        facts = _progress_facts(sketch)
    else:
        facts = _load_metadata_facts()(located_record)
    return RecordNode(
        position=located_record.position,
        kind=sketch.type or "",
        subtype=facts.pop("subtype", sketch.subtype),
        uuid=sketch.uuid,
        parent_uuid=sketch.parent_uuid,
        logical_parent_uuid=sketch.logical_parent_uuid,
        session_id=sketch.session_id,
        agent_id=facts.pop("agent_id", sketch.agent_id),
        timestamp=_normalize_time(sketch.timestamp),
        is_sidechain=sketch.is_sidechain,
        is_meta=sketch.is_meta,
        is_error=sketch.is_api_error_message,
        cwd=sketch.cwd,
        git_branch=sketch.git_branch,
        version=sketch.version,
        slug=sketch.slug,
        entrypoint=sketch.entrypoint,
        team_name=sketch.team_name,
        request_id=sketch.request_id,
        source_call_id=sketch.source_tool_use or sketch.parent_tool_use,
        source_record_id=sketch.source_tool_assistant,
        forked_from=_forked_from(sketch),
        supersedes_ids=sketch.supersedes_uuids,
        **facts,
    )


@cache
def _load_metadata_facts() -> Callable[[LocatedRecord], dict[str, Any]]:
    """Return what reads all other records: whoever reads a message needs it not."""
    from bygones.parse.metadata import extract_metadata_facts

    return extract_metadata_facts


def _forked_from(sketch: LightRecord) -> LineageFacts | None:
    origin = sketch.forked_from
    return LineageFacts(origin.session_id, origin.message_uuid) if origin else None


def _normalize_time(time: datetime | None) -> datetime | None:
    """Return a time as the whole world counts it.

    In the calendar's first and last year it is none: some clock on earth shows a year
    there that no calendar has.
    """
    if time is None or not MINYEAR < time.year < MAXYEAR:
        return None
    return time if time.tzinfo is UTC else time.astimezone(UTC)


def _message_facts(sketch: LightRecord) -> dict[str, Any]:
    message = sketch.message
    if message is None:
        return {"origin": Origin.HARNESS if sketch.type == "user" else None}
    content = message.content
    blocks = (
        [LightBlock(type="text", text=content)]
        if isinstance(content, str)
        else content or []
    )
    facts: dict[str, Any] = {
        "message_id": message.id,
        "model": message.model,
        "blocks": tuple(map(build_node_block, blocks)),
    }
    if message.usage is not None:
        facts["usage"] = parse_usage(message.usage)
        facts["billing"] = parse_billing(message.usage)
    if sketch.type == "user":
        facts |= _user_facts(sketch, blocks)
    else:
        text = next((block.text for block in blocks if block.text), "")
        facts["preview"] = text[:PREVIEW_LIMIT]
    return facts


def _user_facts(sketch: LightRecord, blocks: list[LightBlock]) -> dict[str, Any]:
    if any(block.tool_use_id for block in blocks):
        facts, head = extract_result_facts(sketch.tool_use_result, blocks)
        others = [block for block in blocks if block.text and not block.tool_use_id]
        beside = _parse_side_text(sketch, others)
        found = {"origin": Origin.TOOL, "result": facts, "preview": head}
        return found if beside is None else {**found, "side_text": beside}
    tolds = [parse_user_text(block.text) for block in blocks if block.text is not None]
    typed = "\n".join(told.typed_text for told in tolds if told.typed_text)
    has_media = any(block.type in {"image", "document"} for block in blocks)
    told = _leading_text(tolds, has_media=has_media)
    origin = _detect_origin(sketch, told)
    text = (
        typed if origin in {Origin.PERSON, Origin.CALLER} else display_text(told, typed)
    )
    return {
        "origin": origin,
        "preview": text[:PREVIEW_LIMIT],
        "digest": crc32(text.encode("utf-8", "replace")) if text else 0,
        "command": told.command,
        "notification": told.notification,
    }


def _parse_side_text(sketch: LightRecord, blocks: list[LightBlock]) -> SideText | None:
    """Return what somebody says in a record of results, if it is not the harness."""
    if not blocks:
        return None
    said = _user_facts(sketch, blocks)
    if said["origin"] in {Origin.HARNESS, Origin.HOOK}:
        return None
    return SideText(said["origin"], said["preview"], said["digest"])


def _leading_text(user_texts: list[UserText], *, has_media: bool) -> UserText:
    """Return the text that says what a record is: a person's before any other."""
    persons = (told for told in user_texts if told.typed_text.strip())
    first = next(persons, None)
    if first is not None or has_media:
        return first or UserText(Origin.PERSON)
    machine = (told for told in user_texts if told.origin is not Origin.PERSON)
    return next(machine, UserText(Origin.HARNESS))


def _detect_origin(sketch: LightRecord, user_text: UserText) -> Origin:
    if sketch.is_compact_summary:
        return Origin.COMPACTION
    origin = user_text.origin
    if sketch.origin is not None and origin is Origin.PERSON:
        sender = _SENDER_ORIGINS.get(sketch.origin.kind or "human", Origin.HARNESS)
        origin = sender or origin
    if origin is Origin.PERSON and (sketch.is_meta or sketch.source_tool_use):
        origin = Origin.HARNESS
    if origin is Origin.PERSON and _is_compact_command(user_text.typed_text):
        origin = Origin.COMMAND
    if origin is Origin.PERSON and sketch.is_sidechain:
        return Origin.CALLER
    return origin


def _is_compact_command(typed: str) -> bool:
    """Whether the text is ``/compact`` as typed; the command is recorded again."""
    return typed == "/compact" or typed.startswith("/compact ")


def _progress_facts(sketch: LightRecord) -> dict[str, Any]:
    if sketch.progress is None:
        return {}
    agent = sketch.progress.agent_id or sketch.agent_id
    facts: dict[str, Any] = {"subtype": sketch.progress.type, "agent_id": agent}
    if sketch.progress.type == "agent_progress":
        facts["extra"] = parse_progress_usage(sketch.progress.message)
    return facts
