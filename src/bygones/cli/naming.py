"""Which session or project of the archive somebody means."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from bygones.errors import NotArchived

if TYPE_CHECKING:
    from bygones.archive import Archive
    from bygones.cli.lately import Recalled
    from bygones.model.finds import FoundRecord
    from bygones.model.ids import SessionId
    from bygones.model.listing import Listed
    from bygones.model.parts import Project
    from bygones.model.sessions import Session
    from bygones.store.chunks import Kept

__all__ = [
    "LAST",
    "Meant",
    "meant",
    "newest",
    "project_named",
    "recalled",
    "session_id",
    "session_line",
    "session_named",
    "session_place",
]

LAST = "last"
"""The name of the newest session, whatever its id."""


class Meant(NamedTuple):
    """Sessions and projects, as they were named."""

    sessions: tuple[SessionId, ...] = ()
    projects: tuple[Project, ...] = ()

    def sources(self, archive: Archive) -> list[Kept]:
        """Return the files of all of them, each once."""
        of_sessions = archive.sources(sessions=self.sessions)
        of_projects = [archive.sources(project=one) for one in self.projects]
        found = chain(of_sessions, *of_projects)
        return list({kept.number: kept for kept in found}.values())


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
    """Return the sessions and the projects that names stand for."""
    found = [_either(archive, name) for name in names]
    sessions = [one for one in found if isinstance(one, str)]
    projects = [one for one in found if not isinstance(one, str)]
    return Meant(tuple(dict.fromkeys(sessions)), tuple(projects))


def _either(archive: Archive, name: str) -> SessionId | Project:
    try:
        return archive.listed(session_id(archive, name)).id
    except NotArchived as error:
        try:
            return project_named(archive, name)
        except NotArchived:
            if _is_path(name):
                raise
            raise NotArchived("session or project", name, error.close) from None


def session_id(archive: Archive, name: str) -> str:
    """Return by what the archive knows a session: ``last`` and numbers have an id."""
    if name == LAST:
        return newest(archive).id
    lately = recalled(name, archive)
    return lately.session if lately is not None else name


def session_line(archive: Archive, name: str) -> Listed:
    """Return the line of the session that a name stands for, in a list."""
    try:
        return archive.listed(session_id(archive, name))
    except NotArchived:
        _check_number(name, archive)
        raise


def session_place(archive: Archive, name: str) -> tuple[str, str | None]:
    """Return the ids of the session that a name stands for, and of a record in it."""
    lately = recalled(name, archive)
    if lately is not None:
        return lately.session, lately.record
    try:
        return archive.listed(session_id(archive, name)).id, None
    except NotArchived as error:
        _check_number(name, archive)
        try:
            record = archive.record(name)
        except NotArchived:
            raise error from None
        return record.session, record.id


def session_named(archive: Archive, name: str) -> tuple[Session, FoundRecord | None]:
    """Return the session that a name stands for, and the record that it is the id of.

    ``last`` is the newest session, a number one of those found last.
    """
    session, record = session_place(archive, name)
    return archive.session(session), archive.record(record) if record else None


def recalled(name: str, archive: Archive) -> Recalled | None:
    """Return what a number of the last search stands for, if it is one."""
    if not name[:1].isdecimal():
        return None
    from bygones.cli.lately import remembered  # noqa: PLC0415 (only for a number)

    return remembered(name, archive.folder)


def _check_number(name: str, archive: Archive) -> None:
    if name[:1].isdecimal():
        from bygones.cli.lately import check_number  # noqa: PLC0415 (see above)

        check_number(name, archive.folder)


def newest(archive: Archive) -> Listed:
    """Return the session in which something was said last."""
    for listed in archive.sessions():
        return listed
    raise NotArchived("session", LAST)


def _is_path(name: str) -> bool:
    return name in {".", "..", "~"} or "/" in name or os.sep in name
