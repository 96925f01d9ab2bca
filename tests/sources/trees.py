"""Folders in a few words."""

from __future__ import annotations

from pathlib import Path

from bygones.model.base import Problem, SourceFile
from bygones.sources.walk import discover_sources

__all__ = ["UUID", "found", "kinds", "lay", "problems"]

UUID = "0a1b2c3d-0000-4000-8000-000000000001"


def lay(root: Path, *names: str, text: str = "{}\n") -> Path:
    """Write a file for each name below ``root``, folders included; return ``root``."""
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return root


def found(root: Path) -> dict[str, SourceFile]:
    """Return what a walk finds by its relative path; nothing may be a problem."""
    seen = list(discover_sources(root))
    assert not [one for one in seen if isinstance(one, Problem)]
    return {one.relative_path: one for one in seen if isinstance(one, SourceFile)}


def kinds(root: Path) -> dict[str, str]:
    return {path: source.kind.value for path, source in found(root).items()}


def problems(root: Path) -> dict[str, str]:
    """Return the kinds of problems a walk meets, by the name of what has them."""
    return {
        one.position.source_id.rpartition("/")[2]: one.kind
        for one in discover_sources(root)
        if isinstance(one, Problem)
    }
