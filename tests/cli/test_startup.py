"""What commands import before they answer: a short one must not load the rest."""

from __future__ import annotations

import subprocess
import sys

import pytest

from bygones.errors import ExitCode

HEAVY = {"apsw", "click", "msgspec", "tantivy", "zstandard"}
OTHER_INTERFACES = {"bygones.hub", "bygones.mcp", "bygones.web", "bygones.team"}
RENDERERS = {
    "bygones.render.html",
    "bygones.render.markdown",
    "bygones.render.text.session",
}
SERVERS = {"asyncio", "mcp", "starlette", "subprocess", "uvicorn", "watchfiles"}
MOST = {"list": 48, "search": 81}
"""How many of our own modules a command may load; each costs some of its start."""
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
    ours = sorted(
        name
        for name in loaded
        if name.startswith("bygones") and not name.startswith(ALWAYS_WHOLE)
    )
    assert len(ours) <= MOST[words[0]], ours
    if words == ["list"]:
        # Only a query needs the language of searches and its engine.
        assert not loaded & {"tantivy", "zstandard", "hashlib"}
        assert not loaded & {"bygones.query", "bygones.search"}
