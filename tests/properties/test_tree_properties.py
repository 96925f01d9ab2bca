"""Invariants of assembling, for projects of any shape."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import structs

from bygones.assemble import branches
from bygones.assemble.branches import BranchLayout, assign_branches
from bygones.assemble.dedupe import deduplicate
from bygones.assemble.sessions import assemble_sessions
from bygones.assemble.tree import (
    RecordTree,
    build_tree,
    join_fragments,
    order_parents_first,
)
from bygones.model.base import RecordId, SourceKind
from bygones.model.nodes import Transcript
from bygones.model.usage import Usage
from bygones.reader import read_sessions
from tests import build, strategies
from tests.build import SESSION, Home, Written, session_id
from tests.forms import caveat, command, printed
from tests.properties.trees import (
    LOADER,
    messages,
    projects,
    reachable_records,
    transcript,
    transcripts,
)


def build_branches(
    one: Transcript,
) -> tuple[RecordTree, dict[RecordId, RecordId | None], BranchLayout]:
    once, _, _ = deduplicate(one.nodes)
    tree = build_tree(order_parents_first(once))
    joined = join_fragments(tree)
    return tree, joined, assign_branches(tree, joined)


@pytest.mark.req("T5")
@given(projects, st.randoms(use_true_random=False))
def test_order_of_sources_and_records_does_not_matter(
    files: list[Transcript], rng: random.Random
) -> None:
    shuffled = [
        structs.replace(one, nodes=tuple(rng.sample(one.nodes, len(one.nodes))))
        for one in rng.sample(files, len(files))
    ]

    assert assemble_sessions(shuffled, LOADER) == assemble_sessions(files, LOADER)


_COMMANDS = {
    "cost": (command("/cost"), printed("Little")),
    "model": (command("/model", "opus"), printed("Set")),
    "ls": (build.prompt("<bash-input>ls</bash-input>"),),
    "ls with output": (
        build.prompt("<bash-input>ls</bash-input>"),
        build.prompt("<bash-stdout>a</bash-stdout><bash-stderr></bash-stderr>"),
    ),
    "caveat": (caveat(),),
}


@pytest.mark.req("T2")
@given(
    st.lists(st.sampled_from(["prompt", *_COMMANDS]), min_size=3, max_size=9),
    st.lists(st.booleans(), min_size=9, max_size=9),
)
@example(["ls", "prompt", "ls"], [True] * 9)
@example(["cost", "prompt", "cost"], [True] * 9)
def test_commands_of_one_time_below_one_old_caveat_are_not_rewinds(
    steps: list[str], moved: list[bool]
) -> None:
    """Resumed files of 1.0.35 to 1.0.57 have such times and parents."""
    written = [build.prompt("Hello"), build.reply("Hi."), caveat()]
    old_caveats: set[int] = set()
    for step, is_moved in zip(steps, moved, strict=False):
        if step != "prompt" and is_moved:
            old_caveats.add(len(written))
        answer = build.reply("Done.", message_id=f"msg_{len(written)}")
        said = (build.prompt("Go on"), answer)
        written += said if step == "prompt" else _COMMANDS[step]
    written += [build.prompt("Last"), build.reply("Bye.")]
    records = [
        record
        | {
            "uuid": f"r{i}",
            "parentUuid": "r2" if i in old_caveats else f"r{i - 1}" if i else None,
            "timestamp": build.moment(0),
            "version": "1.0.51",
        }
        for i, record in enumerate(written)
    ]

    (session,) = assemble_sessions([transcript(SESSION, records)], LOADER)

    assert len(session.branches) == 1
    prompts = [m for m in messages(session) if m.is_prompt and m.preview == "Go on"]
    assert len(prompts) == steps.count("prompt")


@pytest.mark.req("T6")
@given(projects)
def test_record_is_in_one_place(files: list[Transcript]) -> None:
    for session in assemble_sessions(files, LOADER):
        pieces = Counter(
            piece.record_id
            for message in messages(session)
            for piece in (*message.record_refs, *message.attached_refs)
        )
        bodies = Counter(
            piece.record_id
            for message in messages(session)
            for call in message.tool_calls
            for piece in call.attached_refs
        )

        assert [
            record for record, times in (pieces + bodies).items() if times > 1
        ] == []


@pytest.mark.req("T2")
@given(projects)
def test_every_message_is_reachable(files: list[Transcript]) -> None:
    sessions = {session.id: session for session in assemble_sessions(files, LOADER)}
    own = [one for one in files if one.source.kind is SourceKind.SESSION]

    for one in own:
        conversation_ids = {
            n.uuid for n in one.nodes if n.is_conversation and n.uuid is not None
        }
        assert one.source.session_id is not None
        assert conversation_ids <= reachable_records(sessions[one.source.session_id])


@pytest.mark.req("T1")
@given(transcripts())
def test_branches_are_paths_from_a_root_to_a_leaf(one: Transcript) -> None:
    tree, joined, layout = build_branches(one)
    forks = {fork.number: fork for fork in layout.forks}

    assert layout.branch_of.keys() == tree.nodes.keys()
    for uuid, number in layout.branch_of.items():
        parent = joined[uuid]
        if parent is not None and layout.branch_of[parent] == number:
            continue
        if number == 0:
            assert parent is None
        else:
            assert forks[number].fork_point_id == parent
            assert (
                parent is None
                or layout.branch_of[parent] == forks[number].parent_number
            )
    ends = {layout.branch_of[uuid] for uuid in tree.nodes} - {0}
    assert ends == forks.keys()


@given(transcripts())
def test_every_branch_ends_at_a_leaf(one: Transcript) -> None:
    _, joined, layout = build_branches(one)
    parents = set(joined.values())

    ends = {layout.branch_of[uuid] for uuid in joined if uuid not in parents}

    assert ends == set(layout.branch_of.values())


@pytest.mark.req("T1")
@given(transcripts())
def test_joining_keeps_known_parents_and_makes_no_cycle(one: Transcript) -> None:
    tree, joined, _ = build_branches(one)

    for start in joined:
        steps = 0
        at: RecordId | None = start
        while at is not None:
            at = joined[at]
            steps += 1
            assert steps <= len(joined)
    fragments = {
        uuid for uuid, parent in tree.parents.items() if parent not in tree.nodes
    }
    moved = {uuid for uuid in joined if joined[uuid] != tree.parents[uuid]}
    caveats = {uuid for uuid, node in tree.nodes.items() if node.is_meta}
    assert {uuid for uuid in moved if tree.parents[uuid] not in caveats} <= fragments


@given(st.permutations(range(5)), strategies.trees())
def test_no_record_comes_before_its_parent(
    order: list[int], pairs: list[tuple[str, str | None]]
) -> None:
    records = [build.prompt(name, uuid=name, parent=parent) for name, parent in pairs]
    records = [records[at] for at in order if at < len(records)]
    ordered = order_parents_first(transcript(SESSION, records).nodes)
    tree = build_tree(ordered)
    place = {node.uuid: at for at, node in enumerate(ordered)}

    assert len(ordered) == len(records)
    for uuid, parent in tree.parents.items():
        assert parent not in place or place[parent] < place[uuid]


@pytest.mark.req("U1")
@given(projects)
def test_usage_of_branches_and_agents_adds_up(
    files: list[Transcript],
) -> None:
    for session in assemble_sessions(files, LOADER):
        total = sum((spend.usage for spend in session.message_usages), Usage())

        assert total == session.total_usage
        assert sum((b.usage for b in session.branches), Usage()) == session.usage


@pytest.mark.req("T6", "U1")
@given(projects)
def test_usage_of_an_answer_is_counted_once_per_project(
    files: list[Transcript],
) -> None:
    keys = [
        s.key
        for session in assemble_sessions(files, LOADER)
        for s in session.message_usages
    ]

    assert len(keys) == len(set(keys))


@pytest.mark.req("E1")
@given(st.lists(strategies.raw_lines, max_size=8), st.lists(strategies.records()))
@example([], [])
def test_assembling_any_input_never_raises(
    lines: list[bytes], records: list[Written]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder))
        home.session(SESSION, [*records, *lines])
        home.agent(SESSION, "a1", [*lines, *records])
        home.session(session_id(1), reversed([*records, *lines]))

        for session in read_sessions(home.path):
            for message in messages(session):
                assert None not in message.blocks
                for call in message.tool_calls:
                    assert call.result is None or call.has_result
                    assert (
                        call.tool_use is None
                        or call.outcome is None
                        or call.result_position
                    )


@given(transcripts())
def test_shortcut_without_rewinds_gives_the_same_branches(
    one: Transcript,
) -> None:
    expected = build_branches(one)

    with mock.patch.object(branches, "_possible_rewinds", return_value=[True]):
        assert build_branches(one) == expected
