"""Messages and tool calls with their results."""

from __future__ import annotations

import pytest

from bygones.model.nodes import Origin
from bygones.model.sessions import Message, Session
from bygones.model.summary import Role
from tests.assemble.helpers import live_messages, only
from tests.build import (
    Written,
    attachment,
    compact,
    meta,
    progress,
    prompt,
    queue,
    reply,
    session,
    system,
    text,
    thinking,
    thread,
    tool_result,
    tool_use,
)
from tests.forms import (
    INTERRUPT,
    api_error,
    caveat,
    command,
    command_text,
    digest,
    filler,
    printed,
    queued,
)


def call(records: list[Written]) -> dict[str, object]:
    """Return the facts of the only call."""
    (found,) = (
        call for message in live_messages(records) for call in message.tool_calls
    )
    return {
        "answered": found.has_result,
        "error": found.is_error,
        "interrupted": found.is_interrupted,
        "by": found.result_record_id,
    }


def blocks(message: Message) -> list[tuple[str, tuple[int, ...]]]:
    return [(piece.record_id, piece.block_indexes) for piece in message.record_refs]


def hidden(actual: Session) -> dict[str, list[str | None]]:
    found: dict[str, list[str | None]] = {}
    for item in actual.hidden_records:
        found.setdefault(item.reason, []).append(item.record_id)
    return found


@pytest.mark.req("R3")
def test_records_with_one_message_id_are_one_message() -> None:
    records = thread(
        prompt("Hi", uuid="p"),
        reply([thinking("Hm")], uuid="a", message_id="m"),
        reply([text("Hello")], uuid="b", message_id="m"),
    )

    (_, answer) = live_messages(records)

    assert blocks(answer) == [("a", (0,)), ("b", (0,))]
    assert answer.preview == "Hello"


@pytest.mark.req("R3")
def test_repeated_blocks_are_added_once() -> None:
    records = thread(
        prompt("Hi", uuid="p"),
        reply([text("One")], uuid="a", message_id="m"),
        reply([text("One"), text("Two"), text("Two")], uuid="b", message_id="m"),
        reply([text("One"), text("Two")], uuid="c", message_id="m"),
    )

    assert blocks(live_messages(records)[1]) == [("a", (0,)), ("b", (1, 2)), ("c", ())]


@pytest.mark.req("R3")
def test_records_are_joined_across_results() -> None:
    records = thread(
        prompt("Hi", uuid="p"),
        reply([tool_use("Bash", id="t1")], uuid="a", message_id="m"),
        tool_result("t1", uuid="r"),
        reply([tool_use("Bash", id="t2")], uuid="b", message_id="m", parent="a"),
    )

    assert blocks(live_messages(records)[1]) == [("a", (0,)), ("b", (0,))]


@pytest.mark.req("R3")
def test_message_ends_at_the_next_prompt() -> None:
    records = thread(
        prompt("Hi", uuid="p"),
        reply("One", uuid="a", message_id="m"),
        prompt("Ho", uuid="q"),
        reply("Two", uuid="b", message_id="m"),
    )

    assert [message.id for message in live_messages(records)] == ["p", "a", "q", "b"]


@pytest.mark.req("R3")
def test_prompt_on_another_branch_does_not_end_a_message() -> None:
    records = thread(
        prompt("Hi", uuid="p"),
        reply("Hello", uuid="a"),
        prompt("Left", uuid="q"),
        reply([text("One")], uuid="b", message_id="m"),
        prompt("Right", uuid="s", parent="a"),
        reply([text("Two")], uuid="c", message_id="m", parent="b"),
        reply("Right it is", uuid="d", parent="s"),
    )
    (left,) = only(records).branches[1:]

    assert blocks(left.messages[-1]) == [("b", (0,)), ("c", (0,))]


def test_answers_without_an_id_are_separate_messages() -> None:
    records = thread(reply("One", uuid="a"), reply("Two", uuid="b"))
    for record in records:
        record["message"]["id"] = None

    assert [message.id for message in live_messages(records)] == ["a", "b"]


@pytest.mark.req("R5")
def test_result_is_matched_to_its_call_anywhere_in_the_tree() -> None:
    records = [
        *thread(prompt("Hi", uuid="p"), reply([tool_use("Bash", id="t")], uuid="a")),
        tool_result("t", "x", uuid="r", parent="gone"),
    ]

    assert call(records) == {
        "answered": True,
        "error": False,
        "interrupted": False,
        "by": "r",
    }


@pytest.mark.req("R5")
def test_call_may_have_no_result() -> None:
    records = thread(prompt("Hi"), reply([tool_use("Bash", id="t")]))

    assert call(records)["answered"] is False
    (found,) = live_messages(records)[1].tool_calls
    assert found.result is None
    assert found.outcome is None
    assert found.stored_output is None


@pytest.mark.req("R5", "R7")
@pytest.mark.parametrize(
    ("words", "interrupted"),
    [
        ("The user doesn't want to proceed with this tool use.", True),
        ("The tool use was rejected", True),
        ("[Request interrupted by user for tool use]", True),
        ("exit code 1", False),
    ],
)
def test_rejection_is_distinguished_from_failure(
    words: str, *, interrupted: bool
) -> None:
    records = thread(
        prompt("Hi"),
        reply([tool_use("Bash", id="t")]),
        tool_result("t", words, is_error=True),
    )

    assert call(records)["error"] is True
    assert call(records)["interrupted"] is interrupted


@pytest.mark.req("R5")
def test_last_of_two_results_counts_and_the_other_is_hidden() -> None:
    records = thread(
        prompt("Hi"),
        reply([tool_use("Bash", id="t")]),
        tool_result("t", "one", uuid="r"),
        tool_result("t", "two", uuid="s"),
    )
    actual = only(records)

    assert call(records)["by"] == "s"
    assert hidden(actual) == {"answered-again": ["r"]}
    assert [(p.kind, p.detail) for p in actual.problems] == [("double-result", "t")]


@pytest.mark.req("R5")
def test_result_without_a_call_is_shown_and_reported() -> None:
    actual = only(thread(prompt("Hi"), tool_result("t", "one", uuid="r")))

    assert [message.id for message in actual.live_branch.messages][1:] == ["r"]
    assert [(p.kind, p.detail) for p in actual.problems] == [("lost-result", "t")]


@pytest.mark.req("R6")
def test_outcome_of_a_record_with_two_results_belongs_to_neither() -> None:
    results = [
        {"type": "tool_result", "tool_use_id": id_, "content": id_}
        for id_ in ("t1", "t2")
    ]
    records = thread(
        prompt("Hi"),
        reply([tool_use("Edit", id="t1"), tool_use("Edit", id="t2")]),
        prompt(results, uuid="r", toolUseResult={"filePath": "/a"}),
    )

    calls = live_messages(records)[1].tool_calls

    assert [(item.result_index, item.result_facts) for item in calls] == [
        (0, None),
        (1, None),
    ]


@pytest.mark.req("R6")
def test_outcome_of_a_single_result_is_kept() -> None:
    records = thread(
        prompt("Hi"),
        reply([tool_use("Edit", id="t")]),
        tool_result("t", outcome={"filePath": "/a", "type": "create"}),
    )
    (found,) = live_messages(records)[1].tool_calls

    assert found.result_facts is not None
    assert (found.result_facts.path, found.result_facts.is_new_file) == ("/a", True)


@pytest.mark.req("R4", "R5")
def test_server_tool_result_is_in_the_answer() -> None:
    used = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}
    records = thread(prompt("Hi"), reply([used, found], uuid="a"))

    (item,) = live_messages(records)[1].tool_calls

    assert (item.result_record_id, item.result_index) == ("a", 1)


@pytest.mark.req("R5")
def test_text_injected_for_a_call_is_attached_to_it() -> None:
    added: Written = {"isMeta": True, "sourceToolUseID": "t"}
    records = thread(
        prompt("Hi"),
        reply([tool_use("Skill", id="t", skill="x")]),
        tool_result("t", "Launching", uuid="r", sourceToolUseID="t"),
        prompt("The body", uuid="m", **added),
    )
    actual = only(records)
    (found,) = actual.live_branch.messages[1].tool_calls

    assert [piece.record_id for piece in found.attached_refs] == ["m"]
    assert found.result_record_id == "r"
    assert actual.hidden_records == ()


@pytest.mark.req("R7")
@pytest.mark.parametrize("way", ["superseded", "retracted"])
def test_retracted_records_are_hidden_with_their_calls(way: str) -> None:
    notice = system("model_refusal_fallback", "Other model", uuid="n")
    notice["retractedMessageUuids"] = ["a"] if way == "retracted" else []
    gone = ["a"] if way == "superseded" else []
    records = thread(
        prompt("Hi", uuid="p"),
        reply([tool_use("Skill", id="t")], uuid="a"),
        tool_result("t", "x", uuid="r"),
        prompt("body", uuid="m", isMeta=True, sourceToolUseID="t"),
        notice,
        reply("Instead", uuid="b", supersedesUuids=gone),
    )
    actual = only(records)

    assert [message.id for message in actual.live_branch.messages] == ["p", "n", "b"]
    assert hidden(actual) == {way: ["a", "r"], "harness": ["m"]}


@pytest.mark.req("R7")
def test_synthetic_answers_are_hidden_unless_they_are_errors() -> None:
    actual = only(
        thread(
            prompt("Hi", uuid="p"),
            filler(uuid="f"),
            api_error("Overloaded", uuid="e"),
        )
    )

    assert hidden(actual) == {"synthetic": ["f"]}
    error = actual.live_branch.messages[-1]
    assert (error.id, error.is_error, error.usage) == ("e", True, None)


@pytest.mark.req("R7")
def test_interrupt_is_a_message_but_not_a_prompt() -> None:
    (_, stopped) = live_messages(thread(prompt("Hi"), prompt([text(INTERRUPT)])))

    assert stopped.origin is Origin.INTERRUPT
    assert not stopped.is_prompt


@pytest.mark.req("C1")
def test_output_of_a_command_is_attached_to_it() -> None:
    records = thread(
        caveat(uuid="c"),
        command("/cost", uuid="k"),
        printed("much", uuid="o"),
        caveat(uuid="d"),
        command("/exit", uuid="l"),
    )
    first, second = live_messages(records)

    assert [piece.record_id for piece in first.attached_refs] == ["o"]
    assert first.command is not None
    assert (first.command.name, first.role) == ("/cost", Role.USER)
    assert second.attached_refs == ()


@pytest.mark.req("C1")
def test_expansion_of_a_command_is_attached_to_it() -> None:
    records = thread(
        command("/review", "it", uuid="k"),
        prompt("Please review it.", uuid="m", isMeta=True),
        prompt("<system-reminder>x</system-reminder>", uuid="n", isMeta=True),
    )
    actual = only(records)

    assert [p.record_id for p in actual.live_branch.messages[0].attached_refs] == ["m"]
    assert hidden(actual) == {"harness": ["n"]}


@pytest.mark.req("C1")
def test_manual_compaction_is_one_command() -> None:
    typed = [prompt("/compact", uuid="t"), command("/compact", uuid="k")]
    actual = only(thread(*typed, command("/cost", uuid="l")))

    assert [message.id for message in actual.live_branch.messages] == ["k", "l"]
    assert hidden(actual) == {"copy": ["t"]}
    assert [message.id for message in live_messages(typed[:1])] == ["t"]


@pytest.mark.req("C1")
def test_command_may_be_a_system_record() -> None:
    output = "<local-command-stdout>fine</local-command-stdout>"
    records = thread(
        system("local_command", command_text("/status"), uuid="k"),
        system("local_command", output, uuid="o"),
    )
    (actual,) = live_messages(records)

    assert (actual.role, actual.origin) == (Role.USER, Origin.COMMAND)
    assert [piece.record_id for piece in actual.attached_refs] == ["o"]


@pytest.mark.req("C2")
@pytest.mark.parametrize(
    ("words", "origin"),
    [
        ("<bash-input>ls</bash-input>", Origin.SHELL),
        ("<user-memory-input>x</user-memory-input>", Origin.MEMORY),
        ("<task-notification></task-notification>", Origin.NOTIFICATION),
        ("<teammate-message>x</teammate-message>", Origin.TEAMMATE),
    ],
)
def test_messages_that_were_not_typed_are_shown_but_not_prompts(
    words: str, origin: Origin
) -> None:
    (message,) = live_messages([prompt(words)])

    assert (message.origin, message.is_prompt) == (origin, False)


@pytest.mark.req("R8")
def test_compaction_has_its_summary_and_facts() -> None:
    records = [
        *session("a", "b<a"),
        compact("b", uuid="n", trigger="manual", tokens=9),
        digest(uuid="s", parent="n"),
    ]
    boundary = live_messages(records)[-1]

    assert boundary.compaction is not None
    assert (boundary.compaction.trigger, boundary.compaction.tokens_before) == (
        "manual",
        9,
    )
    assert [piece.record_id for piece in boundary.attached_refs] == ["s"]
    assert boundary.role is Role.SYSTEM


@pytest.mark.req("R8")
def test_summary_without_a_boundary_is_a_message_but_not_a_prompt() -> None:
    (message,) = live_messages([digest(uuid="s")])

    assert (message.origin, message.is_prompt) == (Origin.COMPACTION, False)


@pytest.mark.req("R9")
def test_steering_is_a_prompt_within_its_turn() -> None:
    records = thread(prompt("Hi"), queued("Hurry", uuid="x"), reply("Yes", uuid="a"))
    actual = only(records)

    (turn,) = actual.live_branch.turns
    assert [m.is_steering for m in turn.messages] == [False, True, False]
    assert [m.preview for m in actual.prompts] == ["Hi", "Hurry"]


@pytest.mark.req("R9")
def test_queue_operations_are_hidden() -> None:
    actual = only([prompt("Hi"), queue("enqueue", "x"), queue("dequeue")])

    assert hidden(actual) == {"metadata": [None, None]}


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (caveat(), "harness"),
        (prompt("Stop hook feedback: x", isMeta=True), "hook"),
        (prompt("Warmup"), "warm-up"),
        (attachment("file", filename="x"), "context"),
        (attachment("queued_command", prompt="<task-notification>"), "notice"),
        (progress("bash_progress"), "progress"),
        (system("turn_duration", durationMs=1), "notice"),
        (meta("mode", mode="normal"), "metadata"),
        (meta("from-tomorrow"), "unknown"),
        (meta("saved_hook_context", uuid="x"), "context"),
        (prompt("x") | {"message": None}, "harness"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_hidden_records_have_a_reason(record: Written, reason: str) -> None:
    (item,) = only([record]).hidden_records

    assert item.reason == reason


@pytest.mark.parametrize(
    "record",
    [
        system(None, "hm"),
        system("away_summary", "hm"),
        attachment("hook_blocking_error", blockingError={"blockingError": "hm"}),
        attachment("hook_non_blocking_error", stderr="hm"),
        attachment("structured_output", content="hm"),
        {**system("informational", "hm"), "content": "hm"},
    ],
    ids=lambda record: str(record.get("subtype")),
)
def test_visible_notices_are_system_messages(
    record: Written,
) -> None:
    (message,) = live_messages([record])

    assert (message.role, message.preview) == (Role.SYSTEM, "hm")
    assert message.record_refs[0].block_indexes == (0,)


def test_measured_duration_belongs_to_the_last_message_of_the_turn() -> None:
    records = thread(
        prompt("Hi"), reply("Ho"), system("turn_duration", durationMs=1500)
    )

    assert live_messages(records)[-1].turn_duration_ms == 1500


def test_duration_before_all_messages_is_ignored() -> None:
    records = thread(system("turn_duration", durationMs=1500), prompt("Hi"))

    assert live_messages(records)[0].turn_duration_ms is None
