"""The plugin for Claude Code has the documented layout."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bygones import __version__
from bygones.archive import Archive
from bygones.cli.commands.registry import COMMANDS
from bygones.mcp.tools import TOOLS_BY_NAME
from tests.build import Home, prompt, reply, session_id, thread
from tests.client.install import ClientUnavailable, install_client

PLUGIN = Path(__file__).resolve().parent.parent / "plugin"
EVENTS = {
    "SessionStart",
    "SessionEnd",
    "PreCompact",
    "PreToolUse",
    "PostToolUse",
    "UserPromptSubmit",
    "Stop",
    "SubagentStop",
    "Notification",
}
NAME = re.compile(r"[a-z][a-z0-9-]*")


def read(name: str) -> Any:  # noqa: ANN401
    return json.loads((PLUGIN / name).read_text("utf-8"))


def front(path: Path) -> dict[str, str]:
    _, head, text = path.read_text("utf-8").split("---\n", 2)
    assert text.strip()
    pairs = (line.partition(": ") for line in head.splitlines())
    return {name: value for name, _, value in pairs}


def test_parts_are_where_claude_code_looks_for_them() -> None:
    found = {
        path.relative_to(PLUGIN).as_posix()
        for path in PLUGIN.rglob("*")
        if path.is_file()
    }

    assert found == {
        ".claude-plugin/icon.png",
        ".claude-plugin/plugin.json",
        ".mcp.json",
        "commands/resume.md",
        "agents/recall.md",
        "commands/search.md",
        "commands/share.md",
        "hooks/hooks.json",
        "skills/recall/SKILL.md",
    }


def test_manifest_has_name_and_version() -> None:
    manifest = read(".claude-plugin/plugin.json")

    assert NAME.fullmatch(manifest["name"])
    assert manifest["version"] == __version__
    assert manifest["description"]
    assert isinstance(manifest["author"]["name"], str)


def test_marketplace_lists_the_plugin() -> None:
    market = json.loads(
        (PLUGIN.parent / ".claude-plugin" / "marketplace.json").read_text("utf-8")
    )
    (offer,) = market["plugins"]

    assert market["name"]
    assert market["owner"]["name"]
    assert offer["name"] == read(".claude-plugin/plugin.json")["name"]
    assert (PLUGIN.parent / offer["source"]).resolve() == PLUGIN


@pytest.mark.parametrize("folder", [PLUGIN, PLUGIN.parent], ids=["plugin", "market"])
def test_claude_code_accepts_plugin_and_marketplace(
    folder: Path, tmp_path: Path
) -> None:
    try:
        program = install_client()
    except ClientUnavailable as error:
        pytest.skip(f"the client is NOT tried: {error}")
    checked = subprocess.run(
        [program, "plugin", "validate", "--strict", str(folder)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={"HOME": str(tmp_path), "PATH": os.environ["PATH"]},
    )

    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_share_exports_one_file_of_this_session(tmp_path: Path) -> None:
    content = (PLUGIN / "commands" / "share.md").read_text("utf-8")
    (command,) = re.findall(r"`bygones (export [^`]*)`", content)
    home = Home(tmp_path / "home")
    for number in (1, 2):
        records = thread(prompt("the first"), reply("so"), prompt("the second"))
        home.session(session_id(number), records)
    options = command.replace("${CLAUDE_SESSION_ID}", session_id(1)).split()
    work = tmp_path / "work"
    work.mkdir()
    Archive.ingest(tmp_path / "archive", [home.path])

    subprocess.run(
        [sys.executable, "-m", "bygones", *options, "--turns", "1-2"],
        cwd=work,
        check=True,
        capture_output=True,
        env={
            **os.environ,
            "HOME": str(tmp_path),
            "CLAUDE_CONFIG_DIR": str(home.path),
            "BYGONES_ARCHIVE": str(tmp_path / "archive"),
        },
    )

    names = {path.name for path in work.iterdir()}
    assert names == {f"{session_id(1)}.html", "redacted.jsonl"}


def test_subagent_has_only_tools_that_read() -> None:
    head = front(PLUGIN / "agents" / "recall.md")
    tools = {name.rpartition("__")[2] for name in head["tools"].split(", ")}

    assert head["name"] == "recall"
    assert tools == set(TOOLS_BY_NAME)


def test_server_command_exists() -> None:
    ((name, server),) = read(".mcp.json")["mcpServers"].items()

    assert NAME.fullmatch(name)
    assert server["command"] == "bygones"
    assert server["args"][0] in {row.name for row in COMMANDS}


def hooks() -> list[tuple[str, dict[str, Any]]]:
    return [
        (event, hook)
        for event, matchers in read("hooks/hooks.json")["hooks"].items()
        for matcher in matchers
        for hook in matcher["hooks"]
    ]


def test_hook_events_exist() -> None:
    assert {event for event, _ in hooks()} == {"SessionEnd", "PreCompact"}
    assert {event for event, _ in hooks()} <= EVENTS
    for _, hook in hooks():
        assert hook["type"] == "command"
        assert isinstance(hook["timeout"], int)


@pytest.mark.parametrize("installed", [True, False])
def test_hook_succeeds_without_bygones(tmp_path: Path, *, installed: bool) -> None:
    command = tmp_path / "bygones"
    marker = tmp_path / "asked"
    if installed:
        command.write_text(f'#!/bin/sh\necho "$@" >> {marker}\nexit 7\n')
        command.chmod(command.stat().st_mode | stat.S_IXUSR)
    event = {"hook_event_name": "SessionEnd", "session_id": "x", "reason": "exit"}

    for name, hook in hooks():
        found = subprocess.run(
            ["/bin/sh", "-c", hook["command"]],
            input=json.dumps(event | {"hook_event_name": name}),
            text=True,
            capture_output=True,
            check=False,
            timeout=10,
            env={"PATH": f"{tmp_path}{os.pathsep}/usr/bin{os.pathsep}/bin"},
        )

        assert found.returncode == 0
        assert found.stdout == ""
    assert marker.exists() is installed


def test_commands_have_description_and_arguments() -> None:
    for path in (PLUGIN / "commands").glob("*.md"):
        assert NAME.fullmatch(path.stem)
        assert front(path)["description"]
        assert "$ARGUMENTS" in path.read_text("utf-8")


def test_skill_name_matches_its_folder() -> None:
    path = PLUGIN / "skills" / "recall" / "SKILL.md"
    head = front(path)

    assert head["name"] == path.parent.name
    assert "Use when" in head["description"]
    assert len(head["description"]) <= 1024


def test_texts_name_existing_tools_and_commands() -> None:
    known = {*TOOLS_BY_NAME, *(row.name for row in COMMANDS)}
    for path in PLUGIN.rglob("*.md"):
        content = path.read_text("utf-8")
        named = set(re.findall(r"`([a-z_]+)`", content))
        named |= set(re.findall(r"`bygones ([a-z]+)", content))

        assert named <= known | {"before"}, path


def test_command_name_matches_the_plugin() -> None:
    found = subprocess.run(
        [sys.executable, "-m", "bygones", "mcp", "--help"],
        capture_output=True,
        check=True,
    )

    assert b"over MCP" in found.stdout
