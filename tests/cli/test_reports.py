"""Reports: git branches, the current block, files that were read."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bygones.archive import Archive
from bygones.cli.commands.demo import write_demo_home
from bygones.cli.main import main
from bygones.errors import ExitCode
from tests.build import Home, prompt, reply, session_id, thread, tool_result, tool_use
from tests.cli.terminals import Screen


def stdout_of(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main([*words]) == ExitCode.SUCCESS
    return capsys.readouterr().out


@pytest.mark.usefixtures("demo_home")
def test_usage_is_grouped_by_git_branch(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        json.loads(line)
        for line in stdout_of(capsys, "usage", "--by", "git", "--json").splitlines()
    ]
    keys = {row["key"]: row["tokens"] for row in rows if row["type"] == "usage"}
    assert keys.keys() == {"main"}
    text = stdout_of(capsys, "usage", "--by", "git")
    assert "CACHE READ was reused" in text


def test_the_current_block_is_shown(
    home_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = write_demo_home(home_dir, datetime.now(UTC))
    monkeypatch.setenv("BYGONES_HOME", str(home))
    Archive.ingest(home_dir / "archive", [home])
    text = stdout_of(capsys, "usage", "--watch")
    assert text.startswith("Block from ")
    assert "left" in text
    assert "at the end  about $" in text
    assert "claude-sonnet-4-5" in text
    assert main(["usage", "--watch", "model:opus"]) == ExitCode.USAGE_ERROR


@pytest.mark.usefixtures("demo_home")
def test_without_a_recent_reply_there_is_no_block(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert stdout_of(capsys, "usage", "--watch").startswith("no active block")


@pytest.mark.skipif(os.name == "nt", reason="there are no pseudo-terminals")
@pytest.mark.usefixtures("demo_home")
def test_watched_usage_without_a_block_is_wrapped_and_says_how_to_stop() -> None:
    screen = Screen("usage", "--watch", columns=50)
    screen.wait_for("press Ctrl-C to stop")
    assert screen.lines[0].endswith("replied in the")
    assert screen.lines[1] == "last five hours"
    screen.type("\x03")
    screen.end()


def test_files_that_were_read_are_listed_last_first(
    home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = Home(home_dir / ".claude")
    lines = thread(
        prompt("Read"),
        reply([tool_use("Read", id="toolu_a", file_path="/w/a.py")]),
        tool_result("toolu_a", "a"),
        reply([tool_use("Read", id="toolu_b", file_path="/w/b.py")]),
        tool_result("toolu_b", "b"),
        reply([tool_use("Read", id="toolu_c", file_path="/w/a.py")]),
        tool_result("toolu_c", "a"),
        reply("Done"),
    )
    home.session(session_id(1), lines)
    Archive.ingest(home_dir / "archive", [home.path])
    rows = [
        json.loads(line)
        for line in stdout_of(capsys, "files", "last", "--reads", "--json").splitlines()
    ]
    assert [(row["path"], row["read_count"]) for row in rows] == [
        ("/w/a.py", 2),
        ("/w/b.py", 1),
    ]
    assert "/w/a.py" in stdout_of(capsys, "files", "last", "--reads")
