"""Helpers that create folders and walk them."""

from __future__ import annotations

from pathlib import Path

from bygones.model.base import Problem, SourceFile
from bygones.sources.walk import discover_sources

__all__ = ["UUID", "create_files", "found", "kinds", "problems"]

UUID = "0a1b2c3d-0000-4000-8000-000000000001"


def create_files(root: Path, *names: str, text: str = "{}\n") -> Path:
    """Create a file for each name below `root`; return `root`."""
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return root


def found(root: Path) -> dict[str, SourceFile]:
    """Return the sources of a walk by relative path; there must be no problem."""
    results = list(discover_sources(root))
    assert not [result for result in results if isinstance(result, Problem)]
    return {s.relative_path: s for s in results if isinstance(s, SourceFile)}


def kinds(root: Path) -> dict[str, str]:
    return {path: source.kind.value for path, source in found(root).items()}


def problems(root: Path) -> dict[str, str]:
    """Return the kinds of problems of a walk, by file name."""
    return {
        problem.position.source_id.rpartition("/")[2]: problem.kind
        for problem in discover_sources(root)
        if isinstance(problem, Problem)
    }
