"""Finding records in a session, and the turns around them."""

from __future__ import annotations

from pathlib import Path

from bygones import read_sessions
from bygones.model.assembled import AssembledConversation, find_branch_of
from bygones.render.locate import view_turns_around
from bygones.render.walk import (
    SessionStart,
    SessionView,
    TurnStart,
    walk_session,
)
from tests.build import Home, session, session_id

WORDS = (
    "a",
    "b<a",
    "c<b",
    "d<c",
    "e<d",
    "f<e",
    "g<f",
    "h<g",
    "i<h",
    "j<i",
    "k<d",
    "l<k",
)


def make_conversation(tmp_path: Path) -> AssembledConversation:
    Home(tmp_path).session(session_id(1), session(*WORDS))
    (loaded,) = read_sessions(tmp_path)
    return AssembledConversation(loaded)


def prompts_around(
    conversation: AssembledConversation, record: str, branch: int = 0
) -> tuple[list[str], str]:
    """Return the prompts that are shown, and which turns these are."""
    view = view_turns_around(conversation, SessionView(branch=branch), record)
    prompts, turns = [], ""
    for step in walk_session(conversation, view):
        if isinstance(step, TurnStart):
            prompts.append(step.turn.messages[0].preview)
        elif isinstance(step, SessionStart):
            turns = step.turn_range
    return prompts, turns


def test_turn_of_a_record_and_its_neighbors_are_shown(tmp_path: Path) -> None:
    conversation = make_conversation(tmp_path)
    rewound = find_branch_of(conversation, "h")
    assert rewound is not None

    shown = prompts_around(conversation, "h", rewound.number)

    assert shown == (["e", "g", "i"], "only turns 3 to 5 of 5")


def test_first_turn_has_no_turn_before(tmp_path: Path) -> None:
    shown = prompts_around(make_conversation(tmp_path), "a")

    assert shown == (["a", "c"], "only turns 1 to 2 of 3")


def test_unknown_record_leaves_the_view_unchanged(tmp_path: Path) -> None:
    conversation = make_conversation(tmp_path)

    assert view_turns_around(conversation, SessionView(), "nowhere") == SessionView()


def test_branch_of_a_record_is_where_it_was_written(tmp_path: Path) -> None:
    conversation = make_conversation(tmp_path)

    assert find_branch_of(conversation, "nowhere") is None
    shared, leaf = find_branch_of(conversation, "a"), find_branch_of(conversation, "l")
    assert shared is not None
    assert leaf is not None
    assert (shared.number, leaf.number) == (0, 0)
