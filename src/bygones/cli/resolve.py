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
from msgspec.structs import replace

from bygones.errors import NotInArchive
from bygones.model.query import And, Not, Or, Query, Term, Words
from bygones.model.sessions import Session
from bygones.query.matcher import is_session_query, matches_session
from bygones.query.parser import and_terms
from bygones.render.headers import search_notes
from bygones.render.text.primitives import sanitize_name as plain
from bygones.render.text.primitives import truncate_end
from bygones.render.walk import find_message_index
from bygones.store.tokenizer import tokenize

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    place = Path(os.path.realpath(Path(name).expanduser()))
    for path in (Path(name).expanduser().absolute(), place, *place.parents):
        try:
            return archive.project(str(path))
        except NotInArchive:
            continue
    raise NotInArchive("project", str(place))


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
        raise click.UsageError(f"{record!r} is not on branch {number}, but on {where}")


def _find_branch(session: Session, name: str) -> int:
    numbers = {str(branch.number): branch.number for branch in session.branches}
    if name in numbers:
        return numbers[name]
    exact = session.find_branch(name)
    if exact is not None:
        return exact.number
    found = [b.number for b in session.branches if name and b.id.startswith(name)]
    if len(found) == 1:
        return found[0]
    told = ", ".join(
        f"{branch.number} ({_shorten_prompt(branch.prompts[0].preview)})"
        if branch.prompts
        else f"{branch.number}"
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


_NO_LIMIT = 1_000_000


class SessionQueryFilter:
    """Chooses sessions of a list by all that is said in them."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._sessions: Sequence[SessionSummary] = ()
        self.notes: list[str] = []
        """What should be known about the choice."""

    def select(
        self, sessions: Sequence[SessionSummary], query: Query
    ) -> Iterator[SessionSummary]:
        """Yield what a query asks for of a list, in its order."""
        self._sessions = sessions
        if query.root is None:
            yield from sessions
            return
        chosen = self._matching(query.root)
        yield from (one for one in sessions if one.id in chosen)

    def _matching(self, term: Term, *, fix_typos: bool = True) -> set[SessionId]:
        """Return the sessions of which a term holds; slips in words are mended."""
        if is_session_query(term):
            query = Query(term)
            return {
                one.id
                for one in self._sessions
                if matches_session(query, one, tokenize)
            }
        if isinstance(term, Not):
            left = self._matching(term.term, fix_typos=False)
            return {one.id for one in self._sessions} - left
        if isinstance(term, Or):
            each = (self._matching(part, fix_typos=fix_typos) for part in term.terms)
            return set().union(*each)
        if isinstance(term, And) and any(map(_has_exclusion, term.terms)):
            alone = [part for part in term.terms if _has_exclusion(part)]
            together = and_terms(
                [part for part in term.terms if not _has_exclusion(part)]
            )
            parts = [*alone, *([together] if together else [])]
            each = (self._matching(part, fix_typos=fix_typos) for part in parts)
            return set.intersection(*each)
        return self._search(term, fix_typos=fix_typos)

    def _search(self, term: Term, *, fix_typos: bool) -> set[SessionId]:
        """Return the sessions that have a text of which a term holds, or all words."""
        found = self._archive.search(
            Query(term), limit=_NO_LIMIT, hits_per_session=0, sort="newest"
        )
        if found.missing_words or (found.corrections and not fix_typos):
            return set()
        self.notes += search_notes(replace(found, notes=()))
        asked = set(found.query_words)
        fitting = [one for one in found.sessions if asked <= set(one.matched_words)]
        # Sessions that say the same are told of with another one.
        return {id_ for one in fitting for id_ in (one.summary.id, *one.duplicate_ids)}


def _has_exclusion(term: Term) -> bool:
    """Whether a term says of texts what must not be."""
    if is_session_query(term) or isinstance(term, Words):
        return False
    if isinstance(term, And | Or):
        return any(map(_has_exclusion, term.terms))
    return isinstance(term, Not)
