"""Keeping the sessions of a project that was renamed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bygones.archive import Archive
from bygones.cli.main import main
from bygones.errors import ExitCode
from tests.build import SESSION, Home, prompt, reply, thread


@pytest.fixture
def home(home_dir: Path) -> Path:
    """Return the usual home, with a session in a directory that was renamed."""
    home = Home(home_dir / ".claude")
    records = thread(prompt("one"), reply("first"))
    key = str(home_dir / "shop").replace("/", "-").replace("_", "-")
    cwd = str(home_dir / "shop")
    home.session(SESSION, [{**record, "cwd": cwd} for record in records], project=key)
    (home_dir / "store").mkdir()
    Archive.ingest(home_dir / "archive", [home.path])
    return home.path


def test_session_is_continued_in_the_new_directory(
    home: Path, home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = [path.read_bytes() for path in home.rglob("*.jsonl")]

    assert main(["move", "shop", "store", "--yes"]) == ExitCode.SUCCESS
    out = capsys.readouterr().out
    assert main(["resume"]) == ExitCode.SUCCESS

    assert "moved ~/shop -> ~/store" in out
    assert "1 session; 1 file" in out
    resumed = capsys.readouterr().out
    assert resumed == f"cd {home_dir}/store && claude --resume {SESSION}\n"
    assert main(["move", "--undo"]) == ExitCode.SUCCESS
    assert [path.read_bytes() for path in home.rglob("*.jsonl")] == before


def test_plan_changes_nothing(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(home.rglob("*"))

    assert main(["move", "shop", "store", "--dry-run", "--json"]) == ExitCode.SUCCESS

    row = json.loads(capsys.readouterr().out)
    assert (row["session_count"], row["is_dry_run"]) == (1, True)
    assert sorted(home.rglob("*")) == before
    assert main(["move", "shop", "store"]) == ExitCode.USAGE_ERROR
    assert "use --yes" in capsys.readouterr().err
    assert sorted(home.rglob("*")) == before


def test_dry_run_of_undo_changes_nothing(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["move", "shop", "store", "--yes"]) == ExitCode.SUCCESS
    before = sorted(home.rglob("*"))
    capsys.readouterr()

    assert main(["move", "--undo", "--dry-run"]) == ExitCode.SUCCESS

    assert "would move ~/store -> ~/shop" in capsys.readouterr().out
    assert sorted(home.rglob("*")) == before
    assert main(["move", "--undo"]) == ExitCode.SUCCESS
    assert sorted(home.rglob("*")) != before


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["shop"], "name the old and the new directory"),
        (["shop", "nowhere-at-all"], "is not a directory"),
        (["store", "store"], "cannot be moved into itself"),
        (["cellar", "store"], "no project"),
        (["--undo"], "there is no earlier move to undo"),
        (["shop", "--undo"], "--undo takes no directories"),
    ],
)
def test_impossible_move_is_explained(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["move", *arguments, "--yes"]) != ExitCode.SUCCESS

    assert message in capsys.readouterr().err
