"""Adding to Claude Code: shown first, done when told, and undone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bygones.cli.main import main
from bygones.errors import ExitCode


def test_without_add_nothing_is_written(
    home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["integrate", "claude", "--statusline"])

    captured = capsys.readouterr()
    assert code == 0
    assert captured.out.count("would add") == 9
    assert "~/.claude/settings.json" in captured.out
    assert "nothing was changed; use --add to apply these changes" in captured.err
    assert not (home_dir / ".claude").exists()


def test_added_integration_is_removed_again(
    home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["integrate", "claude", "--add"]) == 0
    assert (home_dir / ".claude" / "settings.json").exists()

    assert main(["integrate", "claude", "--remove"]) == 0
    assert (home_dir / ".claude" / "settings.json").exists()
    assert main(["integrate", "claude", "--remove", "--yes"]) == 0

    assert not [path for path in (home_dir / ".claude").rglob("*") if path.is_file()]
    assert "removed" in capsys.readouterr().out


def test_part_of_an_earlier_version_is_reported_and_updated(
    home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["integrate", "claude", "--add"])
    servers = home_dir / ".claude.json"
    current = json.loads(servers.read_text())
    old = {"command": "/old/python", "args": ["-m", "bygones", "mcp"]}
    server = current["mcpServers"]["bygones"] | old
    servers.write_text(json.dumps({"mcpServers": {"bygones": server}}))
    capsys.readouterr()

    main(["integrate", "claude"])
    assert "outdated, would update  MCP server" in capsys.readouterr().out
    main(["integrate", "claude", "--add"])

    assert capsys.readouterr().out.startswith("updated  MCP server")
    assert json.loads(servers.read_text()) == current


def test_hub_of_a_project_is_removed_without_naming_it(
    home_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    project = ["integrate", "claude", "--scope", "project"]
    assert main([*project, "--add"]) == ExitCode.USAGE_ERROR
    assert main([*project, "--hub", "https://hub.example.com", "--add"]) == 0
    server = json.loads((tmp_path / ".mcp.json").read_text())["mcpServers"]
    assert server["bygones-team"]["url"] == "https://hub.example.com/mcp"

    assert main([*project, "--remove", "--yes"]) == 0

    assert not (tmp_path / ".mcp.json").exists()
    assert not (home_dir / ".claude").exists()


def test_settings_that_are_not_json_are_not_changed(
    home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = home_dir / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text("{ // mine\n}")

    code = main(["integrate", "claude", "--add"])

    assert code == ExitCode.FAILURE
    assert "settings.json cannot be read" in capsys.readouterr().err
    assert settings.read_text() == "{ // mine\n}"
    assert not (home_dir / ".claude.json").exists()


@pytest.mark.parametrize("words", [["--add"], ["--remove", "--yes"]])
def test_settings_with_duplicate_keys_are_not_changed(
    home_dir: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    settings = home_dir / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text('{"hooks": {"SessionEnd": []}, "hooks": {}}')

    code = main(["integrate", "claude", *words])

    assert code == ExitCode.FAILURE
    assert "'hooks' appears twice" in capsys.readouterr().err
    assert settings.read_text() == '{"hooks": {"SessionEnd": []}, "hooks": {}}'
    assert not (home_dir / ".claude.json").exists()


def test_add_and_remove_together_are_a_usage_error(home_dir: Path) -> None:
    code = main(["integrate", "claude", "--add", "--remove"])

    assert code == ExitCode.USAGE_ERROR
    assert not (home_dir / ".claude").exists()


@pytest.mark.usefixtures("home_dir")
def test_json_lists_parts_and_changes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["integrate", "claude", "--json"]) == ExitCode.SUCCESS
    parts = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {row["type"] for row in parts} == {"integration"}
    assert {row["state"] for row in parts} == {"missing"}
    assert not any(row["is_done"] for row in parts)
    assert main(["integrate", "claude", "--add", "--json"]) == ExitCode.SUCCESS
    done = map(json.loads, capsys.readouterr().out.splitlines())
    assert all(row["is_done"] and Path(row["path"]).exists() for row in done)


def test_removal_names_the_contents_that_checkpoints_stored(
    home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    remove = ["integrate", "claude", "--remove", "--yes"]
    assert main(["integrate", "claude", "--add", "--checkpoints"]) == 0
    assert main(remove) == 0
    assert "bygones-checkpoints" not in capsys.readouterr().err

    (home_dir / ".claude" / "bygones-checkpoints").mkdir(parents=True)
    assert main(remove) == 0
    assert "~/.claude/bygones-checkpoints" in capsys.readouterr().err
