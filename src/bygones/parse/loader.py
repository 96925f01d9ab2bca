"""Decoding outcomes: the structured results that tools leave beside the text."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Raw, structs

from bygones.model.base import Line, Position, Problem, WireStruct
from bygones.model.metadata import (
    Attachment,
    AttachmentRecord,
    FileDeltaRecord,
    FileSnapshotRecord,
    QueueOperationRecord,
    Record,
)
from bygones.model.outcomes import (
    OUTCOME_TYPES,
    FileText,
    Outcome,
    ReadOutcome,
    TextOutcome,
    UnknownOutcome,
)
from bygones.model.records import (
    AssistantRecord,
    Block,
    SystemRecord,
    TextBlock,
    UserRecord,
)
from bygones.model.summary import Loader
from bygones.parse.decode import decode_struct
from bygones.parse.full import RecordContent, parse_line, parse_record_content
from bygones.parse.metadata import attachment_text
from bygones.parse.texts import content_text

_OBJECT_DECODER = msgspec.json.Decoder(dict[str, Raw])
_STRING_DECODER = msgspec.json.Decoder(str)
_DECODE_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def parse_outcome(raw: bytes) -> Outcome | None:
    """Return the outcome in ``toolUseResult``; ``None`` where there is none.

    Lists (MCP tools write their blocks there) and objects of no known shape are kept
    as they were written. Nothing raises.
    """
    first = raw[:1]
    if not first or raw == b"null":
        return None
    try:
        if first == b'"':
            return TextOutcome(_STRING_DECODER.decode(raw))
        if first == b"{":
            return _parse_object(raw)
    except _DECODE_ERRORS:
        pass
    return UnknownOutcome(raw)


class _ReadExtent(WireStruct, frozen=True, kw_only=True, gc=False):
    num_lines: int | None = None
    start_line: int | None = None
    total_lines: int | None = None
    original_size: int | None = None


class _RawReadOutcome(WireStruct, frozen=True, kw_only=True):
    type: str | None = None
    file: _ReadExtent


_READ_DECODER = msgspec.json.Decoder(_RawReadOutcome)


def parse_read_extent(raw: bytes) -> ReadOutcome | None:
    """Return the outcome of a sound Read, without the file; ``None`` of any other.

    What was read is passed over, and need not be decoded.
    """
    try:
        found = _READ_DECODER.decode(raw)
    except _DECODE_ERRORS:
        return None
    return ReadOutcome(type=found.type, file=FileText(**structs.asdict(found.file)))


def _parse_object(raw: bytes) -> Outcome:
    keys = _OBJECT_DECODER.decode(raw).keys()
    for kind in OUTCOME_TYPES:
        if not keys.isdisjoint(kind.marker_fields):  # type: ignore[attr-defined]
            outcome: Any = decode_struct(kind, raw, lambda _path, _reason: None)
            return outcome  # type: ignore[no-any-return]
    return UnknownOutcome(raw)


_CACHE_SIZE = 16
"""Decoded records that a loader remembers: a message's calls share records."""


class RecordLoader(Loader):
    """Decodes records; where their bytes come from is left to ``raw``."""

    def __init__(self) -> None:
        self.record = lru_cache(maxsize=_CACHE_SIZE)(self._decode_record)
        self._cached_content = lru_cache(maxsize=_CACHE_SIZE)(self._decode_content)
        self._cached_outcome = lru_cache(maxsize=1)(self._decode_outcome)

    def clear_cache(self) -> None:
        """Let go of what was decoded: nobody asks any more."""
        self.record.cache_clear()
        self._cached_content.cache_clear()
        self._cached_outcome.cache_clear()

    def load_blocks(self, position: Position) -> tuple[Block, ...]:
        """Return the blocks of the record at a position."""
        spoken = self._cached_content(position)
        return spoken.blocks if spoken else record_blocks(self.record(position))

    def load_outcome(self, position: Position) -> Outcome | None:
        """Return the structured result in the record at a position.

        Whoever shows a call asks for it several times, and for no other meanwhile.
        """
        return self._cached_outcome(position)

    def _decode_outcome(self, position: Position) -> Outcome | None:
        spoken = self._cached_content(position)
        if spoken is not None:
            return parse_outcome(spoken.raw_result)
        record = self.record(position)
        if not isinstance(record, UserRecord):
            return None
        return parse_outcome(bytes(record.tool_use_result))

    def load_read_extent(self, position: Position) -> ReadOutcome | None:
        """Return what the outcome of a Read says of the file, without the file."""
        spoken = self._cached_content(position)
        found = parse_read_extent(spoken.raw_result) if spoken else None
        if found is None:
            outcome = self.load_outcome(position)
            found = outcome if isinstance(outcome, ReadOutcome) else None
        return found

    def outcome_contains(self, position: Position, *needles: bytes) -> bool:
        """Whether the outcome at a position is written with one of some signs."""
        written = self.load_json(position)[1]
        return any(sign in written for sign in needles)

    def load_json(self, position: Position) -> tuple[bytes, bytes]:
        """Return the JSON of the blocks and of the outcome; else the whole line."""
        spoken = self._cached_content(position)
        if spoken is not None:
            return spoken.raw_content, spoken.raw_result
        line = self.read_raw(position)
        return line, line

    def load_snapshot(
        self, position: Position
    ) -> FileSnapshotRecord | FileDeltaRecord | None:
        """Return what the record at a position says of edited files.

        Snapshots are large and read once: they do not push out what was said.
        """
        record = self._decode_record(position)
        return (
            record if isinstance(record, FileSnapshotRecord | FileDeltaRecord) else None
        )

    def _decode_content(self, position: Position) -> RecordContent | None:
        return parse_record_content(self.read_raw(position))

    def _decode_record(self, position: Position) -> Record | None:
        for found in parse_line(Line(position, self.read_raw(position))):
            if not isinstance(found, Problem):
                return found
        return None


def record_blocks(record: Record | None) -> tuple[Block, ...]:
    """Return what a record of any type says, as blocks."""
    match record:
        case UserRecord(message=message) | AssistantRecord(message=message):
            content = message.content if message else None
        case SystemRecord():
            content = record.content
        case AttachmentRecord(attachment=Attachment() as attachment):
            content = attachment_text(attachment) or None
        case QueueOperationRecord():
            content = content_text(record.content)
        case _:
            content = None
    if isinstance(content, str):
        return (TextBlock(text=content),)
    return content or ()
