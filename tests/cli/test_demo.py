"""The demo home, and what the commands print of it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bygones import read_sessions
from bygones.cli.commands.demo import write_demo_home
from bygones.cli.main import main
from bygones.errors import ExitCode
from bygones.inspection import inspect_transcripts
from bygones.render.text.primitives import display_width
from tests.cli.terminals import Terminal

PAGES = Path(__file__).parent / "pages"
NOW = datetime(2026, 2, 1, 12, tzinfo=UTC)
EXAMPLES = {
    "list": ["list"],
    "list-project": ["list", "--project", "."],
    "list-query": ["list", "project:notes", "title:markdown"],
    "tree-rewound": ["tree", "last"],
    "tree-agents": ["tree", "3d75"],
    "tree-compacted": ["tree", "64fb"],
    "show": ["show", "last"],
    "show-branch": ["show", "last", "--branch", "2"],
    "show-all": ["show", "3d75", "--all", "--tools", "--thinking"],
    "files": ["files", "last"],
    "files-path": ["files", "src/checkout.py"],
    "prompts": ["prompts"],
    "prompts-query": ["prompts", "--full", "retry", "-key"],
}


@pytest.mark.usefixtures("demo_home")
@pytest.mark.parametrize("name", EXAMPLES)
def test_output_of_the_demo_home(
    name: str,
    home_dir: Path,
    capsys: pytest.CaptureFixture[str],
    golden: Callable[[Path, str], None],
) -> None:
    assert main(EXAMPLES[name]) == ExitCode.SUCCESS

    captured = capsys.readouterr()
    golden(PAGES / f"{name}.txt", captured.out.replace(str(home_dir), "~"))
    assert captured.err == ""


@pytest.mark.usefixtures("demo_home")
@pytest.mark.skipif(os.name == "nt", reason="terminals are others there")
@pytest.mark.parametrize("name", EXAMPLES)
def test_output_fits_sixty_columns(name: str, home_dir: Path) -> None:
    terminal = Terminal(*EXAMPLES[name], columns=60)

    assert terminal.end() == ExitCode.SUCCESS

    code = ("    ", "  │", "│")
    too_wide = [
        line
        for line in terminal.shown.replace(str(home_dir), "~").splitlines()
        if display_width(line) > 60 and not line.startswith(code)
    ]
    assert too_wide == []


def test_demo_home_has_the_format_of_claude_code(tmp_path: Path) -> None:
    found = inspect_transcripts([write_demo_home(tmp_path, NOW)])

    assert found.problems == ()
    assert found.drift == ()


def test_demo_home_has_every_feature_of_a_session(tmp_path: Path) -> None:
    sessions = list(read_sessions(write_demo_home(tmp_path, NOW)))

    assert len(sessions) == 5
    assert sum(len(one.branches) for one in sessions) == 6
    assert sum(len(one.all_agents) for one in sessions) == 2
    assert all(run.linked_by for one in sessions for run in one.all_agents)
    assert sum(len(one.edits) for one in sessions) == 8
    assert any(m.compaction for one in sessions for m in one.live_branch.messages)
    assert [p for one in sessions for p in one.problems] == []


def test_demo_prints_commands_to_try(
    home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", "here"]) == ExitCode.SUCCESS

    captured = capsys.readouterr()
    assert "Make checkout retry without charging twice" in captured.out
    assert f"BYGONES_HOME={home_dir}/here/claude-home" in captured.err
    assert not (home_dir / "archive").exists()


def test_demo_overwrites_nothing(
    home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home_dir / "here").mkdir()
    (home_dir / "here" / "mine").touch()

    assert main(["demo", "here"]) == ExitCode.USAGE_ERROR
    assert "is not empty" in capsys.readouterr().err


def test_demo_needs_no_folder(
    home_dir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(home_dir))
    monkeypatch.setattr("tempfile.tempdir", None)

    assert main(["demo"]) == ExitCode.SUCCESS

    assert "bygones-demo-" in capsys.readouterr().err
    assert len(list(home_dir.glob("bygones-demo-*/claude-home"))) == 1


def test_json_names_the_folder_and_sessions(
    home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", "here", "--json"]) == ExitCode.SUCCESS

    made, *sessions = map(json.loads, capsys.readouterr().out.splitlines())
    assert made["archive"] == str(home_dir / "here" / "archive")
    assert made["home"] == str(home_dir / "here" / "claude-home")
    assert {row["type"] for row in sessions} == {"session"}


def test_next_steps_name_a_program_that_the_shell_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tools, scripts = tmp_path / "tools", tmp_path / ".venv" / "bin"
    for folder in (tools, scripts):
        folder.mkdir(parents=True)
    for name in (tools / "bygones", scripts / "bygones"):
        name.touch(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.executable", str(scripts / "python"))

    def next_steps(name: str) -> str:
        assert main(["demo", str(tmp_path / name)]) == ExitCode.SUCCESS
        return capsys.readouterr().err

    monkeypatch.setenv("PATH", str(tools))
    assert "\n  bygones show last\n" in next_steps("installed")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "\n  .venv/bin/bygones show last\n" in next_steps("checkout")
    (scripts / "bygones").unlink()
    assert f"\n  {scripts}/python -m bygones show last\n" in next_steps("module")
