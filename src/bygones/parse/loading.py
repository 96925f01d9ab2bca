"""Opening records one at a time, for whoever has their bytes."""

from __future__ import annotations

from functools import lru_cache

from bygones.model.attachments import Attachment, AttachmentRecord
from bygones.model.blocks import Block, Text
from bygones.model.ids import Line, Position
from bygones.model.metadata import FileDelta, FileSnapshot, QueueOperation
from bygones.model.parts import Loader
from bygones.model.problems import Problem
from bygones.model.records import AssistantRecord, SystemRecord, UserRecord
from bygones.model.tools import Outcome, ReadOutcome
from bygones.parse.attached import text_of_attachment
from bygones.parse.full import Record, Spoken, parse_line, spoken_of
from bygones.parse.outcomes import parse_extent, parse_outcome
from bygones.parse.texts import text_of_content

__all__ = ["RecordLoader", "blocks_of"]

_KEPT_OPEN = 16
"""Decoded records that a loader remembers: a message's calls share records."""


class RecordLoader(Loader):
    """Decodes records; where their bytes come from is left to ``raw``."""

    def __init__(self) -> None:
        self.record = lru_cache(maxsize=_KEPT_OPEN)(self._open)
        self._spoken = lru_cache(maxsize=_KEPT_OPEN)(self._speak)
        self._come_out = lru_cache(maxsize=1)(self._outcome)

    def forget(self) -> None:
        """Let go of what was decoded: nobody asks any more."""
        self.record.cache_clear()
        self._spoken.cache_clear()
        self._come_out.cache_clear()

    def blocks(self, position: Position) -> tuple[Block, ...]:
        """Return the blocks of the record at a position."""
        spoken = self._spoken(position)
        return spoken.blocks if spoken else blocks_of(self.record(position))

    def outcome(self, position: Position) -> Outcome | None:
        """Return the structured result in the record at a position.

        Whoever shows a call asks for it several times, and for no other meanwhile.
        """
        return self._come_out(position)

    def _outcome(self, position: Position) -> Outcome | None:
        spoken = self._spoken(position)
        if spoken is not None:
            return parse_outcome(spoken.result)
        record = self.record(position)
        if not isinstance(record, UserRecord):
            return None
        return parse_outcome(bytes(record.tool_use_result))

    def extent(self, position: Position) -> ReadOutcome | None:
        """Return what the outcome of a Read says of the file, without the file."""
        spoken = self._spoken(position)
        found = parse_extent(spoken.result) if spoken else None
        if found is None:
            outcome = self.outcome(position)
            found = outcome if isinstance(outcome, ReadOutcome) else None
        return found

    def glance(self, position: Position, *signs: bytes) -> bool:
        """Whether the outcome at a position is written with one of some signs."""
        written = self.written(position)[1]
        return any(sign in written for sign in signs)

    def written(self, position: Position) -> tuple[bytes, bytes]:
        """Return the JSON of the blocks and of the outcome; else the whole line."""
        spoken = self._spoken(position)
        if spoken is not None:
            return spoken.content, spoken.result
        line = self.raw(position)
        return line, line

    def snapshot(self, position: Position) -> FileSnapshot | FileDelta | None:
        """Return what the record at a position says of edited files.

        Snapshots are large and read once: they do not push out what was said.
        """
        record = self._open(position)
        return record if isinstance(record, FileSnapshot | FileDelta) else None

    def _speak(self, position: Position) -> Spoken | None:
        return spoken_of(self.raw(position))

    def _open(self, position: Position) -> Record | None:
        for found in parse_line(Line(position, self.raw(position))):
            if not isinstance(found, Problem):
                return found
        return None


def blocks_of(record: Record | None) -> tuple[Block, ...]:
    """Return what a record of any type says, as blocks."""
    match record:
        case UserRecord(message=message) | AssistantRecord(message=message):
            content = message.content if message else None
        case SystemRecord():
            content = record.content
        case AttachmentRecord(attachment=Attachment() as attachment):
            content = text_of_attachment(attachment) or None
        case QueueOperation():
            content = text_of_content(record.content)
        case _:
            content = None
    if isinstance(content, str):
        return (Text(text=content),)
    return content or ()
