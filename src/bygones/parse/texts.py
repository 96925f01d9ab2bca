"""The text of a record that is indexed, field by field.

Content only: ids, paths of the session, versions and times are never part of it.
Text and thinking are taken whole; of a tool's input the names and commands whole and
the rest up to a limit; of a tool's result the beginning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any

import msgspec
from msgspec import Raw, Struct

from bygones.model.nodes import (
    IndexField,
    LightBlock,
    LightRecord,
    LocatedRecord,
    Origin,
    RecordNode,
    RecordText,
    TextSpan,
)
from bygones.model.query import Part
from bygones.parse.decode import raw_head, raw_size, replace_invalid_utf8
from bygones.parse.harness_text import parse_user_text

__all__ = [
    "INPUT_LIMIT",
    "RESULT_LIMIT",
    "TEXT_LIMIT",
    "build_record_texts",
    "content_text",
    "extract_text_spans",
    "is_over_text_limit",
    "typed_text",
]

TEXT_LIMIT = 16 * 1024 * 1024
"""Characters of one record that are indexed; the bytes are all kept."""
INPUT_LIMIT = 200
RESULT_LIMIT = 500

_RESULT_HEAD_SIZE = 12 * (RESULT_LIMIT + 2)
"""Bytes that hold more characters than the limit: one takes twelve at most, as two
escaped halves of a surrogate pair."""
_TYPED_ORIGINS = {
    Origin.PERSON,
    Origin.CALLER,
    Origin.COMMAND,
    Origin.SHELL,
    Origin.MEMORY,
    Origin.TEAMMATE,
}
_FIELD_PARTS = {
    IndexField.THINKING: Part.THINKING,
    IndexField.TOOL: Part.TOOL,
    IndexField.PATH: Part.TOOL,
    IndexField.COMMAND: Part.TOOL,
    IndexField.INPUT: Part.TOOL,
    IndexField.RESULT: Part.RESULT,
    IndexField.TITLE: Part.TITLE,
}
_DECODE_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class _IndexedInput(Struct, frozen=True, gc=False):
    """The parts of a tool's input that are indexed whole."""

    file_path: str | None = None
    notebook_path: str | None = None
    path: str | None = None
    command: str | None = None


class _ResultBlock(Struct, frozen=True, gc=False):
    text: str | None = None


_decode_input = msgspec.json.Decoder(_IndexedInput).decode
_decode_any = msgspec.json.Decoder().decode
_decode_list = msgspec.json.Decoder(list[Raw]).decode
_decode_result_block = msgspec.json.Decoder(_ResultBlock | str | None).decode
_decode_string = msgspec.json.Decoder(str).decode


def extract_text_spans(located_record: LocatedRecord) -> tuple[TextSpan, ...]:
    """Return the passages of a record that are indexed, in the record's order.

    Machine text, images, snapshots, queue operations and private records give none.
    What goes beyond :data:`TEXT_LIMIT` is left out and the last passage says so.
    """
    sketch = located_record.record
    match sketch.type:
        case "user" | "assistant":
            return _limit_spans(_message_spans(sketch))
        case "summary" | "ai-title" | "custom-title" | "task-summary":
            return _limit_spans(_load_metadata_spans()(located_record))
        case "system" if sketch.subtype == "away_summary":
            return _limit_spans(_load_metadata_spans()(located_record))
        case "attachment" if b'"queued_command"' in located_record.raw:
            return _limit_spans(_load_metadata_spans()(located_record))
    return ()


def build_record_texts(node: RecordNode, spans: Iterable[TextSpan]) -> list[RecordText]:
    """Return what a record says in each of its parts; results that failed apart."""
    found: dict[tuple[Part, bool], list[str]] = {}
    for passage in spans:
        part = _FIELD_PARTS.get(passage.field) or _text_part(node)
        found.setdefault((part, passage.is_error), []).append(passage.text)
    return [
        RecordText(part, "\n".join(texts), is_error)
        for (part, is_error), texts in found.items()
    ]


def _text_part(node: RecordNode) -> Part:
    if node.kind == "assistant":
        return Part.REPLY
    origin = node.side_text.origin if node.side_text else node.origin
    return Part.PROMPT if origin in _TYPED_ORIGINS else Part.OTHER


def is_over_text_limit(spans: Sequence[TextSpan]) -> bool:
    """Whether a record says more than is indexed of one."""
    if not spans or not spans[-1].is_truncated:
        return False
    return sum(len(passage.text) for passage in spans) >= TEXT_LIMIT


def _limit_spans(spans: Iterable[TextSpan]) -> tuple[TextSpan, ...]:
    """Leave out what is empty, and what is too much for one record."""
    kept: list[TextSpan] = []
    left = TEXT_LIMIT
    for passage in spans:
        if not passage.text:
            continue
        if len(passage.text) > left:
            text = passage.text[:left]
            cut = msgspec.structs.replace(passage, text=text, is_truncated=True)
            return (*kept, cut)
        kept.append(passage)
        left -= len(passage.text)
    return tuple(kept)


def _message_spans(sketch: LightRecord) -> Iterator[TextSpan]:
    content = sketch.message.content if sketch.message else None
    if isinstance(content, str):
        content = [LightBlock(type="text", text=content)]
    for block in content or ():
        if block.text and not sketch.is_meta:
            text = block.text if sketch.type == "assistant" else typed_text(block.text)
            yield TextSpan(IndexField.TEXT, text)
        if block.thinking:
            yield TextSpan(IndexField.THINKING, block.thinking)
        if block.name:
            yield TextSpan(IndexField.TOOL, block.name)
            yield from _tool_input_spans(block.input)
        if block.tool_use_id:
            text, is_cut = _result_head(block.content)
            yield TextSpan(
                IndexField.RESULT,
                text,
                is_truncated=is_cut,
                is_error=bool(block.is_error),
            )


@cache
def _load_metadata_spans() -> Callable[[LocatedRecord], Iterable[TextSpan]]:
    """Return what reads all other records: whoever reads a message needs it not."""
    from bygones.parse.metadata import extract_metadata_spans

    return extract_metadata_spans


def typed_text(text: str) -> str:
    """Return what of a text somebody typed, or what it gives back."""
    told = parse_user_text(text)
    if told.origin in {Origin.PERSON, Origin.COMPACTION}:
        return told.typed_text or text
    if told.command:
        return f"{told.command.name} {told.command.args}".strip()
    return told.output


def _tool_input_spans(raw: Raw) -> Iterator[TextSpan]:
    content = replace_invalid_utf8(bytes(raw))
    try:
        known = _decode_input(content)
    except _DECODE_ERRORS:
        known = _IndexedInput()
    paths = (known.file_path, known.notebook_path, known.path)
    for path in paths:
        if path:
            yield TextSpan(IndexField.PATH, path)
    if known.command:
        yield TextSpan(IndexField.COMMAND, known.command)
    rest = _other_input_text(content, {*paths, known.command})
    if rest:
        is_cut = len(rest) > INPUT_LIMIT
        yield TextSpan(IndexField.INPUT, rest[:INPUT_LIMIT], is_truncated=is_cut)


def _other_input_text(content: bytes, indexed_values: set[str | None]) -> str:
    """Return the other words of an input, or of their beginning more than the limit."""
    try:
        whole = _decode_any(content)
    except _DECODE_ERRORS:
        return ""
    rest = ""
    for words in _iter_strings(whole):
        if words not in indexed_values:
            rest = f"{rest} {words}".strip()
        if len(rest) > INPUT_LIMIT:
            break
    return rest


def _iter_strings(value: Any) -> Iterator[str]:  # noqa: ANN401 (JSON of any form)
    stack = [value]
    while stack:
        top = stack.pop()
        if isinstance(top, str):
            yield top
        elif isinstance(top, dict):
            stack.extend(reversed(top.values()))
        elif isinstance(top, list):
            stack.extend(reversed(top))


def _result_head(raw: Raw) -> tuple[str, bool]:
    """Return the first characters of a result, and whether there are more."""
    is_long = raw_size(raw) > _RESULT_HEAD_SIZE and raw_head(raw, 1) == b'"'
    text = (
        _decode_string_head(raw_head(raw, _RESULT_HEAD_SIZE))
        if is_long
        else content_text(raw)
    )
    return text[:RESULT_LIMIT], len(text) > RESULT_LIMIT


def _decode_string_head(content: bytes) -> str:
    """Decode the beginning of a long JSON string without reading all of it."""
    head = content[1:_RESULT_HEAD_SIZE].decode("utf-8", "replace").encode()
    # The cut may stand inside an escape, or inside a pair of them.
    while True:
        try:
            return _decode_string(b'"' + head + b'"')
        except _DECODE_ERRORS:
            head = head[:-1]


def content_text(raw: Raw) -> str:
    """Return the text of a value that is a string, a block or a list of both."""
    content = replace_invalid_utf8(bytes(raw))
    try:
        elements = _decode_list(content) if content[:1] == b"[" else [content]
    except _DECODE_ERRORS:
        return ""
    return "\n".join(text for text in map(_block_text, elements) if text)


def _block_text(raw: Raw | bytes) -> str | None:
    try:
        block = _decode_result_block(raw)
    except _DECODE_ERRORS:
        return None
    return block.text if isinstance(block, _ResultBlock) else block
