"""A session as HTML fragments."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bygones.model.nodes import parse_user_text
from bygones.model.sessions import Session
from bygones.render.html.session import HtmlFragment, HtmlOptions, render_fragments
from bygones.render.walk import SHOW_ALL, SessionView
from tests.build import prompt, reply, thread, tool_use
from tests.render.html.outline import attributes, outline, tags
from tests.render.shared import session_of
from tests.render.stories import HOSTILE, STORIES, called, hostile, passing, rewound

HERE = Path(__file__).parent / "pages"
OPTIONS = HtmlOptions(text_parser=parse_user_text)
OURS = {
    *("article", "header", "b", "a", "time", "div", "p", "h2", "pre", "code", "span"),
    *("details", "summary", "fieldset", "legend", "label", "input", "img", "small"),
    *("ins", "del", "i", "ul", "li", "ol", "strong", "em", "h3", "h4", "h5", "h6"),
    *("table", "thead", "tbody", "tr", "th", "td", "blockquote", "hr", "br", "s"),
}


def pieces(session: Session, view: SessionView = SHOW_ALL) -> list[HtmlFragment]:
    return list(render_fragments(session, view, OPTIONS))


def markup(session: Session, view: SessionView = SHOW_ALL) -> str:
    return "".join(piece.html for piece in pieces(session, view))


@pytest.mark.parametrize("name", STORIES)
def test_story_matches_its_golden_outline(
    name: str, tmp_path: Path, golden: Callable[[Path, str], None]
) -> None:
    session = STORIES[name](tmp_path)

    golden(HERE / f"{name}.txt", outline(markup(session)))


@pytest.mark.parametrize("name", STORIES)
def test_page_can_be_split_before_any_top_level_message(
    name: str, tmp_path: Path
) -> None:
    parts = [""]
    anchors = []
    for piece in pieces(STORIES[name](tmp_path)):
        if piece.message_anchor or piece.turn_number is not None:
            parts.append("")
            anchors.append(piece.message_anchor)
        parts[-1] += piece.html

    assert len(parts) > len(anchors) > 1
    for part in parts:
        assert tags(part) <= OURS  # and every element is closed


def test_element_ids_are_unique(tmp_path: Path) -> None:
    for name, make in STORIES.items():
        names = [
            v for _, n, v in attributes(markup(make(tmp_path / name))) if n == "id"
        ]

        assert len(names) == len(set(names))


def test_view_selects_turns(tmp_path: Path) -> None:
    session = session_of(
        tmp_path,
        thread(*(r for n in range(5) for r in (prompt(f"ask {n}"), reply(f"say {n}")))),
    )

    html = markup(session, SessionView(first_turn=1, last_turn=2))

    assert [n for n in range(5) if f"ask {n}" in html] == [1, 2]
    assert markup(session, SessionView(first_turn=9)) == ""


def test_consecutive_windows_equal_the_whole(tmp_path: Path) -> None:
    session = passing(tmp_path)
    turns = range(len(session.live_branch.turns))

    windows = [
        anchors(session, SessionView(first_turn=number, last_turn=number))
        for number in turns
    ]

    assert len(windows) > 2
    assert [*chain(*windows)] == anchors(session, SessionView())


def anchors(session: Session, view: SessionView) -> list[str]:
    return [
        piece.message_anchor for piece in pieces(session, view) if piece.message_anchor
    ]


def test_agents_are_folded_at_their_calls(tmp_path: Path) -> None:
    html = outline(markup(called(tmp_path)))

    assert html.index("Find it") < html.index("Count it") < html.index("Line 8")
    assert "<details.agent id=a-outer>" in html


def test_branch_can_be_selected_without_script(tmp_path: Path) -> None:
    html = outline(markup(rewound(tmp_path)))

    assert html.count("<fieldset.fork") == 2
    assert html.count("<input.other type=radio") == 2
    assert "Of the sun" in html


def test_collapsed_agents_and_branches_are_only_named(tmp_path: Path) -> None:
    assert "Count it" not in markup(called(tmp_path / "a"), SessionView())
    assert "Abandoned branch from here" in markup(
        rewound(tmp_path / "b"), SessionView()
    )


def test_hostile_transcript_is_escaped_and_visible(tmp_path: Path) -> None:
    for number, bad in enumerate((HOSTILE, "<script>alert(1)</script>", '"><b x=1>')):
        html = markup(hostile(tmp_path / str(number), bad))

        assert tags(html) <= OURS
        assert not any(char in html for char in "\x1b\u202e\u200b\x07\x9b")


ALPHABET = "<>&\"'`[](){}!*_|#-=/\\: \n\tabc\x1b\u202e"


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(alphabet=ALPHABET, min_size=1, max_size=30))
def test_any_text_yields_well_formed_html(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    session = hostile(tmp_path_factory.mktemp("home"), f"x{text}")

    assert tags(markup(session)) <= OURS


def test_empty_answer_is_shown(tmp_path: Path) -> None:
    session = session_of(
        tmp_path, thread(prompt("go"), reply([tool_use("Bash", command="ls")]))
    )

    assert "no result" in outline(markup(session))
