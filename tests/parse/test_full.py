"""`parse_record_content` returns the blocks that the full decoder returns."""

from __future__ import annotations

import json

import msgspec
import pytest

from bygones.model.base import Position, SourceId
from bygones.model.records import (
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserRecord,
)
from bygones.parse.full import parse_record, parse_record_content
from bygones.parse.loader import record_blocks

VALID = [
    "words",
    [],
    None,
    {"type": "text", "text": "alone"},
    ["bare"],
    [None],
    [{"type": "text", "text": "a"}],
    [{"type": "text", "text": None, "citations": None, "more": 1}],
    [{"type": "text", "text": "a", "citations": [{"x": 1}]}],
    [{"type": "thinking", "thinking": "t", "signature": "s"}],
    [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}],
    [{"type": "tool_use", "id": None, "input": None, "caller": {"type": "direct"}}],
    [{"type": "tool_result", "tool_use_id": "t1", "content": "out", "is_error": True}],
    [{"type": "tool_result", "content": [{"type": "text", "text": "x"}]}],
    [{"type": "tool_result", "content": [{"type": "image"}]}],
    [{"type": "tool_result", "content": None, "toolUseResult": {"stdout": ""}}],
    [{"type": "server_tool_use", "id": "t1"}],
    [{"type": "new_kind"}],
    [{"text": "no type"}],
]


def user_line(content: object) -> bytes:
    return json.dumps({"type": "user", "message": {"content": content}}).encode()


def assert_same_as_full(line: bytes) -> None:
    record = parse_record(line, Position(SourceId("a"), 0, 0, len(line)))[-1]
    content = parse_record_content(line)

    assert isinstance(record, UserRecord)
    assert content is not None
    assert content.blocks == record_blocks(record)


@pytest.mark.parametrize("content", VALID, ids=str)
def test_valid_content_is_decoded_as_by_the_full_decoder(content: object) -> None:
    if content is None:
        assert parse_record_content(user_line(content)) is None
    else:
        assert_same_as_full(user_line(content))


@pytest.mark.parametrize("content", [7, [{"type": "text", "text": 7}]], ids=str)
def test_invalid_content_is_left_to_the_full_decoder(content: object) -> None:
    assert parse_record_content(user_line(content)) is None


@pytest.mark.parametrize("raw", [b"", b"[", b'"\xff"', b"[" * 5_000, b'["\\ud800"]'])
def test_content_that_is_not_json_is_left_to_the_full_decoder(raw: bytes) -> None:
    line = b'{"type":"user","message":{"content":' + raw + b"}}"

    assert parse_record_content(line) is None


@pytest.mark.parametrize(
    "block_type", [TextBlock, ThinkingBlock, ToolUseBlock, ToolResultBlock]
)
def test_every_field_of_a_block_is_decoded(block_type: type[msgspec.Struct]) -> None:
    name = block_type.types[0]  # type: ignore[attr-defined]
    fields = [
        field for field in msgspec.structs.fields(block_type) if field.name != "type"
    ]
    values = {
        field.encode_name: False if field.name == "is_error" else "x"
        for field in fields
    }

    assert_same_as_full(user_line([{"type": name, **values}]))
