"""Resolve names of sessions, projects and branches, including results of the last search."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from difflib import get_close_matches
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click
import msgspec
from msgspec import Struct

from bygones.cli.context import LAST
from bygones.config import find_state_dir
from bygones.errors import AmbiguousSelector, NotInArchive, UnknownResultNumber
from bygones.model.assembled import as_conversation, find_branch_of
from bygones.model.query import Part
from bygones.model.sessions import Session
from bygones.render.locate import find_message_index
from bygones.render.numbers import pluralize
from bygones.render.text.primitives import sanitize_name, truncate_end

if TYPE_CHECKING:
    from bygones.archive import Archive
    from bygones.model.base import SessionId
    from bygones.model.conversations import Conversation
    from bygones.model.summary import IndexedRecord, Project, SessionSummary
    from bygones.store.archive_db import StoredSource


class ResolvedNames(NamedTuple):
    """The sessions and projects that were named."""

    sessions: tuple[SessionId, ...] = ()
    projects: tuple[Project, ...] = ()

    def sources(self, archive: Archive) -> list[StoredSource]:
        """Return the sources of all of them, each once."""
        sources = chain(
            archive.sources(sessions=self.sessions),
            *(archive.sources(project=project) for project in self.projects),
        )
        return list({source.number: source for source in sources}.values())


def resolve_project(archive: Archive, name: str) -> Project:
    """Return the project with this name, or the one that contains this path."""
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


def resolve_names(
    archive: Archive, names: Sequence[str], *, allow_unindexed: bool = False
) -> ResolvedNames:
    """Return the sessions and projects with these names.

    With `allow_unindexed`, also sessions whose files are stored but not indexed.
    """
    found = [
        _resolve_name(archive, name, allow_unindexed=allow_unindexed) for name in names
    ]
    sessions = [one for one in found if isinstance(one, str)]
    projects = [one for one in found if not isinstance(one, str)]
    if projects and allow_unindexed:
        print_unindexed(archive)
    return ResolvedNames(tuple(dict.fromkeys(sessions)), tuple(projects))


def _resolve_name(
    archive: Archive, name: str, *, allow_unindexed: bool
) -> SessionId | Project:
    try:
        resolved = resolve_session_id(archive, name)
        id_ = archive.session_summary(resolved).id
    except NotInArchive as error:
        unindexed = archive.find_unindexed(name) if allow_unindexed else None
        if unindexed is not None:
            return unindexed
        try:
            return resolve_project(archive, name)
        except NotInArchive:
            if _is_path(name):
                raise
            raise NotInArchive("session or project", name, error.suggestions) from None
    if allow_unindexed:
        archive.check_is_only(id_, resolved)
    return id_


def print_unindexed(archive: Archive) -> None:
    """Print that sessions whose project is unknown are not selected, if there are any."""
    if count := archive.unindexed_count:
        sessions = pluralize(count, "session")
        sys.stderr.write(
            f"note: {sessions} could not be indexed and may be left out; name them by id\n"
        )


def resolve_session_id(archive: Archive, name: str) -> str:
    """Return the id for `last` or a result number; other names are returned as is."""
    if name == LAST:
        return newest_session(archive).id
    result = find_search_result(name, archive)
    return result.session if result is not None else name


def resolve_summary(archive: Archive, name: str) -> SessionSummary:
    try:
        return archive.session_summary(resolve_session_id(archive, name))
    except NotInArchive:
        _check_number(name, archive)
        raise


def resolve_session_and_record(archive: Archive, name: str) -> tuple[str, str | None]:
    """Return the id of a session, and of the record by which it was named."""
    result = find_search_result(name, archive)
    if result is not None:
        return result.session, result.record
    try:
        resolved = resolve_session_id(archive, name)
        id_ = archive.session_summary(resolved).id
        is_contained = not id_.startswith(resolved)
        return id_, _first_record_of(archive, id_, name) if is_contained else None
    except NotInArchive as error:
        _check_number(name, archive)
        try:
            record = archive.record(name)
        except NotInArchive:
            raise error from None
        return record.session_id, record.id


def _first_record_of(archive: Archive, container: SessionId, name: str) -> str | None:
    """Return the first prompt of a session that is a branch of another one."""
    for branch in archive.conversation(container).facts.branches:
        if branch.session_id is not None and branch.session_id.startswith(name):
            return branch.first_prompt_id
    return None


def load_named_session(
    archive: Archive, name: str
) -> tuple[Session, IndexedRecord | None]:
    """Load a session, and the record by which it was named."""
    session, record = resolve_session_and_record(archive, name)
    return archive.session(session), archive.record(record) if record else None


def find_search_result(name: str, archive: Archive) -> SearchReference | None:
    """Return the result of the last search with this number, if it is one."""
    if not name[:1].isdecimal():
        return None
    return find_result(name, archive.folder)


def _check_number(name: str, archive: Archive) -> None:
    if name[:1].isdecimal():
        check_result_number(name, archive.folder)


def newest_session(archive: Archive) -> SessionSummary:
    for summary in archive.sessions():
        return summary
    raise NotInArchive("session", LAST)


def _is_path(name: str) -> bool:
    return name in {".", "..", "~"} or "/" in name or os.sep in name


_OLDEST = datetime.min.replace(tzinfo=UTC)
_MAX_LISTED = 5
_MAX_TITLE_WIDTH = 50


class _Candidate(Struct, frozen=True):
    """A session that could have been chosen."""

    rank: tuple[bool, datetime]
    id: str
    title: str

    def __str__(self) -> str:
        _, ended_at = self.rank
        date = f"{ended_at:%Y-%m-%d}  " if ended_at > _OLDEST else ""
        title = truncate_end(sanitize_name(self.title), _MAX_TITLE_WIDTH)
        return f"{self.id}  {date}{title}"


def choose_session(sessions: Iterable[Session], prefix: str | None) -> Session:
    """Return the session with this id prefix, or the newest one.

    Only one session is held in memory at a time. Without a prefix, a hint lists other
    sessions.
    """
    known: list[_Candidate] = []
    matching: list[_Candidate] = []
    best: tuple[tuple[bool, bool, datetime], Session] | None = None
    for session in sessions:
        newest = (not session.is_empty, session.ended_at or _OLDEST)
        candidate = _Candidate(newest, session.id, session.title.text)
        known.append(candidate)
        if prefix is not None and not session.id.startswith(prefix):
            continue
        matching.append(candidate)
        rank = (session.id == prefix, *newest)
        if best is None or rank > best[0]:
            best = (rank, session)
    if best is None:
        raise click.UsageError(_no_session_message(known, prefix or ""))
    is_exact = best[0][0]
    if prefix is not None and len(matching) > 1 and not is_exact:
        listed = list(map(str, _newest(matching)))
        more_count = len(matching) - len(listed)
        raise AmbiguousSelector("session", prefix, listed, more_count)
    if prefix is None and len(known) > 1:
        others = [other for other in known if other.id != best[1].id]
        sys.stderr.write(
            f"note: this is the newest of {len(known):,} sessions; to show another, add"
            f" its id:\n{_list_candidates(others)}\n"
        )
    return best[1]


def _no_session_message(candidates: Sequence[_Candidate], prefix: str) -> str:
    by_prefix = {candidate.id[: len(prefix)]: candidate for candidate in candidates}
    close = get_close_matches(prefix, by_prefix, n=_MAX_LISTED, cutoff=0.6)
    newest = [candidate.id[:8] for candidate in _newest(candidates)]
    if close:
        names = " or ".join(by_prefix[name].id[:8] for name in close)
        return f"no session starts with {prefix!r}; did you mean {names}?"
    return f"no session starts with {prefix!r}; the newest are {', '.join(newest)}"


def _newest(candidates: Sequence[_Candidate]) -> list[_Candidate]:
    ranked = sorted(candidates, key=lambda candidate: candidate.rank, reverse=True)
    return ranked[:_MAX_LISTED]


def _list_candidates(candidates: Sequence[_Candidate]) -> str:
    newest = _newest(candidates)
    rest = len(candidates) - len(newest)
    more = [f"and {rest:,} more"] if rest > 0 else []
    return "\n".join(f"  {line}" for line in (*map(str, newest), *more))


def choose_branch(
    source: Session | Conversation, name: str | None, record: str | None = None
) -> int:
    """Return the number of the branch with this number, leaf or record.

    Without a name it is the branch that shows `record`, or the live one.
    """
    if not name and record is not None:
        return _find_branch_of_record(as_conversation(source), record)
    if name is None:
        return 0
    return _find_branch(as_conversation(source), name)


def check_record_on_branch(
    conversation: Conversation, number: int, record: str
) -> None:
    """Raise a usage error if the branch does not show a record."""
    if find_message_index(conversation, number, {record}) is None:
        where = _find_branch_of_record(conversation, record)
        raise click.UsageError(
            f"{record!r} is not on branch {number + 1}, but on branch {where + 1}"
        )


def _find_branch(conversation: Conversation, name: str) -> int:
    header = conversation.facts
    branches = header.branches
    numbers = {str(branch.number + 1): branch.number for branch in branches}
    if name in numbers:
        return numbers[name]
    exact = find_branch_of(conversation, name)
    if exact is not None:
        return exact.number
    matching = [b.number for b in branches if name and b.id.startswith(name)]
    if not matching:
        summarized = (one.leaf_id for one in header.summaries)
        leaves = [leaf for leaf in summarized if name and leaf.startswith(name)]
        found = (find_branch_of(conversation, leaf) for leaf in leaves)
        matching = [branch.number for branch in found if branch is not None]
    if len(matching) == 1:
        return matching[0]
    known = ", ".join(
        f"{branch.number + 1} ({_shorten_prompt(branch.preview)})"
        if branch.own_prompt_count
        else f"{branch.number + 1}"
        for branch in branches[:_MAX_LISTED]
    )
    rest = len(branches) - _MAX_LISTED
    more = f" and {rest:,} more" if rest > 0 else ""
    raise click.UsageError(f"there is no branch {name!r}; branches: {known}{more}")


def _find_branch_of_record(conversation: Conversation, record: str) -> int:
    exact = find_branch_of(conversation, record)
    if exact is not None:
        return exact.number
    for branch in conversation.facts.branches:
        if find_message_index(conversation, branch.number, {record}) is not None:
            return branch.number
    raise click.UsageError(f"this session has no record {record!r}")


def _shorten_prompt(preview: str) -> str:
    return truncate_end(sanitize_name(preview), _MAX_TITLE_WIDTH)


if TYPE_CHECKING:
    from bygones.model.summary import SearchResults


_FILE = "last-search.json"
_MAX_DIGITS = 4


class SavedMatch(Struct, frozen=True):
    """A session that was found, with the records of its hits."""

    session: str
    records: tuple[str, ...] = ()
    parts: tuple[Part, ...] = ()


class SearchReference(NamedTuple):
    """The session, and the record, that a number of the last search means."""

    session: str
    record: str | None = None
    part: Part | None = None
    """The part of the hit, if one was named."""
    query: str = ""
    """What was searched for."""


class _LastSearch(Struct, frozen=True):
    archive: str
    first_number: int
    """The number of the first session."""
    matches: tuple[SavedMatch, ...]
    query: str = ""


def save_results(
    archive: Path, results: SearchResults, offset: int, query: str = ""
) -> None:
    """Save the query and the ids of its results; failures to write are ignored."""
    search = _LastSearch(
        archive=str(archive),
        first_number=offset + 1,
        matches=tuple(
            SavedMatch(
                match.summary.id,
                tuple(hit.record_id for hit in match.hits),
                tuple(hit.part for hit in match.hits),
            )
            for match in results.sessions
        ),
        query=query,
    )
    path = _path()
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Two searches may write at once: the file is replaced atomically.
        scratch = path.with_name(f"{path.name}.{os.getpid()}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        with open(os.open(scratch, flags, 0o600), "wb") as file:  # noqa: PTH123
            file.write(msgspec.json.encode(search))
        scratch.replace(path)


def forget_results() -> None:
    """Delete the saved results, which may name a purged session."""
    with suppress(OSError):
        _path().unlink()


def find_result(name: str, archive: Path) -> SearchReference | None:
    """Return the session, and the record, that a number means.

    `3` is the third session of the last search in this archive, `3.2` its second hit.
    Raises `UnknownResultNumber` if the session has no such hit.
    """
    numbers = _parse_number(name)
    search = _load() if numbers else None
    if numbers is None or search is None or search.archive != str(archive):
        return None
    number, hit = numbers
    index = number - search.first_number
    if not 0 <= index < len(search.matches):
        return None
    match = search.matches[index]
    if hit is None:
        first = next(iter(match.records), None) or None
        return SearchReference(match.session, first, query=search.query)
    if hit == 0:
        return SearchReference(match.session, query=search.query)
    if hit > len(match.records):
        hits = pluralize(len(match.records), "hit")
        raise UnknownResultNumber(name, f"result {number} has {hits}")
    parts = match.parts[hit - 1 : hit] or (Part.OTHER,)
    record = match.records[hit - 1] or None
    return SearchReference(match.session, record, parts[0], search.query)


def check_result_number(name: str, archive: Path) -> None:
    """Raise `UnknownResultNumber` for a name that can only be a result number."""
    if _parse_number(name) is not None:
        raise UnknownResultNumber(name, _describe_results(archive))


def _describe_results(archive: Path) -> str:
    search = _load()
    if search is None:
        return "no results of a search are saved"
    if search.archive != str(archive):
        return f"the last search was in another archive, {search.archive}"
    first = search.first_number
    last = first + len(search.matches) - 1
    if last < first:
        start = f" from {first} on" if first > 1 else ""
        return f"the last search had no results{start}"
    numbers = f"results {first} to {last}" if last > first else f"only result {last}"
    return f"the last search had {numbers}"


def _parse_number(name: str) -> tuple[int, int | None] | None:
    first, dot, second = name.partition(".")
    parts = (first, second) if dot else (first,)
    if not all(part.isdecimal() and len(part) < _MAX_DIGITS for part in parts):
        return None
    return int(first), int(second) if dot else None


def _load() -> _LastSearch | None:
    with suppress(OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return msgspec.json.decode(_path().read_bytes(), type=_LastSearch)
    return None


def _path() -> Path:
    return find_state_dir(os.environ, Path.home()) / _FILE
