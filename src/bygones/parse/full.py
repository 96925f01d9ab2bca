"""Content as nearly every record has it, decoded at once."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw, Struct

from bygones.model.base import Line, Position, Problem, ToolUseId
from bygones.model.metadata import (
    ATTACHMENTS_BY_TYPE,
    RECORDS_BY_TYPE,
    Attachment,
    AttachmentRecord,
    Record,
    UnknownAttachment,
)
from bygones.model.records import (
    BLOCKS_BY_TYPE,
    AssistantRecord,
    Block,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
    UnknownRecord,
    UserRecord,
    WireMessage,
)
from bygones.parse.decode import (
    FieldHook,
    InvalidFieldCallback,
    SalvagedObject,
    decode_struct,
    field_names,
    replace_invalid_utf8,
    salvage_line,
)

_CONTENT_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_MISSING = Raw()


class _Text(Struct, tag_field="type", tag="text", frozen=True, gc=False):
    text: str | None = None
    citations: Raw = _MISSING

    def to_block(self) -> Block:
        return TextBlock(text=self.text, citations=_null_to_missing(self.citations))


class _Thinking(Struct, tag_field="type", tag="thinking", frozen=True, gc=False):
    thinking: str | None = None
    signature: str | None = None

    def to_block(self) -> Block:
        return ThinkingBlock(thinking=self.thinking, signature=self.signature)


class _ToolUse(Struct, tag_field="type", tag="tool_use", frozen=True, gc=False):
    id: ToolUseId | None = None
    name: str | None = None
    input: Raw = _MISSING
    caller: Raw = _MISSING
    toolset_name: str | None = None
    server_name: str | None = None

    def to_block(self) -> Block:
        return ToolUseBlock(
            id=self.id,
            name=self.name,
            input=_null_to_missing(self.input),
            caller=_null_to_missing(self.caller),
            toolset_name=self.toolset_name,
            server_name=self.server_name,
        )


class _ToolResult(
    Struct,
    tag_field="type",
    tag="tool_result",
    frozen=True,
    rename={"outcome": "toolUseResult"},
):
    tool_use_id: ToolUseId | None = None
    content: str | list[_Text] | None = None
    is_error: bool | None = None
    outcome: Raw = _MISSING

    def to_block(self) -> Block:
        content = self.content
        return ToolResultBlock(
            tool_use_id=self.tool_use_id,
            content=tuple(text.to_block() for text in content)
            if isinstance(content, list)
            else content,
            is_error=self.is_error,
            outcome=_null_to_missing(self.outcome),
        )


_decode_common = msgspec.json.Decoder(
    str | list[_Text | _Thinking | _ToolUse | _ToolResult]
).decode


def decode_common_content(raw: Raw) -> str | tuple[Block, ...] | None:
    """Return what content says; ``None`` where it holds anything unusual."""
    try:
        told = _decode_common(raw)
    except _CONTENT_ERRORS:
        return None
    return told if isinstance(told, str) else tuple(one.to_block() for one in told)


def _null_to_missing(raw: Raw) -> Raw:
    """Return a value that is there; null means that it is missing."""
    return _MISSING if raw is _MISSING or raw == _NULL else raw


_NULL = Raw(b"null")


_OBJECT_DECODER = msgspec.json.Decoder(dict[str, Raw])
_LIST_DECODER = msgspec.json.Decoder(list[Raw])
_STRING_DECODER = msgspec.json.Decoder(str)
_DECODE_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError)


def parse_line(line: Line) -> tuple[Record | Problem, ...]:
    """Return the records on a line, each after the problems met in it.

    A record of a type we do not know is not a problem; see
    :class:`~bygones.model.records.UnknownRecord`. Nothing raises.
    """
    found: list[Record | Problem] = []
    for part in salvage_line(line):
        if isinstance(part, SalvagedObject):
            found.extend(parse_record(part.raw, part.position))
        else:
            found.append(part)
    return tuple(found)


def parse_record(raw: bytes, position: Position) -> tuple[Record | Problem, ...]:
    """Return the record that a JSON object is, after the problems met in it.

    Bytes that are not UTF-8 are replaced. Nothing raises.
    """
    problems: list[Record | Problem] = []

    def odd(path: str, reason: str) -> None:
        problems.append(Problem("odd-field", position, f"{path}: {reason}"))

    try:
        record = _decode_record(replace_invalid_utf8(raw), odd)
    except RecursionError:
        return (*problems, Problem("too-deep", position))
    except _DECODE_ERRORS as error:
        return (Problem("not-json", position, str(error)),)
    return (*problems, record if record is not None else Problem("no-type", position))


def unknown_fields(raw: bytes) -> tuple[str, ...]:
    """Return the names of fields that this version knows nothing of.

    Looks at the record and its message, not into attachments nor into tools' own
    input and output. ``raw`` must be one JSON object.
    """
    fields = _OBJECT_DECODER.decode(replace_invalid_utf8(raw))
    name = _decode_string(fields.get("type"))
    kind = RECORDS_BY_TYPE.get(name or "")
    if kind is None:
        return ()
    strange = [key for key in fields if key not in field_names(kind) | _IGNORED_FIELDS]
    message = fields.get("message")
    if kind in {UserRecord, AssistantRecord} and message and bytes(message)[:1] == b"{":
        known = field_names(WireMessage)
        strange += [
            f"message.{key}"
            for key in _OBJECT_DECODER.decode(message)
            if key not in known
        ]
    return tuple(strange)


_IGNORED_FIELDS = frozenset(
    {
        "queueSkipAttachments",
        "classifierMetaLines",
        "toolEndsTurn",
        "turnCompanion",
        "serverClassifierContext",
        "bashEditDiff",
        "quotaLimits",
        "stackedExpansion",
        "stackedOriginalInput",
        "userFeedback",
        "summarizeMetadata",
        "apiErrorIsTransient",
    }
)
"""Fields that are known and of no use to anybody."""


def _decode_record(raw: bytes, on_invalid: InvalidFieldCallback) -> Record | None:
    name = _decode_type(raw)
    if name is None:
        return None
    kind = RECORDS_BY_TYPE.get(name)
    if kind is None:
        return UnknownRecord(name, raw)
    decoder = _PLAIN_DECODERS.get(kind)
    if decoder is not None:
        try:
            plain: Record = decoder.decode(raw)
        except _DECODE_ERRORS:
            pass
        else:
            return plain
    return decode_struct(kind, raw, on_invalid, hooks=_HOOKS)


class RecordContent(Struct, frozen=True):
    """What a record of somebody's says, and nothing about it."""

    blocks: tuple[Block, ...]
    raw_result: bytes
    """The structured result that the record holds; of an answer there is none."""
    raw_content: bytes = b""
    """The JSON that the blocks are made of."""


class _RawMessage(Struct, frozen=True):
    content: Raw = Raw()


class _RawRecord(Struct, frozen=True, rename={"result": "toolUseResult"}):
    type: str
    message: _RawMessage | None = None
    result: Raw = Raw()


class _InvalidFieldError(Exception):
    pass


_RAW_RECORD_DECODER = msgspec.json.Decoder(_RawRecord)


def parse_record_content(raw: bytes) -> RecordContent | None:
    """Return what a sound record of a user or of Claude says, and nothing of another.

    The same as the full decode gives, at a fraction of its cost.
    """

    def odd(path: str, _reason: str) -> None:
        raise _InvalidFieldError(path)

    try:
        found = _RAW_RECORD_DECODER.decode(raw)
        if found.type not in _MESSAGE_TYPES or found.message is None:
            return None
        told = decode_common_content(found.message.content)
        if told is None:
            told = _decode_content(found.message.content, "content", odd)
    except (*_DECODE_ERRORS, RecursionError, _InvalidFieldError):
        return None
    blocks = (TextBlock(text=told),) if isinstance(told, str) else told or ()
    result = bytes(found.result) if found.type == "user" else b""
    return RecordContent(blocks, result, bytes(found.message.content))


_MESSAGE_TYPES = frozenset(("user", "assistant"))


class _TypeOnly(Struct, frozen=True):
    type: Raw = Raw()


_TYPE_DECODER = msgspec.json.Decoder(_TypeOnly)


def _decode_type(raw: bytes | Raw) -> str | None:
    """Return what an object says that it is."""
    return _decode_string(_TYPE_DECODER.decode(raw).type or None)


def _decode_string(raw: Raw | None) -> str | None:
    try:
        return _STRING_DECODER.decode(raw) if raw is not None else None
    except _DECODE_ERRORS:
        return None


def _decode_content(
    raw: Raw, path: str, on_invalid: InvalidFieldCallback
) -> str | tuple[Block, ...] | None:
    """Decode content: a string, or a list that may hold anything at all."""
    first = bytes(raw)[:1]
    if first == b'"':
        return _STRING_DECODER.decode(raw)
    if first == b"[":
        elements = enumerate(_LIST_DECODER.decode(raw))
        return tuple(
            _decode_block(block, f"{path}[{at}]", on_invalid) for at, block in elements
        )
    if first == b"{":
        return (_decode_block(raw, path, on_invalid),)
    on_invalid(path, "neither text nor a list of blocks")
    return None


def _decode_block(raw: Raw, path: str, on_invalid: InvalidFieldCallback) -> Block:
    if bytes(raw)[:1] == b'"':
        return TextBlock(text=_STRING_DECODER.decode(raw))
    if bytes(raw)[:1] != b"{":
        return UnknownBlock("", bytes(raw))
    name = _decode_type(raw) or ""
    kind = BLOCKS_BY_TYPE.get(name)
    if kind is None:
        return UnknownBlock(name, bytes(raw))
    block: Any = decode_struct(kind, raw, on_invalid, path=path, hooks=_HOOKS)
    return block  # type: ignore[no-any-return]


def _decode_attachment(
    raw: Raw, path: str, on_invalid: InvalidFieldCallback
) -> Attachment | UnknownAttachment:
    if bytes(raw)[:1] != b"{":
        on_invalid(path, "not an object")
        return UnknownAttachment(type="", raw=bytes(raw))
    name = _decode_type(raw) or ""
    kind = ATTACHMENTS_BY_TYPE.get(name)
    if kind is None:
        return UnknownAttachment(type=name, raw=bytes(raw))
    return decode_struct(kind, raw, on_invalid, path=path, hooks=_HOOKS)


_HOOKS: dict[tuple[type[Struct], str], FieldHook] = {
    (WireMessage, "content"): _decode_content,
    (ToolResultBlock, "content"): _decode_content,
    (AttachmentRecord, "attachment"): _decode_attachment,
}

_PLAIN_DECODERS: dict[type[Struct], msgspec.json.Decoder[Any]] = {
    kind: msgspec.json.Decoder(kind)
    for kind in set(RECORDS_BY_TYPE.values())
    if kind not in {UserRecord, AssistantRecord, AttachmentRecord}
}
"""Decoders of records that need no hook, for the many that are sound."""
