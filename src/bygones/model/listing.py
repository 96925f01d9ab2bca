"""What lists show of a session, without assembling it."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from bygones.model.ids import ProjectKey, SessionId
from bygones.model.parts import Lineage, Title
from bygones.model.query import Flag
from bygones.model.usage import Usage

__all__ = ["Listed", "is_in"]


class Listed(Struct, frozen=True, kw_only=True, array_like=True):
    """A session in a list."""

    id: SessionId
    title: Title
    project: str | None = None
    keys: tuple[ProjectKey, ...] = ()
    started: datetime | None = None
    ended: datetime | None = None
    prompts: int = 0
    messages: int = 0
    """Prompts and answers on the live branch."""
    agents: int = 0
    """Agent runs that did something, at any depth."""
    branches: int = 1
    models: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()
    git_branches: tuple[str, ...] = ()
    entrypoints: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    usage: Usage
    """With that of its agents."""
    lineage: tuple[Lineage, ...] = ()
    problems: int = 0
    flags: tuple[Flag, ...] = ()
    """What is true of it as a whole: interrupted, compacted."""
    size: int = 0
    """Bytes of its sources."""
    is_empty: bool = False
    note: str = ""
    """What a reader wrote beside it."""
    is_starred: bool = False


def is_in(path: str | None, folder: str) -> bool:
    """Whether a path is a folder, or is below it."""
    sign = "\\" if "\\" in folder and "/" not in folder else "/"
    below = folder.rstrip("/\\") + sign
    return path is not None and (path == folder or path.startswith(below))
