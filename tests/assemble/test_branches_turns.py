"""Turns of branches."""

from __future__ import annotations

from datetime import timedelta
from random import Random

import pytest

from bygones.assemble.branches import build_turns
from bygones.assemble.durations import find_copy_times
from bygones.assemble.usage import usage_by_message
from bygones.model.sessions import Message, Session, Turn, own_messages
from tests.assemble.helpers import nodes, only
from tests.build import (
    Written,
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
def test_turn_at_a_fork_is_split_and_measured_with_what_is_before_the_fork() -> None:
    forks_in_turns = 0
    for seed in range(200):
        records = random_thread(seed)
        actual = only(records)
        copied = find_copy_times(nodes(records))
        usages = usage_by_message(
            [m for branch in actual.branches for m in own_messages(branch)],
            actual.message_usages,
        )
        expected: dict[int, tuple[Turn, ...]] = {}
        for branch in sorted(actual.branches, key=lambda one: one.number):
            parent = branch.parent_number
            complete = list(() if parent is None else expected[parent])
            messages: list[Message] = []
            while complete and branch.last_shared_id not in [m.id for m in messages]:
                messages = list(complete.pop().messages)
            while messages and messages[-1].id != branch.last_shared_id:
                messages.pop()
            messages += own_messages(branch)
            turns = build_turns(messages, usages, len(complete), copied)
            expected[branch.number] = (*complete, *turns)

            assert branch.turns == expected[branch.number]
            assert branch.path.message_count == len(branch.messages)
            assert branch.path.turn_count == len(branch.turns)
            forks_in_turns += branch.turns[-len(branch.own_turns) :] != branch.own_turns
    assert forks_in_turns > 10


def random_thread(seed: int) -> list[Written]:
    """Return prompts, answers and commands that often fork inside a turn."""
    random = Random(seed)  # noqa: S311 (not used for security)
    is_copy = seed % 4 == 0
    records: list[Written] = []
    for at in range(random.randrange(4, 30)):
        last = max(at - 1 - int(random.random() ** 2 * 4), 0)
        one = random.choice(
            [
                prompt(f"Prompt {at}"),
                reply(f"Answer {at}"),
                reply(f"Answer {at}"),
                command("/review"),
                system("turn_duration", durationMs=1_000 * at),
            ]
        )
        is_old = is_copy and random.random() < 1 / 3
        one |= {
            "uuid": f"r{at}",
            "parentUuid": f"r{last}" if at else None,
            "timestamp": moment(0 if is_old else at),
        }
        records.append(one | ({"version": "1.0.3"} if is_copy else {}))
    return records


@pytest.mark.req("C3")
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
