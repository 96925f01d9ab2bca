"""Which session or project of the archive somebody means."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from difflib import get_close_matches
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click
from msgspec import Struct

from bygones.errors import NotInArchive
from bygones.model.sessions import Session
from bygones.render.text.primitives import sanitize_name as plain
from bygones.render.text.primitives import truncate_end
from bygones.render.walk import find_message_index

if TYPE_CHECKING:
    from bygones.archive import Archive
    from bygones.cli.last_search import SearchReference
    from bygones.model.base import SessionId
    from bygones.model.summary import IndexedRecord, Project, SessionSummary
    from bygones.store.archive_db import StoredSource


LAST = "last"
"""The name of the newest session, whatever its id."""


class ResolvedNames(NamedTuple):
    """Sessions and projects, as they were named."""

    sessions: tuple[SessionId, ...] = ()
    projects: tuple[Project, ...] = ()

    def sources(self, archive: Archive) -> list[StoredSource]:
        """Return the files of all of them, each once."""
        of_sessions = archive.sources(sessions=self.sessions)
        of_projects = [archive.sources(project=one) for one in self.projects]
        found = chain(of_sessions, *of_projects)
        return list({kept.number: kept for kept in found}.values())


def resolve_project(archive: Archive, name: str) -> Project:
    """Return the project with this name or path; ``.`` is where we are.

    A folder inside of a project stands for it.
    """
    if not _is_path(name):
        return archive.project(name)
    project = archive.project_at(name)
    if project is None:
        place = os.path.realpath(Path(name).expanduser())
        raise NotInArchive("project", place)
    return project


def resolve_project_scope(archive: Archive, name: str | None) -> str | None:
    """Return the directory or the key of the project with this name or path."""
    return project_scope(resolve_project(archive, name)) if name is not None else None


def project_scope(project: Project) -> str:
    """Return what selects the sessions of a project: its directory, or its key."""
    return project.path or project.name


def resolve_names(archive: Archive, names: Sequence[str]) -> ResolvedNames:
    """Return the sessions and the projects that names stand for."""
    found = [_resolve_name(archive, name) for name in names]
    sessions = [one for one in found if isinstance(one, str)]
    projects = [one for one in found if not isinstance(one, str)]
    return ResolvedNames(tuple(dict.fromkeys(sessions)), tuple(projects))


def _resolve_name(archive: Archive, name: str) -> SessionId | Project:
    try:
        return archive.session_summary(resolve_session_id(archive, name)).id
    except NotInArchive as error:
        try:
            return resolve_project(archive, name)
        except NotInArchive:
            if _is_path(name):
                raise
            raise NotInArchive("session or project", name, error.suggestions) from None


def resolve_session_id(archive: Archive, name: str) -> str:
    """Return by what the archive knows a session: ``last`` and numbers have an id."""
    if name == LAST:
        return newest_session(archive).id
    lately = find_search_result(name, archive)
    return lately.session if lately is not None else name


def resolve_summary(archive: Archive, name: str) -> SessionSummary:
    """Return the line of the session that a name stands for, in a list."""
    try:
        return archive.session_summary(resolve_session_id(archive, name))
    except NotInArchive:
        _check_number(name, archive)
        raise


def resolve_session_and_record(archive: Archive, name: str) -> tuple[str, str | None]:
    """Return the ids of the session that a name stands for, and of a record in it."""
    lately = find_search_result(name, archive)
    if lately is not None:
        return lately.session, lately.record
    try:
        return archive.session_summary(resolve_session_id(archive, name)).id, None
    except NotInArchive as error:
        _check_number(name, archive)
        try:
            record = archive.record(name)
        except NotInArchive:
            raise error from None
        return record.session_id, record.id


def load_named_session(
    archive: Archive, name: str
) -> tuple[Session, IndexedRecord | None]:
    """Return the session that a name stands for, and the record that it is the id of.

    ``last`` is the newest session, a number one of those found last.
    """
    session, record = resolve_session_and_record(archive, name)
    return archive.session(session), archive.record(record) if record else None


def find_search_result(name: str, archive: Archive) -> SearchReference | None:
    """Return what a number of the last search stands for, if it is one."""
    if not name[:1].isdecimal():
        return None
    from bygones.cli.last_search import find_result

    return find_result(name, archive.folder)


def _check_number(name: str, archive: Archive) -> None:
    if name[:1].isdecimal():
        from bygones.cli.last_search import check_result_number

        check_result_number(name, archive.folder)


def newest_session(archive: Archive) -> SessionSummary:
    """Return the session in which something was said last."""
    for listed in archive.sessions():
        return listed
    raise NotInArchive("session", LAST)


def _is_path(name: str) -> bool:
    return name in {".", "..", "~"} or "/" in name or os.sep in name


_OLDEST = datetime.min.replace(tzinfo=UTC)
_MAX_LISTED = 5
"""Sessions that a hint names."""
_MAX_TITLE_WIDTH = 50


class _Candidate(Struct, frozen=True):
    """What is kept of a session that is not shown."""

    rank: tuple[bool, datetime]
    id: str
    title: str

    def __str__(self) -> str:
        return f"{self.id[:8]} ({truncate_end(plain(self.title), _MAX_TITLE_WIDTH)})"


def choose_session(sessions: Iterable[Session], prefix: str | None) -> Session:
    """Return the session with this id or beginning of one, else the newest.

    Only one session is held at a time. Who names none is told what else there is.
    """
    known: list[_Candidate] = []
    fitting: list[_Candidate] = []
    best: tuple[tuple[bool, bool, datetime], Session] | None = None
    for session in sessions:
        newest = (not session.is_empty, session.ended_at or _OLDEST)
        one = _Candidate(newest, session.id, session.title.text)
        known.append(one)
        if prefix is not None and not session.id.startswith(prefix):
            continue
        fitting.append(one)
        rank = (session.id == prefix, *newest)
        if best is None or rank > best[0]:
            best = (rank, session)
    if best is None:
        raise click.UsageError(_no_session_message(known, prefix or ""))
    is_exact = best[0][0]
    if prefix is not None and len(fitting) > 1 and not is_exact:
        names = _list_candidates(fitting)
        raise click.UsageError(
            f"{len(fitting)} sessions begin with {prefix!r}: {names}"
        )
    if prefix is None and len(known) > 1:
        others = [one for one in known if one.id != best[1].id]
        sys.stderr.write(
            f"hint: the newest of {len(known):,} sessions; name another by its id: "
            f"{_list_candidates(others)}\n"
        )
    return best[1]


def _no_session_message(candidates: Sequence[_Candidate], prefix: str) -> str:
    beginnings = {one.id[: len(prefix)]: one for one in candidates}
    close = get_close_matches(prefix, beginnings, n=_MAX_LISTED, cutoff=0.6)
    if close:
        meant = ", ".join(str(beginnings[name]) for name in close)
        return f"no session begins with {prefix!r}; did you mean {meant}?"
    return (
        f"no session begins with {prefix!r}; there are {_list_candidates(candidates)}"
    )


def _list_candidates(candidates: Sequence[_Candidate]) -> str:
    newest = sorted(candidates, key=lambda one: one.rank, reverse=True)
    rest = len(newest) - _MAX_LISTED
    more = f" and {rest:,} more" if rest > 0 else ""
    return ", ".join(map(str, newest[:_MAX_LISTED])) + more


def choose_branch(session: Session, name: str | None, record: str | None = None) -> int:
    """Return the number of the branch with this number, leaf or record on it.

    Where none is wanted it is the one that shows a record, else the live one.
    """
    if not name and record is not None:
        return _find_branch_of_record(session, record)
    if name is None:
        return 0
    return _find_branch(session, name)


def check_record_on_branch(session: Session, number: int, record: str) -> None:
    """Refuse a record that the branch which was chosen does not show."""
    if find_message_index(session, number, {record}) is None:
        where = _find_branch_of_record(session, record)
        raise click.UsageError(
            f"{record!r} is not on branch {number + 1}, but on {where + 1}"
        )


def _find_branch(session: Session, name: str) -> int:
    numbers = {str(branch.number + 1): branch.number for branch in session.branches}
    if name in numbers:
        return numbers[name]
    exact = session.find_branch(name)
    if exact is not None:
        return exact.number
    found = [b.number for b in session.branches if name and b.id.startswith(name)]
    if len(found) == 1:
        return found[0]
    told = ", ".join(
        f"{branch.number + 1} ({_shorten_prompt(branch.prompts[0].preview)})"
        if branch.prompts
        else f"{branch.number + 1}"
        for branch in session.branches[:_MAX_LISTED]
    )
    rest = len(session.branches) - _MAX_LISTED
    more = f" and {rest:,} more" if rest > 0 else ""
    raise click.UsageError(f"no branch {name!r}; there are {told}{more}")


def _find_branch_of_record(session: Session, record: str) -> int:
    exact = session.find_branch(record)
    if exact is not None:
        return exact.number
    for branch in session.branches:
        if find_message_index(session, branch.number, {record}) is not None:
            return branch.number
    raise click.UsageError(f"no branch of this session has a record {record!r}")


def _shorten_prompt(head: str) -> str:
    return truncate_end(plain(head), _MAX_TITLE_WIDTH)
