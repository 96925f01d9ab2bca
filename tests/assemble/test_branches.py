"""Rewinds are distinguished from other forks of the tree."""

from __future__ import annotations

import pytest

from bygones.assemble.branches import BranchLayout
from tests.assemble.helpers import branches, only
from tests.build import (
    attachment,
    compact,
    moment,
    progress,
    prompt,
    queue,
    reply,
    session,
    system,
    thread,
    tool_result,
    tool_use,
)
from tests.forms import INTERRUPT, caveat, command, digest, filler, notification


def forks(growth: BranchLayout) -> list[tuple[int, int, str | None, str]]:
    """Return number, parent, fork point and first record of every fork."""
    return [
        (fork.number, fork.parent_number, fork.fork_point_id, fork.first_record_id)
        for fork in growth.forks
    ]


@pytest.mark.req("T2")
def test_second_prompt_on_one_answer_is_a_rewind() -> None:
    growth = branches(session("a", "b<a", "c<b", "d<c", "e<b", "f<e"))

    assert forks(growth) == [(1, 0, "b", "c")]
    assert growth.branch_of == {"a": 0, "b": 0, "c": 1, "d": 1, "e": 0, "f": 0}


@pytest.mark.req("T2", "T3")
def test_path_with_the_newest_record_is_live() -> None:
    growth = branches(session("a", "b<a", "c<b", "d<b", "e<d", "f<c", "g<f"))

    assert forks(growth) == [(1, 0, "b", "d")]


@pytest.mark.req("T2")
def test_starting_over_abandons_everything_before() -> None:
    growth = branches(session("a", "b<a", "c", "d<c"))

    assert forks(growth) == [(1, 0, None, "a")]
    assert growth.branch_of == {"a": 1, "b": 1, "c": 0, "d": 0}


@pytest.mark.req("T2")
def test_branches_of_a_branch_are_numbered_after_it() -> None:
    growth = branches(session("a", "b<a", "c<b", "d<c", "e<d", "f<d", "g<b", "h<g"))

    assert forks(growth) == [(1, 0, "b", "c"), (2, 1, "d", "e")]


@pytest.mark.req("T2")
@pytest.mark.parametrize(
    "beside",
    [
        progress("hook_progress", uuid="x", parent="b"),
        attachment("file", uuid="x", parent="b"),
        system("turn_duration", uuid="x", parent="b", durationMs=1),
        prompt(INTERRUPT, uuid="x", parent="b"),
        prompt("x", uuid="x", parent="b", isMeta=True),
        notification("t", "completed", uuid="x", parent="b"),
        command("/cost", uuid="x", parent="b"),
        filler(uuid="x", parent="b"),
        caveat(uuid="x", parent="b"),
        reply("again", uuid="x", parent="b"),
        digest(uuid="x", parent="b"),
    ],
    ids=lambda record: record["type"] + str(record.get("subtype", "")),
)
@pytest.mark.parametrize("is_first", [True, False])
def test_records_beside_the_path_are_not_branches(
    beside: dict[str, object], *, is_first: bool
) -> None:
    records = session("a", "b<a", "c<b", "d<c", "e<d")
    records.insert(2 if is_first else 4, beside)

    assert branches(records).forks == ()


@pytest.mark.req("T2", "R5")
def test_results_of_parallel_calls_are_not_branches() -> None:
    records = thread(
        prompt("Look", uuid="p"),
        reply([tool_use("Read", id="t1")], uuid="a1", message_id="m"),
        reply([tool_use("Read", id="t2")], uuid="a2", message_id="m"),
        tool_result("t2", uuid="r2", parent="a2"),
        tool_result("t1", uuid="r1", parent="a1"),
        prompt("And now", uuid="q", parent="r2"),
        reply("Done", uuid="b"),
    )

    assert branches(records).forks == ()


@pytest.mark.req("T2")
def test_result_without_a_call_is_skipped() -> None:
    records = thread(
        prompt("Look", uuid="p"),
        tool_result("lost", uuid="r"),
        reply("Done", uuid="a", parent="p"),
        prompt("More", uuid="q", parent="p"),
        reply("Yes", uuid="b"),
    )

    assert branches(records).forks == ()


@pytest.mark.req("T2")
def test_retried_answer_is_not_a_branch() -> None:
    records = session("a", "b<a", "c<a:assistant", "d<c")

    assert branches(records).forks == ()


@pytest.mark.req("T2")
def test_rewind_before_a_continued_answer_is_detected() -> None:
    records = session("a", "b<a", "c<b", "d<c", "e<a:user", "f<e")

    assert forks(branches(records)) == [(1, 0, "a", "b")]


@pytest.mark.req("T2")
def test_answer_after_the_last_prompt_is_not_a_rewind() -> None:
    records = session("a", "b<a", "c<b", "d<c", "e<b:assistant", "f<e")

    assert branches(records).forks == ()


@pytest.mark.req("T2")
@pytest.mark.parametrize("answered", [True, False])
def test_same_prompt_without_an_answer_is_a_retry(*, answered: bool) -> None:
    records = thread(
        prompt("Hello", uuid="a"),
        reply("Hello.", uuid="b"),
        prompt("Go", uuid="c"),
        *([reply("Gone.", uuid="d")] if answered else []),
        prompt("Go", uuid="e", parent="b"),
        reply("Gone now.", uuid="f"),
    )

    assert bool(branches(records).forks) is answered


@pytest.mark.req("T2")
def test_same_prompt_at_the_same_time_is_a_replay() -> None:
    again = {"timestamp": moment(3)}
    records = thread(
        prompt("Hello", uuid="a"),
        reply("Hello.", uuid="b"),
        prompt([{"type": "text", "text": "Go"}], uuid="c") | again,
        reply("Gone.", uuid="d"),
        # In other blocks, so that it is not recognized as a copy.
        prompt(["Go", {"type": "text", "text": ""}], uuid="e", parent="b") | again,
        reply("Gone.", uuid="f", message_id="other"),
    )

    assert branches(records).forks == ()


@pytest.mark.req("T2")
def test_queued_prompts_are_not_rewinds() -> None:
    records = thread(
        prompt("Hello", uuid="a"),
        queue("enqueue", "One"),
        queue("enqueue", "Two"),
        reply("Hello.", uuid="b"),
        prompt("One", uuid="c"),
        reply("1", uuid="d"),
        prompt("Two", uuid="e", parent="b"),
        reply("2", uuid="f"),
    )

    assert branches(records).forks == ()


@pytest.mark.req("T2")
def test_path_that_starts_with_an_answered_command_can_be_abandoned() -> None:
    records = thread(
        prompt("Hello", uuid="a"),
        reply("Hello.", uuid="b"),
        command("/review", uuid="k"),
        reply("Fine.", uuid="d"),
        prompt("Other", uuid="e", parent="b"),
        reply("As well.", uuid="f"),
    )

    assert forks(branches(records)) == [(1, 0, "b", "k")]


@pytest.mark.req("T2", "R8")
def test_compaction_does_not_split_a_branch() -> None:
    records = [
        *session("a", "b<a"),
        compact("b", uuid="n"),
        digest(uuid="s", parent="n"),
        *session("c<s:user", "d<c", "e<b:user", "f<e"),
    ]

    assert forks(branches(records)) == [(1, 0, "b", "c")]


@pytest.mark.req("T2", "T3", "T4")
def test_branch_is_found_by_its_leaf_or_any_record() -> None:
    records = thread(
        prompt("Hello", uuid="a"),
        reply("Hello.", uuid="b"),
        prompt("Left", uuid="c"),
        reply([tool_use("Bash", id="t", command="x")], uuid="d"),
        tool_result("t", "x", uuid="r"),
        prompt("Live", uuid="e", parent="b"),
        reply("Yes.", uuid="f"),
    )
    actual = only(records)
    (left,) = actual.branches[1:]

    assert actual.find_branch("f") is actual.live_branch
    assert actual.find_branch("r") is left
    assert actual.find_branch("c") is left
    assert actual.find_branch("a") is actual.live_branch
    assert actual.find_branch("nowhere") is None
    assert actual.endpoint_ids == ("r", "f")
    assert [m.preview for m in left.prompts] == ["Left"]


@pytest.mark.req("T2")
def test_branch_starts_with_a_prompt_of_its_own() -> None:
    """A progress record is between the answer and the first two tries."""
    tries = ("h<a:progress", "c<h:user", "d<c", "e<h:user", "f<e")
    growth = branches(session("p", "a<p", *tries, "g<a", "i<g"))

    assert forks(growth) == [(1, 0, "a", "e"), (2, 1, "h", "c")]
