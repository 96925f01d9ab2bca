"""Which session or project of the archive somebody means."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from recollect.archive import Archive
from recollect.cli.options import opened
from recollect.errors import ArchiveMissing, NotArchived, PathMissing
from recollect.model.ids import SessionId
from recollect.model.parts import Project
from recollect.model.sessions import Session

__all__ = ["Meant", "archived_session", "meant", "project_named"]


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


@contextmanager
def archived_session(
    name: str, folder: Path | None
) -> Iterator[tuple[Session, str | None]]:
    """Give the session that a name stands for, its own or that of a record in it.

    A record comes with it. The session can be read while the context lasts.
    """
    try:
        archive = opened(folder)
    except ArchiveMissing as error:
        if folder is not None:
            raise
        raise PathMissing(Path(name)) from error
    with archive:
        try:
            yield archive.session(name), None
        except NotArchived as error:
            try:
                record = archive.record(name)
            except NotArchived:
                raise error from None
            # What an agent said is on no branch of the session itself.
            known = record.id if record.branch is not None else None
            yield archive.session(record.session), known


def _is_path(name: str) -> bool:
    return name in {".", "..", "~"} or "/" in name or os.sep in name
