"""`bygones context`: what the model was sent at a turn."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bygones.archive import Archive
from bygones.cli.main import main
from bygones.errors import ExitCode
from tests.assemble.test_requests import REMINDER, SESSION, recorded_session
from tests.build import Home


@pytest.fixture(autouse=True)
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = Home(tmp_path / ".claude")
    home.session(SESSION, recorded_session())
    monkeypatch.setenv("BYGONES_ARCHIVE", str(tmp_path / "archive"))
    monkeypatch.setenv("BYGONES_HOME", str(home.path))
    Archive.ingest(tmp_path / "archive", [home.path])


def test_turn_is_shown_with_its_difference(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["context", f"{SESSION}:2"]) == ExitCode.SUCCESS

    output = capsys.readouterr().out
    assert "claude-opus-5-5 · effort high" in output
    assert "compared with the previous turn: 1 unchanged, 2 new, 2 dropped" in output
    assert "+    3  user      Thanks" in output


def test_full_output_has_system_prompt_and_tools(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["context", "last:1", "--full"]) == ExitCode.SUCCESS

    output = capsys.readouterr().out
    assert "    You are Claude." in output
    assert "tool Read" in output
    assert f"    {REMINDER}" in output


def test_json_has_the_messages_as_sent(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["context", "last:1", "--request", "1", "--json"]) == ExitCode.SUCCESS

    request = json.loads(capsys.readouterr().out)
    assert request["type"] == "request"
    assert (request["number"], request["request_count"]) == (1, 2)
    (message,) = request["messages"]
    assert [block["text"] for block in message["content"]] == [REMINDER, "Read both"]
    assert message["origins"] == ["injected", "transcript"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["last:9"], "there is no turn 9: the branch has 2 turns"),
        (["last:x"], "'x' is not the number of a turn"),
        (
            ["last:1", "--request", "3"],
            "there is no request 3: the turn has 2 requests",
        ),
        (["last", "--agent", "a"], "no single agent of this session starts with 'a'"),
    ],
)
def test_missing_turn_or_session_is_named(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["context", *arguments]) == ExitCode.USAGE_ERROR

    assert message in capsys.readouterr().err
