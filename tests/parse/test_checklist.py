"""The sixteen items of the oldest checklist for transcript readers."""

from __future__ import annotations

import pytest

from bygones.model.base import Problem
from bygones.model.metadata import (
    FileSnapshotRecord,
    QueueOperationRecord,
    SummaryRecord,
)
from bygones.model.records import TextBlock, ThinkingBlock, ToolUseBlock
from bygones.parse.full import parse_line
from tests.build import (
    Written,
    compact,
    lines,
    prompt,
    queue,
    reply,
    session,
    snapshot,
    summary,
    text,
    thinking,
    thread,
    tool_result,
    tool_use,
)
from tests.parse.helpers import full, outcome, passages

pytestmark = pytest.mark.req("E2")


def test_line_1_simple_exchange() -> None:
    requested, answered = thread(prompt("Why?"), reply("Because."))

    assert full(requested).message.content == "Why?"
    assert full(answered).message.content == (TextBlock(text="Because."),)
    assert full(answered).parent_uuid == full(requested).uuid


def test_line_2_thinking() -> None:
    blocks = full(reply([thinking("Hm"), text("So")])).message.content

    assert [type(block) for block in blocks] == [ThinkingBlock, TextBlock]


@pytest.mark.parametrize("name", ["Bash", "Read", "Write", "Edit", "Grep", "Glob"])
def test_line_3_common_tools(name: str) -> None:
    (call,) = full(reply([tool_use(name, id="t", file_path="/a")])).message.content

    assert isinstance(call, ToolUseBlock)
    assert (call.name, call.id) == (name, "t")


def test_line_4_tool_errors() -> None:
    (result,) = full(tool_result("t", "no such file", is_error=True)).message.content

    assert result.is_error


def test_line_5_agent_started_by_a_call() -> None:
    (call,) = full(reply([tool_use("Task", id="t", prompt="look")])).message.content
    done = tool_result("t", [text("found")], outcome={"agentId": "0da5686d"})

    assert call.name == "Task"
    assert full(done).message.content[0].tool_use_id == call.id
    assert outcome({"agentId": "0da5686d"}).agent_id == "0da5686d"


def test_line_6_nested_agent() -> None:
    own: Written = {"isSidechain": True, "agentId": "aaaaaaaa"}
    inner = full(reply([tool_use("Task", id="t2", prompt="deeper")], **own))
    done = full(tool_result("t2", outcome={"agentId": "bbbbbbbb"}, **own))

    assert inner.is_sidechain
    assert inner.agent_id == done.agent_id == "aaaaaaaa"
    assert outcome({"agentId": "bbbbbbbb"}).agent_id == "bbbbbbbb"


def test_line_7_interrupted_tools() -> None:
    said = "[Request interrupted by user for tool use]"

    (result,) = full(tool_result("t", said, is_error=True)).message.content

    assert (result.content, result.is_error) == (said, True)


def test_line_8_file_snapshots() -> None:
    record = full(snapshot("z", {"main.go": "2ac9f4c88c39e759@v2"}))

    assert isinstance(record, FileSnapshotRecord)


def test_line_9_compaction() -> None:
    record = full(compact("z", trigger="auto", tokens=155_341))

    assert (record.subtype, record.logical_parent_uuid) == ("compact_boundary", "z")
    assert record.compaction.pre_tokens == 155_341


def test_line_10_summaries() -> None:
    assert isinstance(full(summary("Mended", "z")), SummaryRecord)


def test_line_11_queue_operations() -> None:
    assert isinstance(full(queue("enqueue", "wait")), QueueOperationRecord)


def test_line_12_nearly_empty_transcripts() -> None:
    assert lines([]) == []
    assert [full(record).type for record in [snapshot("z")]] == [
        "file-history-snapshot"
    ]


def test_line_13_transcripts_with_thousands_of_messages() -> None:
    names = [f"r{number}" for number in range(3000)]
    links = zip(names[1:], names, strict=False)
    chain = [names[0], *(f"{name}<{parent}" for name, parent in links)]

    records = [record for item in lines(session(*chain)) for record in parse_line(item)]

    assert len(records) == 3000
    assert not any(isinstance(record, Problem) for record in records)


@pytest.mark.parametrize(
    "words", ["🙂🙃", "naïve Straße", "日本語", "a\u200db", "\u202e"]
)
def test_line_14_all_scripts_and_characters(words: str) -> None:
    assert full(prompt(words)).message.content == words
    assert [part.text for part in passages(prompt(words))] == [words]


def test_line_15_code_in_texts() -> None:
    code = '```python\nprint("{\\"type\\": 1}")\n```'

    assert full(reply(code)).message.content == (TextBlock(text=code),)


def test_line_16_long_outputs_are_kept_in_full_and_indexed_in_part() -> None:
    output = "line\n" * 100_000

    (result,) = full(tool_result("t", output)).message.content
    (found,) = passages(tool_result("t", output))

    assert result.content == output
    assert (found.text, found.is_truncated) == (output[:500], True)
