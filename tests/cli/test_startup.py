"""What commands import before they answer: a short one must not load the rest."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from bygones.errors import ExitCode
from tests.cli.terminals import Terminal

HEAVY = {"apsw", "click", "msgspec", "tantivy", "zstandard"}
OTHER_INTERFACES = {"bygones.hub", "bygones.mcp", "bygones.web", "bygones.team"}
RENDERERS = {
    "bygones.render.html",
    "bygones.render.markdown",
    "bygones.render.text.session",
}
SERVERS = {"asyncio", "mcp", "starlette", "subprocess", "uvicorn", "watchfiles"}
MOST = {"list": 48, "search": 83}
"""How many of our own modules a command may load; each costs some of its start."""
MOST_AT_FIRST_PAINT = 55
ALWAYS_WHOLE = ("bygones.archive.", "bygones.errors.")
"""Packages that are always loaded whole; they count as one module each."""


def modules_loaded_by(*words: str) -> set[str]:
    """Return the modules that are loaded when a command has answered."""
    code = (
        "import sys; from bygones.cli.main import main; code = main(sys.argv[1:]);"
        "print(*sys.modules, file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == ExitCode.SUCCESS, done.stderr
    return set(done.stderr.split())


def our_modules(loaded: set[str]) -> list[str]:
    return sorted(
        name
        for name in loaded
        if name.startswith("bygones") and not name.startswith(ALWAYS_WHOLE)
    )


def test_version_imports_nothing_heavy() -> None:
    loaded = modules_loaded_by("--version")

    assert not loaded & {*HEAVY, "bygones.errors", "pathlib", "typing"}


def test_the_help_page_loads_neither_an_engine_nor_a_renderer() -> None:
    loaded = modules_loaded_by("--help")

    assert not loaded & {"apsw", "tantivy", "zstandard", "bygones.archive"}
    assert not loaded & {*RENDERERS, *OTHER_INTERFACES, *SERVERS}


@pytest.mark.usefixtures("demo_home")
@pytest.mark.parametrize("words", [["list"], ["search", "retry"]])
def test_a_short_command_loads_little(words: list[str]) -> None:
    loaded = modules_loaded_by(*words)

    assert not loaded & {"bygones.assemble", "bygones.ingest", *OTHER_INTERFACES}
    assert not loaded & {*RENDERERS, *SERVERS}
    ours = our_modules(loaded)
    assert len(ours) <= MOST[words[0]], ours
    if words == ["list"]:
        # Only a query needs the language of searches and its engine.
        assert not loaded & {"tantivy", "zstandard", "hashlib"}
        assert not loaded & {"bygones.query", "bygones.search"}


@pytest.mark.usefixtures("demo_home")
@pytest.mark.skipif(os.name == "nt", reason="there are no pseudo-terminals")
def test_the_picker_shows_sessions_before_it_loads_what_keys_need() -> None:
    code = (
        "import sys; from bygones.cli.picker import frame\n"
        "paint = frame.FirstFrame._paint\n"
        "def paint_and_exit(self):\n"
        "    paint(self); self.restore()\n"
        "    print('loaded:', *sys.modules); sys.exit()\n"
        "frame.FirstFrame._paint = paint_and_exit\n"
        "from bygones.cli.main import main; main([])"
    )
    terminal = Terminal(program=[sys.executable, "-c", code], rows=24)
    assert terminal.end() == ExitCode.SUCCESS, terminal.shown

    frame, _, printed = terminal.shown.partition("loaded:")
    loaded = set(printed.split())
    assert "5 sessions" in frame
    assert "Make checkout retry without charging twice" in frame
    assert not loaded & {"prompt_toolkit", "asyncio", "tantivy", "zstandard"}
    assert not loaded & {"markdown_it", "pygments", "bygones.render.text.session"}
    assert not loaded & {"bygones.query", "bygones.search", "bygones.ingest"}
    assert len(our_modules(loaded)) <= MOST_AT_FIRST_PAINT, our_modules(loaded)
