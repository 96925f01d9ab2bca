"""Sessions as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from msgspec import structs

from bygones.assemble.dedupe import file_id
from bygones.assemble.grouping import has_session_id, transcript_session_id
from bygones.model.nodes import RecordNode
from tests.assemble.helpers import assembled, only, steps, transcript
from tests.assemble.test_tree import chain, comb, fan, loose
from tests.build import (
    SESSION,
    Written,
    meta,
    prompt,
    reply,
    session,
    session_id,
    snapshot,
    summary,
    thread,
    title,
)
from tests.forms import command, printed


@pytest.mark.req("F5")
def test_files_belong_to_the_session_of_their_name() -> None:
    records = session("a", "b<a", sessionId=session_id(7))

    assert transcript_session_id(transcript(SESSION, records)) == SESSION


@pytest.mark.req("F5")
def test_loose_file_belongs_to_the_session_most_records_name() -> None:
    records = [
        *session("a", sessionId=session_id(7)),
        *session("b", "c<b", sessionId=session_id(8)),
    ]

    assert transcript_session_id(transcript("talk", records)) == session_id(8)


def test_loose_file_without_session_is_named_after_itself() -> None:
    empty = transcript("talk", [])
    nameless = structs.replace(
        empty, source=structs.replace(empty.source, session_id=None)
    )

    assert transcript_session_id(empty) == "talk"
    assert transcript_session_id(nameless) == file_id(empty.source.id)


def test_only_a_uuid_is_a_certain_session_id() -> None:
    assert has_session_id(transcript(SESSION, []).source)
    assert not has_session_id(transcript("talk", []).source)


def test_title_record_with_an_id_is_not_a_leaf() -> None:
    titled = title("Forked", custom=True) | {"uuid": "t"}

    assert only([*session("a", "b<a"), titled]).live_branch.id == "b"


@pytest.mark.req("F6")
@pytest.mark.parametrize(
    "records",
    [
        [],
        [summary("Of another", "gone")],
        [snapshot("a"), meta("mode", mode="normal")],
        [command("/exit"), printed("Bye")],
        [prompt("")],
    ],
    ids=["empty", "summaries", "metadata", "commands", "a blank prompt"],
)
def test_session_without_messages_is_empty(records: list[Written]) -> None:
    assert only(records).is_empty


@pytest.mark.req("F6")
@pytest.mark.parametrize("records", [session("a"), [reply("Hm")]])
def test_prompt_or_answer_makes_a_session_not_empty(records: list[Written]) -> None:
    assert not only(records).is_empty


@pytest.mark.req("R10")
def test_session_collects_facts_of_its_records() -> None:
    later: Written = {
        "version": "2.1.5",
        "cwd": "/work/other",
        "gitBranch": "fix",
        "entrypoint": "cli",
        "slug": "calm-blue-river",
    }
    actual = only([*session("a", "b<a"), *session("c<b:user", "d<c", **later)])

    assert actual.versions == ("2.1.200", "2.1.5")
    assert actual.directories == ("/work/demo", "/work/other")
    assert actual.git_branches == ("main", "fix")
    assert actual.entrypoints == ("cli",)
    assert actual.slug == "calm-blue-river"
    assert actual.models == ("claude-sonnet-4-5-20250929",)
    assert actual.project_keys == ("-work-demo",)
    assert actual.started_at is not None
    assert actual.ended_at is not None
    assert (actual.ended_at - actual.started_at).total_seconds() == 1


@pytest.mark.req("T4")
def test_endpoints_are_leaves_and_summarized_records() -> None:
    actual = only([*session("a", "b<a", "c<b", "d<b"), summary("x", "a")])

    assert actual.endpoint_ids == ("c", "d", "a")


@pytest.mark.req("H1")
def test_snapshots_are_kept_by_position() -> None:
    actual = only([snapshot("a"), *session("a")])

    assert [position.offset for position in actual.snapshot_positions] == [0]


@pytest.mark.req("T1")
@pytest.mark.parametrize("shape", [chain, loose, fan, comb])
def test_assembling_takes_linear_time(
    shape: Callable[[int], Iterable[RecordNode]],
) -> None:
    empty = transcript(SESSION, [])
    few = structs.replace(empty, nodes=tuple(shape(200)))
    many = structs.replace(empty, nodes=tuple(shape(1000)))

    assert steps(lambda: assembled(many)) < 6 * steps(lambda: assembled(few))


def test_session_without_a_file_has_no_branches() -> None:
    assert assembled() == ()


def test_problems_of_files_belong_to_the_session() -> None:
    actual = only(thread(prompt("a", parent="gone")))

    assert [problem.kind for problem in actual.problems] == ["ghost"]
