"""Archive: the front door. Faces ask it and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Self

from bygones.errors import ArchiveMissing, NotOfTeams
from bygones.model.addresses import is_address, without_password
from bygones.model.ids import SessionId, SourceId
from bygones.model.listing import Listed, is_in
from bygones.store.annotations import annotated
from bygones.store.finding import find_session
from bygones.store.folder import FolderShelf
from bygones.store.purged import is_erasing
from bygones.store.vault import Vault

# Most questions are small; what answers the large ones is imported when they are asked.
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime, tzinfo

    from bygones.ingest import Progress, Report
    from bygones.ingest.opening import ChunkLoader
    from bygones.ingest.windows import Conversation
    from bygones.model.annotations import Annotations
    from bygones.model.finds import FoundEdit, FoundPrompt, FoundRecord
    from bygones.model.hits import Found
    from bygones.model.parts import Project
    from bygones.model.problems import Problem
    from bygones.model.query import Query
    from bygones.model.reports import ContextReport, Grouping, UsageReport
    from bygones.model.sessions import Session
    from bygones.model.surveys import DriftRow
    from bygones.model.usage import Cost
    from bygones.model.verified import Verified
    from bygones.prices import Prices
    from bygones.search import Searching, Standing
    from bygones.search.commons import Commons
    from bygones.store.chunks import Kept
    from bygones.store.shelf import Shelf
    from bygones.upkeep import Plan, Purged, Restored, Rewrite, Verdict
    from bygones.usage.lines import SessionCosts

__all__ = ["Archive"]


class Archive:
    """An archive that is open for reading.

    Writing is done one at a time, by whoever holds the lock; whoever reads goes on
    with what was there. What works on an archive that may not be there, or not be
    whole, takes a folder: :meth:`ingest`, :meth:`verify`, :meth:`rebuild`. It may stand
    on a team's store instead of a folder; what is done to files is then refused.
    """

    def __init__(self, folder: str | Path, commons: Commons | None = None) -> None:
        self.folder, self._commons = Path(without_password(str(folder))), commons
        self._address = str(folder)
        self._team = is_address(self._address)
        if not self._team and not Vault.exists(self.folder):
            raise ArchiveMissing(self.folder)
        self._open()

    def _open(self) -> None:
        self._opened: ChunkLoader | None = None
        self._searching: Searching | None = None
        if self._team:
            from bygones.team.opening import open_shelf  # noqa: PLC0415 (see above)

            self._shelf: Shelf = open_shelf(self._address)
        else:
            self._shelf = FolderShelf(Vault(self.folder))

    @property
    def _vault(self) -> Vault:
        if not isinstance(self._shelf, FolderShelf):
            raise NotOfTeams(self.folder.name)
        return self._shelf.vault

    @property
    def _loader(self) -> ChunkLoader:
        if self._opened is None:
            from bygones.ingest.opening import ChunkLoader  # noqa: PLC0415 (see above)

            self._opened = ChunkLoader(self._shelf)
        return self._opened

    @classmethod
    def open(cls, folder: str | Path, commons: Commons | None = None) -> Self:
        """Open the archive in a folder, or at the address of a team's store.

        An address says who asks: ``postgresql://…?person=ann&teams=core&role=team``.
        Those with the same ``commons`` share what they need to search.
        """
        return cls(folder, commons)

    @classmethod
    def on(cls, shelf: Shelf, name: str = "team") -> Self:
        """Return an archive that stands on a shelf which somebody else has opened."""
        self = cls.__new__(cls)
        self.folder, self._team, self._shelf = Path(name), True, shelf
        self._opened = self._searching = self._commons = None
        return self

    @staticmethod
    def exists(folder: str | Path) -> bool:
        """Whether there is an archive in a folder."""
        return is_address(str(folder)) or Vault.exists(Path(folder))

    @staticmethod
    def ingest(
        folder: str | Path,
        paths: Sequence[Path],
        *,
        progress: Progress | None = None,
        wait: float = 5.0,
        is_thorough: bool = False,
    ) -> Report:
        """Bring the archive in a folder up to date with homes; make it if need be.

        ``is_thorough`` compares files that grew whole, also the longest.
        """
        from bygones.ingest import ingest  # noqa: PLC0415 (see above)

        place = _folder(folder)
        return ingest(
            place, paths, progress=progress, wait=wait, is_thorough=is_thorough
        )

    @property
    def has_index(self) -> bool:
        """Whether there is an index that this version understands."""
        return self._shelf.index is not None

    def is_current(self, paths: Sequence[Path]) -> bool:
        """Whether nothing moved in homes since they were last taken in.

        Far cheaper than an ingestion: no file is opened, and none is told from another.
        """
        from bygones.sources.pulse import feel, is_still  # noqa: PLC0415 (see above)

        known, before = self._vault.pulse, self._vault.felt()
        if known and before and is_still(before, known, paths):
            return True
        sign, felt = feel(paths)
        if sign == known:
            self._vault.note_felt(felt)
        return sign == known

    @staticmethod
    def verify(
        folder: str | Path,
        *,
        deep: bool = False,
        progress: Progress | None = None,
        now: datetime | None = None,
    ) -> Verdict:
        """Check every byte, ``deep`` the index too; noted if told when ``now`` is."""
        from bygones.upkeep import verify  # noqa: PLC0415 (see above)

        return verify(_folder(folder), deep=deep, progress=progress, now=now)

    @property
    def verified(self) -> Verified | None:
        """What was found when it was last verified; nothing if it never was."""
        from bygones.upkeep.verified import last_verified  # noqa: PLC0415 (see above)

        return last_verified(self.folder, self._vault.chunks)

    @staticmethod
    def rebuild(folder: str | Path, *, progress: Progress | None = None) -> Report:
        """Make the index anew from the archive; readers go on with the old one."""
        from bygones.upkeep import rebuild  # noqa: PLC0415 (see above)

        return rebuild(_folder(folder), progress=progress)

    def refresh(self) -> None:
        """Look at the archive as it is now, with the index that it has now."""
        if self._team:
            self._searching = None if self._shelf.is_renewed() else self._searching
            return
        self.close()
        self._open()

    def at_once(self) -> AbstractContextManager[None]:
        """Have several questions see one moment, and not each its own; not for long."""
        return self._shelf.at_once()

    def close(self) -> None:
        """Let go of the archive."""
        self._shelf.close()
        if self._opened is not None:
            self._opened.forget()

    def __enter__(self) -> Self:
        """Use it as a context."""
        return self

    def __exit__(self, _: object, error: BaseException | None, *_trace: object) -> None:
        """Close it; damage that was met is told by what it is in."""
        try:
            if not self._team:
                self._vault.tell(error)
        finally:
            self.close()

    def sessions(
        self, *, project: str | None = None, empty: bool = False
    ) -> Iterator[Listed]:
        """Yield sessions for a list, newest first; empty ones only if asked for.

        ``project`` is a directory: what was begun in it or below it.
        """
        known = self.annotations()
        for listed in self._shelf.derived.listed(empty=empty):
            if project is None or is_in(listed.project, project):
                yield annotated(listed, known)

    def listed(self, name: str) -> Listed:
        """Return a session's line by its id, or by a beginning that only it has."""
        found = find_session(self._shelf.finding, name)
        return annotated(found, self.annotations())

    def annotations(self) -> dict[SessionId, Annotations]:
        """Return what readers added to sessions: tags, notes, stars."""
        return self._shelf.annotations()

    def annotate(
        self,
        sessions: Iterable[SessionId],
        change: Callable[[Annotations], Annotations],
    ) -> dict[SessionId, Annotations]:
        """Change what readers added to sessions, one by one; return what that is."""
        from bygones.upkeep.annotate import annotate  # noqa: PLC0415 (see above)

        return annotate(self._vault.folder, sessions, change)

    def session(self, name: str) -> Session:
        """Return a whole session by its id, or by a beginning that only it has."""
        return self._session(self.listed(name).id)

    def _session(self, id_: SessionId) -> Session:
        from bygones.ingest.loading import load_session  # noqa: PLC0415 (see above)

        return load_session(self._shelf, id_, self._loader)

    def conversation(self, name: str, agent: str = "") -> Conversation:
        """Return a session, or an agent run in it, to be read by windows of messages.

        Nothing is loaded but the windows that are asked for, where the index has them.
        """
        from bygones.ingest.windows import open_conversation  # noqa: PLC0415

        shelf, id_ = self._shelf, SessionId(name)
        if shelf.derived.number_of(id_) is None:
            id_ = self.listed(name).id
        return open_conversation(shelf, (id_, agent), self._loader, self._session)

    def record(self, name: str) -> FoundRecord:
        """Return a record by its uuid, or by a beginning that only it has.

        A record that stands in several files is told of once, where the oldest
        session has it.
        """
        from bygones.ingest.lookup import find_record  # noqa: PLC0415 (see above)

        where = (self._shelf, self._shelf.finding, self._loader)
        with self.at_once():
            return find_record(*where, name=name, open_session=self._session)

    def search(  # noqa: PLR0913 (all but one by name and optional)
        self,
        query: Query,
        *,
        limit: int = 10,
        offset: int = 0,
        hits: int = 3,
        sort: str = "best",
        hide: Callable[[str], str] = str,
    ) -> Found:
        """Return sessions that answer a query, best first, and their best hits.

        A session need not have all words; ``sort`` may be ``newest`` or ``oldest``. New
        texts are found once refreshed; ``hide`` is given texts before they are cut.
        """
        return self._words.search(
            query, limit=limit, offset=offset, hits=hits, sort=sort, hide=hide
        )

    def standing(self, query: Query, session: SessionId) -> Standing:
        """Return all records of a session that fit a query, none of them opened."""
        return self._words.standing(query, self._shelf.derived.number_of(session))

    @property
    def _words(self) -> Searching:
        if self._searching is None:
            from bygones.search import Searching  # noqa: PLC0415 (see above)

            self._searching = Searching(self._shelf, self._commons)
        return self._searching

    def projects(self, *, empty: bool = False) -> tuple[Project, ...]:
        """Return projects by path; those without a real session only if asked for."""
        from bygones.assemble.projects import projects_of  # noqa: PLC0415 (see above)

        return projects_of(self._shelf.derived.listed(empty=empty))

    def project(self, name: str) -> Project:
        """Return a project by its path, its key or the last part of its path."""
        from bygones.assemble.projects import project_named  # noqa: PLC0415

        return project_named(self.projects(empty=True), name)

    def tools(self) -> dict[str, frozenset[SessionId]]:
        """Return the sessions that called each tool, their agents included."""
        from bygones.usage.callers import callers_of  # noqa: PLC0415

        return callers_of(self._shelf)

    def usage(
        self,
        by: Grouping | str = "day",
        *,
        query: Query | None = None,
        zone: tzinfo | None = None,
        now: datetime,
        prices: Prices | None = None,
    ) -> UsageReport:
        """Return what was spent, summed by day, project, model and so on.

        ``query`` limits it by fields of sessions and answers. Days begin in ``zone``,
        or in UTC; ``now`` tells which block of five hours is not over.
        """
        from bygones.prices import load_prices  # noqa: PLC0415
        from bygones.usage.report import report_of  # noqa: PLC0415

        prices = prices or load_prices()
        return report_of(
            self._shelf, by=by, query=query, zone=zone, now=now, prices=prices
        )

    def costs(
        self, sessions: Iterable[Listed], prices: Prices | None = None
    ) -> dict[SessionId, Cost]:
        """Return what sessions of a list cost, their agents included."""
        from bygones.prices import load_prices  # noqa: PLC0415
        from bygones.usage.lines import costs_of  # noqa: PLC0415

        return costs_of(self._shelf, (s.id for s in sessions), prices or load_prices())

    def spent_in(self, session: SessionId, prices: Prices) -> SessionCosts | None:
        """Return what a session cost, and each agent run in it by itself."""
        from bygones.usage.lines import session_costs_of  # noqa: PLC0415

        return session_costs_of(self._shelf, session, prices)

    def context(self, name: str) -> ContextReport:
        """Return how the context of a session grew and shrank, turn by turn."""
        from bygones.usage.context import context_of  # noqa: PLC0415

        return context_of(self.session(name))

    def problems(self) -> Iterator[tuple[SessionId, Problem]]:
        """Yield what is odd about sessions, those of their agents included."""
        for one in self._shelf.derived.listed(empty=True):
            if one.problems:
                yield from ((one.id, odd) for odd in self._session(one.id).problems)

    def drift(self) -> tuple[DriftRow, ...]:
        """Return what transcripts hold that this version knows nothing of."""
        from bygones.model.surveys import DriftRow  # noqa: PLC0415 (see above)

        return tuple(DriftRow.of(*told) for told in self._shelf.finding.drift())

    def prompts(self) -> Iterator[FoundPrompt]:
        """Yield what a person typed, on any branch of any session, newest first.

        What several sessions hold, because one goes on with another, comes once.
        """
        from bygones.ingest.typed import typed_prompts  # noqa: PLC0415 (see above)

        return typed_prompts(self._shelf, self._loader)

    def edits(
        self, *, session: str | None = None, path: str | None = None
    ) -> list[FoundEdit]:
        """Return the changes of files, oldest first: a session's, or of a path.

        A path is that of a file or a folder, or how such a path ends.
        """
        changes = self._shelf.changes
        if session is not None:
            return changes.of(self.listed(session).id)
        return changes.at(path or "") or changes.ending((path or "").strip("/"))

    def sources(
        self,
        *,
        sessions: Sequence[SessionId] | None = None,
        project: Project | None = None,
    ) -> list[Kept]:
        """Return the files that are kept: all, or those of sessions or a project.

        To a session belong agents, sidecars, long outputs, backups, todos and tasks.
        """
        from bygones.upkeep.belongings import kept_of  # noqa: PLC0415 (see above)

        return kept_of(self._shelf, sessions, project)

    def kin(self, sessions: Sequence[SessionId]) -> set[SessionId]:
        """Return other sessions that hold records of these, or that these hold of."""
        from bygones.upkeep.belongings import kin  # noqa: PLC0415 (see above)

        with self.at_once():
            return kin(self._shelf.derived, self._shelf.finding, sessions)

    def mentions(self, sessions: Sequence[SessionId]) -> list[Kept]:
        """Return files of no session that name one of these, such as the history."""
        from bygones.upkeep.belongings import mentions  # noqa: PLC0415 (see above)

        return mentions(self._vault.chunks, sessions)

    def erased(self, name: str) -> SessionId | None:
        """Return the session that was purged under this name, if one was."""
        from bygones.upkeep.erased import erased  # noqa: PLC0415 (see above)

        return erased(self._vault.chunks, name)

    @property
    def is_erasing(self) -> bool:
        """Whether a purge is not done; the next one finishes it."""
        return is_erasing(self._vault.chunks.db)

    def raws(self, source: SourceId) -> Iterator[bytes]:
        """Yield the bytes of a source as they were written, piece by piece."""
        from bygones.upkeep.restore import raws_of  # noqa: PLC0415 (see above)

        return raws_of(self._shelf, source)

    def backup(self, folder: str | Path) -> int:
        """Write a consistent copy of the archive and return its size."""
        from bygones.upkeep import backup  # noqa: PLC0415 (see above)

        return backup(self._vault, Path(folder))

    def plan_restore(
        self,
        sources: Iterable[Kept],
        *,
        to: Path | None = None,
        project: str | None = None,
        rewrite: Rewrite | None = None,
        steps: int = 0,
    ) -> list[Plan]:
        """Return what restoring files would do, ``steps`` generations ago."""
        from bygones.upkeep import plan_restore  # noqa: PLC0415 (see above)

        return plan_restore(
            self._vault, sources, to=to, project=project, rewrite=rewrite, steps=steps
        )

    def restore(
        self,
        plans: Sequence[Plan],
        *,
        overwrite: bool = False,
        rewrite: Rewrite | None = None,
        progress: Progress | None = None,
    ) -> Restored:
        """Carry out a plan: write files back, byte for byte unless told otherwise."""
        from bygones.upkeep import restore  # noqa: PLC0415 (see above)

        return restore(
            self._vault, plans, overwrite=overwrite, rewrite=rewrite, progress=progress
        )

    def purge(
        self,
        sources: Iterable[Kept],
        *,
        sessions: Sequence[SessionId] = (),
        progress: Progress | None = None,
    ) -> Purged:
        """Erase files for good, finish what was stopped, and refuse it from now on."""
        from bygones.upkeep import purge  # noqa: PLC0415 (see above)

        folder = self._vault.folder
        self.close()
        try:
            return purge(folder, sources, sessions=sessions, progress=progress)
        finally:
            self._open()


def _folder(name: str | Path) -> Path:
    if is_address(str(name)):
        raise NotOfTeams(Path(name).name)
    return Path(name)
