"""What commands show on terminals of 120, 80 and 50 columns, kept as golden files."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bygones.archive import Archive
from bygones.cli.commands.demo import write_demo_home
from bygones.errors import ExitCode
from tests.cli.terminals import Screen

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(os.name == "nt", reason="there are no pseudo-terminals"),
]

FOLDER = Path(__file__).parent / "screens"
COMMANDS = {
    "list": ["list"],
    "search": ["search", "charged", "twice"],
    "show": ["show", "last"],
    "tree": ["tree", "3d75"],
    "usage": ["usage", "--by", "model"],
    "files": ["files", "src/checkout.py"],
    "doctor": ["doctor"],
}
VARIABLE = (
    (r"\d{4}-\d\d-\d\d", "YYYY-MM-DD"),
    (r"\b\d\d-\d\d(?= \d\d:\d\d)", "MM-DD"),
    (r"\b\d\d:\d\d\b", "HH:MM"),
    (r"\b\d+(?:\.\d+)? [kM]B\b", "SIZE"),
    (r"^bygones \d.*(?:\n(?!settings).*)*", "VERSIONS"),
    (r"in \d+ days?", "in N days"),
    (r"^/\S+(?:.*\n(?!YYYY))*.*", "PROJECT"),
)
NAMED_COLORS = {
    *("default", "black", "red", "green", "brown", "blue", "magenta", "cyan"),
}


def normalize(text: str) -> str:
    for pattern, replacement in VARIABLE:
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    return text.rstrip("\n") + "\n"


def used_colors(screen: Screen) -> set[str]:
    cells = [cell for row in screen.screen.buffer.values() for cell in row.values()]
    return {cell.fg for cell in cells} | {cell.bg for cell in cells}


@pytest.fixture
def set_fixed_date(home_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = write_demo_home(home_dir, datetime.now(UTC))
    monkeypatch.setenv("BYGONES_HOME", str(home))
    Archive.ingest(home_dir / "archive", [home])
    monkeypatch.chdir(home_dir / "shop")


@pytest.mark.usefixtures("set_fixed_date")
@pytest.mark.parametrize("columns", [120, 80, 50])
@pytest.mark.parametrize("name", COMMANDS)
def test_command_output_fits_the_terminal(
    name: str, columns: int, golden: Callable[[Path, str], None]
) -> None:
    screen = Screen(*COMMANDS[name], columns=columns, rows=90)
    assert screen.end() == ExitCode.SUCCESS
    golden(FOLDER / f"{name}-{columns}.txt", normalize(screen.text))
    # Colors of the user's theme only, which are legible on light and dark.
    assert used_colors(screen) <= NAMED_COLORS


@pytest.mark.usefixtures("set_fixed_date")
@pytest.mark.parametrize("columns", [120, 80, 50])
def test_picker_fits_the_terminal(
    columns: int, golden: Callable[[Path, str], None]
) -> None:
    screen = Screen(columns=columns, rows=40)
    screen.wait_for("5 sessions", "Write a test for the jitter")
    golden(FOLDER / f"picker-{columns}.txt", normalize(screen.text))
    screen.type("charged")
    screen.wait_for("> charged", "1 session ", "you:")
    golden(FOLDER / f"picker-query-{columns}.txt", normalize(screen.text))
    assert used_colors(screen) <= NAMED_COLORS
    screen.type("\t")
    screen.wait_for("copy id")
    golden(FOLDER / f"picker-keys-{columns}.txt", normalize(screen.text))
    screen.type("q")
    assert screen.end() == ExitCode.SUCCESS
