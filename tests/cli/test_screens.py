"""What commands show on terminals of 120, 80 and 50 columns, kept as golden files."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyte.screens import Char

from bygones.archive import Archive
from bygones.cli.commands.demo import write_demo_home
from bygones.cli.picker.frame import STYLES
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
    "errors": ["errors"],
    "prompts": ["prompts"],
    "projects": ["projects"],
    "sql": ["sql", "SELECT name, command, is_failed FROM tool_calls ORDER BY 1, 2"],
    "usage-git": ["usage", "--by", "git"],
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
THEMES = {
    # background, then black to cyan
    "VS Code, light": "ffffff 000000 cd3131 107c10 949800 0451a5 bc05bc 0598bc",
    "VS Code, dark": "1e1e1e 000000 cd3131 0dbc79 e5e510 2472c8 bc3fbc 11a8cd",
    "GNOME, light": "ffffff 171421 c01c28 26a269 a2734c 12488b a347ba 2aa1b3",
    "GNOME, dark": "1e1e1e 171421 f66151 33d17a e9ad0c 2a7bde c061cb 33c7de",
    "macOS, light": "ffffff 000000 990000 00a600 999900 0000b2 b200b2 00a6b2",
    "Windows, dark": "0c0c0c 0c0c0c c50f1f 13a10e c19c00 3b78ff 881798 3a96dd",
}
MIN_CONTRAST = 3.0
"""What WCAG asks of large text and of parts of controls."""
FAINT = {
    ("macOS, light", 36): 2.96,
    ("Windows, dark", 35): 2.44,
}
"""Colors of themes that have less; what is in these colors also differs otherwise."""
NAMED_COLORS = {
    *("default", "black", "red", "green", "brown", "blue", "magenta", "cyan"),
}


def normalize(text: str) -> str:
    for pattern, replacement in VARIABLE:
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    return text.rstrip("\n") + "\n"


def styled_text(screen: Screen) -> str:
    """Return the screen with the style of each piece before it, unless it is plain."""
    lines = []
    for row in range(screen.screen.lines):
        line, last = "", ""
        for column in range(screen.screen.columns):
            cell = screen.screen.buffer[row][column]
            style = cell_style(cell)
            if style != last and cell.data.strip():
                line += f"<{style or 'plain'}>"
                last = style
            line += cell.data
        lines.append(line.rstrip())
    return "\n".join(lines)


def cell_style(cell: Char) -> str:
    names = [name for name in ("bold", "italics", "reverse") if getattr(cell, name)]
    names += [cell.fg] if cell.fg != "default" else []
    names += [f"on {cell.bg}"] if cell.bg != "default" else []
    return " ".join(names)


def contrast(first: str, second: str) -> float:
    """Return the contrast ratio of two colors as WCAG defines it."""

    def luminance(color: str) -> float:
        parts = [int(color[at : at + 2], 16) / 255 for at in (0, 2, 4)]
        linear = [
            one / 12.92 if one <= 0.03928 else ((one + 0.055) / 1.055) ** 2.4
            for one in parts
        ]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    bright, dark = sorted((luminance(first), luminance(second)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


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
    if columns == 80:
        golden(FOLDER / f"{name}-styles.txt", normalize(styled_text(screen)))
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
    if columns == 80:
        golden(FOLDER / "picker-styles.txt", normalize(styled_text(screen)))
    assert used_colors(screen) <= NAMED_COLORS
    screen.type("\t")
    screen.wait_for("copy id")
    golden(FOLDER / f"picker-keys-{columns}.txt", normalize(screen.text))
    screen.type("q")
    assert screen.end() == ExitCode.SUCCESS


def test_colors_are_legible_on_light_and_dark_themes() -> None:
    faint = {}
    for theme, text in THEMES.items():
        background, *colors = text.split()
        for codes in STYLES.values():
            numbers = [int(code) for code in codes.split(";")]
            front = next((n for n in numbers if 30 <= n < 37), None)
            back = next((colors[n - 40] for n in numbers if 40 <= n < 47), background)
            ratio = contrast(colors[front - 30], back) if front else MIN_CONTRAST
            if ratio < MIN_CONTRAST:
                faint[theme, front] = round(ratio, 2)
    assert faint == FAINT
