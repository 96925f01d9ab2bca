"""Copies and replays of records are removed."""

from __future__ import annotations

import pytest

from bygones.assemble.dedupe import deduplicate, get_record_id, sort_transcripts
from bygones.model.base import RecordId
from tests.assemble.helpers import nodes, transcript
from tests.build import (
    Written,
    image,
    moment,
    prompt,
    queue,
    reply,
    session,
    session_id,
    text,
    thread,
    tool_result,
    tool_use,
)
from tests.forms import caveat, command


@pytest.mark.req("T6")
def test_copy_is_hidden_and_counted_once() -> None:
    records = session("a", "b<a")

    kept, hidden, problems = deduplicate(nodes([*records, *records]))

    assert [node.uuid for node in kept] == ["a", "b"]
    assert [(item.reason, item.record_id) for item in hidden] == [
        ("copy", "a"),
        ("copy", "b"),
    ]
    assert problems == []


@pytest.mark.req("T6")
def test_queue_operations_of_a_copied_file_are_ignored() -> None:
    actual = [queue("enqueue", "a"), queue("enqueue", "a"), queue("remove")]

    kept, hidden, _ = deduplicate([*nodes(actual), *nodes(actual, source="b.jsonl")])

    assert [node.position.source_id for node in kept] == ["a.jsonl"] * 3
    assert [(item.reason, item.position.source_id) for item in hidden] == [
        ("copy", "b.jsonl")
    ] * 3


@pytest.mark.req("T6")
@pytest.mark.parametrize("longer_first", [True, False])
def test_longer_of_two_contents_is_kept_and_the_clash_reported(
    *, longer_first: bool
) -> None:
    two = [prompt("short", uuid="a"), prompt("quite a bit longer", uuid="a")]
    kept, hidden, problems = deduplicate(nodes(two[::-1] if longer_first else two))

    assert [node.preview for node in kept] == ["quite a bit longer"]
    assert len(hidden) == 1
    assert [(p.kind, p.detail) for p in problems] == [("clash", "a")]


def test_record_stays_at_its_first_position() -> None:
    records = session("a", "b<a", "s<b:system", "c<s:user")
    again = [records[1] | {"parentUuid": "c"}]

    kept, _, _ = deduplicate(nodes([*records, *again]))

    assert [n.parent_uuid for n in kept if n.uuid == "b"] == ["a"]


def test_unknown_parent_is_replaced_by_that_of_a_copy() -> None:
    records = session("a", "b<gone:assistant")
    again = [records[1] | {"parentUuid": "a"}]

    kept, _, _ = deduplicate(nodes([*records, *again]))

    assert [n.parent_uuid for n in kept if n.uuid == "b"] == ["a"]


def test_copy_without_a_parent_does_not_remove_the_parent() -> None:
    records = session("b<gone:assistant")

    kept, _, _ = deduplicate(nodes([*records, records[0] | {"parentUuid": None}]))

    assert kept[0].parent_uuid == "gone"


@pytest.mark.req("T6")
def test_replay_is_recognized_by_times_and_contents() -> None:
    records = session("a", "b<a")
    again = [record | {"uuid": f"{record['uuid']}2"} for record in records]
    again[1]["parentUuid"] = "a2"

    kept, hidden, _ = deduplicate(nodes([*records, *again, *session("c<b2:user")]))

    assert {n.uuid: n.parent_uuid for n in kept} == {"a": None, "b": "a", "c": "b"}
    assert [item.record_id for item in hidden] == ["a2", "b2"]


@pytest.mark.req("T6")
def test_replay_may_join_parallel_calls_in_another_order() -> None:
    records = thread(
        prompt("Read both", uuid="p"),
        reply([tool_use("Read", id="toolu_1")], uuid="a", message_id="msg_1"),
        reply([tool_use("Read", id="toolu_2")], uuid="b", message_id="msg_1"),
        tool_result("toolu_1", "one", uuid="r", parent="a"),
        tool_result("toolu_2", "two", uuid="s", parent="b"),
        prompt("And now?", uuid="q"),
    )
    parents = {"p": None, "a": "p", "r": "a", "b": "r", "s": "b", "q": "s"}
    by_id = {record["uuid"]: record for record in records}
    again = [
        by_id[name] | {"uuid": f"{name}2", "parentUuid": parent and f"{parent}2"}
        for name, parent in parents.items()
    ]

    kept, hidden, _ = deduplicate(nodes([*records, *again]))

    assert [node.uuid for node in kept] == list("pabrsq")
    assert [item.record_id for item in hidden] == [f"{name}2" for name in parents]


def test_compaction_after_a_replay_follows_the_original() -> None:
    records = session("a")
    again = [records[0] | {"uuid": "a2"}]
    follows = [*session("b<a2:system", logicalParentUuid="a2")]

    kept, _, _ = deduplicate(nodes([*records, *again, *follows]))

    assert (kept[1].parent_uuid, kept[1].logical_parent_uuid) == ("a", "a")


@pytest.mark.req("T6")
def test_replay_may_split_a_prompt_into_one_record_per_block() -> None:
    whole = prompt([text("one"), image()], uuid="a")
    parts = [
        prompt([text("one")], uuid="b"),
        prompt([image()], uuid="c", parent="b"),
        reply("Yes", uuid="d", parent="c", timestamp=moment(1)),
    ]

    kept, _, _ = deduplicate(nodes([whole, *parts]))

    assert {n.uuid: n.parent_uuid for n in kept} == {"a": None, "d": "a"}


@pytest.mark.req("T6")
def test_history_may_be_replayed_twice() -> None:
    first = prompt("one", uuid="a")
    replay = first | {"uuid": "a2"}
    second = prompt("two", uuid="b", parent="a2", timestamp=moment(1))
    replays = [first | {"uuid": "a3"}, second | {"uuid": "b3", "parentUuid": "a3"}]

    kept, _, _ = deduplicate(nodes([first, replay, second, *replays]))

    assert {n.uuid: n.parent_uuid for n in kept} == {"a": None, "b": "a"}


@pytest.mark.parametrize(
    "other",
    [
        {"timestamp": moment(1)},
        {"timestamp": None},
        {"agentId": "x"},
        {"message": {"role": "user", "content": "b"}},
        {"type": "system", "subtype": "informational", "content": "a"},
    ],
    ids=["time", "no time", "agent", "content", "type"],
)
def test_different_records_are_not_replays(other: dict[str, object]) -> None:
    record = prompt("a", uuid="a")

    kept, _, _ = deduplicate(nodes([record, record | {"uuid": "b"} | other]))

    assert len(kept) == 2


@pytest.mark.req("T6")
def test_equal_records_of_one_file_with_other_parents_are_not_replays() -> None:
    stops = [prompt("stop", uuid=u, parent=p) for u, p in (("i", "a"), ("j", "b"))]
    first, second = session("a", "b<i:user")

    kept, hidden, _ = deduplicate(nodes([first, stops[0], second, stops[1]]))

    assert [n.uuid for n in kept] == ["a", "i", "b", "j"]
    assert hidden == []


@pytest.mark.req("T6")
def test_replay_of_records_of_one_content_and_time_is_recognized() -> None:
    records = thread(
        prompt("one", uuid="a"),
        prompt("stop", uuid="i"),
        prompt("two", uuid="b"),
        prompt("stop", uuid="j"),
    )
    records = [record | {"timestamp": moment(0)} for record in records]
    again = [
        record
        | {
            "uuid": f"{record['uuid']}2",
            "parentUuid": record["parentUuid"] and f"{record['parentUuid']}2",
        }
        for record in records
    ]

    kept, _, _ = deduplicate(nodes([*records, *again]))

    assert [node.uuid for node in kept] == list("aibj")


def _commands_below_one_caveat() -> list[Written]:
    records = thread(
        caveat(uuid="c"),
        command("/cost", uuid="k"),
        prompt("one", uuid="p"),
        command("/cost", uuid="l", parent="c"),
        prompt("two", uuid="q"),
    )
    return [record | {"timestamp": moment(0)} for record in records]


@pytest.mark.req("T6")
def test_equal_commands_below_one_old_caveat_are_not_replays() -> None:
    kept, hidden, _ = deduplicate(nodes(_commands_below_one_caveat()))

    assert [node.uuid for node in kept] == list("ckplq")
    assert hidden == []


@pytest.mark.req("T6")
@pytest.mark.parametrize("keeps_caveat", [True, False])
def test_replay_of_equal_commands_below_one_old_caveat_is_recognized(
    *, keeps_caveat: bool
) -> None:
    records = _commands_below_one_caveat()
    caveat_id = "c" if keeps_caveat else "c2"
    again = [
        record
        | {
            "uuid": f"{record['uuid']}2",
            "parentUuid": caveat_id
            if record["parentUuid"] == "c"
            else record["parentUuid"] and f"{record['parentUuid']}2",
        }
        for record in records
    ]

    kept, hidden, _ = deduplicate(nodes([*records, *again]))

    assert [node.uuid for node in kept] == list("ckplq")
    assert [item.record_id for item in hidden] == [r["uuid"] for r in again]


def test_records_without_ids_follow_the_record_before() -> None:
    records = session("a", "b<a", "c<b")
    for record in records[1:]:
        del record["uuid"], record["parentUuid"]

    kept, _, _ = deduplicate(nodes(records))

    assert [node.parent_uuid for node in kept] == [None, "a", get_record_id(kept[1])]
    assert get_record_id(kept[1]).startswith("@a.jsonl:")


def test_excluded_records_are_left_out() -> None:
    records = [*session("a", "b<a"), *session("c<b:user")]

    kept, hidden, _ = deduplicate(nodes(records), {RecordId("a"), RecordId("b")})

    assert [node.uuid for node in kept] == ["c"]
    assert [item.record_id for item in hidden] == ["a", "b"]


@pytest.mark.req("T5")
def test_files_are_sorted_by_time_and_records_by_offset() -> None:
    late = transcript(session_id(1), session("b", timestamp=moment(9)))
    early = transcript(session_id(2), session("a", "c<a", timestamp=moment(1)))
    timeless = transcript(session_id(3), session("d", timestamp=None))

    ordered = sort_transcripts([timeless, late, early])

    names = [[node.uuid for node in item.nodes] for item in ordered]
    assert names == [["a", "c"], ["b"], ["d"]]
