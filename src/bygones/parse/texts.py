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

from bygones.model.nodes import Node
from bygones.model.query import Part
from bygones.model.sketches import Sketch, SketchBlock, Sketched
from bygones.model.texts import IndexField, Origin, Passage, Said
from bygones.parse.machine import read_text
from bygones.parse.raws import head_of, size_of
from bygones.parse.salvage import sound_text

__all__ = [
    "INPUT_LIMIT",
    "RESULT_LIMIT",
    "TEXT_LIMIT",
    "is_beyond_limit",
    "said_in",
    "text_of_content",
    "texts_of",
    "typed_text",
]

TEXT_LIMIT = 16 * 1024 * 1024
"""Characters of one record that are indexed; the bytes are all kept."""
INPUT_LIMIT = 200
RESULT_LIMIT = 500

_HEAD = 12 * (RESULT_LIMIT + 2)
"""Bytes that hold more characters than the limit: one takes twelve at most, as two
escaped halves of a surrogate pair."""
_TYPED = {
    Origin.PERSON,
    Origin.CALLER,
    Origin.COMMAND,
    Origin.SHELL,
    Origin.MEMORY,
    Origin.TEAMMATE,
}
_PARTS = {
    IndexField.THINKING: Part.THINKING,
    IndexField.TOOL: Part.TOOL,
    IndexField.PATH: Part.TOOL,
    IndexField.COMMAND: Part.TOOL,
    IndexField.INPUT: Part.TOOL,
    IndexField.RESULT: Part.RESULT,
    IndexField.TITLE: Part.TITLE,
}
_FAILURES = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class _Input(Struct, frozen=True, gc=False):
    """The parts of a tool's input that are indexed whole."""

    file_path: str | None = None
    notebook_path: str | None = None
    path: str | None = None
    command: str | None = None


class _ResultBlock(Struct, frozen=True, gc=False):
    text: str | None = None


_input = msgspec.json.Decoder(_Input).decode
_anything = msgspec.json.Decoder().decode
_elements = msgspec.json.Decoder(list[Raw]).decode
_block = msgspec.json.Decoder(_ResultBlock | str | None).decode
_string = msgspec.json.Decoder(str).decode


def texts_of(sketched: Sketched) -> tuple[Passage, ...]:
    """Return the passages of a record that are indexed, in the record's order.

    Machine text, images, snapshots, queue operations and private records give none.
    What goes beyond :data:`TEXT_LIMIT` is left out and the last passage says so.
    """
    sketch = sketched.sketch
    match sketch.type:
        case "user" | "assistant":
            return _limited(_message(sketch))
        case "summary" | "ai-title" | "custom-title" | "task-summary":
            return _limited(_small()(sketched))
        case "system" if sketch.subtype == "away_summary":
            return _limited(_small()(sketched))
        case "attachment" if b'"queued_command"' in sketched.raw:
            return _limited(_small()(sketched))
    return ()


def said_in(node: Node, passages: Iterable[Passage]) -> list[Said]:
    """Return what a record says in each of its parts; results that failed apart."""
    found: dict[tuple[Part, bool], list[str]] = {}
    for passage in passages:
        part = _PARTS.get(passage.field) or _part_of_text(node)
        found.setdefault((part, passage.is_error), []).append(passage.text)
    return [
        Said(part, "\n".join(texts), is_error)
        for (part, is_error), texts in found.items()
    ]


def _part_of_text(node: Node) -> Part:
    if node.kind == "assistant":
        return Part.REPLY
    origin = node.beside.origin if node.beside else node.origin
    return Part.PROMPT if origin in _TYPED else Part.OTHER


def is_beyond_limit(passages: Sequence[Passage]) -> bool:
    """Whether a record says more than is indexed of one."""
    if not passages or not passages[-1].is_cut:
        return False
    return sum(len(passage.text) for passage in passages) >= TEXT_LIMIT


def _limited(found: Iterable[Passage]) -> tuple[Passage, ...]:
    """Leave out what is empty, and what is too much for one record."""
    kept: list[Passage] = []
    left = TEXT_LIMIT
    for passage in found:
        if not passage.text:
            continue
        if len(passage.text) > left:
            text = passage.text[:left]
            cut = msgspec.structs.replace(passage, text=text, is_cut=True)
            return (*kept, cut)
        kept.append(passage)
        left -= len(passage.text)
    return tuple(kept)


def _message(sketch: Sketch) -> Iterator[Passage]:
    content = sketch.message.content if sketch.message else None
    if isinstance(content, str):
        content = [SketchBlock(type="text", text=content)]
    for block in content or ():
        if block.text and not sketch.is_meta:
            text = block.text if sketch.type == "assistant" else typed_text(block.text)
            yield Passage(IndexField.TEXT, text)
        if block.thinking:
            yield Passage(IndexField.THINKING, block.thinking)
        if block.name:
            yield Passage(IndexField.TOOL, block.name)
            yield from _tool_input(block.input)
        if block.tool_use_id:
            text, is_cut = _beginning(block.content)
            yield Passage(
                IndexField.RESULT, text, is_cut=is_cut, is_error=bool(block.is_error)
            )


@cache
def _small() -> Callable[[Sketched], Iterable[Passage]]:
    """Return what reads all other records: whoever reads a message needs it not."""
    from bygones.parse.small import small_texts  # noqa: PLC0415

    return small_texts


def typed_text(text: str) -> str:
    """Return what of a text somebody typed, or what it gives back."""
    told = read_text(text)
    if told.origin in {Origin.PERSON, Origin.COMPACTION}:
        return told.typed or text
    if told.command:
        return f"{told.command.name} {told.command.args}".strip()
    return told.output


def _tool_input(raw: Raw) -> Iterator[Passage]:
    content = sound_text(bytes(raw))
    try:
        known = _input(content)
    except _FAILURES:
        known = _Input()
    paths = (known.file_path, known.notebook_path, known.path)
    for path in paths:
        if path:
            yield Passage(IndexField.PATH, path)
    if known.command:
        yield Passage(IndexField.COMMAND, known.command)
    rest = _rest_of_input(content, {*paths, known.command})
    if rest:
        is_cut = len(rest) > INPUT_LIMIT
        yield Passage(IndexField.INPUT, rest[:INPUT_LIMIT], is_cut=is_cut)


def _rest_of_input(content: bytes, taken: set[str | None]) -> str:
    """Return the other words of an input, or of their beginning more than the limit."""
    try:
        whole = _anything(content)
    except _FAILURES:
        return ""
    rest = ""
    for words in _strings(whole):
        if words not in taken:
            rest = f"{rest} {words}".strip()
        if len(rest) > INPUT_LIMIT:
            break
    return rest


def _strings(value: Any) -> Iterator[str]:  # noqa: ANN401 (JSON of any form)
    stack = [value]
    while stack:
        top = stack.pop()
        if isinstance(top, str):
            yield top
        elif isinstance(top, dict):
            stack.extend(reversed(top.values()))
        elif isinstance(top, list):
            stack.extend(reversed(top))


def _beginning(raw: Raw) -> tuple[str, bool]:
    """Return the first characters of a result, and whether there are more."""
    is_long = size_of(raw) > _HEAD and head_of(raw, 1) == b'"'
    text = _string_head(head_of(raw, _HEAD)) if is_long else text_of_content(raw)
    return text[:RESULT_LIMIT], len(text) > RESULT_LIMIT


def _string_head(content: bytes) -> str:
    """Decode the beginning of a long JSON string without reading all of it."""
    head = content[1:_HEAD].decode("utf-8", "replace").encode()
    # The cut may stand inside an escape, or inside a pair of them.
    while True:
        try:
            return _string(b'"' + head + b'"')
        except _FAILURES:
            head = head[:-1]


def text_of_content(raw: Raw) -> str:
    """Return the text of a value that is a string, a block or a list of both."""
    content = sound_text(bytes(raw))
    try:
        elements = _elements(content) if content[:1] == b"[" else [content]
    except _FAILURES:
        return ""
    return "\n".join(text for text in map(_block_text, elements) if text)


def _block_text(raw: Raw | bytes) -> str | None:
    try:
        block = _block(raw)
    except _FAILURES:
        return None
    return block.text if isinstance(block, _ResultBlock) else block
