"""The tree of records, with missing and invalid parents."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bygones.assemble.branches import assign_branches
from bygones.assemble.tree import build_tree, join_fragments, order_parents_first
from bygones.model.base import Position, RecordId, SourceId
from bygones.model.nodes import Origin, RecordNode
from tests.assemble.helpers import distinct_nodes, nodes, only, record_tree, steps
from tests.build import attachment, compact, moment, prompt, session, system
from tests.forms import caveat, command, digest


def chain(size: int) -> list[RecordNode]:
    """Return a chain of prompts and answers."""
    return [_node(at, at - 1 if at else None) for at in range(size)]


def loose(size: int) -> list[RecordNode]:
    """Return answered prompts without parents."""
    return [_node(at, at - 1 if at % 2 else None) for at in range(size)]


def fan(size: int) -> list[RecordNode]:
    """Return prompts that all have the same parent."""
    return [_node(at, 0 if at else None) for at in range(size)]


def comb(size: int) -> list[RecordNode]:
    """Return a conversation in which every prompt was tried twice."""
    return [
        _node(at, None if at in {0, 2} else at - (3 if at % 4 == 2 else 1))
        for at in range(size)
    ]


def _node(at: int, parent: int | None) -> RecordNode:
    is_prompt = at % 2 == 0
    return RecordNode(
        position=Position(SourceId("a"), 0, at, 1),
        kind="user" if is_prompt else "assistant",
        uuid=RecordId(f"r{at}"),
        parent_uuid=None if parent is None else RecordId(f"r{parent}"),
        origin=Origin.PERSON if is_prompt else None,
        digest=at,
    )


@pytest.mark.req("T1")
def test_parent_in_no_file_is_a_ghost() -> None:
    tree = record_tree(session("b<gone"))

    assert tree.ghosts == {"gone"}
    assert [(p.kind, p.detail) for p in tree.problems] == [("ghost", "gone")]


def test_ghost_with_several_children_is_one_problem() -> None:
    tree = record_tree(session("b<gone", "c<gone:user"))

    assert len(tree.problems) == 1
    assert tree.children[RecordId("gone")] == ("b", "c")


def test_parent_in_another_conversation_is_not_a_ghost() -> None:
    tree = build_tree(distinct_nodes(session("b<there")), {RecordId("there")})

    assert tree.ghosts == frozenset()
    assert tree.problems == ()


@pytest.mark.req("T1")
def test_tree_has_roots_leaves_and_forks() -> None:
    tree = record_tree(session("a", "b<a", "c<b", "d<b", "e"))

    assert tree.children == {None: ("a", "e"), "a": ("b",), "b": ("c", "d")}
    assert tree.leaves == ("c", "d", "e")


@pytest.mark.req("T1")
def test_record_that_is_its_own_parent_is_a_root_and_a_problem() -> None:
    tree = record_tree(session("a<a"))

    assert tree.children[None] == ("a",)
    assert [p.kind for p in tree.problems] == ["self-parent"]


@pytest.mark.req("T1")
@pytest.mark.parametrize("words", [["a<c", "b<a", "c<b"], ["c<b", "a<c", "b<a"]])
def test_cycle_is_broken_at_its_first_record(words: list[str]) -> None:
    tree = record_tree(session(*words))

    first = words[0][0]
    assert tree.children[None] == (first,)
    assert [(p.kind, p.detail) for p in tree.problems] == [("cycle", first)]


def test_children_of_a_cycle_stay_attached() -> None:
    tree = record_tree(session("x<b", "a<b", "b<a"))

    assert tree.parents == {"a": None, "b": "a", "x": "b"}


def test_record_of_an_unknown_type_keeps_its_children() -> None:
    unknown = {"type": "from-tomorrow", "uuid": "u", "parentUuid": "a"}
    tree = record_tree([*session("a"), unknown, *session("b<u:user")])

    assert tree.parents == {"a": None, "u": "a", "b": "u"}
    assert tree.problems == ()


def test_unknown_root_with_children_is_in_the_tree() -> None:
    unknown = {"type": "from-tomorrow", "uuid": "u"}

    assert set(record_tree([unknown, *session("b<u:user")]).nodes) == {"u", "b"}
    assert record_tree([unknown]).nodes == {}


@pytest.mark.req("T5")
def test_child_written_before_its_parent_comes_after_it() -> None:
    records = session("c<b:user", "d<c", "a", "b<a")

    assert [node.uuid for node in order_parents_first(nodes(records))] == [
        "a",
        "b",
        "c",
        "d",
    ]


@pytest.mark.req("T5")
def test_backward_times_change_nothing() -> None:
    records = session("a", "b<a", "c<b", "d<c")
    backwards = [r | {"timestamp": moment(9 - at)} for at, r in enumerate(records)]

    heads = [message.preview for message in only(backwards).live_branch.messages]

    assert heads == ["a", "b", "c", "d"]


def test_metadata_keeps_its_place() -> None:
    records = [*session("c<b:user"), {"type": "mode"}, *session("a", "b<a")]

    kinds = [node.uuid or node.kind for node in order_parents_first(nodes(records))]

    assert kinds == ["mode", "a", "b", "c"]


def test_fragment_continues_the_record_before_it() -> None:
    assert (
        join_fragments(record_tree(session("a", "b<a", "c<gone", "d<c")))[RecordId("c")]
        == "b"
    )


def test_first_record_stays_a_root_even_below_a_ghost() -> None:
    assert join_fragments(record_tree(session("a<gone", "b<a")))[RecordId("a")] is None


def test_answered_prompt_without_parent_is_a_new_root() -> None:
    assert (
        join_fragments(record_tree(session("a", "b<a", "c", "d<c")))[RecordId("c")]
        is None
    )


def test_prompt_without_parent_and_answer_is_not_a_new_root() -> None:
    assert join_fragments(record_tree(session("a", "b<a", "c")))[RecordId("c")] == "b"


def test_notice_without_parent_follows_the_record_before() -> None:
    records = [*session("a", "b<a"), system("informational", "hm", uuid="n")]

    assert join_fragments(record_tree(records))[RecordId("n")] == "b"


@pytest.mark.req("R8")
@pytest.mark.parametrize(
    ("follows", "parent"),
    [("b", "b"), ("a", "a"), ("gone", "b"), ("e", "b"), ("n", "b")],
    ids=["the last", "an earlier", "a ghost", "a later", "itself"],
)
def test_compaction_follows_its_logical_parent_if_that_came_before(
    follows: str, parent: str
) -> None:
    records = [
        *session("a", "b<a"),
        compact(follows, uuid="n"),
        digest(uuid="s", parent="n"),
        *session("d<s:user", "e<d"),
    ]

    assert join_fragments(record_tree(records))[RecordId("n")] == parent


@pytest.mark.req("R8")
def test_second_compaction_does_not_skip_the_first() -> None:
    records = [
        *session("a", "b<a"),
        compact("b", uuid="n"),
        digest(uuid="s", parent="n"),
        *session("c<s:user", "d<c"),
        compact("b", uuid="m"),
    ]

    assert join_fragments(record_tree(records))[RecordId("m")] == "d"


def test_command_below_an_old_caveat_follows_the_record_before() -> None:
    records = [
        *session("a"),
        caveat(uuid="c", parent="a"),
        command("/cost", uuid="k", parent="c"),
        *session("b<k:user", "d<b"),
        command("/exit", uuid="m", parent="c"),
    ]

    joined = join_fragments(record_tree(records))

    assert joined[RecordId("k")] == "c"
    assert joined[RecordId("m")] == "d"


def test_prompt_below_an_old_caveat_stays_there() -> None:
    records = [
        *session("a"),
        caveat(uuid="c", parent="a"),
        *session("b<c:user", "d<b", "e<c:user"),
    ]

    assert join_fragments(record_tree(records))[RecordId("e")] == "c"


def test_harness_text_of_a_call_is_not_a_caveat() -> None:
    body = prompt("x", uuid="m", parent="a", isMeta=True, sourceToolUseID="toolu_1")
    records = [*session("a"), body, *session("b<m:user", "d<b")]
    records += [command("/cost", uuid="k", parent="m")]

    assert join_fragments(record_tree(records))[RecordId("k")] == "m"


def test_attachment_may_be_the_root() -> None:
    records = [attachment("file", uuid="x"), *session("a<x:user", "b<a")]

    assert join_fragments(record_tree(records)) == {"x": None, "a": "x", "b": "a"}


def _assemble(some: list[RecordNode]) -> None:
    tree = build_tree(order_parents_first(some))
    assert len(assign_branches(tree, join_fragments(tree)).branch_of) == len(some)


@pytest.mark.req("T1")
@pytest.mark.parametrize("shape", [chain, loose, fan, comb])
def test_building_a_tree_takes_linear_time(
    shape: Callable[[int], list[RecordNode]],
) -> None:
    few, many = shape(400), shape(2000)

    assert steps(lambda: _assemble(many)) < 6 * steps(lambda: _assemble(few))


@pytest.mark.req("T1")
@pytest.mark.parametrize("shape", [chain, loose, fan])
@pytest.mark.parametrize(
    "size", [20_000, pytest.param(100_000, marks=pytest.mark.full)]
)
def test_deep_and_wide_trees_need_no_recursion(
    shape: Callable[[int], list[RecordNode]], size: int
) -> None:
    _assemble(shape(size))


@pytest.mark.req("T1")
def test_deep_chain_written_backwards_is_sorted() -> None:
    actual = order_parents_first(list(reversed(chain(20_000))))

    assert [node.uuid for node in actual[:3]] == ["r0", "r1", "r2"]
