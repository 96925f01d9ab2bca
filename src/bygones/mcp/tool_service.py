"""Recall: the tools' answers, each from an archive opened for it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, tzinfo
from itertools import islice
from pathlib import Path

from msgspec import Struct

from bygones.archive import Archive
from bygones.errors import InvalidCursor, NotInArchive
from bygones.mcp.arguments import (
    FileHistoryArguments,
    OutlineArguments,
    ReadArguments,
    RecentArguments,
    SearchArguments,
    ToolArguments,
)
from bygones.mcp.quoting import (
    Cursor,
    QuotedRow,
    QuotedSlice,
    build_answer,
    find_start,
    parse_cursor,
    short_session_id,
)
from bygones.model.sessions import Session
from bygones.model.summary import SearchResults, SessionSummary
from bygones.redact.engine import Redactor
from bygones.redact.session import redact_session
from bygones.render.numbers import pluralize
from bygones.render.text.primitives import sanitize_line

__all__ = ["Caller", "ToolService"]

_MARKER_CHARS = range(0xF0000, 0xFFFFE)
"""Signs that nobody writes: one of them, drawn by lot, stands before what was hidden
until it is counted. What a transcript has in place of a secret does not count."""

# A client waits for the first answer: what only some answers need is imported by them.


class Caller(Struct, frozen=True, kw_only=True):
    """Who asks: from which directory, and in which session of its own."""

    directory: Path
    session: str | None = None
    clock: Callable[[], datetime]
    zone: tzinfo


class ToolService:
    """Answers from the archive in a folder, or as it is opened; changes nothing."""

    def __init__(
        self,
        folder: Path,
        caller: Caller,
        open_archive: Callable[[], Archive] | None = None,
        redactor: Redactor | None = None,
    ) -> None:
        self._open_archive = open_archive or (lambda: Archive.open(folder))
        self._caller = caller
        self._redaction_marker = chr(
            _MARKER_CHARS[int.from_bytes(os.urandom(8)) % len(_MARKER_CHARS)]
        )
        self._redactor = (redactor or Redactor()).with_marker(self._redaction_marker)

    @contextmanager
    def _archive(self) -> Iterator[Archive]:
        # Opened anew for each answer: an ingestion may have made a new index.
        with self._open_archive() as archive, archive.read_transaction():
            yield archive

    def recent(self, arguments: RecentArguments) -> str:
        """Return the newest sessions."""
        with self._archive() as archive:
            project = (
                self._current_project(archive) if arguments.scope == "project" else None
            )
            found = list(self._other_sessions(archive, project))
            where = "in this project" if project else "in all projects"
            counted = pluralize(len(found), "session")
            rows = (self._summary_row(archive, one) for one in found)
            return self._answer_list(
                f"Bygones: {counted} {where}, newest first.", rows, arguments
            )

    def newest_sessions(self, limit: int) -> list[tuple[str, str, str]]:
        """Return the newest sessions here: a name, when it ended, how many prompts."""
        with self._archive() as archive:
            found = islice(
                self._other_sessions(archive, self._current_project(archive)), limit
            )
            return [
                (
                    short_session_id(archive, one),
                    f"{one.ended_at:%Y-%m-%d %H:%M}"
                    if one.ended_at
                    else "an unknown time",
                    pluralize(one.prompt_count, "prompt"),
                )
                for one in found
            ]

    def _other_sessions(
        self, archive: Archive, project: str | None
    ) -> Iterator[SessionSummary]:
        for listed in archive.sessions(project=project):
            if listed.id != self._caller.session:
                yield listed

    def search(self, arguments: SearchArguments) -> str:
        """Return sessions that answer a query, with lines that say why."""
        from bygones.mcp.rows import SearchRows
        from bygones.query.parser import parse_query

        caller = self._caller
        query = parse_query(arguments.query, now=caller.clock(), zone=caller.zone)
        with self._archive() as archive:
            finding = SearchRows(
                archive,
                query,
                hits=arguments.hits,
                caller_session=caller.session,
                redact=self._redact,
            )
            is_only = arguments.scope == "project"
            scopes = finding.scopes(self._current_project(archive), is_only=is_only)
            begun = [finding.search(scopes[0], 0)]
            if not begun[0].session_count:
                begun += [finding.search(scope, 0) for scope in scopes[1:]]
            cursor = self._list_cursor(arguments)
            rows = finding.rows(scopes, begun, int(cursor.row_id) if cursor else 0)
            head = f"Bygones: {_count_sentence(begun, len(scopes))}. {finding.exclusion_note}."
            return self._answer_rows(head, rows, cursor, arguments)

    def file_history(self, arguments: FileHistoryArguments) -> str:
        """Return who changed a file, when and why."""
        from bygones.mcp.rows import edits_by_session, file_history_rows

        with self._archive() as archive:
            edits = archive.edits(path=arguments.path)
            sessions = edits_by_session(edits, self._caller.session)
            counted = pluralize(len(sessions), "session")
            rows = file_history_rows(
                archive, sessions, lambda one: redact_session(one, self._redactor)
            )
            head = f"Bygones: {counted} changed this path, newest first."
            return self._answer_list(head, rows, arguments)

    def outline(self, arguments: OutlineArguments) -> str:
        """Return a session's turns at a glance."""
        with self._archive() as archive:
            session = self._load_session(archive, arguments.session)
            find_start(session, "", arguments.branch - 1, "")
            from bygones.mcp.rows import outline_rows

            rows = outline_rows(session, arguments.branch - 1)
            return self._answer_list("Bygones: outline of a session.", rows, arguments)

    def read(self, arguments: ReadArguments) -> str:
        """Return what was said in a session, from a place on."""
        with self._archive() as archive:
            session = self._load_session(archive, arguments.session)
            cursor = parse_cursor(arguments.cursor)
            wanted = cursor.row_id if cursor else arguments.at
            try:
                way, start = find_start(
                    session, wanted, arguments.branch - 1, arguments.agent
                )
            except NotInArchive as error:
                if cursor is None or error.kind != "record":
                    raise
                raise InvalidCursor(arguments.cursor) from error
            if cursor is None:
                start = max(0, start - arguments.before)
            from bygones.mcp.rows import MessageRows

            teller = MessageRows(session, way, arguments.detail)
            count = pluralize(len(way.messages), "message")
            place = f"message {start + 1} of {count}" if way.messages else "no message"
            where = "live branch" if way.is_live else f"rewound branch {way.branch + 1}"
            if way.agent is not None:
                where = "agent run"
            head = f"Bygones: {place}, {where}."
            return self._answer_rows(head, teller.rows(start), cursor, arguments)

    def _load_session(self, archive: Archive, name: str) -> Session:
        session = archive.session(name.removeprefix("#"))
        if session.id == self._caller.session:
            # Whoever asks has it before them.
            raise NotInArchive("other session", name)
        return redact_session(session, self._redactor)

    def _current_project(self, archive: Archive) -> str | None:
        project = archive.project_at(self._caller.directory)
        return project.path if project else None

    def _summary_row(self, archive: Archive, summary: SessionSummary) -> QuotedRow:
        facts = [
            short_session_id(archive, summary),
            f"{summary.ended_at:%Y-%m-%d %H:%M}" if summary.ended_at else "",
            pluralize(summary.prompt_count, "prompt"),
            pluralize(summary.agent_count, "agent") if summary.agent_count else "",
            pluralize(summary.branch_count, "branch", "branches")
            if summary.branch_count > 1
            else "",
            self._redact(summary.project or ""),
            self._redact(summary.title.text),
        ]
        return QuotedRow("", " · ".join(map(sanitize_line, filter(None, facts))) + "\n")

    def _redact(self, text: str) -> str:
        return self._redactor.redact_text(text)

    def _list_cursor(self, arguments: ToolArguments) -> Cursor | None:
        """Return the cursor of a list, which has the number of a row."""
        cursor = parse_cursor(arguments.cursor)
        if cursor is not None and not cursor.row_id.isdecimal():
            raise InvalidCursor(arguments.cursor)
        return cursor

    def _answer_list(
        self, head: str, rows: Iterator[QuotedRow], arguments: ToolArguments
    ) -> str:
        """Return an answer of rows that are found again by their number."""
        cursor = self._list_cursor(arguments)
        start = int(cursor.row_id) if cursor else 0
        numbered = (
            QuotedRow(str(number), row.text)
            for number, row in enumerate(rows)
            if number >= start
        )
        return self._answer_rows(head, numbered, cursor, arguments)

    def _answer_rows(
        self,
        head: str,
        rows: Iterator[QuotedRow],
        cursor: Cursor | None,
        arguments: ToolArguments,
    ) -> str:
        told = build_answer(
            f"{head} At most {arguments.max_bytes} bytes.",
            rows if cursor is None else _check_cursor(rows, cursor),
            cursor.offset if cursor else 0,
            max_bytes=arguments.max_bytes,
            tail=self._answer_tail,
        )
        return told.replace(self._redaction_marker, "")

    def _answer_tail(self, quoted_slice: QuotedSlice) -> Sequence[str]:
        """Return what an answer leaves out, and how it goes on."""
        hidden = quoted_slice.body.count(self._redaction_marker)
        return [
            *([f"Hidden as secret or private: {hidden}."] if hidden else ()),
            "This is all of it."
            if quoted_slice.next_cursor is None
            else f"Cut here: there is more. To go on: cursor {quoted_slice.next_cursor}",
        ]


def _check_cursor(rows: Iterator[QuotedRow], cursor: Cursor) -> Iterator[QuotedRow]:
    """Yield rows, if there is one in which an answer can go on."""
    first = next(rows, None)
    if first is None or 0 < len(first.text) <= cursor.offset:
        raise InvalidCursor(str(cursor))
    yield first
    yield from rows


def _count_sentence(first_results: Sequence[SearchResults], scopes: int) -> str:
    """Return how many sessions were found, here and elsewhere."""
    here, *others = first_results
    told = f"{here.session_count_bound.qualify(pluralize(here.session_count, 'session'))} found"
    if others and others[0].session_count:
        count = others[0].session_count_bound.qualify(f"{others[0].session_count:,}")
        told += f" in this project, {count}"
        told += " elsewhere"
    elif others:
        told += ", here and elsewhere"
    elif scopes > 1:
        told += " in this project, others behind them"
    is_partial = any(one.is_partial for one in first_results)
    return f"{told}; not all was looked at" if is_partial else told
