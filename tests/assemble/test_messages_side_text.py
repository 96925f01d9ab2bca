"""Texts in records of tool results."""

from __future__ import annotations

from pathlib import Path

import pytest

from bygones import read_sessions
from bygones.model.nodes import Origin
from bygones.model.records import TextBlock
from tests.build import SESSION, Home, Written, prompt, reply, text, thread, tool_result
from tests.build import tool_use as call
from tests.forms import INTERRUPT


def with_text(result: Written, words: str) -> Written:
    """Return a record with a result and a text."""
    message = result["message"]
    return {
        **result,
        "message": {**message, "content": [*message["content"], text(words)]},
    }


def origins_and_texts(folder: Path, words: str) -> list[tuple[Origin | None, str]]:
    """Return origin and text of each message of a session with a side text."""
    home = Home(folder)
    requested, called = (
        prompt("Count the pumps"),
        reply([call("Bash", id="t1", command="ls")]),
    )
    answered = with_text(tool_result("t1", "seven"), words)
    home.session(SESSION, thread(requested, called, answered, reply("Seven.")))
    (session,) = read_sessions(home.path)
    (found,) = session.live_branch.messages[1].tool_calls
    assert found.has_result
    return [
        (m.origin, "".join(b.text or "" for b in m.blocks if isinstance(b, TextBlock)))
        for m in session.live_branch.messages
    ]


@pytest.mark.req("C3", "R5")
def test_text_typed_beside_a_result_is_a_prompt(tmp_path: Path) -> None:
    assert origins_and_texts(tmp_path, "and the valves") == [
        (Origin.PERSON, "Count the pumps"),
        (None, ""),
        (Origin.PERSON, "and the valves"),
        (None, "Seven."),
    ]


@pytest.mark.req("R7")
def test_interrupt_beside_a_result_is_shown(tmp_path: Path) -> None:
    assert origins_and_texts(tmp_path, INTERRUPT)[2] == (Origin.INTERRUPT, INTERRUPT)


def test_harness_text_beside_a_result_is_hidden(tmp_path: Path) -> None:
    reminder = "<system-reminder>be brief</system-reminder>"

    assert len(origins_and_texts(tmp_path, reminder)) == len(
        ["asked", "called", "answered"]
    )
