"""Decodes single records on demand: blocks, outcomes of tools, file snapshots."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Raw

from bygones.model.base import (
    DECODE_ERRORS,
    Line,
    Position,
    Problem,
    SourceId,
    WireStruct,
)
from bygones.model.metadata import (
    Attachment,
    AttachmentRecord,
    FileDeltaRecord,
    FileSnapshotRecord,
    QueueOperationRecord,
    Record,
)
from bygones.model.outcomes import (
    FileText,
    Outcome,
    ReadOutcome,
    TextOutcome,
    UnknownOutcome,
    find_outcome_type,
)
from bygones.model.records import (
    AssistantRecord,
    Block,
    SystemRecord,
    TextBlock,
    ToolResultBlock,
    UserRecord,
)
from bygones.model.summary import Loader
from bygones.parse.decode import content_text, decode_struct, ignore_invalid_field
from bygones.parse.full import RecordContent, parse_line, parse_record_content
from bygones.parse.metadata import attachment_text

_decode_object = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_string = msgspec.json.Decoder(str).decode


def parse_outcome(raw: bytes) -> Outcome | None:
    """Decode `toolUseResult`; `None` if it is missing.

    Lists (the blocks of MCP tools) and unknown objects become an `UnknownOutcome`.
    Never raises.
    """
    first = raw[:1]
    if not first or raw == b"null":
        return None
    try:
        if first == b'"':
            return TextOutcome(_decode_string(raw))
        if first == b"{":
            return _parse_object(raw)
    except DECODE_ERRORS:
        pass
    return UnknownOutcome(raw)


def _inner_outcome(blocks: Iterable[Block]) -> Outcome | None:
    """Return the outcome inside the only tool result of a record."""
    results = [block for block in blocks if isinstance(block, ToolResultBlock)]
    return parse_outcome(bytes(results[0].outcome)) if len(results) == 1 else None


class _ReadExtent(WireStruct, frozen=True, kw_only=True, gc=False):
    num_lines: int | None = None
    start_line: int | None = None
    total_lines: int | None = None
    original_size: int | None = None


class _RawReadOutcome(WireStruct, frozen=True, kw_only=True):
    type: str | None = None
    file: _ReadExtent


_decode_read = msgspec.json.Decoder(_RawReadOutcome).decode


def parse_read_extent(raw: bytes) -> ReadOutcome | None:
    """Decode the outcome of a Read without the file's text; `None` for other tools."""
    try:
        outcome = _decode_read(raw)
    except DECODE_ERRORS:
        return None
    extent = outcome.file
    return ReadOutcome(
        type=outcome.type,
        file=FileText(
            num_lines=extent.num_lines,
            start_line=extent.start_line,
            total_lines=extent.total_lines,
            original_size=extent.original_size,
        ),
    )


def _parse_object(raw: bytes) -> Outcome:
    outcome_type = find_outcome_type(_decode_object(raw))
    if outcome_type is None:
        return UnknownOutcome(raw)
    outcome: Any = decode_struct(outcome_type, raw, ignore_invalid_field)
    return outcome  # type: ignore[no-any-return]


_CACHE_SIZE = 16
"""Decoded records that a loader caches: the calls of a message share records."""


class RecordLoader(Loader):
    """Decodes records; subclasses read their bytes in `read_raw`."""

    def __init__(self) -> None:
        self.record = lru_cache(maxsize=_CACHE_SIZE)(self._decode_record)
        self._cached_content = lru_cache(maxsize=_CACHE_SIZE)(self._decode_content)
        self._cached_outcome = lru_cache(maxsize=1)(self._decode_outcome)

    def clear_cache(self) -> None:
        self.record.cache_clear()
        self._cached_content.cache_clear()
        self._cached_outcome.cache_clear()

    def load_blocks(self, position: Position) -> tuple[Block, ...]:
        content = self._cached_content(position)
        return content.blocks if content else record_blocks(self.record(position))

    def load_outcome(self, position: Position) -> Outcome | None:
        # Only the last one is cached: showing a call needs its outcome several times.
        return self._cached_outcome(position)

    def _decode_outcome(self, position: Position) -> Outcome | None:
        content = self._cached_content(position)
        if content is not None:
            outcome = parse_outcome(content.raw_result)
            return outcome or _inner_outcome(content.blocks)
        record = self.record(position)
        if not isinstance(record, UserRecord):
            return None
        outcome = parse_outcome(bytes(record.tool_use_result))
        return outcome or _inner_outcome(record_blocks(record))

    def load_read_extent(self, position: Position) -> ReadOutcome | None:
        """Return the outcome of a Read without the file's text, if it can be skipped."""
        content = self._cached_content(position)
        extent = parse_read_extent(content.raw_result) if content else None
        if extent is not None:
            return extent
        outcome = self.load_outcome(position)
        return outcome if isinstance(outcome, ReadOutcome) else None

    def outcome_contains(self, position: Position, *needles: bytes) -> bool:
        """Whether the JSON of the outcome at a position contains one of the needles."""
        raw_outcome = self.load_json(position)[1]
        return any(needle in raw_outcome for needle in needles)

    def load_json(self, position: Position) -> tuple[bytes, bytes]:
        """Return the JSON of the blocks and of the outcome.

        Both are the whole line if the record is not a valid message.
        """
        content = self._cached_content(position)
        if content is not None:
            return content.raw_content, content.raw_result
        line = self.read_raw(position)
        return line, line

    def load_snapshot(
        self, position: Position
    ) -> FileSnapshotRecord | FileDeltaRecord | None:
        # Not cached: snapshots are large, and each is read once.
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


def stored_output_id(position: Position, path: str) -> SourceId | None:
    """Return the source of a tool output that was too long for the transcript.

    It is in the `tool-results` folder of the session. Only the file name of `path` is
    used, because transcripts are not trusted.
    """
    session = position.source_id.partition("/subagents/")[0].removesuffix(".jsonl")
    name = path.replace("\\", "/").rpartition("/")[2]
    if not name or name.startswith("."):
        return None
    return SourceId(f"{session}/tool-results/{name}")


def record_blocks(record: Record | None) -> tuple[Block, ...]:
    """Return the content of a record of any type as blocks."""
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
