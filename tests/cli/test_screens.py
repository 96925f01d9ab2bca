"""What commands show on terminals of 120, 80 and 50 columns, kept as golden files."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyte.screens import Char

from bygones.archive import Archive
from bygones.cli.commands.demo import TranscriptWriter, write_demo_home
from bygones.cli.picker.frame import STYLES
from bygones.errors import ExitCode
from tests.assemble.test_requests import SESSION, recorded_session
from tests.build import Home, jsonl, prompt, reply, session_id, thread
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
    "tree-branches": ["tree", "last"],
}
RELEASE_COMMANDS = {
    "show-markdown": ["show", "last"],
    "show-code": ["show", "last", "--code", "2"],
    "show-diff": ["show", "last", "--diff"],
    "files-reads": ["files", "last", "--reads"],
    "commits": ["commits", "last"],
    "context-derived": ["context", "last"],
}
AT_NOON = (
    "from datetime import datetime\n"
    "from bygones.cli import output\n"
    "class Clock(datetime):\n"
    "    def now(zone): return datetime(2026, 2, 1, 12, tzinfo=zone)\n"
    "output.datetime = Clock\n"
    "from bygones.cli.main import entry_point\n"
    "entry_point()"
)
"""Runs a command on the day of the demo home, two hours after a session started."""
VARIABLE = (
    (r"\b\d\d:\d\d:\d\d\b", "HH:MM:SS"),
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
RELEASE_REPLY = """\
Version **1.4.0** is ready:

1. `pyproject.toml` has the new version
2. `CHANGELOG.md` has what changed, see [the format](https://keepachangelog.com)

| File | Added | Removed |
|---|---:|---:|
| pyproject.toml | 1 | 1 |
| CHANGELOG.md | 3 | 0 |

To publish it:

```sh
git tag v1.4.0 && git push --tags
```

And to check what customers see, since the shop reports its version:

```python
import requests

answer = requests.get("https://shop.example/version", headers={"Accept": "application/json"})
assert answer.json() == {"version": "1.4.0"}  # a comment
```
"""
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


@pytest.fixture
def release(home_dir: Path) -> None:
    """Add a session that reads files, commits, and replies with code.

    Its project is not on the disk, so that paths are as long on every machine.
    """
    started = datetime.now(UTC) - timedelta(hours=1, minutes=30)
    said = TranscriptWriter("release", Path("/home/ada/shop"), started)
    said.prompt("Release 1.4: set the version and write the changelog.")
    for path in ("pyproject.toml", "CHANGELOG.md", "src/checkout.py", "pyproject.toml"):
        whole = f"/home/ada/shop/{path}"
        said.call("Read", {"file_path": whole}, "1\t# the file")
    said.edit(
        "pyproject.toml",
        'version = "1.3.2"\n',
        'version = "1.4.0"\n',
        line=3,
        original='[project]\nname = "shop"\nversion = "1.3.2"\n',
    )
    said.write(
        "CHANGELOG.md", "## 1.4.0\n\n- Checkout retries without double charges\n"
    )
    said.bash(
        "git commit -qam 'Release 1.4.0'",
        "[main 1a2b3c4] Release 1.4.0\n 2 files changed",
    )
    address = "https://github.com/ada/shop/pull/17"
    said.bash("gh pr create --fill", address)
    said.answer(RELEASE_REPLY)
    said.title("Release 1.4 of the shop")
    said.save(home_dir / "claude-home")
    Archive.ingest(home_dir / "archive", [home_dir / "claude-home"])


def keep_screen(screen: Screen, name: str, golden: Callable[[Path, str], None]) -> None:
    """Compare a screen with its golden file, and at 80 columns its styles as well."""
    columns = screen.screen.columns
    golden(FOLDER / f"{name}-{columns}.txt", normalize(screen.text))
    if columns == 80:
        golden(FOLDER / f"{name}-styles.txt", normalize(styled_text(screen)))
    # Colors of the user's theme only, which are legible on light and dark.
    assert used_colors(screen) <= NAMED_COLORS


@pytest.mark.usefixtures("set_fixed_date")
@pytest.mark.parametrize("columns", [120, 80, 50])
@pytest.mark.parametrize("name", COMMANDS)
def test_command_output_fits_the_terminal(
    name: str, columns: int, golden: Callable[[Path, str], None]
) -> None:
    screen = Screen(*COMMANDS[name], columns=columns, rows=90)
    assert screen.end() == ExitCode.SUCCESS
    keep_screen(screen, name, golden)


@pytest.mark.usefixtures("set_fixed_date", "release")
@pytest.mark.parametrize("columns", [120, 80, 50])
@pytest.mark.parametrize("name", RELEASE_COMMANDS)
def test_parts_of_a_session_fit_the_terminal(
    name: str, columns: int, golden: Callable[[Path, str], None]
) -> None:
    screen = Screen(*RELEASE_COMMANDS[name], columns=columns, rows=90)
    assert screen.end() == ExitCode.SUCCESS
    keep_screen(screen, name, golden)


@pytest.mark.parametrize("columns", [120, 80, 50])
def test_recorded_request_fits_the_terminal(
    home_dir: Path, columns: int, golden: Callable[[Path, str], None]
) -> None:
    home = Home(home_dir / ".claude")
    home.session(SESSION, recorded_session())
    Archive.ingest(home_dir / "archive", [home.path])
    screen = Screen("context", "last", columns=columns, rows=90)
    assert screen.end() == ExitCode.SUCCESS
    keep_screen(screen, "context", golden)


@pytest.mark.usefixtures("demo_home")
@pytest.mark.parametrize("columns", [120, 80, 50])
def test_live_block_fits_the_terminal(
    columns: int, golden: Callable[[Path, str], None]
) -> None:
    program = [sys.executable, "-c", AT_NOON]
    screen = Screen("usage", "--watch", columns=columns, program=program)
    screen.wait_for("at the end", "press Ctrl-C to stop")
    keep_screen(screen, "usage-watch", golden)
    screen.type("\x03")
    assert screen.end() == ExitCode.INTERRUPTED


@pytest.mark.parametrize("columns", [120, 80, 50])
def test_watched_changes_fit_the_terminal(
    sample_home: Home, columns: int, golden: Callable[[Path, str], None]
) -> None:
    lines = thread(
        prompt("Find out why the nightly import of the product catalog takes an hour"),
        reply("I'll look at the log."),
        prompt("Only the steps after midnight matter, the others run elsewhere"),
        reply("Then it is the thumbnails."),
        prompt("Skip those that are there"),
    )
    screen = Screen("watch", columns=columns)
    screen.wait_for("press Ctrl-C to stop")
    path = sample_home.session(session_id(7), lines[:2])
    screen.wait_for("new  +2 messages")
    with path.open("ab") as file:
        file.write(jsonl(lines[2:]))
    screen.wait_for("+3 messages")
    sample_home.agent(
        session_id(7), "a2", thread(prompt("Look"), reply("Done")), meta={}
    )
    screen.wait_for("+1 agent")
    screen.type("\x03")
    assert screen.end() == ExitCode.INTERRUPTED
    keep_screen(screen, "watch", golden)


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
