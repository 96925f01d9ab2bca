"""What a session changed, and who changed a file."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from bygones.cli.main import main
from bygones.errors import ExitCode
from tests.cli.terminals import Terminal

on_terminals = pytest.mark.skipif(os.name == "nt", reason="no pseudo-terminals there")
pytestmark = pytest.mark.usefixtures("demo_home")


def json_rows(
    capsys: pytest.CaptureFixture[str], *words: str
) -> list[dict[str, object]]:
    assert main(["files", "--json", *words]) == ExitCode.SUCCESS
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_changes_on_abandoned_branches_are_separate(
    home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    abandoned, live, created = json_rows(capsys, "last")

    assert abandoned["path"] == live["path"]
    assert live["path"] == str(home_dir / "shop" / "src" / "checkout.py")
    assert (abandoned["is_abandoned"], live["is_abandoned"]) == (True, False)
    assert (abandoned["added_lines"], live["added_lines"]) == (7, 8)
    assert created["is_new_file"] is True

    assert main(["files", "last"]) == ExitCode.SUCCESS
    assert "checkout.py (abandoned)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("src/checkout.py", 2),
        ("checkout.py", 2),
        (".", 4),
        ("src", 2),
        ("../notes", 3),
        ("~/notes/export.py", 2),
        ("no-such.py", 0),
    ],
)
def test_path_selects_a_file_a_folder_or_a_suffix(
    name: str,
    count: int,
    home_dir: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (home_dir / "shop" / "src").mkdir()

    assert len(json_rows(capsys, name)) == count


def test_suffix_matches_whole_names(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert json_rows(capsys, "heckout.py") == []


def test_unknown_path_is_reported(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["files", "nothing"]) == ExitCode.USAGE_ERROR
    assert "no session or changed file 'nothing'" in capsys.readouterr().err


def test_a_session_without_changes_says_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["files", "145b"]) == ExitCode.SUCCESS
    assert capsys.readouterr().err == "no changed files\n"


@pytest.mark.usefixtures("demo_home")
def test_a_file_without_changes_exits_with_1(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["files", "no/such.py"]) == ExitCode.FAILURE
    assert capsys.readouterr().err == "no session changed no/such.py\n"


@on_terminals
def test_on_a_terminal_paths_are_relative_to_the_current_directory() -> None:
    terminal = Terminal("files", "last", columns=60)

    assert terminal.end() == ExitCode.SUCCESS
    assert "  src/checkout.py\n" in terminal.shown
