"""Load the texts of many messages and tool calls at once.

An export needs the texts of whole sessions. Here each record is read and decoded once,
in the order of the archive, and decoded no further than the texts; `ContentLoader` would
decode it for each message and call, which takes four times as long (1 GB: 45 s, not 11).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar, cast

import msgspec
from msgspec import Raw, Struct

from bygones.data.texts import MESSAGE_ROLE, join_texts
from bygones.model.base import DECODE_ERRORS, Position
from bygones.model.nodes import PREVIEW_LIMIT
from bygones.model.summary import Role
from bygones.redact.json import TextRedactor, redact_json
from bygones.store.fact_encoding import HAS_STORED_OUTPUT, decode_id, decode_refs

if TYPE_CHECKING:
    from bygones.data.texts import ContentLoader
    from bygones.redact.engine import Redactor
    from bygones.store.local_reader import LocalReader
    from bygones.store.sql_sandbox import SqlValue

T = TypeVar("T")
_BATCH_ROWS = 4_096
_MAX_PROMPT_SIZE = 8 << 20
"""Characters of prompts that are kept while their session is loaded."""
_BATCH_BYTES = 4 << 20
"""Rows are loaded together until there are so many, or their records are so long."""


class _Text(Struct, frozen=True, gc=False, tag="text"):
    text: str | None = None


class _Thinking(Struct, frozen=True, gc=False, tag="thinking"):
    thinking: str | None = None


class _ToolUse(Struct, frozen=True, gc=False, tag="tool_use"):
    input: Raw = Raw()


class _ToolResult(Struct, frozen=True, gc=False, tag="tool_result"):
    content: str | list[_Text] | None = None


_Block = _Text | _Thinking | _ToolUse | _ToolResult


class _MessageContent(Struct, frozen=True, gc=False):
    content: Raw


class _RecordWithContent(Struct, frozen=True, gc=False):
    type: Literal["user", "assistant"]
    message: _MessageContent


_decode_record = msgspec.json.Decoder(_RecordWithContent).decode
_decode_content = msgspec.json.Decoder(str | list[_Block]).decode


class _Content(NamedTuple):
    """The blocks of a record, and what redacts them; nothing if they are clean."""

    blocks: Sequence[_Block]
    redactor: _QuietRedactor | None
    line: bytes

    def block(self, index: int) -> _Block | None:
        return self.blocks[index] if index < len(self.blocks) else None

    def text(self, text: str | None) -> str | None:
        return self.redactor.redact(text) if self.redactor and text else text


class _QuietRedactor(TextRedactor):
    """Redacts texts without collecting what was redacted."""

    def redact(self, text: str, field_name: str = "") -> str:
        return self._redactor.redact(text, field_name)[0]


class TextBatchLoader:
    """Loads the texts of messages and calls of one session, in order."""

    def __init__(self, reader: LocalReader, texts: ContentLoader) -> None:
        self._byte_store = reader.byte_store
        self._texts = texts
        self._source = cache(reader.byte_store.source_by_id)
        self._line_redactor = cache(_QuietRedactor)
        self._records: dict[int, _Content] = {}
        self._prompts: dict[str, str] = {}
        self._prompt_size = 0

    def load_ahead(
        self, rows: Iterable[T], arguments: Callable[[T], Sequence[SqlValue]]
    ) -> Iterator[T]:
        """Yield rows of messages and calls after reading the records that they need.

        Rows are in order. `arguments` returns the values that name a message or call.
        """
        batch: list[T] = []
        needed: dict[int, Position] = {}
        size, session = 0, None
        for row in rows:
            named = arguments(row)
            if named[0] != session or size > _BATCH_BYTES or len(batch) > _BATCH_ROWS:
                self._records = dict(self._read_records(needed))
                yield from batch
                if named[0] != session:
                    self._prompts, self._prompt_size = {}, 0
                size, session = 0, named[0]
                batch.clear()
                needed.clear()
            for key in _record_keys(named):
                position = self._texts.position(cast("int", session), key)
                if key not in needed and position is not None:
                    needed[key] = position
                    size += position.length
            batch.append(row)
        self._records = dict(self._read_records(needed))
        yield from batch

    def _read_records(
        self, positions: Mapping[int, Position]
    ) -> Iterator[tuple[int, _Content]]:
        ordered = sorted((position, key) for key, position in positions.items())
        for (source_id, generation), group in groupby(
            ordered, lambda one: (one[0].source_id, one[0].generation)
        ):
            stored = self._source(source_id)
            if stored is None:
                continue
            # An unfinished last line is stored elsewhere, and left to `ContentLoader`.
            rows = [
                (position.offset, position.length, key)
                for position, key in group
                if position.offset + position.length <= stored.stored_bytes
                or generation != stored.generation
            ]
            ranges = [(offset, length) for offset, length, _ in rows]
            lines = self._byte_store.read_ranges(stored.number, generation, ranges)
            for (_, _, key), line in zip(rows, lines, strict=True):
                content = self._decode(line)
                if content is not None:
                    yield key, content

    def _decode(self, line: bytes) -> _Content | None:
        """Decode a record with common blocks only."""
        try:
            raw = bytes(_decode_record(line).message.content)
            blocks = _decode_content(raw)
        except DECODE_ERRORS:
            return None
        redactor = self._texts.redactor
        try:
            clean: Redactor | None = redactor.for_line(raw) if redactor else None
        except Exception:  # noqa: BLE001 (`ContentLoader` reports it for one message)
            return None
        return _Content(
            (_Text(blocks),) if isinstance(blocks, str) else blocks,
            self._line_redactor(clean) if clean else None,
            line,
        )

    def message_texts(self, row: Sequence[SqlValue]) -> tuple[str | None, str | None]:
        """Return text and reasoning of a message."""
        texts = self._texts
        if row[MESSAGE_ROLE] != Role.ASSISTANT:
            return self._short_text(row) or self._long_text(row), None
        refs = decode_refs(cast("bytes", row[-1]))
        if not refs or any(key not in self._records for key, _ in refs):
            return texts.message_text(*row), texts.message_thinking(*row)
        replies: list[str | None] = []
        thoughts: list[str | None] = []
        for key, indexes in refs:
            content = self._records[key]
            for index in indexes:
                block = content.block(index)
                if isinstance(block, _Text):
                    replies.append(content.text(block.text))
                elif isinstance(block, _Thinking):
                    thoughts.append(content.text(block.thinking))
        return join_texts(replies) or "", join_texts(thoughts)

    def _short_text(self, row: Sequence[SqlValue]) -> str | None:
        """Return a text that is in the index as a whole."""
        session, *_, id_, _, _, head, _ = row
        if head is None:
            record = decode_id(cast("bytes", id_))
            head = self._texts.prompt_head(cast("int", session), record)
        text = cast("str", head or "")
        return self._texts.redact(text) if 0 < len(text) < PREVIEW_LIMIT else None

    def _long_text(self, row: Sequence[SqlValue]) -> str | None:
        """Return a text of which the index has the start, and keep it for `prompt_text`."""
        text = self._texts.message_text(*row)
        if text and not row[1] and self._prompt_size < _MAX_PROMPT_SIZE:
            self._prompts[decode_id(cast("bytes", row[_MESSAGE_ID]))] = text
            self._prompt_size += len(text)
        return text

    def prompt_text(self, row: Sequence[SqlValue]) -> str:
        """Return a prompt of a session whose messages were loaded before."""
        text = self._prompts.get(cast("str", row[1]))
        return text or self._texts.prompt_text(*row)  # type: ignore[arg-type]

    def call_texts(self, row: Sequence[SqlValue]) -> tuple[str | None, str | None]:
        """Return input and output of a call."""
        texts = self._texts
        *_, flags, call_key, call_block, result_key, result_block = cast(
            "Sequence[int]", row
        )
        call, result = self._records.get(call_key), self._records.get(result_key)
        has_result = result_key is not None
        if flags & HAS_STORED_OUTPUT or not call or (has_result and not result):
            return texts.call_input(*row), texts.call_output(*row)
        return (
            _find_input(call, call_block),
            _find_output(result, result_block) if result else None,
        )

    def find_command(self, row: Sequence[SqlValue]) -> str | None:
        """Return the original command of a shell call, if its record was read."""
        key, index = cast("Sequence[int]", row[_CALL_KEY : _CALL_KEY + 2])
        content = self._records.get(key)
        block = content.block(index) if content else None
        if not isinstance(block, _ToolUse):
            return None
        try:
            return _decode_command(block.input).command
        except DECODE_ERRORS:
            return None

    def result_line(self, row: Sequence[SqlValue]) -> bytes | None:
        """Return the line with the result of a call, if it was read."""
        content = self._records.get(cast("int", row[_RESULT_KEY]))
        return content.line if content else None


_CALL_KEY, _RESULT_KEY = 6, 8
_MESSAGE_ID = 4
_CALL_LENGTH, _PROMPT_LENGTH = 10, 3
"""How many values name a call or a prompt."""


def _record_keys(row: Sequence[SqlValue]) -> Iterator[int]:
    """Yield the records of a message or call whose texts are not in the index."""
    if len(row) == _CALL_LENGTH:
        yield cast("int", row[_CALL_KEY])
        if row[_RESULT_KEY] is not None:
            yield cast("int", row[_RESULT_KEY])
    elif len(row) != _PROMPT_LENGTH and row[MESSAGE_ROLE] == Role.ASSISTANT:
        for key, _ in decode_refs(cast("bytes", row[-1])):
            yield key


class _ShellInput(Struct, frozen=True, gc=False):
    command: str = ""


_decode_command = msgspec.json.Decoder(_ShellInput).decode


def _find_input(content: _Content, index: int) -> str | None:
    block = content.block(index)
    raw = bytes(block.input) if isinstance(block, _ToolUse) else b""
    if content.redactor and raw:
        raw = redact_json(raw, content.redactor)
    return raw.decode("utf-8", "replace") or None


def _find_output(content: _Content, index: int) -> str:
    block = content.block(index)
    found = block.content if isinstance(block, _ToolResult) else None
    if found is None or isinstance(found, str):
        return content.text(found) or ""
    return join_texts(content.text(part.text) for part in found) or ""
