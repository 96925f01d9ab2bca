"""The light decoder: one JSON decode per line, and only the fields that ingest uses.

`parse_line_light` decodes a line, `build_node` makes a node of the tree from it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import MAXYEAR, MINYEAR, UTC, datetime
from functools import cache, lru_cache
from typing import Annotated, TypeVar
from zlib import crc32

import msgspec
from msgspec import Raw, Struct, structs

from bygones.model.base import (
    DECODE_ERRORS,
    ID_LENGTH,
    PATH_LENGTH,
    TOOL_USE_TYPES,
    AgentId,
    Line,
    Position,
    Problem,
    SourceId,
    wire_name,
)
from bygones.model.metadata import RECORDS_BY_TYPE
from bygones.model.nodes import (
    PREVIEW_LIMIT,
    AgentProgressFacts,
    InterruptFacts,
    LightBlock,
    LightMessage,
    LightProgress,
    LightRecord,
    LineageFacts,
    LocatedRecord,
    NodeBlock,
    NodeFacts,
    Origin,
    RecordNode,
    ResultFacts,
    SideText,
    UserText,
    display_text,
    parse_user_text,
    text_digest,
    user_text_facts,
)
from bygones.model.problem_runs import ProblemRuns
from bygones.parse.decode import (
    MIN_GUARDED_LENGTH,
    MIN_RECORD_LENGTH,
    FieldHooks,
    InvalidFieldCallback,
    SalvagedObject,
    check_utf8,
    content_text,
    decode_struct,
    has_too_many_values,
    ignore_invalid_field,
    raw_head,
    raw_size,
    raw_tail,
    replace_invalid_utf8,
    salvage_line,
)
from bygones.parse.shell_edits import (
    DiffHunk,
    RawShellEdits,
    count_patch_lines,
    find_git_output,
    list_changed_files,
)
from bygones.parse.usage import parse_billing, parse_usage

_decode_light = msgspec.json.Decoder(LightRecord).decode
_decode_list = msgspec.json.Decoder(list[Raw]).decode
_decode_string = msgspec.json.Decoder(str).decode

T = TypeVar("T", bound=Struct)


def parse_line_light(line: Line) -> tuple[LocatedRecord | Problem, ...]:
    """Return the records on a line, each after the problems found in it.

    A valid line gives exactly one record. Never raises.
    """
    length = len(line.raw)
    if length < MIN_RECORD_LENGTH and line.has_newline and line.position.offset:
        return _short_line_problems(line)
    is_long = length >= MIN_GUARDED_LENGTH
    if is_long and has_too_many_values(line.raw):
        return (Problem("too-many", line.position),)
    try:
        if is_long:  # or it is found to be invalid when most of it was copied
            check_utf8(line.raw)
        record = _decode_light(line.raw)
    except DECODE_ERRORS:
        return _parse_damaged(line)
    if record.type is None:
        return _parse_damaged(line)
    return (LocatedRecord(record, line.position, line.raw),)


_SHOWN_KINDS = frozenset({"user", "assistant", "system", "progress"})


def is_empty_node(node: RecordNode) -> bool:
    """Whether a node has no id, so that nothing can refer to it, and nothing to show.

    Those of unknown types are only counted. Junk can have one every dozen bytes.
    """
    if node.uuid is not None or node.session_id is not None:
        return False
    return node.kind not in RECORDS_BY_TYPE or (
        node.kind in _SHOWN_KINDS
        and node
        == RecordNode(position=node.position, kind=node.kind, origin=node.origin)
    )


def max_limited_before(offset: int) -> int:
    """Return how many short records are used before an offset of a file.

    A session of them takes 1 to 7 kB of memory for each, and junk can have one every 20
    bytes. In real transcripts a record has 650 bytes or more on average.
    """
    return _MAX_LIMITED_RECORDS + offset // _BYTES_PER_LIMITED_RECORD


class RecordLimit:
    """Selects the records of a file that are used.

    ``count`` records that were selected before count towards the limit.
    """

    def __init__(self, count: int = 0) -> None:
        self._count = count

    def select(self, node: RecordNode) -> RecordNode | None:
        """Return what is used of a record: all, a part, or nothing (`None`)."""
        count = node.limited_count
        if not count or self._count < max_limited_before(node.position.offset):
            self._count += count
            return node
        without_repeated = structs.replace(node, extra=None)
        # Other records may refer to one that has a parent.
        return None if without_repeated.limited_count else without_repeated


_MAX_LIMITED_RECORDS = 20_000
_BYTES_PER_LIMITED_RECORD = 4096


def _short_line_problems(line: Line) -> tuple[Problem, ...]:
    """Return the problems of a line that is too short to be a record."""
    position = line.position
    return tuple(
        Problem(
            kind,
            Position(
                position.source_id,
                position.generation,
                position.offset + start,
                length,
            ),
            detail,
        )
        for kind, start, length, detail in _salvage_short(line.raw)
    )


@lru_cache(maxsize=4096)
def _salvage_short(raw: bytes) -> tuple[tuple[str, int, int, str], ...]:
    """Return kind, start, length and detail of problems; junk has many equal lines."""
    found = _parse_damaged(Line(Position(SourceId(""), 0, 1, len(raw)), raw))
    return tuple(
        (part.kind, part.position.offset - 1, part.position.length, part.detail)
        for part in found
        if isinstance(part, Problem)
    )


def _parse_damaged(line: Line) -> tuple[LocatedRecord | Problem, ...]:
    found: list[LocatedRecord | Problem] = []
    for part in salvage_line(line):
        if isinstance(part, SalvagedObject):
            found.extend(_decode_salvaged(part))
        else:
            found.append(part)
    return tuple(found)


def _decode_salvaged(salvaged: SalvagedObject) -> list[LocatedRecord | Problem]:
    problems = ProblemRuns()

    def on_invalid(path: str, reason: str) -> None:
        problems.add(Problem("odd-field", salvaged.position, f"{path}: {reason}"))

    try:
        record = decode_struct(LightRecord, salvaged.raw, on_invalid, hooks=_HOOKS)
    except RecursionError:
        return [Problem("too-deep", salvaged.position)]
    if record.type is None:
        return [*problems, Problem("no-type", salvaged.position)]
    return [*problems, LocatedRecord(record, salvaged.position, salvaged.raw)]


def _decode_content(
    raw: Raw, path: str, on_invalid: InvalidFieldCallback
) -> str | list[LightBlock] | None:
    """Decode content of any shape: a string, a block, or a list of blocks and strings."""
    match raw_head(raw, 1):
        case b'"':
            return _decode_string(raw)
        case b"[":
            return [
                _decode_block(block, f"{path}[{index}]", on_invalid)
                for index, block in enumerate(_decode_list(raw))
            ]
        case b"{":
            return [_decode_block(raw, path, on_invalid)]
        case _:
            on_invalid(path, "neither text nor a list of blocks")
            return None


def _decode_block(raw: Raw, path: str, on_invalid: InvalidFieldCallback) -> LightBlock:
    match raw_head(raw, 1):
        case b"{":
            return decode_struct(LightBlock, raw, on_invalid, path=path)
        case b'"':
            return LightBlock(type="text", text=_decode_string(raw))
        case _:
            return LightBlock()


_HOOKS = FieldHooks({(LightMessage, "content"): _decode_content})

_LABEL_LIMIT = 200
_MAX_COUNT = 1 << 53
"""Larger numbers are not counts."""
_AGENT_ID_PATTERN = rb"agentId: ([A-Za-z0-9_-]+)"
_TAIL_SIZE = 600
_STORED_PATH_PATTERN = (
    rb"<persisted-output>.{0,200}?[Ss]aved to: ([^\n]+?)(?:\\n|\n|<|$)"
)
_STORED_HEAD_SIZE = 4_000


def extract_result_facts(
    raw: Raw, blocks: Sequence[LightBlock]
) -> tuple[ResultFacts | None, str]:
    """Return facts about tool results, and the beginning of the first error.

    The agent's id and the path of a stored output may be missing in the structured
    outcome; then they are looked up in the text for the model.
    """
    facts = _outcome_facts(raw)
    error_text = ""
    for block in blocks:
        if block.is_error and not error_text:
            error_text = content_text(block.content)[:PREVIEW_LIMIT]
        tail = raw_tail(block.content, _TAIL_SIZE)
        match = re.search(_AGENT_ID_PATTERN, tail) if b"agentId" in tail else None
        if match and (facts is None or facts.agent_id is None):
            agent_id = AgentId(match[1].decode())
            facts = structs.replace(facts or ResultFacts(), mentioned_agent_id=agent_id)
        path = _find_stored_path(raw_head(block.content, _STORED_HEAD_SIZE))
        if path and (facts is None or facts.stored_path is None):
            facts = structs.replace(facts or ResultFacts(), stored_path=path)
    return facts, error_text


def _find_stored_path(content: bytes) -> str | None:
    """Return the path of an output that was stored outside the transcript."""
    if b"<persisted-output>" not in content:
        return None
    match = re.search(_STORED_PATH_PATTERN, content)
    return match[1].decode("utf-8", "replace").replace("\\\\", "\\") if match else None


class _ToolInput(Struct, frozen=True, gc=False):
    """The input fields that a call is labeled with."""

    file_path: Annotated[str, PATH_LENGTH] | None = None
    notebook_path: Annotated[str, PATH_LENGTH] | None = None
    path: Annotated[str, PATH_LENGTH] | None = None
    command: str | None = None
    description: str | None = None
    pattern: str | None = None
    query: str | None = None
    url: str | None = None
    skill: str | None = None
    subject: str | None = None
    plan: str | None = None
    prompt: str | None = None
    subagent_type: Annotated[str, ID_LENGTH] | None = None


@cache
def _struct_decoder(struct_type: type[T], *, strict: bool) -> Callable[[Raw], T]:
    # Created on first use: search does not need them.
    return msgspec.json.Decoder(struct_type, strict=strict).decode


def _decode_tolerant(struct_type: type[T], raw: Raw, *, strict: bool = True) -> T:
    """Decode, and leave out invalid fields."""
    try:
        found: T = _struct_decoder(struct_type, strict=strict)(raw)
    except DECODE_ERRORS:
        pass
    else:
        return found
    content = replace_invalid_utf8(bytes(raw))
    try:
        return decode_struct(struct_type, content, ignore_invalid_field)
    except DECODE_ERRORS:
        return struct_type()


def build_node_block(block: LightBlock) -> NodeBlock:
    """Return a block without its content."""
    # Some gateways give every block an empty name and id.
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
    tool_input = _decode_tolerant(_ToolInput, block.input)
    path = tool_input.file_path or tool_input.notebook_path
    label = (
        path
        or tool_input.command
        or tool_input.description
        or tool_input.pattern
        or tool_input.query
        or tool_input.url
        or tool_input.skill
        or tool_input.subject
        or tool_input.path
        or tool_input.plan
    )
    prompt = tool_input.prompt
    return NodeBlock(
        kind=block.type,
        id=block.id or None,
        name=block.name or "",
        label=label[:_LABEL_LIMIT] if label else None,
        path=path,
        agent_type=tool_input.subagent_type,
        digest=text_digest(prompt) if prompt else 0,
        size=raw_size(block.input),
    )


class _OutcomeFile(Struct, frozen=True, gc=False, rename=wire_name):
    file_path: Annotated[str, PATH_LENGTH] | None = None


class _RawOutcome(Struct, frozen=True, gc=False, rename=wire_name):
    type: Annotated[str, ID_LENGTH] | None = None
    status: Annotated[str, ID_LENGTH] | None = None
    agent_id: Annotated[str, ID_LENGTH] | None = None
    resumed_agent_id: Annotated[str, ID_LENGTH] | None = None
    file_path: Annotated[str, PATH_LENGTH] | None = None
    file: _OutcomeFile | None = None
    structured_patch: list[DiffHunk] | None = None
    old_string: str | None = None
    new_string: str | None = None
    content: Raw = Raw()
    run_id: Annotated[str, ID_LENGTH] | None = None
    task_id: Annotated[str, ID_LENGTH] | None = None
    background_task_id: Annotated[str, ID_LENGTH] | None = None
    persisted_output_path: Annotated[str, PATH_LENGTH] | None = None
    total_duration_ms: float | None = None
    total_tokens: float | None = None
    total_tool_use_count: float | None = None
    search_count: int | None = None
    bash_edit_diff: RawShellEdits | None = None
    stdout: Raw = Raw()
    stderr: Raw = Raw()


def _outcome_facts(raw: Raw) -> ResultFacts | None:
    if raw_head(raw, 1) != b"{":
        return None
    outcome = _decode_tolerant(_RawOutcome, raw, strict=False)
    has_patch = any(hunk.lines for hunk in outcome.structured_patch or ())
    added, removed = (
        count_patch_lines(outcome.structured_patch)
        if has_patch
        else _count_changed_lines(outcome)
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
        has_patch=has_patch,
        is_new_file=outcome.type == "create",
        run_id=outcome.run_id or outcome.task_id or outcome.background_task_id,
        stored_path=outcome.persisted_output_path,
        web_searches=_to_int(outcome.search_count) or 0,
        changed_files=list_changed_files(outcome.bash_edit_diff),
        git_output=find_git_output(outcome.stdout) or find_git_output(outcome.stderr),
    )
    return facts if facts != _NO_FACTS else None


_NO_FACTS = ResultFacts()


def _count_changed_lines(outcome: _RawOutcome) -> tuple[int, int]:
    """Count added and removed lines where there is no patch."""
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
"""Origin by the kind of sender that the record names; `None`: the text decides."""


def build_node(located_record: LocatedRecord) -> RecordNode:
    """Return the node of a record of any type."""
    record = located_record.record
    if record.type in {"user", "assistant"}:
        facts = _message_facts(record)
    elif record.type == "progress":
        facts = _progress_facts(located_record)
    else:
        facts = _load_metadata_facts()(located_record)
    origin = record.forked_from
    return RecordNode(
        position=located_record.position,
        kind=record.type or "",
        subtype=record.subtype if facts.subtype is None else facts.subtype,
        uuid=record.uuid,
        parent_uuid=record.parent_uuid,
        logical_parent_uuid=record.logical_parent_uuid,
        session_id=record.session_id,
        agent_id=facts.agent_id or record.agent_id,
        timestamp=_normalize_time(record.timestamp),
        is_sidechain=record.is_sidechain,
        is_meta=record.is_meta,
        is_error=record.is_api_error_message,
        cwd=record.cwd,
        git_branch=record.git_branch,
        version=record.version,
        slug=record.slug,
        entrypoint=record.entrypoint,
        team_name=record.team_name,
        message_id=facts.message_id,
        request_id=record.request_id,
        model=facts.model,
        usage=facts.usage,
        origin=facts.origin,
        preview=facts.preview,
        digest=facts.digest,
        blocks=facts.blocks,
        result=facts.result,
        side_text=facts.side_text,
        command=facts.command,
        notification=facts.notification,
        source_call_id=record.source_tool_use or record.parent_tool_use,
        source_record_id=record.source_tool_assistant,
        forked_from=LineageFacts(origin.session_id, origin.message_uuid)
        if origin
        else None,
        supersedes_ids=record.supersedes_uuids,
        extra=facts.extra,
        billing=facts.billing,
    )


@cache
def _load_metadata_facts() -> Callable[[LocatedRecord], NodeFacts]:
    # Imported late: it defines about 60 structs that reading messages does not need.
    from bygones.parse.metadata import extract_metadata_facts

    return extract_metadata_facts


def _normalize_time(time: datetime | None) -> datetime | None:
    """Convert a time to UTC; `None` in years that some time zone cannot show."""
    if time is None or not MINYEAR < time.year < MAXYEAR:
        return None
    return time if time.tzinfo is UTC else time.astimezone(UTC)


def _message_facts(record: LightRecord) -> NodeFacts:
    message = record.message
    if message is None:
        return NodeFacts(origin=Origin.HARNESS if record.type == "user" else None)
    content = message.content
    blocks = (
        [LightBlock(type="text", text=content)]
        if isinstance(content, str)
        else content or []
    )
    if record.type == "user":
        facts = _user_facts(record, blocks)
    else:
        text = next((block.text for block in blocks if block.text), "")
        facts = NodeFacts(preview=text[:PREVIEW_LIMIT])
    if record.interrupted_message_id:
        facts.extra = InterruptFacts(record.interrupted_message_id)
    facts.message_id = message.id
    facts.model = message.model
    facts.blocks = tuple(map(build_node_block, blocks))
    if message.usage is not None:
        facts.usage = parse_usage(message.usage)
        facts.billing = parse_billing(message.usage)
    return facts


_DENIALS = (
    "Claude requested permissions to ",
    "Permission to use ",
    "The user doesn't want to take this action right now",
    "This Bash command contains multiple operations. The following part",
    "This command requires approval",
)
"""How the result of a denied call starts in versions that do not mark it."""


def _user_facts(record: LightRecord, blocks: list[LightBlock]) -> NodeFacts:
    if any(block.tool_use_id for block in blocks):
        outcome = record.tool_use_result
        if not outcome or outcome == Raw(b"null"):
            inner = [block.outcome for block in blocks if block.tool_use_id]
            outcome = inner[0] if len(inner) == 1 else Raw()
        result, error_text = extract_result_facts(outcome, blocks)
        # The client uses this kind for calls without a result when a session was killed.
        is_denied = record.tool_denial_kind not in {None, "", "interrupted"}
        if is_denied or error_text.startswith(_DENIALS):
            result = structs.replace(result or ResultFacts(), is_denied=True)
        others = [block for block in blocks if block.text and not block.tool_use_id]
        return NodeFacts(
            origin=Origin.TOOL,
            preview=error_text,
            result=result,
            side_text=_parse_side_text(record, others),
        )
    user_texts = [
        parse_user_text(block.text) for block in blocks if block.text is not None
    ]
    typed = "\n".join(text.typed_text for text in user_texts if text.typed_text)
    has_media = any(block.type in {"image", "document"} for block in blocks)
    leading = _leading_text(user_texts, has_media=has_media)
    origin = _detect_origin(record, leading)
    is_typed = origin in {Origin.PERSON, Origin.CALLER}
    return user_text_facts(
        leading, origin, typed if is_typed else display_text(leading, typed)
    )


def _parse_side_text(record: LightRecord, blocks: list[LightBlock]) -> SideText | None:
    """Return the text beside tool results, unless the harness added it."""
    if not blocks:
        return None
    facts = _user_facts(record, blocks)
    if facts.origin is None or facts.origin in {Origin.HARNESS, Origin.HOOK}:
        return None
    return SideText(facts.origin, facts.preview, facts.digest)


def _leading_text(user_texts: list[UserText], *, has_media: bool) -> UserText:
    """Return the text that decides what a record is: typed text before any other."""
    typed = next((text for text in user_texts if text.typed_text.strip()), None)
    if typed is not None or has_media:
        return typed or UserText(Origin.PERSON)
    machine = (text for text in user_texts if text.origin is not Origin.PERSON)
    return next(machine, UserText(Origin.HARNESS))


def _detect_origin(record: LightRecord, user_text: UserText) -> Origin:
    if record.is_compact_summary:
        return Origin.COMPACTION
    origin = user_text.origin
    if record.origin is not None and origin is Origin.PERSON:
        sender = _SENDER_ORIGINS.get(record.origin.kind or "human", Origin.HARNESS)
        origin = sender or origin
    if origin is Origin.PERSON and (
        record.is_meta or record.source_tool_use or record.turn_companion
    ):
        origin = Origin.HARNESS
    if origin is Origin.PERSON and _is_compact_command(user_text.typed_text):
        origin = Origin.COMMAND
    if origin is Origin.PERSON and record.is_sidechain:
        return Origin.CALLER
    return origin


def _is_compact_command(typed: str) -> bool:
    """Whether the text is `/compact` as typed; another record repeats the command."""
    return typed == "/compact" or typed.startswith("/compact ")


def _progress_facts(located_record: LocatedRecord) -> NodeFacts:
    progress = located_record.record.progress
    if progress is None:
        return NodeFacts()
    records = (
        tuple(_repeated_nodes(located_record, progress))
        if progress.type == "agent_progress"
        else ()
    )
    return NodeFacts(
        subtype=progress.type,
        agent_id=progress.agent_id,
        extra=AgentProgressFacts(records) if records else None,
    )


def _repeated_nodes(
    located_record: LocatedRecord, progress: LightProgress
) -> Iterator[RecordNode]:
    """Yield the nodes of an agent's records inside a progress record."""
    outer, place = located_record.record, located_record.position
    last = bytes(progress.message)
    for raw in (*_texts_before(progress.normalized_messages), last):
        start = located_record.raw.find(raw)
        if raw[:1] != b"{" or start < 0:
            continue
        try:
            inner = _decode_light(raw)
        except DECODE_ERRORS:
            continue
        if inner.type not in {"user", "assistant"}:
            continue
        position = Position(
            place.source_id, place.generation, place.offset + start, len(raw)
        )
        inner = structs.replace(
            inner,
            parent_uuid=None,
            is_sidechain=True,
            agent_id=progress.agent_id,
            cwd=outer.cwd,
            session_id=outer.session_id,
            version=outer.version,
            git_branch=outer.git_branch,
            entrypoint=outer.entrypoint,
        )
        yield build_node(LocatedRecord(inner, position, raw))


_MAX_REPEATED_TEXTS = 20


def _texts_before(messages: Raw) -> list[bytes]:
    """Return the texts of an agent that come directly before its last record.

    Only records with calls or results have a progress record of their own. In real
    transcripts there is at most one text.
    """
    if raw_head(messages, 1) != b"[":
        return []
    try:
        raws = _decode_list(messages)
    except DECODE_ERRORS:
        return []
    texts: list[bytes] = []
    for raw in reversed(raws[-_MAX_REPEATED_TEXTS - 1 : -1]):
        entry = bytes(raw)
        if b'"tool_use"' in entry or b'"tool_result"' in entry:
            break
        texts.append(entry)
    texts.reverse()
    return texts
