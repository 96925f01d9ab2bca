"""``bygones`` alone, and what may stand before any command."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from bygones.cli.commands.registry import COMMANDS
from bygones.cli.main import main
from bygones.errors import ExitCode
from tests.build import Home, prompt, session_id, thread
from tests.cli.terminals import Screen, Terminal

no_terminals = pytest.mark.skipif(os.name == "nt", reason="terminals are others there")


@no_terminals
@pytest.mark.usefixtures("sample_home")
def test_the_first_run_says_what_is_imported() -> None:
    terminal = Screen()
    terminal.wait_for("2 sessions", "Counting lines")
    terminal.type("\x03")

    assert terminal.end() == ExitCode.SUCCESS
    assert "no archive yet: importing ~/.claude into ~/archive" in terminal.shown
    assert "9 files: 9 new" in terminal.shown


@no_terminals
@pytest.mark.usefixtures("home_dir")
def test_without_claude_code_the_demo_is_offered() -> None:
    terminal = Terminal()

    assert terminal.end() == ExitCode.SUCCESS
    assert "bygones demo" in terminal.shown


@pytest.mark.usefixtures("demo_home")
def test_overview_in_a_pipe_is_a_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == ExitCode.SUCCESS
    alone = capsys.readouterr().out

    assert main(["list"]) == ExitCode.SUCCESS
    assert alone == capsys.readouterr().out


@pytest.mark.usefixtures("demo_home")
def test_json_of_the_overview(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--json"]) == ExitCode.SUCCESS

    rows = [json.loads(line)["type"] for line in capsys.readouterr().out.splitlines()]
    assert rows == ["session"] * 5


def test_shared_options_are_accepted_before_a_command(
    demo_home: Path, home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = home_dir / "other"
    words = ["--archive", str(other), "--home", str(demo_home)]
    assert main([*words, "-q", "ingest"]) == ExitCode.SUCCESS

    assert (
        main(["--archive", str(other), "--json", "list", "-n", "1"]) == ExitCode.SUCCESS
    )

    (session,) = capsys.readouterr().out.splitlines()
    assert json.loads(session)["type"] == "session"


@pytest.mark.usefixtures("demo_home")
def test_unused_shared_option_is_a_usage_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for words in (["--json", "completion", "bash"], ["completion", "bash", "--json"]):
        assert main(words) == ExitCode.USAGE_ERROR
        stderr = capsys.readouterr().err
        assert "completion takes no --json: it prints a script for a shell" in stderr
    for words in (["--home", "x"], ["-v", "--color", "never"]):
        assert main([*words, "help"]) == ExitCode.SUCCESS
        assert capsys.readouterr().err == ""


def test_options_override_settings(
    sample_home: Home,
    home_dir: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("BYGONES_ARCHIVE")
    settings = home_dir / "settings.toml"
    settings.write_text(
        f'archive = "~/mine"\nhomes = ["{sample_home.path}"]\ncolor = "always"\n'
    )
    monkeypatch.setenv("BYGONES_SETTINGS", str(settings))
    assert main(["ingest", "-q"]) == ExitCode.SUCCESS

    assert (home_dir / "mine" / "archive.db").exists()
    assert main(["list"]) == ExitCode.SUCCESS
    assert "\x1b[" in capsys.readouterr().out
    assert main(["list", "--color", "never"]) == ExitCode.SUCCESS
    assert "\x1b[" not in capsys.readouterr().out


@pytest.mark.usefixtures("demo_home")
@pytest.mark.parametrize(
    ("topic", "words"),
    [("query", "Fields"), ("list", "Usage: bygones list"), (None, "Read and find")],
)
def test_help_works_as_command_and_option(
    topic: str | None, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["help", *([topic] if topic else [])]) == ExitCode.SUCCESS
    assert words.lower() in capsys.readouterr().out.lower()


def test_help_on_an_unknown_topic_is_a_usage_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for slip, topic in (("lisst", "list"), ("qury", "query")):
        assert main(["help", slip]) == ExitCode.USAGE_ERROR
        assert f"did you mean {topic}?" in capsys.readouterr().err


def test_json_of_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "--json"]) == ExitCode.SUCCESS
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["topic"] for row in rows] == [*(row.name for row in COMMANDS), "query"]
    assert main(["help", "list", "--json"]) == ExitCode.SUCCESS
    (row,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert row["page"].startswith("Usage: bygones list")


def test_settings_apply_without_a_command(
    home_dir: Path,
    demo_home: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = home_dir / "settings.toml"
    settings.write_text('color = "always"\n')
    monkeypatch.setenv("BYGONES_SETTINGS", str(settings))
    monkeypatch.setenv("BYGONES_INGEST", "false")
    Home(demo_home).session(session_id(7), thread(prompt("Brand new")))

    assert main([]) == ExitCode.SUCCESS
    stdout = capsys.readouterr().out
    assert "\x1b[" in stdout
    assert "Brand new" not in stdout
    assert main(["--color", "never"]) == ExitCode.SUCCESS
    assert "\x1b[" not in capsys.readouterr().out
