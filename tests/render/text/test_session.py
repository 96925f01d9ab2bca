"""A session as text."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bygones.reader import read_sessions
from bygones.render.text.primitives import SpanStyle, display_width
from bygones.render.text.session import render_lines, render_text
from bygones.render.walk import SessionView
from tests import forms
from tests.build import (
    SESSION,
    Home,
    prompt,
    reply,
    text,
    thread,
    tool_result,
    tool_use,
)
from tests.render.shared import PAGE, page, session_of
from tests.render.stories import HOSTILE, STORIES, hostile

HERE = Path(__file__).parent / "pages"
FULL = {
    "include_branches": True,
    "include_agents": True,
    "include_thinking": True,
    "include_tools": True,
}


@pytest.mark.parametrize("name", STORIES)
def test_story_matches_its_golden_file(
    name: str, tmp_path: Path, golden: Callable[[Path, str], None]
) -> None:
    session = STORIES[name](tmp_path)

    golden(HERE / f"{name}.txt", page(session))
    golden(HERE / f"{name}-full.txt", page(session, **FULL))


@pytest.mark.parametrize("width_", [None, 100, 60])
@pytest.mark.parametrize("options", [{}, FULL], ids=["brief", "full"])
def test_hostile_story_is_sanitized(
    width_: int | None, options: dict[str, bool], tmp_path: Path
) -> None:
    output = page(hostile(tmp_path), width_, **options)

    controls = {char for char in output if unicodedata.category(char)[0] == "C"}
    assert controls <= {"\n", "\t"}
    assert r"\x1b]52;c;" in output
    assert r"\u202e" in output


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=20).map(lambda words: f"{words}{HOSTILE[::-1]}"))
def test_control_characters_never_reach_the_terminal(tmp_path: Path, bad: str) -> None:
    output = page(
        hostile(tmp_path, bad.encode("utf-8", "replace").decode()), 60, **FULL
    )

    unseen = {"Cc", "Cf", "Cs", "Zl", "Zp"}
    assert {s for s in output if unicodedata.category(s) in unseen} <= {"\n", "\t"}


@pytest.mark.parametrize("name", STORIES)
def test_text_is_wrapped_at_sixty_columns(name: str, tmp_path: Path) -> None:
    session = STORIES[name](tmp_path)

    for spans in render_lines(
        session, SessionView(include_branches=True, include_agents=True), PAGE
    ):
        if all(span.style is not SpanStyle.CODE for span in spans):
            assert sum(display_width(span.text) for span in spans) <= 60


def test_nothing_is_wrapped_in_a_pipe(tmp_path: Path) -> None:
    text = "word " * 60
    session = session_of(tmp_path, thread(prompt(text), reply(text)))

    assert text.strip() in page(session, None).splitlines()


def test_rendering_is_deterministic(tmp_path: Path) -> None:
    session = STORIES["called"](tmp_path)

    assert render_text(session) == render_text(session)
    assert max(map(len, render_text(session).splitlines())) <= 80


def test_long_prompt_is_shown_without_injected_text(
    tmp_path: Path,
) -> None:
    typed = "\n".join(f"line {number} of what was typed" for number in range(40))
    reminder = "<system-reminder>\nnever shown\n</system-reminder>"
    session = session_of(tmp_path, thread(prompt(f"{typed}\n{reminder}"), reply("ok")))

    output = page(session)

    assert "▌ line 39 of what was typed" in output
    assert "never shown" not in output


def test_long_command_output_is_truncated(tmp_path: Path) -> None:
    printed = "\n".join(f"line {number}" for number in range(320))
    records = thread(forms.command("/cost"), forms.printed(printed))
    session = session_of(tmp_path, records)

    assert "  line 7\n  … 312 more lines; --tools shows all\n" in page(session)
    assert "  line 319\n" in page(session, include_tools=True)


def test_command_without_output_is_one_line(tmp_path: Path) -> None:
    records = thread(forms.command("/clear"), forms.printed("(no content)"))

    assert page(session_of(tmp_path, records)).endswith("▌ /clear\n")


def test_stored_output_is_read_from_its_file(
    tmp_path: Path,
) -> None:
    outcome = {"stdout": "", "persistedOutputPath": "/gone/tool-results/t.txt"}
    home = Home(tmp_path)
    home.tool_result(SESSION, "t.txt", "first\nand all the rest")
    session = session_of(
        tmp_path,
        thread(
            prompt("go"),
            reply([tool_use("Bash", command="cat big")]),
            tool_result("toolu_1", "<persisted-output>", outcome=outcome),
        ),
    )

    assert "    │ and all the rest" in page(session, include_tools=True)


def test_complete_results_wrap_within_their_gutter(tmp_path: Path) -> None:
    said = " ".join(f"word{number}" for number in range(40))
    call = reply([tool_use("Fetch", note=said)])
    result = tool_result("toolu_1", f"- {said}\n\tindented")
    session = session_of(tmp_path, thread(prompt("go"), call, result))

    narrow = page(session, 50, include_tools=True)

    inner = [line for line in narrow.splitlines() if line[:5] in {"    │", "    ┆"}]
    assert max(map(display_width, narrow.splitlines())) <= 50
    assert any(line.startswith("    │   word") for line in inner)
    assert "    │     indented" in inner
    assert narrow.count("word39") == 2
    assert f"    │ - {said}\n    │ \tindented" in page(
        session, None, include_tools=True
    )


def test_consecutive_api_failures_are_collapsed(tmp_path: Path) -> None:
    assert "• API error, 2 times in a row" in page(STORIES["passing"](tmp_path))


def test_thinking_is_shown_on_request(tmp_path: Path) -> None:
    session = STORIES["everyday"](tmp_path)

    assert "Perhaps the clock." not in page(session)
    assert "Perhaps the clock." in page(session, include_thinking=True)


def test_call_without_a_name_is_skipped(tmp_path: Path) -> None:
    block = {"type": "thinking", "thinking": "hm", "id": "", "name": "", "input": ""}
    session = session_of(tmp_path, thread(prompt("go"), reply([block, text("Yes.")])))

    assert page(session).endswith("▌ go\n\nYes.\n")


def test_deeply_nested_agents_are_walked(tmp_path: Path) -> None:
    home = Home(tmp_path)
    depth = 1200

    def calling(number: int) -> list[dict[str, object]]:
        use = tool_use("Task", id=f"t{number}", prompt=f"{number}", description="d")
        outcome = {"status": "completed", "agentId": f"a{number}"}
        return thread(
            prompt(f"{number - 1}"),
            reply([use], message_id=f"m{number}"),
            tool_result(f"t{number}", "ok", outcome=outcome),
        )

    home.session(SESSION, calling(0))
    for number in range(1, depth):
        home.agent(SESSION, f"a{number - 1}", calling(number))
    (session,) = read_sessions(tmp_path)

    assert page(session, 80, include_agents=True).count("Agent d") == depth
