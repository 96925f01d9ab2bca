"""A session as rows that a program reads."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bygones.model.sessions import Session
from bygones.parse.harness_text import parse_user_text
from bygones.render.json import (
    JSON_TYPES,
    SCHEMA_VERSION,
    AgentRunJson,
    BranchJson,
    MessageJson,
    SessionJson,
    TurnJson,
    iter_json_rows,
)
from bygones.render.text.primitives import encode_row
from bygones.render.walk import SessionView
from tests.render.stories import HOSTILE, STORIES, hostile

FULL = SessionView(
    include_branches=True,
    include_agents=True,
    include_thinking=True,
    include_tools=True,
)
Shape = SessionJson | TurnJson | MessageJson | AgentRunJson | BranchJson


def written(session: Session, view: SessionView = FULL) -> list[dict[str, Any]]:
    rows = iter_json_rows(session, view, parse_user_text)
    return [json.loads(encode_row(row)) for row in rows]


@pytest.mark.parametrize("name", STORIES)
@pytest.mark.parametrize("view", [SessionView(), FULL], ids=["brief", "full"])
def test_every_row_has_a_documented_shape(
    name: str, view: SessionView, tmp_path: Path
) -> None:
    rows = list(iter_json_rows(STORIES[name](tmp_path), view, parse_user_text))

    again = [msgspec.json.decode(encode_row(row), type=Shape) for row in rows]
    assert [encode_row(row) for row in again] == [encode_row(row) for row in rows]
    assert {type(row) for row in rows} <= set(JSON_TYPES)


def test_the_session_comes_first_and_names_the_schema(tmp_path: Path) -> None:
    first = written(STORIES["everyday"](tmp_path))[0]

    assert first["row"] == "session"
    assert first["schema"] == SCHEMA_VERSION
    assert first["title"] == {"text": "Mend the test of wait", "kind": "generated"}
    assert first["started"] == "2026-01-05T09:00:00Z"


def test_a_message_holds_its_words_and_calls(tmp_path: Path) -> None:
    rows = written(STORIES["everyday"](tmp_path))
    message = next(row for row in rows if row.get("calls"))

    assert message["text"] == "I'll look."
    assert message["thinking"] == "Perhaps the clock."
    assert [call["state"] for call in message["calls"]] == ["failed", "done"]
    assert message["calls"][0]["input"] == {"command": "pytest -q tests/wait.py"}
    assert message["calls"][0]["output"] == "Exit code 1\n1 failed\nmore"
    assert message["calls"][0]["facts"] == ["exit 1"]


def test_what_was_not_asked_for_is_left_out(tmp_path: Path) -> None:
    rows = written(STORIES["everyday"](tmp_path), SessionView())
    message = next(row for row in rows if row.get("calls"))

    assert "thinking" not in message
    assert not {"input", "output"} & set(message["calls"][0])


def test_agents_say_whose_turns_follow(tmp_path: Path) -> None:
    rows = written(STORIES["called"](tmp_path))

    agents = [row["id"] for row in rows if row["row"] == "agent"]
    turns = [row.get("agent") for row in rows if row["row"] == "turn"]
    assert agents == ["outer", "inner", "alone"]
    assert turns == [None, "outer", "inner", "alone"]


def test_branches_are_told_where_they_fork(tmp_path: Path) -> None:
    rows = written(STORIES["rewound"](tmp_path), SessionView())

    branches = [row for row in rows if row["row"] == "branch"]
    assert [row["number"] for row in branches] == [1, 2]
    assert [row["id"] for row in branches] == ["a2", "a3"]
    assert [row["fork"] for row in branches] == ["a1", "a1"]


def test_compactions_commands_and_news_keep_their_parts(tmp_path: Path) -> None:
    rows = written(STORIES["passing"](tmp_path))

    (cut,) = [row["compaction"] for row in rows if "compaction" in row]
    (command,) = [row for row in rows if "command" in row]
    (news,) = [row["notification"] for row in rows if "notification" in row]
    assert cut == {"trigger": "auto", "before": 155_000}
    assert command["command"]["name"] == "/model"
    assert command["output"] == "Set model to \x1b[1mopus\x1b[0m"
    assert news["status"] == "failed"


def test_text_is_kept_and_control_characters_are_escaped(tmp_path: Path) -> None:
    lines = [
        encode_row(row)
        for row in iter_json_rows(hostile(tmp_path), FULL, parse_user_text)
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
