"""Reading sessions: lists, searches, projects and prompts."""

from __future__ import annotations

import os
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from msgspec import structs

from bygones.archive.base import ArchiveBase, parse_query_text
from bygones.errors import NotInArchive
from bygones.model.base import UUID_PATTERN, SessionId
from bygones.model.query import Exclusion, Query
from bygones.model.summary import SessionSummary
from bygones.store.annotations import with_annotations
from bygones.store.encoding import id_key
from bygones.store.local_reader import LocalReader, find_session

# Most commands need little of this: the rest is imported by the methods that use it.
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from datetime import tzinfo

    from bygones.ingest.prompt_history import PromptsOnlySession
    from bygones.model.conversations import Conversation
    from bygones.model.sessions import Session
    from bygones.model.summary import (
        Annotations,
        IndexedPrompt,
        IndexedRecord,
        MatchPositions,
        Project,
        SearchResults,
        SessionSelection,
    )
    from bygones.search.prompts_only import KnownPrompts


T = TypeVar("T")
LAST_SESSION = "last"
"""The name of the newest session."""


class ArchiveQueries(ArchiveBase):
    """What an archive answers about sessions."""

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
        from bygones.query.matcher import asks_for_prompts_only, is_in_project
        from bygones.search.session_filter import select_sessions

        parsed = parse_query_text(query, now, timezone)
        with self.read_transaction():
            if summaries is None:
                summaries = self._iter_summaries(project, include_empty=True)
            elif project is not None:
                summaries = (s for s in summaries if is_in_project(s, project))
            selection = select_sessions(
                summaries,
                parsed,
                searcher=lambda: self._searcher,
                sessions_by_tool=self.sessions_by_tool,
                include_empty=include_empty,
            )
            if asks_for_prompts_only(parsed):
                known = self._select_prompts_only(parsed, project)
                sessions = (*selection.sessions, *known)
                selection = structs.replace(selection, sessions=sessions)
            return selection

    def _select_prompts_only(
        self, query: Query, project: str | None
    ) -> list[SessionSummary]:
        from bygones.query.matcher import is_in_project
        from bygones.search.prompts_only import select_known

        found = select_known(self._known_prompts(), query)
        return [one for one in found if project is None or is_in_project(one, project)]

    def prompts_only_sessions(self) -> list[SessionSummary]:
        """Return sessions that are not in the archive, newest first.

        Only their prompts are known, from the history of Claude Code or from a hub that
        you push to. `sessions` and
        `search` return them for queries with ``is:prompts-only``, and `session` and
        `conversation` return what is known. They are never counted as sessions.
        """
        return [known.summary for known in self._prompts_only]

    @property
    def _prompts_only(self) -> list[PromptsOnlySession]:
        if not isinstance(self._reader, LocalReader):
            return []
        if self._open_prompts_only is None:
            from bygones.ingest.prompt_history import load_prompts_only

            with self.read_transaction():
                self._open_prompts_only = load_prompts_only(self._reader)
        return self._open_prompts_only

    def _known_prompts(self) -> list[KnownPrompts]:
        from bygones.search.prompts_only import KnownPrompts

        annotations = self.annotations()
        return [
            KnownPrompts.make(
                with_annotations(known.summary, annotations), known.indexed_prompts()
            )
            for known in self._prompts_only
        ]

    def _find_prompts_only(self, id_or_prefix: str) -> PromptsOnlySession | None:
        """Return the only such session with an id or a prefix of one."""
        found = [
            known
            for known in self._prompts_only
            if id_or_prefix and known.summary.id.startswith(id_or_prefix)
        ]
        return found[0] if len(found) == 1 else None

    def _iter_summaries(
        self, project: str | None = None, *, include_empty: bool
    ) -> Iterator[SessionSummary]:
        annotations = self.annotations()
        summaries = self._reader.sessions.iter_summaries(include_empty=include_empty)
        if project is not None:
            from bygones.query.matcher import is_in_project

            summaries = (one for one in summaries if is_in_project(one, project))
        return self._until_closed(
            with_annotations(one, annotations) for one in summaries
        )

    def _until_closed(self, values: Iterator[T]) -> Iterator[T]:
        """Yield values that are loaded one by one; raise our error after closing."""
        for value in values:
            yield value
            self._reader  # noqa: B018 (raises if the archive is closed)

    def session_summary(self, id_or_prefix: str) -> SessionSummary:
        """Return the summary of a session by its id, or by a unique prefix of it.

        Raises `NotInArchive` or `AmbiguousSelector`.
        """
        return with_annotations(self.recorded_summary(id_or_prefix), self.annotations())

    def recorded_summary(self, id_or_prefix: str) -> SessionSummary:
        """Return `session_summary` without your annotations, for exports."""
        try:
            return find_session(self._reader.lookup, id_or_prefix)
        except NotInArchive:
            known = self._find_prompts_only(id_or_prefix)
            if known is None:
                raise
            return known.summary

    def annotations(self) -> dict[SessionId, Annotations]:
        """Return the annotations of sessions: tags, notes and stars."""
        return self._reader.annotations()

    def session(self, name: str | SessionSummary) -> Session:
        """Return a whole session.

        ``name`` is its id, a unique prefix of it, ``last`` for the newest session, the
        uuid of one of its records, or what `sessions` yields::

            session = archive.session("last")
            for message in session.messages:
                print(message.role, message.text)

        Raises `NotInArchive` or `AmbiguousSelector`.
        """
        summary = self._find_summary(name)
        return self._load_session(summary.id, summary)

    def _find_summary(self, name: str | SessionSummary) -> SessionSummary:
        """Return the summary of a session by one of the names that `session` takes."""
        if isinstance(name, SessionSummary):
            return name
        if name == LAST_SESSION:
            newest = next(self._iter_summaries(include_empty=False), None)
            if newest is None:
                raise NotInArchive("session", name)
            return newest
        try:
            return self.session_summary(name)
        except NotInArchive:
            if not UUID_PATTERN.fullmatch(name):
                raise
            return self.session_summary(self.record(name).session_id)

    def _load_session(
        self, id_: SessionId, summary: SessionSummary | None = None
    ) -> Session:
        """Return a session; its summary is looked up only if the person is needed."""
        from bygones.ingest.loading import load_session

        try:
            session = load_session(self._reader, id_, self._loader)
        except NotInArchive:
            known = self._find_prompts_only(id_)
            if known is None:
                raise
            from bygones.ingest.prompt_history import assemble_prompts_only

            return assemble_prompts_only(known)
        if not self._is_team_store:
            return session
        summary = summary or find_session(self._reader.lookup, id_)
        return structs.replace(session, person=summary.person)

    def conversation(self, name: str | SessionSummary, agent: str = "") -> Conversation:
        """Return a session, or an agent run in it, to be read in windows of messages.

        ``name`` is one that `session` takes. Only the requested windows are loaded, if
        the index has the messages.
        """
        from bygones.ingest.conversations import open_conversation

        reader = self._reader
        id_ = name.id if isinstance(name, SessionSummary) else SessionId(name)
        if reader.sessions.session_number(id_) is None:
            id_ = self._find_summary(name).id
        return open_conversation(reader, (id_, agent), self._loader, self._load_session)

    def record(self, id_or_prefix: str) -> IndexedRecord:
        """Return a record by its uuid, or by a unique prefix of it.

        A record that is in several files is returned as part of the oldest session.

        Raises `NotInArchive` or `AmbiguousSelector`.
        """
        from bygones.ingest.loading import find_record

        try:
            with self.read_transaction():
                return find_record(
                    self._reader,
                    self._reader.lookup,
                    self._loader,
                    id_or_prefix=id_or_prefix,
                    open_conversation=self.conversation,
                )
        except NotInArchive:
            from bygones.ingest.prompt_history import find_prompt

            found = find_prompt(self._prompts_only, id_or_prefix)
            if found is None:
                raise
            return found

    def search(  # noqa: PLR0913 (all but one by name and optional)
        self,
        query: str | Query,
        *,
        limit: int = 10,
        offset: int = 0,
        hits_per_session: int = 3,
        sort: str = "best",
        redact: Callable[[str], str] = str,
        exclusion: Exclusion | None = None,
        now: datetime | None = None,
        timezone: tzinfo | None = None,
    ) -> SearchResults:
        """Return the sessions that match a query, best first, with their best hits.

        A session need not have all words of the query: more of them rank it higher.
        ``sort`` may also be ``newest`` or ``oldest``; ``redact`` is applied to texts
        before excerpts are cut out of them. An ``exclusion`` is left out of the results
        and does not change the order of the others. What was ingested since the first
        search is found after `refresh`::

            for match in archive.search("flaky retry test", limit=5):
                print(match.title, match.hits[0].excerpt)
        """
        from bygones.query.matcher import asks_for_prompts_only

        parsed = parse_query_text(query, now, timezone)
        if asks_for_prompts_only(parsed):
            from bygones.query.parser import exclude_from
            from bygones.search.prompts_only import search_known

            return search_known(
                self._known_prompts(),
                exclude_from(parsed, exclusion),
                limit=limit,
                offset=offset,
                hits=hits_per_session,
                redact=redact,
            )
        return self._searcher.search(
            parsed,
            limit=limit,
            offset=offset,
            hits=hits_per_session,
            sort=sort,
            redact=redact,
            exclusion=exclusion,
        )

    def complete_last_word(self, query: Query) -> Query:
        """Return a query whose last word is completed, for search as you type."""
        return self._searcher.complete_last_word(query)

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

    def projects(self, *, include_empty: bool = False) -> tuple[Project, ...]:
        """Return all projects, sorted by path; ``include_empty`` also those without messages."""
        from bygones.assemble.summary import group_into_projects

        return group_into_projects(
            self._reader.sessions.iter_summaries(include_empty=include_empty)
        )

    def login_names(self) -> frozenset[str]:
        """Return the login names in the directories of all sessions."""
        from bygones.redact.personal import login_names_in

        return login_names_in(
            path
            for project in self.projects(include_empty=True)
            for path in (project.path, *project.other_paths)
            if path is not None
        )

    def project(self, name: str) -> Project:
        """Return a project by its path, its key or the name of its directory.

        Raises `NotInArchive` or `AmbiguousSelector`.
        """
        from bygones.assemble.summary import find_project

        return find_project(self.projects(include_empty=True), name)

    def project_at(self, directory: str | Path) -> Project | None:
        """Return the project of a directory: its own, or that of the nearest parent.

        Another clone or worktree of the same repository counts as its own.
        """
        path = Path(directory).expanduser().absolute()
        real_path = Path(os.path.realpath(path))
        known = {
            name: project
            for project in self.projects(include_empty=True)
            for name in (project.path, *project.other_paths)
        }
        own = (str(path), str(real_path), *self._same_project(str(real_path)))
        for name in (*own, *map(str, real_path.parents), *map(str, path.parents)):
            if name in known:
                return known[name]
        return None

    def _same_project(self, directory: str) -> Iterator[str]:
        """Yield known directories of the same repository."""
        if isinstance(self._reader, LocalReader):
            from bygones.sources.repositories import read_directory

            yield from self._reader.directories.paths(directory)
            facts = read_directory(directory)
            if facts is not None and facts.repository:
                yield from self._reader.directories.find(facts)

    def sessions_by_tool(self) -> dict[str, frozenset[SessionId]]:
        """Return the sessions that called each tool, including in agent runs."""
        from bygones.usage.grouping import sessions_by_tool

        return sessions_by_tool(self._reader)

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

        prompts = self._until_closed(load_prompts(self._reader, self._loader))
        if query is None and project is None:
            return prompts
        from bygones.query.matcher import asks_for_prompts_only, is_in_project
        from bygones.search.session_filter import filter_prompts

        parsed = parse_query_text(query or "", now, timezone)
        summaries = {
            one.id: one for one in self._iter_summaries(project, include_empty=True)
        }
        if asks_for_prompts_only(parsed):
            known = [
                one
                for one in self._prompts_only
                if project is None or is_in_project(one.summary, project)
            ]
            summaries |= {one.summary.id: one.summary for one in known}
            listed = (reversed(one.indexed_prompts()) for one in known)
            prompts = chain(prompts, chain.from_iterable(listed))
        return filter_prompts(prompts, summaries, parsed)
