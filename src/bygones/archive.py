"""The archive: everything that interfaces and other programs ask for."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Self, Unpack

from bygones.config import (
    LocalTimezone,
    is_store_url,
    resolve_archive_location,
    strip_password,
)
from bygones.errors import ArchiveNotFound, UnsupportedOnTeamStore
from bygones.model.base import SessionId, SourceId
from bygones.model.query import Query, Term
from bygones.model.summary import SessionSummary
from bygones.store.annotations import with_annotations
from bygones.store.archive_db import is_purge_pending
from bygones.store.archive_dir import ArchiveDir
from bygones.store.encoding import id_key
from bygones.store.local_reader import LocalReader, find_session

# Most commands need little of this: the rest is imported by the methods that use it.
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from datetime import tzinfo
    from threading import Event

    from bygones.errors import BygonesError
    from bygones.files.library import ArchivedFile, FileLibrary
    from bygones.ingest.loading import StoreLoader
    from bygones.maintenance.fork import ForkedSession, ForkOptions
    from bygones.maintenance.purge import PurgeResult
    from bygones.maintenance.restore import LineRewriter, PlannedFile, RestoreResult
    from bygones.maintenance.verify import VerificationResult
    from bygones.model.base import IngestReport, Problem, ProgressReporter
    from bygones.model.reports import (
        ContextReport,
        DriftRow,
        Grouping,
        LastVerification,
        ProblemRow,
        TurnRequests,
        UsageReport,
    )
    from bygones.model.sessions import AgentRun, Conversation, Session
    from bygones.model.summary import (
        Annotations,
        IndexedEdit,
        IndexedPrompt,
        IndexedRecord,
        MatchPositions,
        Project,
        SearchResults,
        SessionSelection,
    )
    from bygones.model.usage import Cost
    from bygones.search.scoring import SharedSearchStats
    from bygones.search.service import Searcher
    from bygones.store.archive_db import StoredSource
    from bygones.store.protocols import StoreReader
    from bygones.usage.costs import SessionCosts
    from bygones.usage.prices import Prices

__all__ = ["Archive", "translate_database_error"]


class Archive:
    """An archive that is open for reading.

    Example::

        with Archive.open() as archive:
            for session in archive.sessions("project:shop after:2w"):
                print(session.id, session.title.text)

    One process writes at a time, holding a lock; readers keep seeing what was there.
    Methods that work on an archive which may not exist yet, or may be damaged, take a
    folder: `ingest`, `verify` and `rebuild`. An archive may also be a team's store, in
    which case methods about files raise `UnsupportedOnTeamStore`.
    """

    def __init__(
        self, folder: str | Path, shared_stats: SharedSearchStats | None = None
    ) -> None:
        self.folder = Path(strip_password(str(folder)))
        self._shared_stats = shared_stats
        self._address = str(folder)
        self._is_team_store = is_store_url(self._address)
        if not self._is_team_store and not ArchiveDir.exists(self.folder):
            raise ArchiveNotFound(self.folder)
        self._open()

    def _open(self) -> None:
        self._open_loader: StoreLoader | None = None
        self._open_searcher: Searcher | None = None
        if self._is_team_store:
            from bygones.team.access import open_reader

            self._reader: StoreReader = open_reader(self._address)
        else:
            self._reader = LocalReader(ArchiveDir(self.folder))

    @property
    def _archive_dir(self) -> ArchiveDir:
        if not isinstance(self._reader, LocalReader):
            raise UnsupportedOnTeamStore(self.folder.name)
        return self._reader.archive_dir

    @property
    def _loader(self) -> StoreLoader:
        if self._open_loader is None:
            from bygones.ingest.loading import StoreLoader

            self._open_loader = StoreLoader(self._reader)
        return self._open_loader

    @classmethod
    def open(
        cls,
        folder: str | Path | None = None,
        shared_stats: SharedSearchStats | None = None,
    ) -> Self:
        """Open the archive in a folder, or at the address of a team's store.

        Without a folder this is the archive that the command line uses: the one of
        ``BYGONES_ARCHIVE``, or of the settings, or in the user's data directory. An
        address names the user: ``postgresql://…?person=ann&teams=core&role=team``.
        Archives with the same ``shared_stats`` load what searches need once::

            with Archive.open() as archive:
                for session in archive.sessions("model:opus after:2w"):
                    print(session.title.text)

        Raises `ArchiveNotFound` if there is no archive.
        """
        if folder is None:
            folder = resolve_archive_location(None, os.environ, Path.home())
        elif not is_store_url(str(folder)):
            folder = Path(folder).expanduser()
        return cls(folder, shared_stats)

    @staticmethod
    def shared_stats(folder: str | Path) -> SharedSearchStats:
        """Return search statistics that several open archives of a folder share.

        Pass the result to :meth:`open`; searches then load them once for all.
        """
        from bygones.search.scoring import SharedSearchStats

        return SharedSearchStats(Path(folder))

    @classmethod
    def from_store(cls, reader: StoreReader, name: str = "team") -> Self:
        """Return an archive over a store that is open already."""
        self = cls.__new__(cls)
        self.folder, self._is_team_store, self._reader = Path(name), True, reader
        self._open_loader = self._open_searcher = self._shared_stats = None
        return self

    @staticmethod
    def exists(folder: str | Path) -> bool:
        """Whether there is an archive in a folder."""
        return is_store_url(str(folder)) or ArchiveDir.exists(_require_folder(folder))

    @staticmethod
    def stored_bytes(folder: str | Path) -> int:
        """Return how many bytes of sources the archive in a folder stores, if any."""
        try:
            with ArchiveDir(Path(folder)) as archive_dir:
                return archive_dir.byte_store.count_generations()[1]
        except ArchiveNotFound:
            return 0

    @staticmethod
    def ingest(
        folder: str | Path,
        paths: Sequence[Path],
        *,
        progress: ProgressReporter | None = None,
        lock_timeout: float = 5.0,
        is_thorough: bool = False,
    ) -> IngestReport:
        """Bring the archive in a folder up to date, and create it if there is none.

        ``paths`` are homes of Claude Code, folders of transcripts, or transcripts.
        ``is_thorough`` reads files that grew from the start, however long they are::

            Archive.ingest("~/archive", [Path.home() / ".claude"])

        Raises `ArchiveInUse` if another process is writing for ``lock_timeout`` seconds.
        """
        from bygones.ingest.run import ingest

        return ingest(
            _require_folder(folder),
            paths,
            progress=progress,
            lock_timeout=lock_timeout,
            is_thorough=is_thorough,
        )

    @property
    def has_index(self) -> bool:
        """Whether there is an index that this version can read."""
        return self._reader.index is not None

    def is_current(self, paths: Sequence[Path]) -> bool:
        """Whether no file in these homes changed since they were ingested.

        This is much cheaper than `ingest`: no file is opened.
        """
        from bygones.sources.snapshot import is_unchanged, scan_tree

        saved = self._archive_dir.saved_checksum
        snapshot = self._archive_dir.load_snapshot()
        if saved and snapshot and is_unchanged(snapshot, saved, paths):
            return True
        checksum, snapshot = scan_tree(paths)
        if checksum == saved:
            self._archive_dir.save_snapshot(snapshot)
        return checksum == saved

    @staticmethod
    def watch(
        folder: str | Path,
        paths: Sequence[Path],
        on_report: Callable[[IngestReport], None],
        *,
        stop: Event | None = None,
        polling: bool = False,
    ) -> None:
        """Keep the archive in a folder up to date with homes until ``stop`` is set.

        ``on_report`` gets the report of every ingestion that changed something.
        ``polling`` looks for changes where the system does not report them.
        """
        from bygones.ingest.watch import watch

        watch(_require_folder(folder), paths, on_report, stop=stop, polling=polling)

    @staticmethod
    def verify(
        folder: str | Path,
        *,
        deep: bool = False,
        progress: ProgressReporter | None = None,
        now: datetime | None = None,
    ) -> VerificationResult:
        """Read every stored byte and compare hashes; ``deep`` also checks the index.

        The result is saved as `last_verification` if ``now`` is given.
        """
        from bygones.maintenance.verify import verify

        return verify(_require_folder(folder), deep=deep, progress=progress, now=now)

    @property
    def last_verification(self) -> LastVerification | None:
        """The result of the last verification; none if there was none."""
        from bygones.maintenance.verify import load_last_verification

        return load_last_verification(self.folder, self._archive_dir.byte_store)

    @staticmethod
    def rebuild(
        folder: str | Path, *, progress: ProgressReporter | None = None
    ) -> IngestReport:
        """Rebuild the index from the archive; readers keep the old one meanwhile."""
        from bygones.maintenance.verify import rebuild

        return rebuild(_require_folder(folder), progress=progress)

    def refresh(self) -> None:
        """See what was ingested since the archive was opened."""
        if self._is_team_store:
            self._open_searcher = (
                None if self._reader.check_for_changes() else self._open_searcher
            )
            return
        self.close()
        self._open()

    def read_transaction(self) -> AbstractContextManager[None]:
        """Let several calls see the same state; keep it short.

        ::

            with archive.read_transaction():
                sessions = list(archive.sessions())
                projects = archive.projects()
        """
        return self._reader.read_transaction()

    def close(self) -> None:
        """Close the archive."""
        self._reader.close()
        if self._open_loader is not None:
            self._open_loader.clear_cache()

    def __enter__(self) -> Self:
        """Return the archive."""
        return self

    def __exit__(self, _: object, error: BaseException | None, *_trace: object) -> None:
        """Close the archive; a database error is raised as `ArchiveDamaged`."""
        try:
            if not self._is_team_store:
                self._archive_dir.raise_translated(error)
        finally:
            self.close()

    def sessions(
        self,
        query: str | Query | None = None,
        *,
        project: str | None = None,
        include_empty: bool = False,
        now: datetime | None = None,
        timezone: tzinfo | None = None,
    ) -> Iterator[SessionSummary]:
        """Yield the sessions that a query selects, newest first.

        A session has to have all words of the query. ``project`` is a directory, which
        includes all below it, a project key, or the name of a directory. Sessions
        without a message are left out unless they are included, or the query has
        ``is:empty``. Times are relative to ``now`` in a ``timezone``, by default those
        of this machine::

            archive.sessions("tool:Bash migration", project="~/work/shop")

        Raises `QueryError` if the text is not a query. `select` explains the query, too.
        """
        if query is None:
            return self._iter_summaries(project, include_empty=include_empty)
        selection = self.select(
            query,
            project=project,
            include_empty=include_empty,
            now=now,
            timezone=timezone,
        )
        return iter(selection.sessions)

    def select(  # noqa: PLR0913 (all but one by name and optional)
        self,
        query: str | Query,
        *,
        project: str | None = None,
        include_empty: bool = False,
        now: datetime | None = None,
        timezone: tzinfo | None = None,
        summaries: Iterable[SessionSummary] | None = None,
    ) -> SessionSelection:
        """Return the sessions that a query selects, with notes about the query.

        ``summaries`` are all sessions, if the caller has loaded them already; the other
        arguments are those of `sessions`.
        """
        from bygones.query.matcher import is_in_project
        from bygones.search.session_filter import select_sessions

        parsed = parse_query_text(query, now, timezone)
        with self.read_transaction():
            if summaries is None:
                summaries = self._iter_summaries(project, include_empty=True)
            elif project is not None:
                summaries = (s for s in summaries if is_in_project(s, project))
            return select_sessions(
                summaries,
                parsed,
                searcher=lambda: self._searcher,
                sessions_by_tool=self.sessions_by_tool,
                include_empty=include_empty,
            )

    def _iter_summaries(
        self, project: str | None = None, *, include_empty: bool
    ) -> Iterator[SessionSummary]:
        annotations = self.annotations()
        summaries = self._reader.sessions.iter_summaries(include_empty=include_empty)
        if project is not None:
            from bygones.query.matcher import is_in_project

            summaries = (one for one in summaries if is_in_project(one, project))
        return (with_annotations(one, annotations) for one in summaries)

    def session_summary(self, id_or_prefix: str) -> SessionSummary:
        """Return the summary of a session by its id, or by a unique prefix of it.

        Raises `NotInArchive` or `AmbiguousSelector`.
        """
        summary = find_session(self._reader.lookup, id_or_prefix)
        return with_annotations(summary, self.annotations())

    def annotations(self) -> dict[SessionId, Annotations]:
        """Return the annotations of sessions: tags, notes and stars."""
        return self._reader.annotations()

    def annotate(
        self,
        sessions: Iterable[SessionId],
        change: Callable[[Annotations], Annotations],
    ) -> dict[SessionId, Annotations]:
        """Change the annotations of sessions, and return the new ones.

        Example::

        star = lambda old: msgspec.structs.replace(old, is_starred=True)
        archive.annotate([session.id], star)
        """
        from bygones.store.annotations import annotate

        return annotate(self._archive_dir.folder, sessions, change)

    def session(self, id_or_prefix: str) -> Session:
        """Return a whole session by its id, or by a unique prefix of it.

        Example::

            session = archive.session("5e551000")
            for turn in session.live_branch.turns:
                print(turn.prompt.preview if turn.prompt else "")

        Raises `NotInArchive` or `AmbiguousSelector`.
        """
        return self._load_session(self.session_summary(id_or_prefix).id)

    def _load_session(self, id_: SessionId) -> Session:
        from bygones.ingest.loading import load_session

        return load_session(self._reader, id_, self._loader)

    def conversation(self, id_or_prefix: str, agent: str = "") -> Conversation:
        """Return a session, or an agent run in it, to be read in windows of messages.

        Only the requested windows are loaded, if the index has the messages.
        """
        from bygones.ingest.conversations import open_conversation

        reader, id_ = self._reader, SessionId(id_or_prefix)
        if reader.sessions.session_number(id_) is None:
            id_ = self.session_summary(id_or_prefix).id
        return open_conversation(reader, (id_, agent), self._loader, self._load_session)

    def record(self, id_or_prefix: str) -> IndexedRecord:
        """Return a record by its uuid, or by a unique prefix of it.

        A record that is in several files is returned as part of the oldest session.

        Raises `NotInArchive` or `AmbiguousSelector`.
        """
        from bygones.ingest.loading import find_record

        with self.read_transaction():
            return find_record(
                self._reader,
                self._reader.lookup,
                self._loader,
                id_or_prefix=id_or_prefix,
                open_session=self._load_session,
            )

    def search(  # noqa: PLR0913 (all but one by name and optional)
        self,
        query: str | Query,
        *,
        limit: int = 10,
        offset: int = 0,
        hits_per_session: int = 3,
        sort: str = "best",
        redact: Callable[[str], str] = str,
        now: datetime | None = None,
        timezone: tzinfo | None = None,
    ) -> SearchResults:
        """Return the sessions that match a query, best first, with their best hits.

        A session need not have all words of the query: more of them rank it higher.
        ``sort`` may also be ``newest`` or ``oldest``; ``redact`` is applied to texts
        before excerpts are cut out of them. What was ingested since the first search is
        found after `refresh`::

            for match in archive.search("flaky retry test", limit=5).sessions:
                print(match.summary.title.text, match.hits[0].excerpt.text)
        """
        return self._searcher.search(
            parse_query_text(query, now, timezone),
            limit=limit,
            offset=offset,
            hits=hits_per_session,
            sort=sort,
            redact=redact,
        )

    def match_positions(self, query: Query, session: SessionId) -> MatchPositions:
        """Return all records of a session that match a query, without opening them."""
        return self._searcher.match_positions(
            query, self._reader.sessions.session_number(session)
        )

    @staticmethod
    def find_words(text: str, positions: MatchPositions) -> list[tuple[int, int]]:
        """Return start and end of the words in a text that `match_positions` found."""
        from bygones.search.results import make_highlighter

        highlighter = make_highlighter(
            positions.runs, positions.prefixes, positions.patterns
        )
        return highlighter.find_spans(text)

    @staticmethod
    def record_number(record_id: str) -> int:
        """Return the number by which `MatchPositions` names a record."""
        return id_key(record_id)

    @property
    def _searcher(self) -> Searcher:
        if self._open_searcher is None:
            from bygones.search.service import Searcher

            self._open_searcher = Searcher(self._reader, self._shared_stats)
        return self._open_searcher

    def projects(self, *, include_empty: bool = False) -> tuple[Project, ...]:
        """Return all projects, sorted by path; ``include_empty`` also those without messages."""
        from bygones.assemble.summary import group_into_projects

        return group_into_projects(
            self._reader.sessions.iter_summaries(include_empty=include_empty)
        )

    def project(self, name: str) -> Project:
        """Return a project by its path, its key or the name of its directory.

        Raises `NotInArchive` or `AmbiguousSelector`.
        """
        from bygones.assemble.summary import find_project

        return find_project(self.projects(include_empty=True), name)

    def project_at(self, directory: str | Path) -> Project | None:
        """Return the project of a directory: its own, or that of the nearest parent."""
        path = Path(directory).expanduser().absolute()
        real_path = Path(os.path.realpath(path))
        known = {project.path: project for project in self.projects(include_empty=True)}
        for place in (path, real_path, *real_path.parents, *path.parents):
            if str(place) in known:
                return known[str(place)]
        return None

    def sessions_by_tool(self) -> dict[str, frozenset[SessionId]]:
        """Return the sessions that called each tool, including in agent runs."""
        from bygones.usage.grouping import sessions_by_tool

        return sessions_by_tool(self._reader)

    def usage(
        self,
        by: Grouping | str = "day",
        *,
        query: str | Query | None = None,
        timezone: tzinfo | None = None,
        now: datetime | None = None,
        prices: Prices | None = None,
    ) -> UsageReport:
        """Return tokens and costs, summed by day, project, model and so on.

        Example::

            report = archive.usage("model", query="project:shop after:30d")
            for row in report.rows:
                print(row.key, row.tokens, row.cost)

        ``query`` limits it by fields of sessions and of answers: ``model:`` means the
        model of the answer, and a time that of the answer. Days start in
        ``timezone``, or in UTC; ``now`` decides which block of five hours is active.
        """
        from bygones.usage.prices import load_prices
        from bygones.usage.report import build_usage_report

        now = now or datetime.now(UTC)  # noqa: TID251 (unless the caller has a clock)
        return build_usage_report(
            self._reader,
            by=by,
            query=parse_query_text(query, now, timezone) if query is not None else None,
            select_sessions=self._select_numbers,
            timezone=timezone,
            now=now,
            prices=prices or load_prices(),
        )

    def _select_numbers(self, term: Term) -> frozenset[int]:
        """Return the numbers of the sessions that a term selects."""
        selected = {one.id for one in self.sessions(Query(term), include_empty=True)}
        numbers = self._reader.usage.session_projects().items()
        return frozenset(number for number, (id_, _) in numbers if id_ in selected)

    def costs(
        self, sessions: Iterable[SessionSummary], prices: Prices | None = None
    ) -> dict[SessionId, Cost]:
        """Return the costs of sessions, including their agent runs."""
        from bygones.usage.costs import load_costs
        from bygones.usage.prices import load_prices

        return load_costs(
            self._reader, (s.id for s in sessions), prices or load_prices()
        )

    def session_costs(self, session: SessionId, prices: Prices) -> SessionCosts | None:
        """Return the cost of a session, and of each agent run in it."""
        from bygones.usage.costs import load_session_costs

        return load_session_costs(self._reader, session, prices)

    def context(self, id_or_prefix: str) -> ContextReport:
        """Return the size of a session's context, turn by turn."""
        from bygones.usage.report import build_context_report

        return build_context_report(self.session(id_or_prefix))

    def turn_requests(
        self,
        session: Session,
        turn_number: int,
        *,
        branch_number: int = 0,
        agent: AgentRun | None = None,
    ) -> TurnRequests:
        """Return what the model was sent in a turn of a session, or of an agent run.

        Turns count from 0. This contains system prompts and files of the user, so it is
        for the owner of the archive only, and is never exported.
        """
        from bygones.assemble.requests import RequestLog, find_turn_requests
        from bygones.maintenance.restore import read_source_lines

        ids = [session.id]
        if self._is_team_store:
            raise UnsupportedOnTeamStore(self.folder.name)
        if session.lineage:
            # A fork has copies of records, whose requests are in the original.
            ids += sorted(self.related_sessions(ids))
        agent_id = agent.id if agent and agent.source else None
        branches = (agent or session).branches
        sources = (
            source.id
            for source in self.sources(sessions=ids)
            if source.kind.is_transcript and source.agent == agent_id
        )
        log = RequestLog(read_source_lines(self._reader, sources))
        branch = next(one for one in branches if one.number == branch_number)
        return find_turn_requests(log, branch, turn_number)

    def problems(self) -> Iterator[tuple[SessionId, Problem]]:
        """Yield the problems of all sessions, including those of their agent runs."""
        for summary in self._reader.sessions.iter_summaries(include_empty=True):
            if summary.problem_count:
                for problem in self._load_session(summary.id).problems:
                    yield summary.id, problem

    def problem_rows(self) -> Iterator[ProblemRow]:
        """Yield the problems of all sessions with their lines, sorted by file."""
        from bygones.maintenance.problems import locate_problems

        return locate_problems(self._reader, (found for _, found in self.problems()))

    def drift(self) -> tuple[DriftRow, ...]:
        """Return record types and fields in transcripts that this version does not know."""
        from bygones.model.reports import DriftRow

        rows = self._reader.lookup.drift()
        return tuple(DriftRow.from_counts(*row) for row in rows)

    def prompts(
        self,
        query: str | Query | None = None,
        *,
        project: str | None = None,
        now: datetime | None = None,
        timezone: tzinfo | None = None,
    ) -> Iterator[IndexedPrompt]:
        """Yield the prompts that match a query, on any branch, newest first.

        A prompt has to have all words of the query, and a time is that of the prompt.
        A prompt that several sessions contain, because one continues another, comes
        once. The other arguments are those of `sessions`.
        """
        from bygones.ingest.loading import load_prompts

        prompts = load_prompts(self._reader, self._loader)
        if query is None and project is None:
            return prompts
        from bygones.search.session_filter import filter_prompts

        summaries = self._iter_summaries(project, include_empty=True)
        return filter_prompts(
            prompts,
            {one.id: one for one in summaries},
            parse_query_text(query or "", now, timezone),
        )

    def last_active_at(self, summary: SessionSummary) -> datetime:
        """Return when a session ended, or if that is unknown, when its files changed."""
        if summary.ended_at is not None:
            return summary.ended_at
        changed = (one.mtime_ns for one in self.sources(sessions=[summary.id]))
        return datetime.fromtimestamp(max(changed, default=0) / 1e9, UTC)

    def edits(
        self, *, session: str | None = None, path: str | None = None
    ) -> list[IndexedEdit]:
        """Return the edits of files, oldest first, in a session or of a path.

        ``path`` is a file or a folder, or the end of such a path::

            for edit in archive.edits(path="src/checkout.py"):
                print(edit.edited_at, edit.session_id, edit.added_lines)
        """
        edits = self._reader.edits
        if session is not None:
            return edits.edits_in_session(self.session_summary(session).id)
        path = path or ""
        return edits.edits_under(path) or edits.edits_with_suffix(path.strip("/"))

    def file(self, path: str) -> ArchivedFile:
        """Return the versions of a file by its path, or by the end of its path."""
        return self.file_library.open(path)

    @property
    def file_library(self) -> FileLibrary:
        """Opens the histories of files, and all files at a turn."""
        from bygones.files.library import FileLibrary

        return FileLibrary(self._reader, self._load_session)

    def sources(
        self,
        *,
        sessions: Sequence[SessionId] | None = None,
        project: Project | None = None,
    ) -> list[StoredSource]:
        """Return the stored files: all, or those of sessions or of a project.

        Files of a session include those of its agents, and its sidecars, long outputs,
        backups, todos and tasks.
        """
        from bygones.maintenance.purge import select_files

        return select_files(self._reader, sessions, project)

    def related_sessions(self, sessions: Sequence[SessionId]) -> set[SessionId]:
        """Return other sessions that share records with these."""
        from bygones.maintenance.purge import related_sessions

        with self.read_transaction():
            return related_sessions(
                self._reader.sessions, self._reader.lookup, sessions
            )

    def sources_mentioning(self, sessions: Sequence[SessionId]) -> list[StoredSource]:
        """Return files outside of sessions that name one of these, such as the history."""
        from bygones.maintenance.purge import sources_mentioning

        return sources_mentioning(self._archive_dir.byte_store, sessions)

    def find_purged(self, id_or_prefix: str) -> SessionId | None:
        """Return the id of a purged session by a prefix; none if there is none."""
        from bygones.maintenance.purge import find_purged

        return find_purged(self._archive_dir.byte_store, id_or_prefix)

    @property
    def purge_pending(self) -> bool:
        """Whether a purge was interrupted; the next one finishes it."""
        return is_purge_pending(self._archive_dir.byte_store.db)

    def read_source(self, source: SourceId) -> Iterator[bytes]:
        """Yield the original bytes of a source in chunks."""
        from bygones.maintenance.restore import read_source

        return read_source(self._reader, source)

    def backup(self, folder: str | Path) -> int:
        """Write a consistent copy of the archive, and return its size in bytes."""
        from bygones.maintenance.backup import backup

        return backup(self._archive_dir, Path(folder))

    def plan_restore(
        self,
        sources: Iterable[StoredSource],
        *,
        target: Path | None = None,
        project: str | None = None,
        rewrite: LineRewriter | None = None,
        generations_back: int = 0,
    ) -> list[PlannedFile]:
        """Return what restoring these files would do.

        ``target`` is another folder, ``rewrite`` changes lines on the way, and
        ``generations_back`` restores older versions of rewritten files.
        """
        from bygones.maintenance.restore import plan_restore

        return plan_restore(
            self._archive_dir,
            sources,
            target=target,
            project=project,
            rewrite=rewrite,
            generations_back=generations_back,
        )

    def restore(
        self,
        plans: Sequence[PlannedFile],
        *,
        overwrite: bool = False,
        rewrite: LineRewriter | None = None,
        progress: ProgressReporter | None = None,
    ) -> RestoreResult:
        """Write files back as planned by `plan_restore`."""
        from bygones.maintenance.restore import restore

        return restore(
            self._archive_dir,
            plans,
            overwrite=overwrite,
            rewrite=rewrite,
            progress=progress,
        )

    def fork(self, id_or_prefix: str, **options: Unpack[ForkOptions]) -> ForkedSession:
        """Write a session that Claude Code continues before ``turn``, from 1, of another.

        With ``through`` it includes that turn; without a turn it ends as the ``branch``,
        from 0, does. ``before_compaction`` leaves out the last compaction. ``directory``
        is another working directory, ``home`` another home. Nothing is replaced.
        """
        from bygones.maintenance.fork import fork_session

        session = self.session(id_or_prefix)
        files = self.sources(sessions=[session.id])
        return fork_session(self._archive_dir, session, files, **options)

    def purge(
        self,
        sources: Iterable[StoredSource],
        *,
        sessions: Sequence[SessionId] = (),
        progress: ProgressReporter | None = None,
    ) -> PurgeResult:
        """Erase files permanently, so that they are not ingested again.

        An interrupted purge is finished, too.
        """
        from bygones.maintenance.purge import purge

        folder = self._archive_dir.folder
        self.close()
        try:
            return purge(folder, sources, sessions=sessions, progress=progress)
        finally:
            self._open()


def parse_query_text(
    query: str | Query, now: datetime | None = None, timezone: tzinfo | None = None
) -> Query:
    """Return a query; a text is parsed with this machine's clock and time zone."""
    if not isinstance(query, str):
        return query
    from bygones.query.parser import parse_query

    return parse_query(
        query,
        now=now or datetime.now(UTC),  # noqa: TID251 (unless the caller has a clock)
        zone=timezone or LocalTimezone(),
    )


def translate_database_error(error: Exception) -> BygonesError | None:
    """Return the error of Bygones for one of the database; none if it is another."""
    from bygones.store.connect import translate_error

    return translate_error(error)


def _require_folder(name: str | Path) -> Path:
    if is_store_url(str(name)):
        raise UnsupportedOnTeamStore(Path(name).name)
    return Path(name).expanduser()
