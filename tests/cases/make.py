"""Writes the inputs of all cases with their functions: ``python -m tests.cases.make``."""

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
    """Return the function of each case by name."""
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
    """Copy a recording of the real client that `tests.client.scrub` prepared."""
    shutil.copytree(case / "input", home.path, dirs_exist_ok=True)


def write(name: str, folder: Path) -> None:
    """Write the home of a case into an empty folder."""
    if folder == CASES / name / "input" and name.startswith("recorded_"):
        return
    shutil.rmtree(folder, ignore_errors=True)
    stories()[name](Home(folder))


def copied(case: Path, folder: Path) -> Path:
    """Copy a case's input, and set timestamps in the order of the file names.

    A checkout does not preserve timestamps, and some results depend on the newest file.
    """
    home = folder / "input"
    shutil.copytree(case / "input", home)
    for second, path in enumerate(sorted(p for p in home.rglob("*") if p.is_file())):
        os.utime(path, (second, second))
    return home


if __name__ == "__main__":
    for case in stories():
        write(case, CASES / case / "input")
