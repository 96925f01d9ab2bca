"""The full decode of one record, for somebody who looks at it."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw, Struct

from bygones.model.attachments import (
    ATTACHMENTS,
    Attachment,
    AttachmentRecord,
    UnknownAttachment,
)
from bygones.model.blocks import BLOCKS, Block, Text, ToolResult, UnknownBlock
from bygones.model.ids import Line, Position
from bygones.model.problems import Problem
from bygones.model.records import (
    AssistantRecord,
    UnknownRecord,
    UserRecord,
    WireMessage,
)
from bygones.parse.decode import Hook, Odd, decode_struct, field_names
from bygones.parse.kinds import RECORDS, Record
from bygones.parse.quick import quick_content
from bygones.parse.salvage import Part, salvage, sound_text

__all__ = [
    "RECORDS",
    "Record",
    "Spoken",
    "parse_line",
    "parse_record",
    "spoken_of",
    "unknown_fields",
]

_KEYS = msgspec.json.Decoder(dict[str, Raw])
_ELEMENTS = msgspec.json.Decoder(list[Raw])
_STRING = msgspec.json.Decoder(str)
_FAILURES = (msgspec.MsgspecError, UnicodeDecodeError)


def parse_line(line: Line) -> tuple[Record | Problem, ...]:
    """Return the records on a line, each after the problems met in it.

    A record of a type we do not know is not a problem; see
    :class:`~bygones.model.records.UnknownRecord`. Nothing raises.
    """
    found: list[Record | Problem] = []
    for part in salvage(line):
        if isinstance(part, Part):
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
        record = _record(sound_text(raw), odd)
    except RecursionError:
        return (*problems, Problem("too-deep", position))
    except _FAILURES as error:
        return (Problem("not-json", position, str(error)),)
    return (*problems, record if record is not None else Problem("no-type", position))


def unknown_fields(raw: bytes) -> tuple[str, ...]:
    """Return the names of fields that this version knows nothing of.

    Looks at the record and its message, not into attachments nor into tools' own
    input and output. ``raw`` must be one JSON object.
    """
    fields = _KEYS.decode(sound_text(raw))
    name = _string(fields.get("type"))
    kind = RECORDS.get(name or "")
    if kind is None:
        return ()
    strange = [key for key in fields if key not in field_names(kind) | _PASSED_OVER]
    message = fields.get("message")
    if kind in {UserRecord, AssistantRecord} and message and bytes(message)[:1] == b"{":
        known = field_names(WireMessage)
        strange += [
            f"message.{key}" for key in _KEYS.decode(message) if key not in known
        ]
    return tuple(strange)


_PASSED_OVER = frozenset(
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


def _record(raw: bytes, odd: Odd) -> Record | None:
    name = _type(raw)
    if name is None:
        return None
    kind = RECORDS.get(name)
    if kind is None:
        return UnknownRecord(name, raw)
    decoder = _PLAIN.get(kind)
    if decoder is not None:
        try:
            plain: Record = decoder.decode(raw)
        except _FAILURES:
            pass
        else:
            return plain
    return decode_struct(kind, raw, odd, hooks=_HOOKS)


class Spoken(Struct, frozen=True):
    """What a record of somebody's says, and nothing about it."""

    blocks: tuple[Block, ...]
    result: bytes
    """The structured result that the record holds; of an answer there is none."""
    content: bytes = b""
    """The JSON that the blocks are made of."""


class _Said(Struct, frozen=True):
    content: Raw = Raw()


class _Saying(Struct, frozen=True, rename={"result": "toolUseResult"}):
    type: str
    message: _Said | None = None
    result: Raw = Raw()


class _OddError(Exception):
    pass


_SAYING = msgspec.json.Decoder(_Saying)


def spoken_of(raw: bytes) -> Spoken | None:
    """Return what a sound record of a user or of Claude says, and nothing of another.

    The same as the full decode gives, at a fraction of its cost.
    """

    def odd(path: str, _reason: str) -> None:
        raise _OddError(path)

    try:
        found = _SAYING.decode(raw)
        if found.type not in _SPEAKERS or found.message is None:
            return None
        told = quick_content(found.message.content)
        if told is None:
            told = _content(found.message.content, "content", odd)
    except (*_FAILURES, RecursionError, _OddError):
        return None
    blocks = (Text(text=told),) if isinstance(told, str) else told or ()
    result = bytes(found.result) if found.type == "user" else b""
    return Spoken(blocks, result, bytes(found.message.content))


_SPEAKERS = frozenset(("user", "assistant"))


class _Typed(Struct, frozen=True):
    type: Raw = Raw()


_TYPED = msgspec.json.Decoder(_Typed)


def _type(raw: bytes | Raw) -> str | None:
    """Return what an object says that it is."""
    return _string(_TYPED.decode(raw).type or None)


def _string(raw: Raw | None) -> str | None:
    try:
        return _STRING.decode(raw) if raw is not None else None
    except _FAILURES:
        return None


def _content(raw: Raw, path: str, odd: Odd) -> str | tuple[Block, ...] | None:
    """Decode content: a string, or a list that may hold anything at all."""
    first = bytes(raw)[:1]
    if first == b'"':
        return _STRING.decode(raw)
    if first == b"[":
        elements = enumerate(_ELEMENTS.decode(raw))
        return tuple(_block(block, f"{path}[{at}]", odd) for at, block in elements)
    if first == b"{":
        return (_block(raw, path, odd),)
    odd(path, "neither text nor a list of blocks")
    return None


def _block(raw: Raw, path: str, odd: Odd) -> Block:
    if bytes(raw)[:1] == b'"':
        return Text(text=_STRING.decode(raw))
    if bytes(raw)[:1] != b"{":
        return UnknownBlock("", bytes(raw))
    name = _type(raw) or ""
    kind = BLOCKS.get(name)
    if kind is None:
        return UnknownBlock(name, bytes(raw))
    block: Any = decode_struct(kind, raw, odd, path=path, hooks=_HOOKS)
    return block  # type: ignore[no-any-return]


def _attachment(raw: Raw, path: str, odd: Odd) -> Attachment | UnknownAttachment:
    if bytes(raw)[:1] != b"{":
        odd(path, "not an object")
        return UnknownAttachment(type="", raw=bytes(raw))
    name = _type(raw) or ""
    kind = ATTACHMENTS.get(name)
    if kind is None:
        return UnknownAttachment(type=name, raw=bytes(raw))
    return decode_struct(kind, raw, odd, path=path, hooks=_HOOKS)


_HOOKS: dict[tuple[type[Struct], str], Hook] = {
    (WireMessage, "content"): _content,
    (ToolResult, "content"): _content,
    (AttachmentRecord, "attachment"): _attachment,
}

_PLAIN: dict[type[Struct], msgspec.json.Decoder[Any]] = {
    kind: msgspec.json.Decoder(kind)
    for kind in set(RECORDS.values())
    if kind not in {UserRecord, AssistantRecord, AttachmentRecord}
}
"""Decoders of records that need no hook, for the many that are sound."""
