"""The tools and their arguments: each call opens the archive and returns a text."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, tzinfo
from itertools import islice
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct

from bygones.archive import Archive
from bygones.errors import InvalidCursor, NotInArchive
from bygones.mcp.quoting import (
    Cursor,
    QuotedRow,
    QuotedSlice,
    build_answer,
    find_start,
    parse_cursor,
    quote_title,
    short_session_id,
)
from bygones.model.sessions import Session
from bygones.model.summary import IndexedEdit, SearchResults, SessionSummary
from bygones.redact.engine import Redactor
from bygones.redact.session import redact_session
from bygones.render.numbers import pluralize
from bygones.render.text.primitives import sanitize_line

_MARKER_CHARS = range(0xF0000, 0xFFFFE)
"""Private use characters. A random one marks each redaction until they are counted, so
that redactions in the transcript itself do not count."""

MIN_BYTES = 1_000
MAX_BYTES = 60_000

_MaxBytes = Annotated[
    int,
    Meta(
        ge=MIN_BYTES,
        le=MAX_BYTES,
        description="Maximum length of the result; a token is about 4 bytes.",
    ),
]
_Cursor = Annotated[
    str,
    Meta(
        max_length=100,
        description="The cursor at the end of a truncated result; pass it with the"
        " same arguments to get the next part.",
    ),
]
_Session = Annotated[
    str,
    Meta(
        min_length=4,
        max_length=200,
        description="A session id or a unique prefix of it.",
    ),
]
_Scope = Annotated[
    Literal["project", "all"],
    Meta(description="This project, or every project."),
]


_FilePath = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=4_000,
        description="A file: its full path, its path in this project, or the end of its"
        " path.",
    ),
]


def _open_repaired(folder: Path) -> Archive:
    """Open an archive; if its index is damaged, build it again first."""
    archive = Archive.open(folder)
    if not archive.has_index:
        from bygones.maintenance.index_repair import rebuild_damaged_index

        if rebuild_damaged_index(folder):
            archive.refresh()
    return archive


class ToolArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments that all tools have."""

    max_bytes: _MaxBytes = 6_000
    cursor: _Cursor = ""


class SearchArguments(
    ToolArguments, frozen=True, kw_only=True, forbid_unknown_fields=True
):
    max_bytes: _MaxBytes = 3_000

    query: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=2_000,
            description="Words and fields, as described above.",
        ),
    ]
    scope: Annotated[
        Literal["project", "all"],
        Meta(
            description="all (default): this project's sessions rank somewhat higher;"
            " project: only this project's."
        ),
    ] = "all"
    hits: Annotated[int, Meta(ge=1, le=10, description="Excerpts per session.")] = 2


class OutlineArguments(
    ToolArguments, frozen=True, kw_only=True, forbid_unknown_fields=True
):
    session: _Session
    branch: Annotated[
        int, Meta(ge=1, description="A branch number; 1 is the live branch.")
    ] = 1


class ReadArguments(
    ToolArguments, frozen=True, kw_only=True, forbid_unknown_fields=True
):
    session: _Session
    at: Annotated[
        str,
        Meta(
            max_length=100,
            description="Where to start: a record as results cite it (#1a2b3c4d), or a"
            " turn (t12). By default, the start of the session.",
        ),
    ] = ""
    before: Annotated[
        int, Meta(ge=0, le=20, description="Start this many messages earlier.")
    ] = 0
    branch: Annotated[
        int, Meta(ge=1, description="A branch number; 1 is the live branch.")
    ] = 1
    agent: Annotated[
        str,
        Meta(
            max_length=100,
            description="The id of an agent run, to read it instead of the session.",
        ),
    ] = ""
    find: Annotated[
        str,
        Meta(
            max_length=2_000,
            description="The query that found the record, to start where its words"
            " are in a long record.",
        ),
    ] = ""
    detail: Annotated[
        Literal["talk", "calls", "full"],
        Meta(
            description="talk: prompts and replies; calls: also one line per tool call;"
            " full: also thinking, inputs and outputs. A record given by `at` is shown"
            " with these in any case, shortened. Lines that start with | are"
            " text, those with ~ are thinking."
        ),
    ] = "calls"


class FileHistoryArguments(
    ToolArguments, frozen=True, kw_only=True, forbid_unknown_fields=True
):
    path: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=4_000,
            description="A file or folder: its full path, its path in this project, or"
            " the end of its path.",
        ),
    ]


class BlameArguments(
    ToolArguments, frozen=True, kw_only=True, forbid_unknown_fields=True
):
    max_bytes: _MaxBytes = 3_000

    path: _FilePath
    line: Annotated[int, Meta(ge=1, description="The number of the line.")]
    last_line: Annotated[
        int, Meta(ge=0, description="The last line of a range; 0 for one line.")
    ] = 0


class FileAtArguments(
    ToolArguments, frozen=True, kw_only=True, forbid_unknown_fields=True
):
    path: _FilePath
    session: _Session
    turn: Annotated[
        int, Meta(ge=0, description="A turn (12 for t12); 0 is the last one.")
    ] = 0
    branch: Annotated[
        int, Meta(ge=1, description="A branch number; 1 is the live branch.")
    ] = 1
    before: Annotated[
        bool, Meta(description="Return the file before the turn, not after it.")
    ] = False


class RecentArguments(
    ToolArguments, frozen=True, kw_only=True, forbid_unknown_fields=True
):
    max_bytes: _MaxBytes = 3_000

    scope: _Scope = "project"


# Late imports keep the first answer of a new server process fast.


class Caller(Struct, frozen=True, kw_only=True):
    """The agent that calls: its directory, and its own session."""

    directory: Path
    session: str | None = None
    clock: Callable[[], datetime]
    zone: tzinfo


_UNREDACTABLE = "(left out: it could not be redacted)"


class ToolService:
    """Answers tool calls from the archive in a folder, or from `open_archive`."""

    def __init__(
        self,
        folder: Path,
        caller: Caller,
        open_archive: Callable[[], Archive] | None = None,
        redactor: Redactor | None = None,
    ) -> None:
        self._open_archive = open_archive or (lambda: _open_repaired(folder))
        self._is_local = open_archive is None
        self._caller = caller
        self._redaction_marker = chr(
            _MARKER_CHARS[int.from_bytes(os.urandom(8)) % len(_MARKER_CHARS)]
        )
        redactor = redactor or Redactor()
        if self._is_local:
            # The agent is on this machine, and opens the paths that it reads.
            redactor = redactor.for_this_machine()
        self._redactor = redactor.with_marker(self._redaction_marker)

    @property
    def is_local(self) -> bool:
        """Whether the archive is that of the user, and not that of a team."""
        return self._is_local

    @contextmanager
    def _archive(self) -> Iterator[Archive]:
        # Opened for each answer, as an import may have replaced the index.
        with self._open_archive() as archive, archive.read_transaction():
            yield archive

    def recent(self, arguments: RecentArguments) -> str:
        """List sessions, newest first."""
        with self._archive() as archive:
            project = (
                self._current_project(archive) if arguments.scope == "project" else None
            )
            sessions = list(self._other_sessions(archive, project))
            where = "in this project" if project else "in all projects"
            count = pluralize(len(sessions), "session")
            rows = (self._summary_row(archive, session) for session in sessions)
            return self._answer_list(
                f"Bygones: {count} {where}, newest first.", rows, arguments
            )

    def newest_sessions(self, limit: int) -> list[tuple[str, str, str, str]]:
        """Return short id, end time, prompt count and title of this project's sessions."""
        with self._archive() as archive:
            sessions = islice(
                self._other_sessions(archive, self._current_project(archive)), limit
            )
            return [
                (
                    short_session_id(archive, session),
                    f"{session.ended_at:%Y-%m-%d %H:%M}"
                    if session.ended_at
                    else "an unknown time",
                    pluralize(session.prompt_count, "prompt"),
                    quote_title(self._redact(session.title.text)),
                )
                for session in sessions
            ]

    def _other_sessions(
        self, archive: Archive, project: str | None
    ) -> Iterator[SessionSummary]:
        for session in archive.sessions(project=project):
            if session.id != self._caller.session:
                yield session

    def search(self, arguments: SearchArguments) -> str:
        """Return sessions that match a query, with excerpts."""
        from bygones.mcp.rows import SearchRows
        from bygones.query.parser import parse_query

        caller = self._caller
        query = parse_query(arguments.query, now=caller.clock(), zone=caller.zone)
        with self._archive() as archive:
            search = SearchRows(
                archive,
                query,
                hits=arguments.hits,
                caller_session=caller.session,
                redact=self._redact,
            )
            is_only = arguments.scope == "project"
            search.set_project(self._current_project(archive), is_only=is_only)
            results = search.search(0)
            cursor = self._list_cursor(arguments)
            rows = search.rows(results, int(cursor.row_id) if cursor else 0)
            where = " in this project" if is_only else ""
            head = (
                f"Bygones: {_count_sentence(results, where)}. {search.exclusion_note}."
            )
            return self._answer_rows(head, rows, cursor, arguments)

    def file_history(self, arguments: FileHistoryArguments) -> str:
        """Return the sessions that changed a file, with prompts and replies."""
        from bygones.mcp.rows import edits_by_session, file_history_rows

        with self._archive() as archive:
            edits = self._find_edits(archive, arguments.path)
            sessions = edits_by_session(edits, self._caller.session)
            count = pluralize(len(sessions), "session")
            rows = file_history_rows(
                archive,
                sessions,
                lambda session: redact_session(session, self._redactor),
            )
            head = f"Bygones: {count} changed this path, newest first."
            return self._answer_list(head, rows, arguments)

    def blame(self, arguments: BlameArguments) -> str:
        """Return who wrote lines of a file, with the prompt."""
        from bygones.mcp.file_rows import FileRows

        first, last = arguments.line, max(arguments.last_line, arguments.line)
        with self._archive() as archive:
            directory = self._caller.directory
            path = Path(os.path.normpath(directory / arguments.path))
            # Files of a server are not read for others.
            reads_disk = self._is_local and path.is_relative_to(directory)
            found = archive.file_library.blame(
                path, arguments.path, reads_disk=reads_disk
            )
            if first > len(found.lines):
                raise NotInArchive("line", f"{arguments.path}:{first}")
            where = "on disk" if found.is_on_disk else "in the last recorded version"
            rows = FileRows(archive, self._redact).blame_rows(
                found.lines[first - 1 : last]
            )
            head = f"Bygones: lines of a file {where}; ? means inferred."
            return self._answer_list(head, rows, arguments)

    def file_at(self, arguments: FileAtArguments) -> str:
        """Return a file as it was at a turn."""
        from bygones.mcp.file_rows import FileRows

        with self._archive() as archive:
            session = archive.session_summary(arguments.session.removeprefix("#"))
            full_path = os.path.normpath(self._caller.directory / arguments.path)
            file = archive.file_library.open(arguments.path, full_path).at(
                session.id,
                arguments.turn - 1 if arguments.turn else None,
                branch=arguments.branch - 1,
                is_before=arguments.before,
            )
            when = "before" if arguments.before else "after"
            turn = f"t{arguments.turn}" if arguments.turn else "the last turn"
            rows = FileRows(archive, self._redact).content_rows(file)
            return self._answer_list(f"Bygones: a file {when} {turn}.", rows, arguments)

    def _find_edits(self, archive: Archive, path: str) -> list[IndexedEdit]:
        """Return the edits of a path; a relative one is looked for here first."""
        directory = self._caller.directory
        for folder in (str(directory), self._current_project(archive)):
            full_path = os.path.normpath(f"{folder}/{path}")
            if folder and not Path(path).is_absolute():
                edits = archive.edits(path=full_path)
                if edits:
                    return edits
        return archive.edits(path=path)

    def outline(self, arguments: OutlineArguments) -> str:
        """Return the turns of a session, a line or two for each."""
        with self._archive() as archive:
            session = self._load_session(archive, arguments.session)
            find_start(session, "", arguments.branch - 1, "")
            from bygones.mcp.rows import outline_rows

            rows = outline_rows(session, arguments.branch - 1)
            return self._answer_list("Bygones: outline of a session.", rows, arguments)

    def read(self, arguments: ReadArguments) -> str:
        """Return the messages of a session, starting at a record or turn."""
        with self._archive() as archive:
            session = self._load_session(archive, arguments.session)
            cursor = parse_cursor(arguments.cursor)
            position = cursor.row_id if cursor else arguments.at
            try:
                sequence, start = find_start(
                    session, position, arguments.branch - 1, arguments.agent
                )
            except NotInArchive as error:
                if cursor is None or error.kind != "record":
                    raise
                raise InvalidCursor(arguments.cursor) from error
            if cursor is None:
                start = max(0, start - arguments.before)
            from bygones.mcp.rows import CitedRecord, MessageRows

            cited_record = CitedRecord(
                arguments.at,
                self._word_finder(archive, session, arguments.find),
                max_chars_before=arguments.max_bytes // 3,
            )
            rows = MessageRows(session, sequence, arguments.detail, cited_record)
            count = len(sequence.messages)
            place = "no messages"
            if count:
                place = f"message {start + 1:,} of {count:,}"
            if sequence.agent is not None:
                where = "agent run"
            elif sequence.is_live:
                where = "live branch"
            else:
                where = f"abandoned branch {sequence.branch + 1}"
            head = f"Bygones: {place}, {where}."
            return self._answer_rows(head, rows.rows(start), cursor, arguments)

    def _word_finder(
        self, archive: Archive, session: Session, text: str
    ) -> Callable[[str], Sequence[tuple[int, int]]]:
        """Return a function that finds the words of a query in a text."""
        if not text.strip():
            return lambda _: ()
        from bygones.query.parser import parse_query

        caller = self._caller
        query = parse_query(text, now=caller.clock(), zone=caller.zone)
        positions = archive.match_positions(query, session.id)
        return lambda text: archive.find_words(text, positions)

    def _load_session(self, archive: Archive, name: str) -> Session:
        session = archive.session(name.removeprefix("#"))
        if session.id == self._caller.session:
            # The caller has it in its context.
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
            summary.person,
            self._redact(summary.project or ""),
            self._redact(summary.title.text),
        ]
        return QuotedRow("", " · ".join(map(sanitize_line, filter(None, facts))) + "\n")

    def _redact(self, text: str) -> str:
        try:
            return self._redactor.redact_text(text)
        except Exception:  # noqa: BLE001 (one text must not hide the others)
            return _UNREDACTABLE

    def _list_cursor(self, arguments: ToolArguments) -> Cursor | None:
        """Return the cursor of a list, which contains a row number."""
        cursor = parse_cursor(arguments.cursor)
        if cursor is not None and not cursor.row_id.isdecimal():
            raise InvalidCursor(arguments.cursor)
        return cursor

    def _answer_list(
        self, head: str, rows: Iterator[QuotedRow], arguments: ToolArguments
    ) -> str:
        """Return an answer whose cursor is the number of a row."""
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
        answer = build_answer(
            f"{head} Limit: {arguments.max_bytes} bytes.",
            rows if cursor is None else _check_cursor(rows, cursor),
            cursor.offset if cursor else 0,
            max_bytes=arguments.max_bytes,
            tail=self._answer_tail,
        )
        return answer.replace(self._redaction_marker, "")

    def _answer_tail(self, quoted_slice: QuotedSlice) -> Sequence[str]:
        """Return how much was redacted, and the cursor of the next part."""
        hidden = quoted_slice.body.count(self._redaction_marker)
        return [
            *([f"Redacted: {pluralize(hidden, 'value')}."] if hidden else ()),
            "This is the complete result."
            if quoted_slice.next_cursor is None
            else f"Truncated. To continue, pass cursor {quoted_slice.next_cursor}",
        ]


def _check_cursor(rows: Iterator[QuotedRow], cursor: Cursor) -> Iterator[QuotedRow]:
    """Yield rows if the first one contains the position of a cursor."""
    first = next(rows, None)
    if first is None or 0 < len(first.text) <= cursor.offset:
        raise InvalidCursor(str(cursor))
    yield first
    yield from rows


def _count_sentence(results: SearchResults, where: str) -> str:
    """Return how many sessions were found, and how many of them have all words."""
    bound = results.session_count_bound
    text = f"{bound.qualify(pluralize(results.session_count, 'session'))} found{where}"
    if len(results.query_words) > 1 and results.session_count:
        text += f", {results.full_match_count:,} with all words"
    return (
        f"{text}; too many matches to check all of them" if results.is_partial else text
    )
