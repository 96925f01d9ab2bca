"""Turns of branches."""

from __future__ import annotations

from datetime import timedelta

import pytest

from bygones.model.sessions import Session
from tests.assemble.helpers import only
from tests.build import (
    moment,
    prompt,
    reply,
    session,
    system,
    thread,
    tool_result,
    tool_use,
)
from tests.forms import command, printed, queued


def turns(actual: Session) -> list[list[str]]:
    return [
        [message.id for message in turn.messages] for turn in actual.live_branch.turns
    ]


@pytest.mark.req("C3")
def test_turn_is_a_prompt_and_everything_after_it() -> None:
    actual = only(session("a", "b<a", "c<b", "d<c"))

    assert turns(actual) == [["a", "b"], ["c", "d"]]
    assert [turn.prompt.id for turn in actual.live_branch.turns if turn.prompt] == [
        "a",
        "c",
    ]


@pytest.mark.req("C3")
def test_messages_before_the_first_prompt_are_a_turn_without_prompt() -> None:
    actual = only(thread(reply("Hm", uuid="a"), prompt("Hi", uuid="p")))

    assert turns(actual) == [["a"], ["p"]]
    assert actual.live_branch.turns[0].prompt is None


@pytest.mark.req("C3")
def test_answered_command_starts_a_turn() -> None:
    records = thread(
        prompt("Hi", uuid="p"),
        command("/cost", uuid="k"),
        printed("much", uuid="o"),
        command("/review", uuid="l"),
        reply("Fine", uuid="a"),
    )
    actual = only(records)

    assert turns(actual) == [["p", "k"], ["l", "a"]]
    assert [turn.prompt.id for turn in actual.live_branch.turns if turn.prompt] == [
        "p",
        "l",
    ]


@pytest.mark.req("C3")
def test_message_count_counts_prompts_and_answers() -> None:
    records = thread(
        prompt("Hi"),
        command("/cost"),
        printed("much"),
        queued("Hurry"),
        reply([tool_use("Bash", id="t")]),
        tool_result("t"),
        reply("Done"),
    )
    actual = only(records)

    assert actual.message_count == 4
    assert [message.preview for message in actual.prompts] == ["Hi", "Hurry"]


def test_turn_lasts_from_its_first_to_its_last_record() -> None:
    records = thread(
        prompt("Hi"),
        reply([tool_use("Bash", id="t")]),
        tool_result("t") | {"timestamp": moment(9)},
    )
    (turn,) = only(records).live_branch.turns

    assert turn.duration == timedelta(seconds=9)
    assert [call.id for call in turn.tool_calls] == ["t"]


def test_measured_duration_of_a_turn_is_used() -> None:
    records = thread(prompt("Hi"), reply("Ho"), system("turn_duration", durationMs=500))

    assert only(records).live_branch.turns[0].duration == timedelta(milliseconds=500)


def test_turn_without_times_has_no_duration() -> None:
    (turn,) = only([prompt("Hi") | {"timestamp": None}]).live_branch.turns

    assert turn.duration is None


@pytest.mark.req("T2")
def test_branch_has_its_whole_path_and_its_own_turns() -> None:
    actual = only(session("a", "b<a", "c<b", "d<c", "e<b", "f<e"))
    (left,) = actual.branches[1:]

    assert [message.id for message in left.messages] == ["a", "b", "c", "d"]
    assert [turn.number for turn in left.own_turns] == [1]
    assert (left.fork_id, left.first_prompt_id, left.parent_number, left.id) == (
        "b",
        "c",
        0,
        "d",
    )


@pytest.mark.req("T2")
def test_branch_that_forks_inside_a_turn_owns_the_part_after_the_fork() -> None:
    records = thread(
        prompt("Hi", uuid="p"),
        reply("One", uuid="a", message_id="m1"),
        reply("Two", uuid="b", message_id="m2"),
        prompt("More", uuid="q"),
        reply("Three", uuid="c", message_id="m3"),
        prompt("Instead", uuid="s", parent="a"),
        reply("Four", uuid="d", message_id="m4"),
    )
    actual = only(records)
    (left,) = actual.branches[1:]

    assert [[m.id for m in turn.messages] for turn in left.own_turns] == [
        ["b"],
        ["q", "c"],
    ]
    assert [m.id for m in left.messages] == ["p", "a", "b", "q", "c"]
    assert [turn.number for turn in left.own_turns] == [0, 1]


@pytest.mark.req("T2")
def test_branches_share_the_turns_before_the_fork() -> None:
    actual = only(session("a", "b<a", "c<b", "d<c", "e<d", "f<e", "g<d", "h<g"))
    (left,) = actual.branches[1:]

    assert [turn.number for turn in left.turns] == [0, 1, 2]
    assert left.turns[0] is actual.live_branch.turns[0]


@pytest.mark.req("U1")
def test_turn_and_branch_have_the_usage_of_their_answers() -> None:
    actual = only(session("a", "b<a", "c<b", "d<c", "e<b", "f<e"))

    assert [turn.usage.output for turn in actual.live_branch.turns] == [40, 40]
    assert [branch.usage.output for branch in actual.branches] == [80, 40]


def test_newest_abandoned_branch_comes_first() -> None:
    actual = only(session("a", "b<a", "c<b", "d<b", "e<b", "f<e"))

    assert [branch.id for branch in actual.branches] == ["f", "d", "c"]


@pytest.mark.req("T3")
def test_branch_ends_with_its_last_message() -> None:
    actual = only([*session("a", "b<a"), system("turn_duration", uuid="n", parent="b")])

    assert actual.live_branch.id == "b"
    assert actual.endpoint_ids == ("n",)
