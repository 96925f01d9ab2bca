"""Sessions as trees."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec import structs

from bygones import read_sessions
from bygones.cli.commands.demo import write_demo_home
from bygones.model.base import AgentId
from bygones.model.sessions import Session
from bygones.model.usage import Cost, Usage
from bygones.render.session_tree import (
    TreeLine,
    TreeLineKind,
    iter_tree_lines,
    render_tree_line,
)
from bygones.render.text.primitives import display_width, plain_text
from tests.build import Home, session, session_id
from tests.cases.archives import CaseArchives
from tests.cases.make import CASES, copied, stories
from tests.render.shared import check_sums

NOW = datetime(2026, 2, 1, 12, tzinfo=UTC)


def make_session(tmp_path: Path, *specs: str) -> Session:
    home = Home(tmp_path)
    home.session(session_id(1), session(*specs))
    (loaded,) = read_sessions(tmp_path)
    return loaded


def shape(loaded: Session) -> list[tuple[str, int, str]]:
    return [
        (mark.kind.value, mark.depth, mark.text) for mark in iter_tree_lines(loaded)
    ]


def test_branch_is_drawn_at_its_fork(tmp_path: Path) -> None:
    loaded = make_session(
        tmp_path, "a", "b<a", "c<b", "d<c", "e<b", "f<e", "g<f", "h<g"
    )

    assert shape(loaded) == [
        ("turn", 0, "a"),
        ("branch", 0, "1 prompt"),
        ("turn", 1, "c"),
        ("turn", 0, "e"),
        ("turn", 0, "g"),
    ]


def test_nested_branch_is_drawn_inside_its_parent(tmp_path: Path) -> None:
    specs = ("a", "b<a", "c<b", "d<c", "e<d", "f<e", "g<d", "h<g", "i<b", "j<i")
    loaded = make_session(tmp_path, *specs)

    depths = {
        mark.text: mark.depth for mark in iter_tree_lines(loaded) if mark.kind == "turn"
    }
    assert depths["i"] == 0
    assert depths["c"] == 1
    assert {depths["e"], depths["g"]} == {1, 2}


def test_two_first_prompts_are_two_branches(tmp_path: Path) -> None:
    loaded = make_session(tmp_path, "a", "b<a", "c", "d<c")

    assert [kind for kind, _, _ in shape(loaded)] == ["branch", "turn", "turn"]


def test_every_turn_is_drawn_once(tmp_path: Path) -> None:
    for loaded in read_sessions(write_demo_home(tmp_path, NOW)):
        turns = [
            mark.record
            for mark in iter_tree_lines(loaded)
            if mark.kind is TreeLineKind.TURN
        ]
        there = {turn.messages[0].id for b in loaded.branches for turn in b.own_turns}

        assert len(turns) == len(set(turns))
        assert set(turns) == there


def test_agents_are_drawn_below_their_call(tmp_path: Path) -> None:
    sessions = {len(s.agents): s for s in read_sessions(write_demo_home(tmp_path, NOW))}

    assert [(kind, depth) for kind, depth, _ in shape(sessions[2])] == [
        ("turn", 0),
        ("agent", 1),
        ("agent", 1),
        ("turn", 0),
    ]


def test_deeply_nested_session_is_drawn(tmp_path: Path) -> None:
    specs = ["r0"]
    for number in range(1, 3000):
        # Each prompt forks from the previous one: branches of branches.
        specs.append(f"a{number}<r{number - 1}")
        specs.append(f"r{number}<a{number}")
    loaded = make_session(tmp_path, *specs)

    assert sum(1 for _ in iter_tree_lines(loaded)) >= 2999


@pytest.mark.parametrize("name", sorted(stories()))
def test_usage_of_all_lines_adds_up_to_the_session(
    name: str, case_archives: CaseArchives
) -> None:
    for loaded in case_archives.sessions(name):
        check_sums(loaded)


def test_usage_that_is_not_drawn_has_a_line(tmp_path: Path) -> None:
    home = copied(CASES / "superseded_and_retracted", tmp_path)
    (loaded,) = read_sessions(home)

    *_, last = iter_tree_lines(loaded)

    assert (last.kind, last.text) == ("elsewhere", "2 replies on no branch")
    line = plain_text(render_tree_line(last, 60, UTC))
    assert line.startswith("+ elsewhere: 2 replies on no branch")
    assert line.endswith("6.5k")


def test_agent_of_another_session_has_no_usage_here(tmp_path: Path) -> None:
    _, later = read_sessions(copied(CASES / "agent_reused", tmp_path))

    (agent,) = (
        mark for mark in iter_tree_lines(later) if mark.kind is TreeLineKind.AGENT
    )

    assert agent.usage.total == 0


@pytest.mark.parametrize("room", [40, 60, 80, 120])
def test_line_is_not_wider_than_the_terminal(room: int) -> None:
    for text in ("日本語" * 40, "word " * 40, ""):
        mark = TreeLine(
            kind=TreeLineKind.TURN, depth=3, branch=0, text=text, time=NOW, calls=3
        )

        assert display_width(plain_text(render_tree_line(mark, room, UTC))) <= room


def test_agent_without_a_name_has_its_id_once() -> None:
    line = TreeLine(
        kind=TreeLineKind.AGENT, depth=0, branch=0, agent=AgentId("a1b2"), text="a1b2"
    )
    named = structs.replace(line, text="Explore")

    assert plain_text(render_tree_line(line, None, UTC)).count("a1b2") == 1
    assert "a1b2 Explore" in plain_text(render_tree_line(named, None, UTC))


def test_control_characters_are_escaped() -> None:
    mark = TreeLine(kind=TreeLineKind.AGENT, depth=1, branch=0, text="\x1b[2Ja\nb")

    assert "\x1b" not in plain_text(render_tree_line(mark, None, UTC))
    assert "\n" not in plain_text(render_tree_line(mark, None, UTC))


def test_narrow_line_keeps_the_usage() -> None:
    mark = TreeLine(
        kind=TreeLineKind.TURN,
        depth=0,
        branch=0,
        text="word " * 40,
        time=NOW,
        calls=1234,
        duration=timedelta(hours=12, minutes=34),
        usage=Usage(input=456_000),
        cost=Cost(nano_usd=123_450_000_000),
    )
    wide, narrow = (plain_text(render_tree_line(mark, room, UTC)) for room in (100, 56))

    assert wide.endswith("1,234 calls  12h 34m  456k  $123.45  02-01 12:00")
    assert narrow.endswith("1,234 calls  12h 34m  456k  $123.45")
    assert plain_text(render_tree_line(mark, 34, UTC)).endswith("…  456k  $123.45")
