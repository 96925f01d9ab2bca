"""Which files may leave: those of sessions of the projects that were named."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct, field

from bygones.archive import Archive
from bygones.model.ids import RecordId, SessionId
from bygones.model.listing import is_in
from bygones.model.sources import SourceKind
from bygones.store.chunks import Kept
from bygones.store.derived import Derived

__all__ = ["KINDS", "Chosen", "Titled", "choose"]

KINDS = frozenset(
    {
        SourceKind.SESSION,
        SourceKind.AGENT,
        SourceKind.JOURNAL,
        SourceKind.SIDECAR,
        SourceKind.TOOL_RESULT,
        SourceKind.WORKFLOW,
    }
)
"""What tells of a session. Copies of edited files, todos and the history stay."""


class _Whose(Struct, gc=False):
    """What a line says about whose it is."""

    session: Any = field(default=None, name="sessionId")
    directory: Any = field(default=None, name="cwd")
    leaf: Any = field(default=None, name="leafUuid")


_whose = msgspec.json.Decoder(_Whose)


class Titled(Struct, frozen=True):
    """What a file that stays calls records of a session that goes."""

    session: SessionId
    namer: Kept
    told: tuple[tuple[RecordId, str], ...]


class Chosen(Struct, frozen=True, kw_only=True):
    """What is sent, and what is not though it nearly was."""

    projects: tuple[str, ...]
    sources: tuple[Kept, ...]
    sessions: dict[SessionId, str]
    """The sessions of named projects, and the directories they were begun in."""
    owners: dict[int, SessionId]
    """The session of each transcript, by the number of its source."""
    others: frozenset[SessionId] = frozenset()
    """Those of other projects."""
    shared: tuple[Kept, ...] = ()
    """Files that belong to sessions of other projects as well: they stay."""
    titles: dict[int, list[Titled]] = {}
    """Titles from files that stay, by the first transcript of the session."""
    foreign_leaves: frozenset[str] = frozenset()
    """Records of other projects to which files give titles."""

    def is_foreign(self, line: bytes) -> bool:
        """Whether a line is of another session, in a project that was not named.

        A file may hold lines of several sessions. A session that was begun in a named
        project is of that project wherever it went.
        """
        try:
            whose = _whose.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return False
        if isinstance(whose.leaf, str) and whose.leaf in self.foreign_leaves:
            return True
        if not isinstance(whose.session, str) or whose.session in self.sessions:
            return False
        if whose.session in self.others:
            return True
        where = whose.directory
        return isinstance(where, str) and not any(
            is_in(where, project) for project in self.projects
        )


def choose(archive: Archive, derived: Derived, projects: Sequence[str]) -> Chosen:
    """Return what belongs to projects: directories, and all that is below them."""
    named = {
        listed.id: listed.project
        for project in projects
        for listed in archive.sessions(project=project, empty=True)
        if listed.project is not None
    }
    newest = [one.id for one in archive.sessions(empty=True)]
    others = [session for session in newest if session not in named]
    own = [kept for kept in archive.sources(sessions=list(named)) if kept.kind in KINDS]
    foreign = {kept.number: kept for kept in archive.sources(sessions=others)}
    owners = dict(_owners(derived, named))
    sources = [kept for kept in own if kept.number not in foreign]
    every = derived.all_summaries()
    summaries = {
        session: every.get(number, [])
        for session in newest
        if (number := derived.number_of(session)) is not None
    }
    return Chosen(
        projects=tuple(projects),
        sources=tuple(_by_family(sources, derived, owners, newest)),
        sessions=named,
        owners=owners,
        others=frozenset(others),
        shared=tuple(kept for kept in own if kept.number in foreign),
        titles=_titles(sources, owners, foreign, summaries),
        foreign_leaves=_leaves(summaries, others) - _leaves(summaries, named),
    )


_Told = Mapping[SessionId, Sequence[tuple[RecordId, str, int]]]
"""What files call records of sessions: the record, the words, the file's number."""


def _leaves(summaries: _Told, sessions: Iterable[SessionId]) -> frozenset[str]:
    found = (summaries.get(session, ()) for session in sessions)
    return frozenset(leaf for told in found for leaf, _, _ in told)


def _titles(
    sources: Iterable[Kept],
    owners: Mapping[int, SessionId],
    foreign: Mapping[int, Kept],
    summaries: _Told,
) -> dict[int, list[Titled]]:
    """Return titles that sessions have from files that stay.

    Such a file may be of no project at all: it holds titles and nothing else.
    """
    titles: dict[int, list[Titled]] = {}
    met: set[SessionId] = set()
    for kept in sources:
        session = owners.get(kept.number)
        if kept.kind is not SourceKind.SESSION or session is None or session in met:
            continue
        met.add(session)
        by_file: dict[int, list[tuple[RecordId, str]]] = {}
        for leaf, text, source in summaries.get(session, ()):
            if source in foreign:
                by_file.setdefault(source, []).append((leaf, text))
        if by_file:
            titles[kept.number] = [
                Titled(session, foreign[source], tuple(told))
                for source, told in by_file.items()
            ]
    return titles


def _by_family(
    sources: Sequence[Kept],
    derived: Derived,
    owners: Mapping[int, SessionId],
    newest: Sequence[SessionId],
) -> list[Kept]:
    """Return sources so that those of a family follow each other, the newest first.

    A hub that derives while others of the family are on their way derives it again,
    and so it does if a title comes behind what it is the title of.
    """
    numbers = {session: derived.number_of(session) for session in newest}
    family = {
        session: min(derived.family_of(number), default=number)
        for session, number in numbers.items()
        if number is not None
    }
    places: dict[int | None, int] = {}
    for one in _namers_first(family.values(), derived.namers()):
        places[one] = len(places)

    def order(kept: Kept) -> tuple[int, str]:
        session = owners.get(kept.number, kept.session or SessionId(""))
        place = places.get(family.get(session), len(places))
        return place, kept.id.removesuffix(".jsonl")

    return sorted(sources, key=order)


def _namers_first(
    families: Iterable[int], pairs: Iterable[tuple[int, int]]
) -> Iterator[int]:
    """Yield families once each, behind those that give them titles, where it can be."""
    namers: dict[int, list[int]] = {}
    for one, other in pairs:
        namers.setdefault(other, []).append(one)
    begun: set[int] = set()
    told: set[int] = set()
    for family in families:
        waiting = [family]
        while waiting:
            last = waiting[-1]
            before = [one for one in namers.get(last, ()) if one not in begun]
            if last not in begun and before:
                begun.add(last)
                waiting += before
                continue
            begun.add(waiting.pop())
            if last not in told:
                told.add(last)
                yield last


def _owners(
    derived: Derived, sessions: Iterable[SessionId]
) -> Iterator[tuple[int, SessionId]]:
    for session in sessions:
        number = derived.number_of(session)
        for source in derived.sources_of(number) if number is not None else ():
            yield source, session
