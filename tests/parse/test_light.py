"""Nodes of records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from bygones.model.base import AgentId, Line, Position, Problem, SourceId, ToolUseId
from bygones.model.nodes import (
    PREVIEW_LIMIT,
    AgentSidecar,
    Command,
    CompactionFacts,
    DirectoryFacts,
    DurationFacts,
    JournalFacts,
    LightBlock,
    LineageFacts,
    LocatedRecord,
    Origin,
    QueueFacts,
    RecordNode,
    ReportedCostFacts,
    RetractionFacts,
    TitleFacts,
)
from bygones.model.usage import ReportedCost, Usage
from bygones.parse.light import build_node, build_node_block, parse_line_light
from bygones.parse.metadata import parse_agent_sidecar
from tests.build import (
    SESSION,
    Written,
    attachment,
    compact,
    image,
    line,
    meta,
    progress,
    prompt,
    queue,
    reply,
    sketches,
    summary,
    system,
    text,
    thinking,
    title,
    tool_result,
    tool_use,
)

REMINDER = "<system-reminder>x</system-reminder>"
NEWS = "<task-notification><summary>done</summary></task-notification>"


def node(record: object) -> Any:  # noqa: ANN401 (its optional fields are known here)
    (sketched,) = sketches([record])
    return build_node(sketched)


def test_node_has_the_links_of_its_record() -> None:
    found = node(
        reply(
            "x",
            uuid="b",
            parent="a",
            message_id="msg_1",
            model="m",
            isSidechain=True,
            agentId="a1",
            forkedFrom={"sessionId": "s", "messageUuid": "u"},
            supersedesUuids=["c"],
            sourceToolAssistantUUID="d",
        )
    )

    assert isinstance(found, RecordNode)
    assert (found.uuid, found.parent_uuid, found.session_id) == ("b", "a", SESSION)
    assert (found.kind, found.message_id, found.model) == ("assistant", "msg_1", "m")
    assert (found.agent_id, found.is_sidechain) == ("a1", True)
    assert found.forked_from == LineageFacts("s", "u")  # type: ignore[arg-type]
    assert (found.supersedes_ids, found.source_record_id) == (("c",), "d")
    assert found.is_conversation


@pytest.mark.parametrize(
    ("record", "origin"),
    [
        (prompt("hi"), "person"),
        (prompt([text("hi"), text(REMINDER)]), "person"),
        (prompt([text(REMINDER), text("hi")]), "person"),
        (prompt([image()]), "person"),
        (prompt([image(), text(REMINDER)]), "person"),
        (prompt([]), "harness"),
        (prompt("") | {"message": None}, "harness"),
        (prompt(REMINDER), "harness"),
        (prompt("hi", isMeta=True), "harness"),
        (prompt("hi", sourceToolUseID="t"), "harness"),
        (prompt("hi", isSidechain=True), "caller"),
        (prompt(REMINDER, isSidechain=True), "harness"),
        (prompt("hi", isCompactSummary=True), "compaction"),
        (prompt("/compact keep the tests"), "command"),
        (prompt("/compact"), "command"),
        (prompt("/compactly said"), "person"),
        (prompt("hi", origin={"kind": "human"}), "person"),
        (prompt("hi", origin={}), "person"),
        (prompt("hi", origin={"kind": "peer"}), "teammate"),
        (prompt("hi", origin={"kind": "observer"}), "harness"),
        (prompt(NEWS, origin={"kind": "peer"}), "notification"),
        (prompt("[Request interrupted by user]"), "interrupt"),
        (tool_result("t", "x"), "tool"),
        (attachment("queued_command", prompt="hi"), "person"),
        (attachment("queued_command", prompt=NEWS), "notification"),
        (
            attachment("queued_command", prompt="x", origin={"kind": "peer"}),
            "notification",
        ),
        (
            attachment("queued_command", prompt="x", commandMode="task-notification"),
            "notification",
        ),
        (system("local_command", "<command-name>/cost</command-name>"), "command"),
        (queue("enqueue", "hi"), "person"),
    ],
)
@pytest.mark.req("C2", "R9")
def test_node_has_the_origin_of_its_text(record: Written, origin: str) -> None:
    assert node(record).origin is Origin(origin)


def test_answers_have_no_origin() -> None:
    assert node(reply("x")).origin is None
    assert node(reply("x") | {"message": None}).origin is None


@pytest.mark.parametrize(
    ("record", "head"),
    [
        (prompt([text("one"), text("two")]), "one\ntwo"),
        (prompt("x" * 1000), "x" * PREVIEW_LIMIT),
        (reply([thinking("hm"), text("said"), text("more")]), "said"),
        (prompt("<command-name>/review</command-name>"), "/review"),
        (prompt(NEWS), "done"),
        (prompt("<bash-input>ls</bash-input>"), "ls"),
        (title("Mending"), "Mending"),
        (system("informational", "a notice"), "a notice"),
        (
            system("local_command", "<local-command-stdout>o</local-command-stdout>"),
            "o",
        ),
        (tool_result("t", "fine"), ""),
        (tool_result("t", "no such file", is_error=True), "no such file"),
        (tool_result("t", [text("denied")], is_error=True), "denied"),
    ],
)
def test_node_has_the_beginning_of_the_text(record: Written, head: str) -> None:
    assert node(record).preview == head


def test_equal_texts_have_equal_digests() -> None:
    first, second, other = node(prompt("x")), node(prompt("x ")), node(prompt("y"))

    assert node(prompt("x")).digest == first.digest != 0
    assert len({first.digest, second.digest, other.digest}) == 3
    assert node(prompt("")).digest == node(queue("dequeue")).digest == 0
    assert node(attachment("queued_command", prompt="x")).digest == first.digest


def test_node_block_has_no_content() -> None:
    blocks = [thinking("hm"), text("so"), image(), {"type": "from-tomorrow"}]

    facts = node(reply(blocks)).blocks

    assert [fact.kind for fact in facts] == [
        "thinking",
        "text",
        "image",
        "from-tomorrow",
    ]
    assert [bool(fact.digest) for fact in facts] == [True, True, False, False]
    assert facts[1].size == 2
    assert facts[2].size > 20


@pytest.mark.parametrize(
    ("given", "note"),
    [
        ({"file_path": "/a", "command": "c"}, "/a"),
        ({"notebook_path": "/n"}, "/n"),
        ({"command": "ls", "description": "d"}, "ls"),
        ({"pattern": "p", "path": "/src"}, "p"),
        ({"path": "/src"}, "/src"),
        ({"plan": "x" * 300}, "x" * 200),
        ({"command": "ls", "description": 7}, "ls"),
        ({}, None),
    ],
)
def test_call_is_labeled_by_its_input(given: Written, note: str) -> None:
    (fact,) = node(reply([tool_use("T", id="t1") | {"input": given}])).blocks

    assert (fact.id, fact.name, fact.label) == ("t1", "T", note)


@pytest.mark.parametrize("given", ["ls", None, 7, []])
def test_malformed_call_is_a_call(given: object) -> None:
    (fact,) = node(reply([tool_use("T") | {"input": given}])).blocks

    assert (fact.name, fact.label) == ("T", None)


def test_agent_call_has_type_and_digest_of_the_prompt() -> None:
    call = tool_use("Task", prompt="look", subagent_type="Explore")

    (fact,) = node(reply([call])).blocks

    assert fact.agent_type == "Explore"
    assert fact.digest == node(prompt("look")).digest


def test_result_has_its_call_and_error() -> None:
    (fact,) = node(tool_result("t9", "oops", is_error=True)).blocks

    assert (fact.id, fact.is_error, fact.size) == ("t9", True, len('"oops"'))


@pytest.mark.req("R6")
def test_text_within_a_result_is_not_a_side_text() -> None:
    # A block that is both a result and a text once caused an endless recursion.
    both = {"type": "tool_result", "tool_use_id": "t", "text": "not said by anybody"}
    found = node(prompt([both, text("said beside it")]))

    assert found.origin is Origin.TOOL
    assert found.side_text is not None
    assert found.side_text.preview == "said beside it"
    assert node(prompt([both])).side_text is None


def test_outcome_gives_result_facts() -> None:
    patch = [{"lines": [" a", "+b", "+c", "-d"]}]
    edit = node(
        tool_result("t", outcome={"filePath": "/a", "structuredPatch": patch})
    ).result
    agent = node(
        tool_result(
            "t",
            outcome={
                "agentId": "a1",
                "status": "completed",
                "totalTokens": 9.0,
                "totalDurationMs": 100,
                "totalToolUseCount": 2,
            },
        )
    ).result
    read = node(tool_result("t", outcome={"file": {"filePath": "/r"}})).result

    assert (edit.path, edit.added_lines, edit.removed_lines, edit.has_patch) == (
        "/a",
        2,
        1,
        True,
    )
    assert (agent.agent_id, agent.status, agent.tokens) == ("a1", "completed", 9)
    assert (agent.duration_ms, agent.tool_call_count) == (100, 2)
    assert read.path == "/r"


@pytest.mark.parametrize("outcome", [None, "Error: no", [], {}, {"of": "no shape"}])
def test_outcome_without_facts_gives_none(outcome: object) -> None:
    assert node(tool_result("t", "x", outcome=outcome)).result is None


@pytest.mark.req("E1")
def test_invalid_field_of_an_outcome_is_left_out_alone() -> None:
    odd = {"agentId": "a1", "status": 7, "totalTokens": "nan", "structuredPatch": "?"}

    facts = node(tool_result("t", "x", outcome=odd)).result

    assert (facts.agent_id, facts.status, facts.tokens) == ("a1", None, None)
    assert not facts.has_patch


def test_end_of_a_result_may_name_its_agent() -> None:
    said = "Found it.\nagentId: a1b2 (for resuming)"

    assert node(tool_result("t", said)).result.mentioned_agent_id == "a1b2"
    assert node(tool_result("t", said, outcome={"status": "x"})).result.status == "x"
    known = node(tool_result("t", said, outcome={"agentId": "known"})).result
    assert (known.agent_id, known.mentioned_agent_id) == ("known", None)
    assert node(tool_result("t", "the agentId is unknown")).result is None


@pytest.mark.parametrize(
    ("usage", "wanted"),
    [
        ({"input_tokens": 1, "output_tokens": 2}, Usage(input=1, output=2)),
        ({"input_tokens": -5}, Usage()),
        ({"cache_read_input_tokens": 7}, Usage(cache_read=7)),
        ({"cache_creation_input_tokens": 9}, Usage(cache_write_5m=9)),
        (
            {
                "cache_creation_input_tokens": 9,
                "cache_creation": {
                    "ephemeral_5m_input_tokens": 2,
                    "ephemeral_1h_input_tokens": 4,
                },
            },
            Usage(cache_write_5m=5, cache_write_1h=4),
        ),
        (
            {
                "cache_creation_input_tokens": 0,
                "cache_creation": {"ephemeral_1h_input_tokens": 4},
            },
            Usage(cache_write_1h=4),
        ),
        ({"server_tool_use": {"web_search_requests": 3}}, Usage(web_searches=3)),
    ],
)
def test_usage_is_counted_by_price_category(usage: Written, wanted: Usage) -> None:
    assert node(reply("x", usage=usage)).usage == wanted


def test_message_without_usage_has_none() -> None:
    assert node(prompt("x")).usage is None


def test_progress_has_its_type_and_agent() -> None:
    found = node(progress("agent_progress", call="t9", agentId="a1"))

    assert (found.subtype, found.agent_id, found.source_call_id) == (
        "agent_progress",
        "a1",
        "t9",
    )
    assert node(progress("x") | {"data": None}).subtype is None


@pytest.mark.parametrize(
    ("record", "extra"),
    [
        (summary("Mended", "z"), TitleFacts("Mended", "z")),  # type: ignore[arg-type]
        (title("Mine", custom=True), TitleFacts("Mine")),
        (meta("ai-title"), TitleFacts("")),
        (meta("agent-name", agentName="ann"), TitleFacts("ann")),
        (meta("tag", tag=""), TitleFacts("")),
        (
            meta("last-prompt", lastPrompt="go", leafUuid="z", explicit=True),
            TitleFacts("go", "z", is_explicit=True),  # type: ignore[arg-type]
        ),
        (meta("continued-in", continuedInSessionId="s"), LineageFacts("s")),  # type: ignore[arg-type]
        (
            meta("fork-context-ref", parentSessionId="s", parentLastUuid="u"),
            LineageFacts("s", "u"),  # type: ignore[arg-type]
        ),
        (meta("relocated", relocatedCwd="/w"), DirectoryFacts("/w")),
        (
            meta("worktree-state", worktreeSession={"originalCwd": "/o"}),
            DirectoryFacts("/o"),
        ),
        (meta("worktree-state", worktreeSession=None), None),
        (meta("started", agentId="a1", label="l"), JournalFacts(AgentId("a1"), "l")),
        (
            meta("cost-state", totalCostUSD=1.25),
            ReportedCostFacts(ReportedCost(1_250_000)),
        ),
        (
            meta("cost-state", totalCostUSD=1, startTime=1794859280791),
            ReportedCostFacts(ReportedCost(1_000_000, (), 1794859280791)),
        ),
        (
            meta("cost-state", totalCostUSD=1, startTime="yesterday"),
            ReportedCostFacts(ReportedCost(1_000_000)),
        ),
        (meta("cost-state", totalCostUSD=1e305), None),
        (meta("cost-state", totalCostUSD="inf"), None),
        (meta("mode", mode="normal"), None),
        ({"type": "from-tomorrow"}, None),
        (queue("popAll"), QueueFacts("popAll")),
        (
            compact("z", trigger="manual", tokens=9),
            CompactionFacts("manual", 9),
        ),
        (system("turn_duration", durationMs=61_000.5), DurationFacts(61_000)),
        (system("turn_duration"), None),
        (
            system("model_refusal_fallback", retractedMessageUuids=["b"]),
            RetractionFacts(("b",)),  # type: ignore[arg-type]
        ),
        (system("informational", "x"), None),
    ],
)
def test_node_has_the_facts_of_its_record_type(record: Written, extra: object) -> None:
    assert node(record).extra == extra


@pytest.mark.req("R8")
@pytest.mark.parametrize(
    "kept",
    [
        {"preservedMessages": {"anchorUuid": "a", "uuids": ["x", "y"]}},
        {"preservedSegment": {"anchorUuid": "a"}},
        None,
    ],
)
def test_compaction_has_its_anchor(kept: Written | None) -> None:
    extra = node(compact("z") | {"compactMetadata": kept}).extra

    assert extra.anchor_id == ("a" if kept else None)
    assert extra.preserved_ids == (
        ("x", "y") if "preservedMessages" in (kept or {}) else ()
    )


@pytest.mark.req("C1")
def test_command_is_recognized_in_both_forms() -> None:
    said = "<command-name>/cost</command-name>"

    assert node(prompt(said)).command == Command("/cost")
    assert node(system("local_command", said)).command == Command("/cost")
    assert node(attachment("queued_command", prompt=said)).command == Command("/cost")


def test_attachment_has_its_type() -> None:
    assert node(attachment("plan_mode")).subtype == "plan_mode"
    assert node(attachment("from_tomorrow")).subtype == "from_tomorrow"
    assert node(attachment("file") | {"attachment": None}).subtype is None


@pytest.mark.req("R7")
def test_synthetic_answer_is_recognized() -> None:
    assert node(reply("x", model="<synthetic>")).is_synthetic
    assert node(reply("x", isApiErrorMessage=True)).is_synthetic
    assert not node(reply("x")).is_synthetic


def test_sidecar_of_an_agent_is_decoded() -> None:
    written = {
        "toolUseId": "t1",
        "agentType": "Explore",
        "description": "look",
        "parentAgentId": "a0",
        "stoppedByUser": "true",
        "new": 1,
    }

    note = parse_agent_sidecar(line(written), AgentId("a1"))

    assert note == AgentSidecar(
        agent_id=AgentId("a1"),
        tool_use_id="t1",  # type: ignore[arg-type]
        agent_type="Explore",
        description="look",
        parent_agent_id=AgentId("a0"),
        is_stopped_by_user=True,
    )
    assert parse_agent_sidecar(b"{}", AgentId("a1")) == AgentSidecar(
        agent_id=AgentId("a1")
    )


@pytest.mark.parametrize("raw", [b"", b"[]", b"{", b'{"agentType":7}', b'{"\xff":1}'])
def test_unreadable_sidecar_gives_none(raw: bytes) -> None:
    assert parse_agent_sidecar(raw, AgentId("a1")) in {
        None,
        AgentSidecar(agent_id=AgentId("a1")),
    }


def test_text_block_with_an_empty_name_is_not_a_call() -> None:
    odd = {"type": "text", "text": "Hello.", "id": "", "name": ""}

    (block,) = node(reply([odd])).blocks

    assert (block.kind, block.name, block.id) == ("text", None, None)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        ({"status": 529, "error": {"message": "Overloaded"}}, "529 · Overloaded"),
        ({"cause": {"code": "ECONNRESET"}}, "ECONNRESET"),
        ({}, ""),
        ("no object", ""),
    ],
)
def test_api_error_is_described(error: object, said: str) -> None:
    assert node(system("api_error", error=error)).preview == said


def test_api_error_names_the_failed_try() -> None:
    failed = system("api_error", error={}, retryAttempt=2, maxRetries=10)

    assert node(failed).preview == "try 2 of 10"


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        ("2026-11-10T10:00:00+14:00", "2026-11-09T20:00:00+00:00"),
        ("2026-11-10T10:00:00Z", "2026-11-10T10:00:00+00:00"),
        ("0001-01-01T00:00:00Z", None),
        ("9999-12-31T23:59:59.999Z", None),
        ("0002-01-01T00:00:00Z", "0002-01-01T00:00:00+00:00"),
    ],
)
def test_time_is_utc_or_none_in_years_without_a_local_time(
    actual: str, expected: str | None
) -> None:
    (found,) = sketches([prompt("x", timestamp=actual)])

    time = build_node(found).timestamp

    assert (time.isoformat() if time else None) == expected


@pytest.mark.parametrize("field", ["uuid", "parentUuid", "sessionId", "version"])
def test_id_of_more_than_a_thousand_characters_is_shortened_and_reported(
    field: str,
) -> None:
    record = {"type": "user", "uuid": "a", "message": {"content": "Hi"}}
    kept, left_out = (record | {field: "x" * length} for length in (1_000, 1_001))

    assert [type(part) for part in _parse(kept)] == [LocatedRecord]
    problem, found = _parse(left_out)
    assert isinstance(problem, Problem)
    assert (problem.kind, problem.detail.partition(":")[0]) == ("odd-field", field)
    assert isinstance(found, LocatedRecord)
    node = build_node(found)
    assert "x" * 1_001 not in {
        *(node.uuid, node.parent_uuid, node.session_id, node.version)
    }
    assert node.preview == "Hi"


def _parse_ids(record: Mapping[str, Any]) -> tuple[LocatedRecord, list[str]]:
    *problems, found = _parse(record)
    assert isinstance(found, LocatedRecord)
    return found, [getattr(problem, "kind", "") for problem in problems]


def test_equal_ids_that_are_too_long_stay_equal_and_others_differ() -> None:
    long, other = "x" * 2_000, "x" * 2_001
    first, _ = _parse_ids({"type": "user", "uuid": long})
    second, _ = _parse_ids({"type": "user", "uuid": "a", "parentUuid": long})
    third, _ = _parse_ids({"type": "user", "uuid": "b", "parentUuid": other})

    parent = build_node(first).uuid
    assert parent == build_node(second).parent_uuid
    assert build_node(third).parent_uuid not in {parent, None}


def test_record_with_a_type_that_is_too_long_is_kept_as_unknown() -> None:
    found, problems = _parse_ids({"type": "x" * 1_001, "uuid": "a"})

    assert problems == ["odd-field"]
    assert (found.record.type or "").startswith("x" * 64 + "-")


def test_result_of_a_call_with_an_id_that_is_too_long_keeps_its_call() -> None:
    call = tool_use("Bash", id="t" * 1_001)
    result = tool_result("t" * 1_001, "out")
    ids = [
        build_node(_parse_ids(record)[0]).blocks[0].id
        for record in (reply([call]), result)
    ]

    assert ids[0] == ids[1] is not None


@pytest.mark.parametrize("field", ["cwd", "gitBranch"])
def test_path_of_a_record_that_no_system_allows_is_left_out(field: str) -> None:
    parts = _parse({"type": "user", "uuid": "a", field: "x" * 32_768})

    assert [getattr(part, "kind", "record") for part in parts] == [
        "odd-field",
        "record",
    ]


def test_path_of_a_call_that_no_system_allows_is_left_out() -> None:
    call = LightBlock(
        type="tool_use",
        id=ToolUseId("t"),
        name="Edit",
        input=Raw(b'{"file_path":"%s","description":"d"}' % (b"x" * 32_768)),
    )

    block = build_node_block(call)

    assert (block.path, block.label) == (None, "d")


def _parse(record: Mapping[str, object]) -> tuple[LocatedRecord | Problem, ...]:
    raw = msgspec.json.encode(record)
    return parse_line_light(Line(Position(SourceId("a"), 0, 0, len(raw)), raw))
