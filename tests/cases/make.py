"""Writes the inputs of all cases from their stories: ``python -m tests.cases.make``."""

from __future__ import annotations

import importlib
import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.build import Home

__all__ = ["CASES", "Story", "copied", "stories", "write"]

Story = Callable[[Home], None]

CASES = Path(__file__).resolve().parent
_MODULES = (
    "agents",
    "calls",
    "compactions",
    "lineage",
    "oddities",
    "rewinds",
    "texts",
    "titles",
    "trees",
)


def stories() -> dict[str, Story]:
    """Return every story by the name of its case."""
    found: dict[str, Story] = {}
    for name in _MODULES:
        module = importlib.import_module(f"tests.cases.{name}")
        own = {
            story: value
            for story, value in vars(module).items()
            if getattr(value, "__module__", None) == module.__name__
            and not story.startswith("_")
        }
        found |= own
    recorded = {path.name: path for path in CASES.glob("recorded_*")}
    return found | {name: partial(_copy, path) for name, path in recorded.items()}


def _copy(case: Path, home: Home) -> None:
    """Copy what `tests.client.scrub` made of a recording of the real client."""
    shutil.copytree(case / "input", home.path, dirs_exist_ok=True)


def write(name: str, folder: Path) -> None:
    """Write the home of which a story tells into an empty folder."""
    if folder == CASES / name / "input" and name.startswith("recorded_"):
        return
    shutil.rmtree(folder, ignore_errors=True)
    stories()[name](Home(folder))


def copied(case: Path, folder: Path) -> Path:
    """Return a copy of a case's input in which files are as old as their names say.

    A checkout gives all files some time of its own, and the newest file matters.
    """
    home = folder / "input"
    shutil.copytree(case / "input", home)
    for second, path in enumerate(sorted(p for p in home.rglob("*") if p.is_file())):
        os.utime(path, (second, second))
    return home


if __name__ == "__main__":
    for case in stories():
        write(case, CASES / case / "input")
