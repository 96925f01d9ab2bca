"""The JSON objects of a session."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bygones.model.nodes import parse_user_text
from bygones.model.sessions import Session
from bygones.render.walk import SessionView
from bygones.schema.encoding import encode_object
from bygones.schema.registry import OBJECT_TYPES
from bygones.schema.sessions import (
    AgentRunObject,
    BranchObject,
    MessageObject,
    TurnObject,
    session_objects,
)
from bygones.schema.summaries import SessionObject
from tests.render.stories import HOSTILE, STORIES, hostile

FULL = SessionView(
    include_branches=True,
    include_agents=True,
    include_thinking=True,
    include_tools=True,
)
Shape = SessionObject | TurnObject | MessageObject | AgentRunObject | BranchObject


def written(session: Session, view: SessionView = FULL) -> list[dict[str, Any]]:
    rows = session_objects(session, view, parse_user_text)
    return [json.loads(encode_object(row)) for row in rows]


@pytest.mark.parametrize("name", STORIES)
@pytest.mark.parametrize("view", [SessionView(), FULL], ids=["brief", "full"])
def test_every_row_has_a_documented_shape(
    name: str, view: SessionView, tmp_path: Path
) -> None:
    rows = list(session_objects(STORIES[name](tmp_path), view, parse_user_text))

    again = [msgspec.json.decode(encode_object(row), type=Shape) for row in rows]
    assert [encode_object(row) for row in again] == [encode_object(row) for row in rows]
    assert {type(row) for row in rows} <= set(OBJECT_TYPES.values())


def test_session_comes_first(tmp_path: Path) -> None:
    first = written(STORIES["everyday"](tmp_path))[0]

    assert first["type"] == "session"
    assert first["title"] == "Mend the test of wait"
    assert first["title_kind"] == "generated"
    assert first["started_at"] == "2026-01-05T09:00:00Z"


def test_a_message_holds_its_words_and_calls(tmp_path: Path) -> None:
    rows = written(STORIES["everyday"](tmp_path))
    message = next(row for row in rows if row.get("tool_calls"))

    assert message["text"] == "I'll look."
    assert message["thinking"] == "Perhaps the clock."
    assert [call["state"] for call in message["tool_calls"]] == ["failed", "done"]
    assert message["tool_calls"][0]["input"] == {"command": "pytest -q tests/wait.py"}
    assert message["tool_calls"][0]["output"] == "Exit code 1\n1 failed\nmore"
    assert message["tool_calls"][0]["facts"] == ["exit 1"]


def test_what_was_not_asked_for_is_left_out(tmp_path: Path) -> None:
    rows = written(STORIES["everyday"](tmp_path), SessionView())
    message = next(row for row in rows if row.get("tool_calls"))

    assert "thinking" not in message
    assert not {"input", "output"} & set(message["tool_calls"][0])


def test_agents_say_whose_turns_follow(tmp_path: Path) -> None:
    rows = written(STORIES["called"](tmp_path))

    agents = [row["agent_id"] for row in rows if row["type"] == "agent_run"]
    turns = [row["agent_id"] for row in rows if row["type"] == "turn"]
    assert agents == ["outer", "inner", "alone"]
    assert turns == [None, "outer", "inner", "alone"]


def test_branches_are_shown_where_they_fork(tmp_path: Path) -> None:
    rows = written(STORIES["rewound"](tmp_path), SessionView())

    branches = [row for row in rows if row["type"] == "branch"]
    assert [row["branch"] for row in branches] == [2, 3]
    assert [row["leaf_id"] for row in branches] == ["a2", "a3"]
    assert [row["fork_id"] for row in branches] == ["a1", "a1"]


def test_compactions_commands_and_news_keep_their_parts(tmp_path: Path) -> None:
    rows = written(STORIES["passing"](tmp_path))

    (cut,) = [row["compaction"] for row in rows if row.get("compaction")]
    (command,) = [row for row in rows if row.get("command")]
    (news,) = [row["notification"] for row in rows if row.get("notification")]
    assert cut == {
        "type": "compaction",
        "trigger": "auto",
        "tokens_before": 155_000,
        "tokens_after": None,
    }
    assert command["command"]["name"] == "/model"
    assert command["output"] == "Set model to \x1b[1mopus\x1b[0m"
    assert news["status"] == "failed"


def test_text_is_kept_and_control_characters_are_escaped(tmp_path: Path) -> None:
    lines = [
        encode_object(row)
        for row in session_objects(hostile(tmp_path), FULL, parse_user_text)
    ]

    unseen = {"Cc", "Cf", "Cs", "Zl", "Zp"}
    assert not any(unicodedata.category(sign) in unseen for sign in "".join(lines))
    assert any(HOSTILE in json.loads(line).get("text", "") for line in lines)


def test_a_file_name_that_is_no_text_can_be_written(tmp_path: Path) -> None:
    session = STORIES["rewound"](tmp_path)
    source = msgspec.structs.replace(
        session.sources[0], relative_path="/x/\udcff.jsonl"
    )
    odd = msgspec.structs.replace(session, sources=(source,))

    first = written(odd)[0]
    assert first["sources"] == ["/x/\\udcff.jsonl"]
    assert first.keys() == written(session)[0].keys()
