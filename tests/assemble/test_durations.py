"""How long turns took."""

from __future__ import annotations

from datetime import timedelta

import pytest

from bygones.assemble.durations import find_copy_times, measure_turn
from tests.assemble.helpers import nodes, only
from tests.build import (
    Written,
    moment,
    prompt,
    reply,
    thread,
    tool_result,
    tool_use,
)
from tests.forms import caveat, command

DAY = 24 * 3600


def durations(
    records: list[Written], version: str = "1.0.44"
) -> list[timedelta | None]:
    actual = only([record | {"version": version} for record in records])
    return [turn.duration for turn in actual.live_branch.turns]


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


def test_turn_whose_only_reply_was_copied_has_no_duration() -> None:
    records = thread(
        prompt("one", uuid="p1"),
        reply("two", uuid="a1", timestamp=moment(DAY)),
        prompt("three", uuid="p2", timestamp=moment(DAY + 60)),
        reply("four", uuid="a2", timestamp=moment(DAY + 67)),
    )

    assert durations(records) == [None, seconds(7)]


def test_single_copied_reply_with_a_result_has_no_duration() -> None:
    copied = moment(DAY)
    records = thread(
        prompt("one", uuid="p1"),
        reply([tool_use("Bash", id="t1")], uuid="a1", timestamp=copied),
        tool_result("t1", "Stopped", uuid="r1", timestamp=moment(DAY + 0.001)),
        prompt("three", uuid="p2", timestamp=moment(DAY + 60)),
        reply("four", uuid="a2", timestamp=moment(DAY + 67)),
    )

    assert durations(records) == [None, seconds(7)]


def test_reply_in_another_version_than_its_prompt_was_copied() -> None:
    """A resume soon after the prompt gives too short a pause to recognize it by."""
    first, *rest = thread(
        prompt("one", uuid="p1"),
        reply("two", uuid="a1", timestamp=moment(600)),
        prompt("three", uuid="p2", timestamp=moment(660)),
        reply("four", uuid="a2", timestamp=moment(667)),
    )
    records = [first | {"version": "1.0.43"}]
    records += [record | {"version": "1.0.44"} for record in rest]

    turns = only(records).live_branch.turns
    assert [turn.duration for turn in turns] == [None, seconds(7)]


def test_copies_in_the_next_millisecond_are_recognized() -> None:
    records = thread(
        prompt("one", uuid="p1"),
        reply("two", uuid="a1", timestamp=moment(600)),
        prompt("three", uuid="p2", timestamp=moment(20)),
        reply("four", uuid="a2", timestamp=moment(600.001)),
        prompt("five", uuid="p3", timestamp=moment(700)),
        reply("six", uuid="a3", timestamp=moment(707)),
    )

    assert durations(records) == [None, None, seconds(7)]


def test_copied_interruptions_have_no_duration() -> None:
    stop = [{"type": "text", "text": "[Request interrupted by user]"}]
    records = thread(
        prompt("one", uuid="p1"),
        prompt(stop, uuid="i1", timestamp=moment(600)),
        prompt("two", uuid="p2", timestamp=moment(20)),
        prompt(stop, uuid="i2", timestamp=moment(600)),
        prompt("three", uuid="p3", timestamp=moment(660)),
        reply("four", uuid="a3", timestamp=moment(667)),
    )

    assert durations(records) == [None, None, seconds(7)]


def test_turn_over_the_time_of_copying_starts_at_it() -> None:
    records = thread(
        prompt("one", uuid="p1"),
        reply("two", uuid="a1", timestamp=moment(DAY)),
        prompt("three", uuid="p2", timestamp=moment(20)),
        reply("four", uuid="a2", timestamp=moment(DAY + 7)),
    )

    assert durations(records) == [None, seconds(7)]


def test_interruption_at_the_time_of_a_reply_is_not_a_copy() -> None:
    stop = [{"type": "text", "text": "[Request interrupted by user for tool use]"}]
    now = moment(60)
    records = thread(
        prompt("one", uuid="p1", timestamp=moment(0)),
        reply([tool_use("Bash", id="t1")], uuid="a1", timestamp=now),
        tool_result("t1", "Rejected", uuid="r1", timestamp=now),
        prompt(stop, uuid="i1", timestamp=now),
    )

    assert durations(records) == [seconds(60)]


def test_long_turn_in_the_middle_of_a_file_keeps_its_duration() -> None:
    records = thread(
        prompt("one", uuid="p1", timestamp=moment(0)),
        reply("two", uuid="a1", timestamp=moment(7)),
        prompt("three", uuid="p2", timestamp=moment(60)),
        reply("four", uuid="a2", timestamp=moment(3 * 3600)),
    )

    assert durations(records) == [seconds(7), seconds(3 * 3600 - 60)]


def test_first_turn_of_a_newer_version_keeps_its_duration() -> None:
    records = thread(
        prompt("one", uuid="p1", timestamp=moment(0)),
        reply("two", uuid="a1", timestamp=moment(DAY)),
    )

    assert durations(records, "2.1.300") == [seconds(DAY)]


def test_first_reply_of_old_versions_may_take_an_hour() -> None:
    records = thread(
        prompt("one", uuid="p1", timestamp=moment(0)),
        reply("two", uuid="a1", timestamp=moment(3600)),
    )

    assert durations(records) == [seconds(3600)]


@pytest.mark.parametrize("version", ["1.0.44", "2.1.300"])
def test_turn_ends_before_a_command_that_was_not_answered(version: str) -> None:
    records = thread(
        prompt("one", uuid="p1", timestamp=moment(0)),
        reply("two", uuid="a1", timestamp=moment(5)),
        caveat(uuid="c1", timestamp=moment(DAY)),
        command("/exit", uuid="k1", timestamp=moment(DAY)),
    )

    assert durations(records, version) == [seconds(5)]


def test_turn_ends_when_it_is_interrupted() -> None:
    stop = [{"type": "text", "text": "[Request interrupted by user]"}]
    records = thread(
        prompt("one", uuid="p1", timestamp=moment(0)),
        prompt(stop, uuid="i1", timestamp=moment(9)),
    )

    assert durations(records, "2.1.300") == [seconds(9)]


def test_agent_that_was_copied_with_its_session_has_no_duration() -> None:
    copied = moment(DAY)
    records = thread(
        prompt("Look", uuid="s1"),
        reply([tool_use("Read", id="t1")], uuid="s2", timestamp=copied),
        tool_result("t1", "Code", uuid="s3", timestamp=copied),
        reply("Done", uuid="s4", timestamp=copied),
    )
    fields = {"version": "1.0.44", "isSidechain": True}
    (agent,) = only([record | fields for record in records]).agents

    assert agent.duration is None


def test_two_copied_replies_are_recognized_by_an_earlier_prompt_after_them() -> None:
    records = thread(
        prompt("one", uuid="p1"),
        reply("two", uuid="a1", timestamp=moment(3600)),
        prompt("three", uuid="p2"),
        reply("four", uuid="a2", timestamp=moment(3600)),
        prompt("five", uuid="p3", timestamp=moment(3700)),
        reply("six", uuid="a3", timestamp=moment(3707)),
    )
    actual = only([record | {"version": "1.0.44"} for record in records])

    durations = [turn.duration for turn in actual.live_branch.turns]
    assert durations == [None, None, timedelta(seconds=7)]


def test_two_replies_of_one_time_are_not_copied_if_all_after_them_is_later() -> None:
    records = thread(
        prompt("one", uuid="p1"),
        reply("two", uuid="a1", timestamp=moment(60)),
        reply("three", uuid="a2", timestamp=moment(60)),
        prompt("four", uuid="p2", timestamp=moment(61)),
    )

    copied = find_copy_times(
        nodes([record | {"version": "1.0.44"} for record in records])
    )

    assert not copied


@pytest.mark.parametrize("cut", [0, 4, 5])
def test_duration_of_a_copied_turn_leaves_out_the_pause(cut: int) -> None:
    """Claude Code 1.0 gave all replies that it copied the time of copying."""
    hour = moment(3600)
    records = thread(
        prompt("one", uuid="p1"),
        reply("two", uuid="a1"),
        reply("three", uuid="a2"),
        prompt("four", uuid="p2"),
        reply("five", uuid="a3"),
        reply("six", uuid="a4"),
        prompt("seven", uuid="p3"),
        reply("eight", uuid="a5"),
    )
    for record in records:
        record["version"] = "1.0.120"
        if record["uuid"] in {"a1", "a2", "a3"}:
            record["timestamp"] = hour
    for number, record in enumerate(records[5:]):
        record["timestamp"] = moment(3607 + number)
    actual = only(records).live_branch

    assert [turn.duration for turn in actual.turns] == [
        None,
        timedelta(seconds=7),
        timedelta(seconds=1),
    ]
    if cut:
        copied = find_copy_times(nodes(records))
        whole = actual.messages
        first, rest = (measure_turn(m, copied) for m in (whole[3:cut], whole[cut:6]))
        assert (first + rest).duration == timedelta(seconds=7)
