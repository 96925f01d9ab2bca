"""Content blocks of messages."""

from __future__ import annotations

from typing import Any

import pytest

from bygones.model.records import (
    BLOCKS_BY_TYPE,
    DocumentBlock,
    FallbackBlock,
    ImageBlock,
    RedactedThinkingBlock,
    SearchResultBlock,
    ServerToolResultBlock,
    TextBlock,
    ThinkingBlock,
    ToolReferenceBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
)
from tests.build import (
    image,
    line,
    prompt,
    reply,
    text,
    thinking,
    tool_result,
    tool_use,
)
from tests.parse.helpers import block, full, light, pieces

SERVER = [
    kind
    for kind in BLOCKS_BY_TYPE
    if kind.endswith("_tool_result") and kind[:3] != "mcp"
]


def contents(content: object) -> Any:  # noqa: ANN401 (what the test expects)
    record = pieces(prompt("") | {"message": {"role": "user", "content": content}})[-1]
    return record.message.content  # type: ignore[union-attr]


def sketched(content: object) -> list[str | None]:
    message = light(
        prompt("") | {"message": {"role": "user", "content": content}}
    ).message
    assert message is not None
    assert isinstance(message.content, list)
    return [part.text for part in message.content]


@pytest.mark.req("R2")
def test_content_may_be_a_string() -> None:
    message = light(prompt("hello")).message

    assert contents("hello") == "hello"
    assert message is not None
    assert message.content == "hello"


@pytest.mark.req("R2")
def test_content_may_be_a_list_of_blocks() -> None:
    assert contents([text("one"), text("two")]) == (
        TextBlock(text="one"),
        TextBlock(text="two"),
    )
    assert sketched([text("one"), text("two")]) == ["one", "two"]


@pytest.mark.req("R2")
def test_content_may_be_null_or_missing() -> None:
    assert contents(None) is None
    assert full(prompt("") | {"message": {"role": "user"}}).message.content is None
    assert full(prompt("") | {"message": None}).message is None
    assert light(prompt("") | {"message": None}).message is None


@pytest.mark.req("R2")
def test_strings_in_content_are_text_blocks_in_both_decoders() -> None:
    assert contents(["bare", text("block"), None]) == (
        TextBlock(text="bare"),
        TextBlock(text="block"),
        UnknownBlock("", b"null"),
    )
    assert sketched(["bare", text("block"), None]) == ["bare", "block", None]


@pytest.mark.req("R2", "E1")
def test_single_block_as_content_is_a_list() -> None:
    assert contents(text("alone")) == (TextBlock(text="alone"),)
    assert sketched(text("alone")) == ["alone"]


TYPES = """
text thinking redacted_thinking tool_use server_tool_use web_search_tool_result
web_fetch_tool_result code_execution_tool_result bash_code_execution_tool_result
text_editor_code_execution_tool_result tool_search_tool_result advisor_tool_result
mcp_tool_use mcp_tool_result mcp_tool_listing tool_result tool_reference image document
search_result container_upload compaction fallback tool_addition tool_removal
"""


@pytest.mark.req("R4")
def test_every_documented_block_type_is_known() -> None:
    assert set(BLOCKS_BY_TYPE) == set(TYPES.split())


@pytest.mark.req("R4")
@pytest.mark.parametrize("name", BLOCKS_BY_TYPE)
def test_every_block_type_has_its_struct(name: str) -> None:
    assert isinstance(block({"type": name}), BLOCKS_BY_TYPE[name])


@pytest.mark.req("R4")
def test_text_and_thinking_are_decoded() -> None:
    assert block(text("words")) == TextBlock(text="words")
    assert block(thinking("hm")) == ThinkingBlock(thinking="hm", signature="sig")
    assert block({"type": "redacted_thinking", "data": "xx"}) == RedactedThinkingBlock(
        data="xx"
    )


@pytest.mark.req("R4")
@pytest.mark.parametrize("kind", ["tool_use", "server_tool_use", "mcp_tool_use"])
def test_call_has_its_name_and_raw_input(kind: str) -> None:
    written = tool_use("Bash", id="toolu_9", command="ls") | {
        "type": kind,
        "server_name": "s",
        "caller": {"type": "direct"},
    }

    call = block(written)

    assert isinstance(call, ToolUseBlock)
    assert (call.type, call.id, call.name) == (kind, "toolu_9", "Bash")
    assert bytes(call.input) == b'{"command":"ls"}'
    assert call.server_name == "s"


@pytest.mark.req("R4", "R5")
@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("out", "out"),
        ([text("one"), text("two")], (TextBlock(text="one"), TextBlock(text="two"))),
        (
            [{"type": "tool_reference", "tool_name": "T"}],
            (ToolReferenceBlock(tool_name="T"),),
        ),
        ([], ()),
        (None, None),
    ],
    ids=["string", "blocks", "reference", "empty", "null"],
)
def test_result_may_be_text_blocks_or_null(content: object, expected: object) -> None:
    result = block({"type": "tool_result", "tool_use_id": "t", "content": content})

    assert isinstance(result, ToolResultBlock)
    assert (result.tool_use_id, result.content) == ("t", expected)


@pytest.mark.req("R4")
def test_result_without_content_is_a_result() -> None:
    result = block({"type": "tool_result", "tool_use_id": "t"})

    assert isinstance(result, ToolResultBlock)
    assert (result.tool_use_id, result.content, result.is_error) == ("t", None, None)


@pytest.mark.req("R4")
def test_result_may_contain_images_and_documents() -> None:
    document = {
        "type": "document",
        "source": {
            "type": "base64",
            "media_type": "application/pdf",
            "data": "JVBERi0=",
        },
        "title": "Paper",
    }

    result = block(
        {"type": "tool_result", "tool_use_id": "t", "content": [image(), document]}
    )

    assert isinstance(result, ToolResultBlock)
    assert isinstance(result.content, tuple)
    picture, paper = result.content
    assert isinstance(picture, ImageBlock)
    assert picture.source is not None
    assert picture.source.media_type == "image/png"
    assert isinstance(paper, DocumentBlock)
    assert paper.title == "Paper"


@pytest.mark.req("R4")
@pytest.mark.parametrize("kind", SERVER)
def test_results_of_server_tools_are_kept_raw(kind: str) -> None:
    result = block({"type": kind, "tool_use_id": "srvtoolu_1", "content": {"e": 1}})

    assert isinstance(result, ServerToolResultBlock)
    assert (result.type, result.tool_use_id) == (kind, "srvtoolu_1")
    assert bytes(result.content) == b'{"e":1}'


@pytest.mark.req("R4")
def test_search_result_and_fallback_are_decoded() -> None:
    page = block({"type": "search_result", "source": "u", "title": "t", "content": []})
    change = block({"type": "fallback", "from": {"model": "a"}, "to": {"model": "b"}})

    assert isinstance(page, SearchResultBlock)
    assert (page.source, page.title) == ("u", "t")
    assert isinstance(change, FallbackBlock)
    assert bytes(change.origin) == b'{"model":"a"}'


@pytest.mark.req("R4")
def test_unknown_block_is_kept_raw() -> None:
    written = {"type": "from_tomorrow", "glow": [1, 2]}

    assert block(written) == UnknownBlock("from_tomorrow", line(written))
    assert block({"glow": 1}) == UnknownBlock("", b'{"glow":1}')


@pytest.mark.req("R5")
def test_parallel_calls_and_results_are_joined_by_id() -> None:
    calls = reply([tool_use("Read", id="t1"), tool_use("Grep", id="t2")], uuid="b")
    results = prompt(
        [
            {"type": "tool_result", "tool_use_id": "t2", "content": "two"},
            {"type": "tool_result", "tool_use_id": "t1", "content": "one"},
        ],
        parent="elsewhere",
    )

    assert [call.id for call in full(calls).message.content] == ["t1", "t2"]
    assert [item.tool_use_id for item in full(results).message.content] == ["t2", "t1"]


@pytest.mark.req("R5", "R7")
def test_interrupted_call_has_an_error_result() -> None:
    said = "[Request interrupted by user for tool use]"
    written = tool_result("t1", said, is_error=True, sourceToolAssistantUUID="b")

    (result,) = full(written).message.content

    assert (result.is_error, result.content) == (True, said)
    assert light(written).source_tool_assistant == "b"


@pytest.mark.req("R6")
def test_outcome_inside_the_block_is_a_fallback() -> None:
    result = block(
        {"type": "tool_result", "tool_use_id": "t", "toolUseResult": {"agentId": "a1"}}
    )

    assert isinstance(result, ToolResultBlock)
    assert bytes(result.outcome) == b'{"agentId":"a1"}'
