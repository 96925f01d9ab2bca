"""Select the files of projects to push."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct, field, structs

from bygones.archive import Archive
from bygones.model.base import (
    RecordId,
    SessionId,
    SourceKind,
)
from bygones.model.machines import is_on_this_machine
from bygones.model.summary import is_in_folder
from bygones.query.matcher import is_in_project
from bygones.store.archive_db import StoredSource
from bygones.store.derived_tables import DerivedTables

PUSHED_KINDS = frozenset(
    {
        SourceKind.SESSION,
        SourceKind.AGENT,
        SourceKind.JOURNAL,
        SourceKind.SIDECAR,
        SourceKind.TOOL_RESULT,
        SourceKind.WORKFLOW,
    }
)
"""Kinds of files that belong to a session. Other kinds, such as copies of edited files,
todos and the history, are not pushed."""


class _LineOwner(Struct, gc=False):
    """The fields of a line that show which session it belongs to."""

    session: Any = field(default=None, name="sessionId")
    directory: Any = field(default=None, name="cwd")
    leaf: Any = field(default=None, name="leafUuid")


_line_owner_decoder = msgspec.json.Decoder(_LineOwner)


class BorrowedTitles(Struct, frozen=True):
    """Titles for records of a pushed session, from a file that is not pushed."""

    session: SessionId
    title_source: StoredSource
    titles: tuple[tuple[RecordId, str], ...]


class PushSelection(Struct, frozen=True, kw_only=True):
    """Which files are pushed, and which are not though they are related."""

    projects: tuple[str, ...]
    sources: tuple[StoredSource, ...]
    sessions: dict[SessionId, str]
    """The sessions of the selected projects, and the directories they started in."""
    owners: dict[int, SessionId]
    """The session of each transcript, by the number of its source."""
    other_sessions: frozenset[SessionId] = frozenset()
    """Sessions of other projects."""
    shared_sources: tuple[StoredSource, ...] = ()
    """Files that also belong to sessions of other projects: they are not pushed."""
    titles: dict[int, list[BorrowedTitles]] = {}
    """Titles from files that are not pushed, by the first transcript of the session."""
    foreign_leaves: frozenset[str] = frozenset()
    """Records of other projects to which files give titles."""

    def is_foreign(self, line: bytes) -> bool:
        """Whether a line is of another session, in a project that was not named.

        A file may hold lines of several sessions. A session that started in a named
        project is of that project wherever it went.
        """
        try:
            whose = _line_owner_decoder.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return False
        if isinstance(whose.leaf, str) and whose.leaf in self.foreign_leaves:
            return True
        if not isinstance(whose.session, str) or whose.session in self.sessions:
            return False
        if whose.session in self.other_sessions:
            return True
        where = whose.directory
        return isinstance(where, str) and not any(
            is_in_folder(where, project) for project in self.projects
        )


def select_sources(
    archive: Archive, derived: DerivedTables, projects: Sequence[str]
) -> PushSelection:
    """Select the files of projects: directories, with everything below them."""
    named = {
        listed.id: listed.project
        for project in projects
        for listed in archive.sessions(project=project, include_empty=True)
        # A clone elsewhere is the same project, but was not chosen to be sent.
        if listed.project is not None
        and is_in_project(structs.replace(listed, project_paths=()), project)
    }
    newest = [one.id for one in archive.sessions(include_empty=True)]
    others = [session for session in newest if session not in named]
    own = [
        stored_source
        for stored_source in archive.sources(sessions=list(named))
        if stored_source.kind in PUSHED_KINDS and is_on_this_machine(stored_source.home)
    ]
    foreign = {
        stored_source.number: stored_source
        for stored_source in archive.sources(sessions=others)
    }
    owners = dict(_iter_owners(derived, named))
    sources = [
        stored_source for stored_source in own if stored_source.number not in foreign
    ]
    every = derived.all_leaf_titles()
    summaries = {
        session: every.get(number, [])
        for session in newest
        if (number := derived.session_number(session)) is not None
    }
    return PushSelection(
        projects=tuple(projects),
        sources=tuple(_sort_by_family(sources, derived, owners, newest)),
        sessions=named,
        owners=owners,
        other_sessions=frozenset(others),
        shared_sources=tuple(
            stored_source for stored_source in own if stored_source.number in foreign
        ),
        titles=_borrowed_titles(sources, owners, foreign, summaries),
        foreign_leaves=_titled_leaves(summaries, others)
        - _titled_leaves(summaries, named),
    )


_Summaries = Mapping[SessionId, Sequence[tuple[RecordId, str, int]]]
"""Titles of records: the record, the title, and the number of the file."""


def _titled_leaves(
    summaries: _Summaries, sessions: Iterable[SessionId]
) -> frozenset[str]:
    found = (summaries.get(session, ()) for session in sessions)
    return frozenset(leaf for titles in found for leaf, _, _ in titles)


def _borrowed_titles(
    sources: Iterable[StoredSource],
    owners: Mapping[int, SessionId],
    foreign: Mapping[int, StoredSource],
    summaries: _Summaries,
) -> dict[int, list[BorrowedTitles]]:
    """Return titles that sessions have from files that stay.

    Such a file may be of no project at all: it holds titles and nothing else.
    """
    titles: dict[int, list[BorrowedTitles]] = {}
    met: set[SessionId] = set()
    for stored_source in sources:
        session = owners.get(stored_source.number)
        if (
            stored_source.kind is not SourceKind.SESSION
            or session is None
            or session in met
        ):
            continue
        met.add(session)
        by_file: dict[int, list[tuple[RecordId, str]]] = {}
        for leaf, text, source in summaries.get(session, ()):
            if source in foreign:
                by_file.setdefault(source, []).append((leaf, text))
        if by_file:
            titles[stored_source.number] = [
                BorrowedTitles(session, foreign[source], tuple(titles))
                for source, titles in by_file.items()
            ]
    return titles


def _sort_by_family(
    sources: Sequence[StoredSource],
    derived: DerivedTables,
    owners: Mapping[int, SessionId],
    newest: Sequence[SessionId],
) -> list[StoredSource]:
    """Return sources so that those of a family follow each other, the newest first.

    A hub that derives while others of the family are on their way derives it again,
    and so it does if a title comes after what it is the title of.
    """
    numbers = {session: derived.session_number(session) for session in newest}
    family = {
        session: min(derived.family_members(number), default=number)
        for session, number in numbers.items()
        if number is not None
    }
    places: dict[int | None, int] = {}
    for one in _title_sources_first(
        family.values(), derived.families_titled_by_others()
    ):
        places[one] = len(places)

    def order(stored_source: StoredSource) -> tuple[int, str]:
        session = owners.get(
            stored_source.number, stored_source.session or SessionId("")
        )
        place = places.get(family.get(session), len(places))
        return place, stored_source.id.removesuffix(".jsonl")

    return sorted(sources, key=order)


def _title_sources_first(
    families: Iterable[int], pairs: Iterable[tuple[int, int]]
) -> Iterator[int]:
    """Yield each family once, after those that give it titles, if possible."""
    namers: dict[int, list[int]] = {}
    for one, other in pairs:
        namers.setdefault(other, []).append(one)
    started: set[int] = set()
    yielded: set[int] = set()
    for family in families:
        waiting = [family]
        while waiting:
            last = waiting[-1]
            before = [one for one in namers.get(last, ()) if one not in started]
            if last not in started and before:
                started.add(last)
                waiting += before
                continue
            started.add(waiting.pop())
            if last not in yielded:
                yielded.add(last)
                yield last


def _iter_owners(
    derived: DerivedTables, sessions: Iterable[SessionId]
) -> Iterator[tuple[int, SessionId]]:
    for session in sessions:
        number = derived.session_number(session)
        for source in derived.session_sources(number) if number is not None else ():
            yield source, session
