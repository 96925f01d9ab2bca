"""Which session or project of the archive somebody means."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from recollect.archive import Archive
from recollect.errors import NotArchived
from recollect.model.ids import SessionId
from recollect.model.parts import Project

__all__ = ["Meant", "meant", "project_named"]


class Meant(Struct, frozen=True):
    """Sessions, and the project if one was named."""

    sessions: tuple[SessionId, ...] = ()
    project: Project | None = None


def project_named(archive: Archive, name: str) -> Project:
    """Return the project with this name or path; ``.`` is where we are.

    A folder inside of a project stands for it.
    """
    if not _is_path(name):
        return archive.project(name)
    place = Path(os.path.realpath(Path(name).expanduser()))
    for path in (Path(name).expanduser().absolute(), place, *place.parents):
        try:
            return archive.project(str(path))
        except NotArchived:
            continue
    raise NotArchived("project", str(place))


def meant(archive: Archive, names: Sequence[str]) -> Meant:
    """Return the sessions that names stand for, or the project that one does."""
    sessions = []
    for name in names:
        try:
            sessions.append(archive.listed(name).id)
        except NotArchived as error:
            if len(names) > 1 and not _is_path(name):
                raise
            try:
                return Meant(project=project_named(archive, name))
            except NotArchived as other:
                raise (other if _is_path(name) else error) from None
    return Meant(sessions=tuple(dict.fromkeys(sessions)))


def _is_path(name: str) -> bool:
    return name in {".", "..", "~"} or "/" in name or os.sep in name
