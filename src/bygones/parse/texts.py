"""The texts of a record that are indexed for search.

Only content is indexed, never ids, session paths, versions or times. Text, thinking, file
names and commands are indexed in full, other tool input and tool results up to a limit;
failed results also at their end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import chain
from typing import Any

import msgspec
from msgspec import Raw

from bygones.model.base import DECODE_ERRORS
from bygones.model.nodes import (
    ChangedFile,
    IndexField,
    LightBlock,
    LightRecord,
    LocatedRecord,
    Origin,
    RecordNode,
    RecordText,
    TextSpan,
    typed_text,
)
from bygones.model.query import Part
from bygones.model.records import SYSTEM_SUBTYPES
from bygones.parse.decode import (
    content_text,
    raw_head,
    raw_size,
    raw_tail,
    replace_invalid_utf8,
)

TEXT_LIMIT = 16 * 1024 * 1024
"""Characters of one record that are indexed; all its bytes are archived."""
_INDEXED_INPUTS = ("file_path", "notebook_path", "path", "command")
"""The parts of a tool's input that are indexed in full."""
_INPUT_LIMIT = 200
_RESULT_LIMIT = 500
_FAILURE_END_LIMIT = 1_000
"""Characters at the end of a failed result: programs say last what went wrong."""
_MAX_CHARACTER_SIZE = 12
"""Bytes of a character in JSON at most, as an escaped surrogate pair."""
_RESULT_HEAD_SIZE = _MAX_CHARACTER_SIZE * (_RESULT_LIMIT + 2)
"""Bytes that always contain more characters than the limit."""
_FAILURE_END_SIZE = _MAX_CHARACTER_SIZE * (_FAILURE_END_LIMIT + 2)
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


_decode_any = msgspec.json.Decoder().decode
_decode_string = msgspec.json.Decoder(str).decode


_INDEXED_SUBTYPES = {
    subtype for subtype, known in SYSTEM_SUBTYPES.items() if known.is_indexed
}


def extract_text_spans(
    located_record: LocatedRecord, node: RecordNode
) -> tuple[TextSpan, ...]:
    """Return the texts of a record that are indexed, in the record's order.

    `node` is that of the record, with the files that a shell command changed.
    Harness text, images, snapshots, queue operations and private records have none.
    Text beyond `TEXT_LIMIT` is left out; the last span is then marked as truncated.
    """
    record, raw = located_record.record, located_record.raw
    match record.type:
        case "user" if node.result is not None and node.result.changed_files:
            edits = _shell_edit_spans(node.result.changed_files)
            spans: Iterable[TextSpan] = chain(_message_spans(record), edits)
        case "user" | "assistant":
            spans = _message_spans(record)
        case "summary" | "ai-title" | "custom-title" | "task-summary":
            spans = _load_metadata_spans()(located_record)
        case "system" if (
            record.subtype in _INDEXED_SUBTYPES or record.subtype not in SYSTEM_SUBTYPES
        ):
            spans = _load_metadata_spans()(located_record)
        case "attachment" if b'"queued_command"' in raw:
            spans = _load_metadata_spans()(located_record)
        case _:
            return ()
    return _limit_spans(spans, raw)


def build_record_texts(node: RecordNode, spans: Sequence[TextSpan]) -> list[RecordText]:
    """Join the spans of a record by part, with failed results apart.

    An API error is the failed result of a request.
    """
    if len(spans) == 1:  # most records; the same as below
        (span,) = spans
        part = _FIELD_PARTS.get(span.field) or _text_part(node)
        return [RecordText(part, span.text, span.is_error or node.is_error)]
    texts_by_part: dict[tuple[Part, bool], list[str]] = {}
    for span in spans:
        part = _FIELD_PARTS.get(span.field) or _text_part(node)
        texts_by_part.setdefault((part, span.is_error or node.is_error), []).append(
            span.text
        )
    return [
        RecordText(part, "\n".join(texts), is_error)
        for (part, is_error), texts in texts_by_part.items()
    ]


def _text_part(node: RecordNode) -> Part:
    if node.is_error:
        return Part.RESULT
    if node.kind == "assistant":
        return Part.REPLY
    origin = node.side_text.origin if node.side_text else node.origin
    return Part.PROMPT if origin in _TYPED_ORIGINS else Part.OTHER


def is_over_text_limit(spans: Sequence[TextSpan]) -> bool:
    """Whether a record has more text than `TEXT_LIMIT`."""
    if not spans or not spans[-1].is_truncated:
        return False
    return sum(len(span.text) for span in spans) >= TEXT_LIMIT


def _limit_spans(spans: Iterable[TextSpan], raw: bytes) -> tuple[TextSpan, ...]:
    """Drop empty spans and text beyond the limit."""
    if len(raw) <= TEXT_LIMIT:  # the texts of a record are not longer than its bytes
        return tuple([span for span in spans if span.text])
    limited: list[TextSpan] = []
    remaining = TEXT_LIMIT
    for span in spans:
        if not span.text:
            continue
        if len(span.text) > remaining:
            text = span.text[:remaining]
            cut = msgspec.structs.replace(span, text=text, is_truncated=True)
            return (*limited, cut)
        limited.append(span)
        remaining -= len(span.text)
    return tuple(limited)


def _message_spans(record: LightRecord) -> Iterator[TextSpan]:
    content = record.message.content if record.message else None
    if isinstance(content, str):
        content = [LightBlock(type="text", text=content)]
    for block in content or ():
        if block.text and not record.is_meta:
            text = block.text if record.type == "assistant" else typed_text(block.text)
            yield TextSpan(IndexField.TEXT, text)
        if block.thinking:
            yield TextSpan(IndexField.THINKING, block.thinking)
        if block.name:
            yield TextSpan(IndexField.TOOL, block.name)
            yield from _tool_input_spans(block.input)
        if block.tool_use_id:
            text, is_cut = _result_text(block.content, is_error=bool(block.is_error))
            yield TextSpan(
                IndexField.RESULT,
                text,
                is_truncated=is_cut,
                is_error=bool(block.is_error),
            )


def _shell_edit_spans(files: Sequence[ChangedFile]) -> Iterator[TextSpan]:
    """Yield the files that a shell command changed, which only its result names."""
    yield TextSpan(IndexField.TOOL, "Bash")
    for file in files:
        yield TextSpan(IndexField.PATH, file.path)


@cache
def _load_metadata_spans() -> Callable[[LocatedRecord], Iterable[TextSpan]]:
    # Imported late: it defines about 60 structs that reading messages does not need.
    from bygones.parse.metadata import extract_metadata_spans

    return extract_metadata_spans


def _tool_input_spans(raw: Raw) -> Iterator[TextSpan]:
    value = _decode_tolerant(raw)
    known = [value.get(name) for name in _INDEXED_INPUTS] if type(value) is dict else []
    if not all(one is None or type(one) is str for one in known):
        known = []
    *paths, command = known or (None,)
    for path in paths:
        if path:
            yield TextSpan(IndexField.PATH, path)
    if command:
        yield TextSpan(IndexField.COMMAND, command)
    rest = _other_input_text(value, {*paths, command})
    if rest:
        is_cut = len(rest) > _INPUT_LIMIT
        yield TextSpan(IndexField.INPUT, rest[:_INPUT_LIMIT], is_truncated=is_cut)


def _decode_tolerant(raw: Raw) -> Any:  # noqa: ANN401 (JSON of any form)
    """Return a JSON value; `None` if it isn't valid even with other characters."""
    try:
        return _decode_any(raw)
    except DECODE_ERRORS:
        pass
    try:
        return _decode_any(replace_invalid_utf8(bytes(raw)))
    except DECODE_ERRORS:
        return None


def _other_input_text(value: Any, indexed_values: set[str | None]) -> str:  # noqa: ANN401 (JSON of any form)
    """Join the other strings of an input, up to a little more than the limit."""
    rest = ""
    for string in _iter_strings(value):
        if string not in indexed_values:
            rest = f"{rest} {string}".strip()
        if len(rest) > _INPUT_LIMIT:
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


def _result_text(raw: Raw, *, is_error: bool) -> tuple[str, bool]:
    """Return the first characters of a result, and whether there are more.

    Of a failed one also the last characters.
    """
    size, limit = _RESULT_HEAD_SIZE, _RESULT_LIMIT
    if is_error:
        size, limit = size + _FAILURE_END_SIZE, limit + _FAILURE_END_LIMIT
    if raw_size(raw) > size and raw_head(raw, 1) == b'"':
        head = _decode_string_head(raw_head(raw, _RESULT_HEAD_SIZE))
        end = _decode_string_end(raw_tail(raw, _FAILURE_END_SIZE)) if is_error else ""
    else:
        head = end = content_text(raw)
        if len(head) <= limit:
            return head, False
    head = head[:_RESULT_LIMIT]
    return f"{head} … {end[-_FAILURE_END_LIMIT:]}" if is_error else head, True


def _decode_string_head(content: bytes) -> str:
    """Decode the beginning of a long JSON string without reading all of it."""
    head = content[1:_RESULT_HEAD_SIZE].decode("utf-8", "replace").encode()
    # The cut may be inside an escape or between a surrogate pair.
    while True:
        try:
            return _decode_string(b'"' + head + b'"')
        except DECODE_ERRORS:
            head = head[:-1]


def _decode_string_end(content: bytes) -> str:
    """Decode the end of a long JSON string without reading all of it."""
    end = content.decode("utf-8", "replace").encode()
    # The cut may be inside an escape or between a surrogate pair.
    for start in range(_MAX_CHARACTER_SIZE):
        try:
            return _decode_string(b'"' + end[start:])
        except DECODE_ERRORS:
            continue
    return ""
