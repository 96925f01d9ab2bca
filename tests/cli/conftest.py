"""A separate home and archive for each test of a command."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from bygones.archive import Archive
from bygones.cli.commands.demo import write_demo_home
from tests.build import (
    Home,
    image,
    prompt,
    reply,
    session_id,
    thread,
    title,
    tool_result,
    tool_use,
)


@pytest.fixture
def home_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder that is the home directory of the user."""
    for name in (
        "CLAUDE_CONFIG_DIR",
        "XDG_DATA_HOME",
        "XDG_STATE_HOME",
        "BYGONES_HOME",
        "COLUMNS",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.setenv("BYGONES_ARCHIVE", str(tmp_path / "archive"))
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.chdir(tmp_path)
    return tmp_path


NOW = datetime(2026, 2, 1, 12, tzinfo=UTC)


@pytest.fixture
def demo_home(home_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the demo home, imported; the working directory is its ``shop``."""
    home = write_demo_home(home_dir, NOW)
    monkeypatch.setenv("BYGONES_HOME", str(home))
    Archive.ingest(home_dir / "archive", [home])
    monkeypatch.chdir(home_dir / "shop")
    return home


@pytest.fixture
def sample_home(home_dir: Path) -> Home:
    """Return a home with two sessions, one of which has every kind of side file."""
    home = Home(home_dir / ".claude")
    first, second = session_id(1), session_id(2)
    home.session(
        first,
        [
            *thread(
                prompt("Please count the lines"),
                reply([tool_use("Bash", command="wc -l")]),
                tool_result("toolu_1", "3"),
                reply("Three."),
            ),
            title("Counting lines", custom=True),
        ],
    )
    home.agent(first, "a1", thread(prompt("Look around"), reply("Done")), meta={})
    home.tool_result(first, "toolu_1.txt", "a long output\n" * 100)
    home.backup(first, "0f1e2d3c4b5a6978@v1", b"a file as it was\x00")
    todo = home.path / "todos" / f"{first}-agent-{first}.json"
    todo.parent.mkdir()
    todo.write_text("[]")
    task = home.path / "tasks" / first / "1.json"
    task.parent.mkdir(parents=True)
    task.write_text("{}")
    later = thread(prompt([image()]), reply("日本語 だけ"), start=3600)
    home.session(second, later, project="-work-other")
    home.history(["Please count the lines"])
    return home
