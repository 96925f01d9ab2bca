"""Reading what sessions contain: usage, requests, problems and files."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from msgspec import structs

from bygones.archive.base import parse_query_text
from bygones.archive.queries import ArchiveQueries
from bygones.config import LocalTimezone
from bygones.errors import AmbiguousSelector, NotInArchive, UnsupportedOnTeamStore
from bygones.model.base import SessionId, SourceId
from bygones.model.query import Query, Term
from bygones.model.summary import SessionSummary
from bygones.store.archive_db import is_purge_pending
from bygones.store.local_reader import LocalReader

# Most commands need little of this: the rest is imported by the methods that use it.
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import tzinfo

    from bygones.files.library import ArchivedFile, FileLibrary
    from bygones.model.base import Problem
    from bygones.model.reports import (
        ContextReport,
        DriftRow,
        Grouping,
        ProblemRow,
        TurnRequests,
        UsageReport,
        UsageSeries,
    )
    from bygones.model.sessions import AgentRun, Session
    from bygones.model.summary import IndexedEdit, Lineage, Project
    from bygones.model.usage import Cost
    from bygones.store.archive_db import StoredSource
    from bygones.usage.costs import SessionCosts
    from bygones.usage.prices import Prices


class ArchiveReports(ArchiveQueries):
    """What an archive answers about usage, problems and files."""

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

        ``query`` limits it by fields of sessions and of replies: ``model:`` means the
        model of the reply, and a time that of the reply. Days are
        those of ``timezone``, by default of this machine; ``now`` decides which block of
        five hours is active.
        """
        from bygones.usage.prices import load_prices
        from bygones.usage.report import build_usage_report

        now = now or datetime.now(UTC)  # noqa: TID251 (unless the caller has a clock)
        return build_usage_report(
            self._reader,
            by=by,
            query=parse_query_text(query, now, timezone) if query is not None else None,
            select_sessions=self._select_numbers,
            timezone=timezone or LocalTimezone(),
            now=now,
            prices=prices or load_prices(),
        )

    def usage_series(
        self,
        by: Grouping | str = "model",
        *,
        query: str | Query | None = None,
        timezone: tzinfo | None = None,
        now: datetime | None = None,
        prices: Prices | None = None,
    ) -> UsageSeries:
        """Return usage by day, divided by model, project and so on.

        It also has the replies by hour of the week. The arguments are those of `usage`.
        """
        from bygones.usage.prices import load_prices
        from bygones.usage.report import build_usage_series

        return build_usage_series(
            self._reader,
            by=by,
            query=parse_query_text(query, now, timezone) if query is not None else None,
            select_sessions=self._select_numbers,
            timezone=timezone or LocalTimezone(),
            prices=prices or load_prices(),
        )

    def _select_numbers(self, term: Term) -> frozenset[int]:
        """Return the numbers of the sessions that a term selects."""
        found = self.sessions(Query(term), include_empty=True)
        selected = {(one.id, one.person) for one in found}
        people = self._reader.usage.session_people()
        numbers = self._reader.usage.session_projects().items()
        return frozenset(
            number
            for number, (id_, _) in numbers
            if (id_, people.get(number, "")) in selected
        )

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

    def portable_problem_rows(self) -> Iterator[ProblemRow]:
        """Yield the problems of all sessions with the paths of files in their homes.

        Unlike `problem_rows` this does not name folders of this machine.
        """
        from bygones.model.reports import ProblemRow

        for _, problem in self.problems():
            row = ProblemRow.from_problem(problem)
            stored = self._reader.byte_store.source_by_id(problem.position.source_id)
            yield structs.replace(row, source=stored.path if stored else "")

    def problem_rows(self) -> Iterator[ProblemRow]:
        """Yield the problems of all sessions with their lines, sorted by file."""
        from bygones.maintenance.problems import locate_problems

        return locate_problems(self._reader, (found for _, found in self.problems()))

    def drift(self) -> tuple[DriftRow, ...]:
        """Return record types and fields in transcripts that this version does not know."""
        from bygones.model.reports import DriftRow

        rows = self._reader.lookup.drift()
        return tuple(DriftRow.from_counts(*row) for row in rows)

    def edits(
        self, *, session: str | None = None, path: str | None = None
    ) -> list[IndexedEdit]:
        """Return the edits of files, oldest first, in a session or of a path.

        ``path`` is a file or a folder, or the end of such a path. What a session copied
        from one that it continues, or was forked from, counts once, in the original::

            for edit in archive.edits(path="src/checkout.py"):
                print(edit.edited_at, edit.session_id, edit.added_lines)
        """
        from bygones.files.edits import FileEdits, without_copied_edits

        edits = FileEdits(self._reader)
        if session is not None:
            return edits.edits_in_session(self.session_summary(session).id)
        path = path or ""
        found = edits.edits_under(path) or edits.edits_with_suffix(path.strip("/"))
        return without_copied_edits(found, self._lineage_of)

    def _lineage_of(self, session_id: SessionId) -> tuple[Lineage, ...]:
        try:
            return self.session_summary(session_id).lineage
        except NotInArchive:
            return ()

    def abandoned_agents(self, edits: Sequence[IndexedEdit]) -> set[str]:
        """Return the agents in edits of a session that an abandoned branch started."""
        agents = {edit.agent_id for edit in edits if edit.agent_id}
        if agents:
            log = self.file_library.log(edits[0].session_id)
            agents -= {placed.agent_id for placed in log.calls}
        return {agent for agent in agents if agent}

    def file(self, path: str) -> ArchivedFile:
        """Return the versions of a file by its path, or by the end of its path."""
        return self.file_library.open(path)

    @property
    def file_library(self) -> FileLibrary:
        """Opens the histories of files, and all files at a turn."""
        from bygones.files.library import FileLibrary

        reader = self._reader
        directories = reader.directories if isinstance(reader, LocalReader) else None
        return FileLibrary(reader, self._load_session, directories)

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
    def unindexed_count(self) -> int:
        """How many sessions are stored, but not indexed as they are now."""
        from bygones.store.derived_tables import DerivedTables

        index = self._archive_dir.index
        return len(DerivedTables(index).dirty_sessions()) if index is not None else 0

    def find_unindexed(self, id_or_prefix: str) -> SessionId | None:
        """Return the id of a stored session that could not be indexed, by a prefix."""
        from bygones.maintenance.purge import find_unindexed

        return find_unindexed(self._reader, id_or_prefix) if id_or_prefix else None

    def check_is_only(self, session: SessionId, prefix: str) -> None:
        """Raise `AmbiguousSelector` if a prefix is also that of one that is not indexed."""
        other = self.find_unindexed(prefix) if prefix != session else None
        if other not in (None, session):
            raise AmbiguousSelector("session", prefix, sorted([session, str(other)]))

    @property
    def purge_pending(self) -> bool:
        """Whether a purge was interrupted; the next one finishes it."""
        return is_purge_pending(self._archive_dir.byte_store.db)

    def read_source(self, source: SourceId) -> Iterator[bytes]:
        """Yield the original bytes of a source in chunks."""
        from bygones.maintenance.restore import read_source

        return read_source(self._reader, source)

    def last_active_at(self, summary: SessionSummary) -> datetime:
        """Return when a session ended, or if that is unknown, when its files changed."""
        if summary.ended_at is not None:
            return summary.ended_at
        changed = (one.mtime_ns for one in self.sources(sessions=[summary.id]))
        return datetime.fromtimestamp(max(changed, default=0) / 1e9, UTC)
