"""The full decoder: a line of a transcript → records with all their fields."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw, Struct

from bygones.model.base import DECODE_ERRORS, Line, Position, Problem
from bygones.model.metadata import (
    ATTACHMENTS_BY_TYPE,
    RECORDS_BY_TYPE,
    Attachment,
    AttachmentRecord,
    Record,
    UnknownAttachment,
)
from bygones.model.problem_runs import ProblemRuns
from bygones.model.records import (
    BLOCKS_BY_TYPE,
    AssistantRecord,
    Block,
    TextBlock,
    ToolResultBlock,
    UnknownBlock,
    UnknownRecord,
    UserRecord,
    WireMessage,
)
from bygones.parse.decode import (
    FieldHooks,
    InvalidFieldCallback,
    SalvagedObject,
    decode_struct,
    field_names,
    known_names,
    raw_head,
    replace_invalid_utf8,
    salvage_line,
)

_decode_object = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_list = msgspec.json.Decoder(list[Raw]).decode
_decode_string = msgspec.json.Decoder(str).decode


def parse_line(line: Line) -> tuple[Record | Problem, ...]:
    """Return the records on a line, each after the problems found in it.

    A record of an unknown type is an `UnknownRecord`, not a problem. Never raises.
    """
    found: list[Record | Problem] = []
    for part in salvage_line(line):
        if isinstance(part, SalvagedObject):
            found.extend(parse_record(part.raw, part.position))
        else:
            found.append(part)
    return tuple(found)


def parse_record(raw: bytes, position: Position) -> tuple[Record | Problem, ...]:
    """Return the record in a JSON object, after the problems found in it.

    Invalid UTF-8 is replaced. Never raises.
    """
    problems = ProblemRuns()

    def on_invalid(path: str, reason: str) -> None:
        problems.add(Problem("odd-field", position, f"{path}: {reason}"))

    try:
        record = _decode_record(replace_invalid_utf8(raw), on_invalid)
    except RecursionError:
        return (*problems, Problem("too-deep", position))
    except DECODE_ERRORS as error:
        return (Problem("not-json", position, str(error)),)
    return (*problems, record if record is not None else Problem("no-type", position))


def unknown_fields(raw: bytes) -> tuple[str, ...]:
    """Return the names of fields that this version does not know.

    Looks at the record and its message, but not into attachments or the input and
    output of tools. `raw` must be one JSON object.
    """
    raw = replace_invalid_utf8(raw)
    fields = _decode_object(raw)
    record_type = RECORDS_BY_TYPE.get(_decode_type(raw) or "")
    if record_type is None:
        return ()
    known = known_names(record_type)
    unknown = [key for key in fields if key not in known]
    message = fields.get("message")
    if record_type in _MESSAGE_RECORDS and message and raw_head(message, 1) == b"{":
        known = field_names(WireMessage)
        unknown += [
            f"message.{key}" for key in _decode_object(message) if key not in known
        ]
    return tuple(unknown)


_MESSAGE_RECORDS = frozenset({UserRecord, AssistantRecord})


def _decode_record(raw: bytes, on_invalid: InvalidFieldCallback) -> Record | None:
    name = _decode_type(raw)
    if name is None:
        return None
    record_type = RECORDS_BY_TYPE.get(name)
    if record_type is None:
        return UnknownRecord(name, raw)
    return decode_struct(record_type, raw, on_invalid, hooks=_HOOKS)


class RecordContent(Struct, frozen=True):
    """The content of a user or assistant record, without the other fields."""

    blocks: tuple[Block, ...]
    raw_result: bytes
    """The structured tool result; empty in assistant records."""
    raw_content: bytes = b""
    """The JSON of the blocks."""


class _RawMessage(Struct, frozen=True):
    content: Raw = Raw()


class _RawRecord(Struct, frozen=True, rename={"result": "toolUseResult"}):
    type: str
    message: _RawMessage | None = None
    result: Raw = Raw()


class _InvalidFieldError(Exception):
    pass


_decode_raw_record = msgspec.json.Decoder(_RawRecord).decode


def parse_record_content(raw: bytes) -> RecordContent | None:
    """Return the content of a valid user or assistant record, `None` for all others.

    The blocks are those of `parse_record`, in a third of its time (on 49 MB of
    real transcripts). A page of a session decodes hundreds of records.
    """

    def on_invalid(path: str, _reason: str) -> None:
        raise _InvalidFieldError(path)

    try:
        record = _decode_raw_record(raw)
        if record.type not in {"user", "assistant"} or record.message is None:
            return None
        raw_content = record.message.content
        content = _decode_content(raw_content, "content", on_invalid)
    except (*DECODE_ERRORS, _InvalidFieldError):
        return None
    if isinstance(content, str):
        content = (TextBlock(text=content),)
    result = bytes(record.result) if record.type == "user" else b""
    return RecordContent(content or (), result, bytes(raw_content))


class _TypeOnly(Struct, frozen=True):
    type: Raw = Raw()


_decode_type_only = msgspec.json.Decoder(_TypeOnly).decode


def _decode_type(raw: bytes | Raw) -> str | None:
    """Return the `type` field of an object if it is a string."""
    raw_type = _decode_type_only(raw).type
    try:
        return _decode_string(raw_type)
    except DECODE_ERRORS:
        return None


def _decode_content(
    raw: Raw, path: str, on_invalid: InvalidFieldCallback
) -> str | tuple[Block, ...] | None:
    """Decode content: a string, a block, or a list of any values."""
    first = raw_head(raw, 1)
    if first == b'"':
        return _decode_string(raw)
    if first == b"[":
        return tuple(
            _decode_block(block, f"{path}[{index}]", on_invalid)
            for index, block in enumerate(_decode_list(raw))
        )
    if first == b"{":
        return (_decode_block(raw, path, on_invalid),)
    on_invalid(path, "neither text nor a list of blocks")
    return None


def _decode_block(raw: Raw, path: str, on_invalid: InvalidFieldCallback) -> Block:
    first = raw_head(raw, 1)
    if first == b'"':
        return TextBlock(text=_decode_string(raw))
    if first != b"{":
        return UnknownBlock("", bytes(raw))
    name = _decode_type(raw) or ""
    block_type = BLOCKS_BY_TYPE.get(name)
    if block_type is None:
        return UnknownBlock(name, bytes(raw))
    block: Any = decode_struct(block_type, raw, on_invalid, path=path, hooks=_HOOKS)
    return block  # type: ignore[no-any-return]


def _decode_attachment(
    raw: Raw, path: str, on_invalid: InvalidFieldCallback
) -> Attachment | UnknownAttachment:
    if raw_head(raw, 1) != b"{":
        on_invalid(path, "not an object")
        return UnknownAttachment(type="", raw=bytes(raw))
    name = _decode_type(raw) or ""
    attachment_type = ATTACHMENTS_BY_TYPE.get(name)
    if attachment_type is None:
        return UnknownAttachment(type=name, raw=bytes(raw))
    return decode_struct(attachment_type, raw, on_invalid, path=path, hooks=_HOOKS)


_HOOKS = FieldHooks(
    {
        (WireMessage, "content"): _decode_content,
        (ToolResultBlock, "content"): _decode_content,
        (AttachmentRecord, "attachment"): _decode_attachment,
    }
)
