"""What the model was sent: lines of transcripts → requests with all their messages.

Recent versions of Claude Code record each request as a list of hashes of messages. The
messages themselves are in blobs, or follow from the records of the tree. For older
versions the messages are derived from the tree.
"""

from __future__ import annotations

from collections.abc import (
    Callable,
    Container,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from hashlib import sha256
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct

from bygones.model.base import DECODE_ERRORS, TOOL_USE_TYPES, RecordId
from bygones.model.metadata import (
    ApiRequestRecord,
    RequestBlobRecord,
    RequestShapeRecord,
)
from bygones.model.records import CompactionMetadata
from bygones.model.reports import (
    BlockOrigin,
    LeftOutMessage,
    ModelRequest,
    SentBlock,
    SentMessage,
    SentTool,
    TurnRequests,
)
from bygones.model.sessions import Branch, Message, Turn
from bygones.model.summary import Role

_Block = dict[str, Any]
_Path = tuple[str | int, ...]
_NO_PATH: _Path = ()
_T = TypeVar("_T")
_MIN_MATCH = 8
_MAX_MATCH = 120
"""Characters of a prompt that are looked for in texts that the harness made of it."""


class _WireMessage(Struct, frozen=True):
    role: str | None = None
    id: str | None = None
    content: Any = None

    @property
    def blocks(self) -> list[_Block]:
        """The blocks; a string is one block of text."""
        if isinstance(self.content, str):
            return [{"type": "text", "text": self.content}]
        blocks = self.content if isinstance(self.content, list) else []
        return [
            {key: value for key, value in block.items() if key != "cache_control"}
            for block in blocks
            if isinstance(block, dict)
        ]


class _TreeLine(Struct, frozen=True, rename="camel"):
    type: str
    uuid: RecordId | None = None
    parent_uuid: RecordId | None = None
    message: _WireMessage | None = None
    subtype: str | None = None
    content: Any = None
    """The text of a system record."""
    is_display_only: bool = False
    compact_metadata: CompactionMetadata | None = None
    is_compact_summary: bool = False
    is_visible_in_transcript_only: bool = False
    is_api_error_message: bool = False
    request_ref: str | None = None


class _Shape(Struct, frozen=True):
    system: list[_Block] | str = ""
    tools: list[_Block] = []


class _Params(Struct, frozen=True):
    model: str | None = None
    max_tokens: int | None = None
    output_config: dict[str, Any] | None = None


class _LineType(Struct, frozen=True):
    type: str


_decode_type = msgspec.json.Decoder(_LineType).decode
_decode_shape = msgspec.json.Decoder(_Shape).decode
_decode_params = msgspec.json.Decoder(_Params, strict=False).decode
_decode_object = msgspec.json.Decoder(dict[str, Any]).decode
_decode_path = msgspec.json.Decoder(_Path).decode
_DECODERS: dict[str, msgspec.json.Decoder[Any]] = {
    **dict.fromkeys(
        ("user", "assistant", "system", "attachment"), msgspec.json.Decoder(_TreeLine)
    ),
    "api-request": msgspec.json.Decoder(ApiRequestRecord, strict=False),
    "api-request-shape": msgspec.json.Decoder(RequestShapeRecord, strict=False),
    "api-request-blob": msgspec.json.Decoder(RequestBlobRecord, strict=False),
}


def hash_message(role: str | None, blocks: Sequence[_Block]) -> str:
    """Return the hash by which requests name a message."""
    message = {"role": role, "content": blocks}
    return sha256(msgspec.json.encode(message, order="sorted")).hexdigest()


class _KnownMessage(Struct, frozen=True):
    role: str | None
    blocks: list[_Block]
    record_ids: tuple[RecordId, ...] = ()
    is_summary: bool = False
    is_blob: bool = False
    other_fields: dict[str, Any] = {}


def _blob_message(raw: Raw) -> _KnownMessage:
    fields = _decode_object(raw)
    role, content = fields.pop("role", None), fields.pop("content", None)
    return _KnownMessage(
        str(role),
        _WireMessage(content=content).blocks,
        is_blob=True,
        other_fields=fields,
    )


class _LoggedRequest(Struct, frozen=True):
    record: ApiRequestRecord
    hashes: tuple[str, ...]
    after_id: RecordId | None
    """The last record of the tree before it in the file."""


class RequestLog:
    """The requests in the lines of a session's transcripts, or of an agent's."""

    def __init__(self, lines: Iterable[bytes]) -> None:
        self._requests: dict[str, _LoggedRequest] = {}
        self._shapes: dict[str, _Shape] = {}
        self._messages: dict[str, _KnownMessage] = {}
        """Messages by their hash."""
        self._records: dict[RecordId, _TreeLine] = {}
        self._records_by_text: dict[str, RecordId] = {}
        self._results: dict[str, tuple[RecordId, _Block]] = {}
        """Results of tool calls, with their record, by the id of the call."""
        self._api_ids: dict[str, str] = {}
        """The answer that made a tool call, by the id of the call."""
        self._parts: dict[tuple[str, str], tuple[list[_Block], list[RecordId]]] = {}
        self._last_id: RecordId | None = None
        self._built: dict[str, SentMessage] = {}
        """Messages without cache breakpoints, by hash."""
        self._groups: dict[int, tuple[tuple[str, str] | None, str]] = {}
        """What is sent for a record, by the record's `id`: see `_find_sent_group`."""
        for line in lines:
            self._add_line(line)

    def _add_line(self, line: bytes) -> None:
        try:
            decoder = _DECODERS.get(_decode_type(line).type)
            record = decoder.decode(line) if decoder else None
            match record:
                case _TreeLine(uuid=str()):
                    self._add_tree_line(record)
                case ApiRequestRecord(id=str()):
                    self._add_request(record)
                case RequestShapeRecord(shape_hash=str(name)):
                    self._shapes[name] = _decode_shape(record.shape)
                case RequestBlobRecord(hash=str(name)):
                    self._messages[name] = _blob_message(record.message)
                case _:
                    pass
        except DECODE_ERRORS:
            # Other commands report such lines; the request shows what is missing.
            return

    def _add_request(self, record: ApiRequestRecord) -> None:
        base = self._requests.get(record.base or "")
        kept = base.hashes[: max(record.keep or 0, 0)] if base else ()
        hashes = (*kept, *record.tail)
        self._requests[record.id or ""] = _LoggedRequest(record, hashes, self._last_id)

    def _add_tree_line(self, record: _TreeLine) -> None:
        id_, message = record.uuid, record.message
        if id_ is None:
            return
        self._last_id = id_
        if id_ in self._records:
            return
        self._records[id_] = record
        if isinstance(record.content, str):
            self._records_by_text[record.content.strip()] = id_
        if message is None or message.role is None:
            return
        self._add_message(message.role, message.blocks, [id_], record)
        if message.role == "assistant":
            self._add_answer(message, record)
        else:
            self._add_user_blocks(message.blocks, id_, record)

    def _add_answer(self, message: _WireMessage, record: _TreeLine) -> None:
        api_id = message.id or record.uuid or ""
        for block in message.blocks:
            if block.get("type") in TOOL_USE_TYPES:
                self._api_ids[str(block.get("id"))] = api_id
            elif isinstance(block.get("text"), str) and record.uuid:
                self._records_by_text[block["text"].strip()] = record.uuid
        self._extend("assistant", api_id, message.blocks, record)

    def _add_user_blocks(
        self, blocks: list[_Block], id_: RecordId, record: _TreeLine
    ) -> None:
        for block in blocks:
            if block.get("type") == "tool_result":
                call = str(block.get("tool_use_id"))
                self._results[call] = id_, block
                self._extend("user", self._api_ids.get(call, call), [block], record)
            elif isinstance(block.get("text"), str):
                self._records_by_text[block["text"].strip()] = id_

    def _extend(
        self, role: str, api_id: str, blocks: list[_Block], record: _TreeLine
    ) -> None:
        """Add the parts of an answer so far, or of the results of its calls."""
        parts, ids = self._parts.setdefault((role, api_id), ([], []))
        parts.extend(blocks)
        ids.extend([record.uuid] if record.uuid else [])
        self._add_message(role, list(parts), ids, record)

    def _add_message(
        self, role: str, blocks: list[_Block], ids: list[RecordId], record: _TreeLine
    ) -> None:
        self._messages.setdefault(
            hash_message(role, blocks),
            _KnownMessage(
                role, blocks, tuple(dict.fromkeys(ids)), record.is_compact_summary
            ),
        )

    def requests(self) -> Iterator[ModelRequest]:
        """Yield all recorded requests in order."""
        answers: dict[str, list[RecordId]] = {}
        for id_, record in self._records.items():
            if record.request_ref:
                answers.setdefault(record.request_ref, []).append(id_)
        for name, logged in self._requests.items():
            yield self._build_request(logged, tuple(answers.get(name, ())))

    def _build_request(
        self, logged: _LoggedRequest, answer_ids: tuple[RecordId, ...]
    ) -> ModelRequest:
        record = logged.record
        params = _decode_or(_decode_params, record.params, _Params())
        shape = self._shapes.get(record.shape_hash or "")
        paths = [
            _decode_or(_decode_path, point.path, _NO_PATH)
            for point in record.cache_control
        ]
        effort = (params.output_config or {}).get("effort")
        return ModelRequest(
            id=record.id,
            sent_at=record.timestamp,
            version=record.version,
            query_source=record.query_source,
            model=params.model,
            effort=effort if isinstance(effort, str) else None,
            max_tokens=params.max_tokens,
            params=record.params,
            system=_system_texts(shape),
            tools=_tools(shape),
            has_shape=shape is not None,
            messages=tuple(
                self._build_message(name, number, paths)
                for number, name in enumerate(logged.hashes)
            ),
            cache_breakpoints=tuple(".".join(map(str, path)) for path in paths if path),
            base_id=record.base,
            kept_count=len(logged.hashes) - len(record.tail),
            after_id=logged.after_id,
            answer_ids=answer_ids,
        )

    def _build_message(
        self, name: str, number: int, paths: Sequence[_Path] = ()
    ) -> SentMessage:
        cached = {path[-1] for path in paths if path[:2] == ("messages", number)}
        known = self._messages.get(name)
        if known is None:
            return SentMessage(hash=name)
        if cached:
            return self._build_known_message(name, known, cached)
        # Each request of a turn contains the messages of the one before.
        if name not in self._built:
            self._built[name] = self._build_known_message(name, known, cached)
        return self._built[name]

    def _build_known_message(
        self, name: str, known: _KnownMessage, cached: Container[object]
    ) -> SentMessage:
        sources = [self._find_source(known, block) for block in known.blocks]
        found = [record_id for _, record_id in sources if record_id]
        return SentMessage(
            hash=name,
            role=known.role,
            blocks=tuple(
                SentBlock(
                    kind=str(block.get("type")),
                    text=_block_text(block),
                    content=block,
                    origin=origin,
                    is_cache_breakpoint=index in cached,
                    is_summary=known.is_summary or self._is_summary(record_id),
                )
                for index, (block, (origin, record_id)) in enumerate(
                    zip(known.blocks, sources, strict=True)
                )
            ),
            record_ids=known.record_ids or tuple(dict.fromkeys(found)),
            other_fields=known.other_fields,
        )

    def _is_summary(self, record_id: RecordId | None) -> bool:
        return record_id is not None and self._records[record_id].is_compact_summary

    def _find_source(
        self, known: _KnownMessage, block: _Block
    ) -> tuple[BlockOrigin, RecordId | None]:
        if not known.is_blob:
            return BlockOrigin.TRANSCRIPT, None
        result = self._results.get(str(block.get("tool_use_id")))
        if result is not None:
            is_same = result[1] == block
            return BlockOrigin.TRANSCRIPT if is_same else BlockOrigin.CHANGED, result[0]
        record_id = self._records_by_text.get(str(block.get("text", "")).strip())
        if record_id is not None:
            return BlockOrigin.TRANSCRIPT, record_id
        return BlockOrigin.INJECTED, None

    def derive_request(self, leaf: RecordId | None, answer: Message) -> ModelRequest:
        """Return the request that Claude Code would make at a record of the tree."""
        hashes: list[str] = []
        groups: set[tuple[str, str]] = set()
        for record in self._path_to(leaf):
            # Each request of a turn contains the records of the one before.
            group = self._groups.get(id(record))
            if group is None:
                group = self._groups[id(record)] = self._find_sent_group(record)
            key, name = group
            if not name:
                continue
            # Results may be written before the last call of their answer.
            if key is None or key not in groups:
                hashes.append(name)
            groups |= {key} if key else set()
        return ModelRequest(
            sent_at=answer.sent_at if answer.role is Role.ASSISTANT else None,
            model=answer.model,
            messages=tuple(
                self._build_message(name, number) for number, name in enumerate(hashes)
            ),
            answer_ids=tuple(ref.record_id for ref in answer.record_refs),
            is_derived=True,
        )

    def _find_sent_group(self, record: _TreeLine) -> tuple[tuple[str, str] | None, str]:
        """Return the group and the hash of the message that is sent for a record."""
        message = _sent_part(record)
        if message is None:
            return None, ""
        key, name = self._find_group(message)
        if name not in self._messages:
            self._add_message(message.role or "", message.blocks, [], record)
        return key, name

    def _find_group(self, message: _WireMessage) -> tuple[tuple[str, str] | None, str]:
        """Return what unites the records of a message, and the message's hash."""
        blocks, role = message.blocks, message.role or ""
        key = None
        if role == "assistant" and message.id:
            key = (role, message.id)
        elif blocks and all(b.get("type") == "tool_result" for b in blocks):
            call = str(blocks[0].get("tool_use_id"))
            key = (role, self._api_ids.get(call, call))
        whole = self._parts[key][0] if key in self._parts else blocks
        return key, hash_message(role, whole)

    def _path_to(self, leaf: RecordId | None) -> list[_TreeLine]:
        path: list[_TreeLine] = []
        seen: set[RecordId] = set()
        while leaf is not None and leaf in self._records and leaf not in seen:
            seen.add(leaf)
            path.append(self._records[leaf])
            leaf = path[-1].parent_uuid
        path.reverse()
        metadata = path[0].compact_metadata if path else None
        preserved = metadata.preserved_messages if metadata else None
        if preserved:
            places = {record.uuid: index for index, record in enumerate(path)}
            after = places.get(preserved.anchor_uuid, 0) + 1
            path[after:after] = [
                self._records[id_] for id_ in preserved.uuids if id_ in self._records
            ]
        return path

    def derive_requests(self, turn: Turn) -> Iterator[ModelRequest]:
        """Yield a request for each answer of a turn."""
        answers = [m for m in turn.messages if m.role is Role.ASSISTANT and m.model]
        for answer in answers:
            first = self._records.get(answer.id)
            yield self.derive_request(first.parent_uuid if first else None, answer)
        if not answers and turn.messages:
            last = turn.messages[-1]
            yield self.derive_request(last.record_refs[-1].record_id, last)


def _sent_part(record: _TreeLine) -> _WireMessage | None:
    """Return the message that Claude Code sends for a record, if any."""
    if record.type == "system":
        is_sent = record.subtype == "local_command" and not record.is_display_only
        return _WireMessage("user", None, record.content) if is_sent else None
    message = record.message
    is_hidden = record.is_visible_in_transcript_only and not record.is_compact_summary
    if message is None or record.is_api_error_message or is_hidden:
        return None
    return message if message.role in {"user", "assistant"} else None


def find_turn_requests(
    log: RequestLog, branch: Branch, turn_number: int
) -> TurnRequests:
    """Return what the model was sent in a turn, and what that leaves out."""
    recorded = list(log.requests())
    turn = branch.turns[turn_number]
    requests = _requests_of_turn(log, recorded, turn)
    previous: tuple[ModelRequest, ...] = ()
    for earlier in reversed(branch.turns[:turn_number]):
        previous = previous or _requests_of_turn(log, recorded, earlier)
    turns = branch.turns[: turn_number + 1]
    messages = [(m, m.record_ids) for turn in turns for m in turn.messages]
    return TurnRequests(
        turn_number=turn_number,
        turn_count=len(branch.turns),
        prompt=turn.prompt.preview if turn.prompt else "",
        requests=requests,
        previous=previous[-1] if previous else None,
        left_out=tuple(tuple(_left_out(messages, request)) for request in requests),
    )


def _requests_of_turn(
    log: RequestLog, recorded: Sequence[ModelRequest], turn: Turn
) -> tuple[ModelRequest, ...]:
    ids = {id_ for message in turn.messages for id_ in message.record_ids}
    found = tuple(
        request
        for request in recorded
        if (
            not ids.isdisjoint(request.answer_ids)
            if request.answer_ids
            else request.after_id in ids
        )
    )
    return found or tuple(log.derive_requests(turn))


def _left_out(
    messages: Sequence[tuple[Message, frozenset[RecordId]]], request: ModelRequest
) -> Iterator[LeftOutMessage]:
    """Yield prompts and answers of the branch that a request does not contain.

    The messages of the branch come with the ids of their records.
    """
    answer_ids = set(request.answer_ids)
    sent = {id_ for message in request.messages for id_ in message.record_ids}
    compaction = -1
    missing: list[tuple[int, Message]] = []
    for index, (message, record_ids) in enumerate(messages):
        if not answer_ids.isdisjoint(record_ids):
            break
        if message.compaction:
            compaction = index
        is_shown = message.is_prompt or message.role is Role.ASSISTANT
        if is_shown and sent.isdisjoint(record_ids):
            missing.append((index, message))
    texts = "\n".join(
        block.text
        for message in request.messages
        for block in message.blocks
        if missing
    )
    for index, message in missing:
        needle = message.preview[:_MAX_MATCH]
        if message.is_prompt and len(needle) >= _MIN_MATCH and needle in texts:
            continue
        if message.is_error:
            reason = "an error, not sent"
        else:
            reason = "summarized" if index < compaction else "not sent"
        yield LeftOutMessage(
            record_id=message.id,
            role=message.role.value,
            preview=message.preview,
            reason=reason,
        )


def _decode_or(decode: Callable[[Raw], _T], raw: Raw, default: _T) -> _T:
    try:
        return decode(raw)
    except DECODE_ERRORS:
        return default


def _system_texts(shape: _Shape | None) -> tuple[str, ...]:
    if shape is None:
        return ()
    if isinstance(shape.system, str):
        return (shape.system,) if shape.system else ()
    return tuple(_block_text(block) for block in shape.system)


def _tools(shape: _Shape | None) -> tuple[SentTool, ...]:
    return tuple(
        SentTool(
            name=str(tool.get("name", "")),
            description=str(tool.get("description", "")),
            definition=tool,
        )
        for tool in (shape.tools if shape else ())
    )


def _block_text(block: Mapping[str, Any]) -> str:
    """Return the text of a block; JSON where it is not text."""
    match block:
        case (
            {"type": "text", "text": str(text)}
            | {"type": "thinking", "thinking": str(text)}
            | {"type": "tool_result", "content": str(text)}
        ):
            return text
        case {"type": "tool_use" | "server_tool_use", "name": str(name)}:
            return f"{name} {msgspec.json.encode(block.get('input')).decode()}"
        case {"type": "tool_result", "content": list(blocks)}:
            return "\n".join(_block_text(b) for b in blocks if isinstance(b, dict))
        case {"type": "image" | "document" as kind}:
            return f"[{kind}]"
        case _:
            return msgspec.json.encode(block).decode()
