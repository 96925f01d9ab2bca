"""Rows of whole views, for tables and files.

Messages, tool calls, prompts and commits are found in one pass over the archive: their
texts are in the same records.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from heapq import merge
from itertools import repeat
from typing import TYPE_CHECKING

from bygones.data.text_batches import TextBatchLoader
from bygones.data.texts import ContentLoader
from bygones.data.views import View, ViewName
from bygones.files.commits import find_call_commits, is_git_command, may_report_commit
from bygones.files.events import Place
from bygones.model.base import SessionId
from bygones.store.connect import fetch_all
from bygones.store.encoding import MAX_CHAR
from bygones.store.fact_encoding import MAY_COMMIT
from bygones.store.sql_sandbox import SqlRow, SqlValue

if TYPE_CHECKING:
    from bygones.data.sql import SqlService

ViewRow = tuple[ViewName, SqlRow]
Failures = dict[SessionId, Exception]
"""The first error of each session whose texts could not be loaded or redacted."""
_NO_TEXTS = (None, None)
_CALL_COLUMNS = (
    "session, agent, branch, message, position, flags, call_key, call_block,"
    " result_key, result_block"
)
_FLAGS = 5
"""Number of the flags among the values that name a call."""


class _Layout:
    """Where the columns of a view are in rows of `View.build_export_sql`."""

    def __init__(self, view: View) -> None:
        self.name = view.name
        self._count = len(view.columns)
        names = [column.name for column in view.columns]
        self._loaded = [
            (names.index(name), number)
            for name, number in _LOADED_COLUMNS.items()
            if name in names
        ]
        self._names = names

    def arguments(self, row: SqlRow) -> SqlRow:
        """Return the values that name what is read from the archive."""
        return row[self._count :]

    def place(self, row: SqlRow) -> SqlRow:
        """Return session, agent, branch and message; prompts follow their session."""
        if self.name == "prompts":
            return (row[self._count], MAX_CHAR)
        return row[self._count : self._count + 4]

    def fill(self, row: SqlRow, texts: Sequence[str | None]) -> ViewRow:
        """Return a row with what was read."""
        values = list(row[: self._count])
        for at, number in self._loaded:
            values[at] = texts[number]
        return self.name, tuple(values)

    def value(self, row: SqlRow, column: str) -> SqlValue:
        """Return the value of a column."""
        return row[self._names.index(column)]


_LOADED_COLUMNS = {"text": 0, "thinking": 1, "input": 0, "output": 1}
"""Columns that are read, and their numbers among the texts of a message or call."""


def read_rows(
    service: SqlService, views: Sequence[View], failures: Failures | None = None
) -> Iterator[ViewRow]:
    """Yield all rows of some views, with the names of the views.

    A text that cannot be loaded raises an error; with `failures` it is missing instead,
    and the error is added to them.
    """
    in_one_pass = [one for one in views if one.arguments]
    # Commits are made by calls, which are read anyway if all views are.
    with_commits = {"tool_calls", "commits"} <= {view.name for view in views}
    for view in views:
        if view in in_one_pass or (view.name == "commits" and with_commits):
            continue
        with service.stream_view(view) as rows:
            yield from ((view.name, row) for row in rows)
    if in_one_pass:
        reader = _ConversationReader(service, failures, with_commits=with_commits)
        yield from reader.read(in_one_pass)


class _ConversationReader:
    """Reads messages, calls and prompts with their texts, and the commits of calls."""

    def __init__(
        self, service: SqlService, failures: Failures | None, *, with_commits: bool
    ) -> None:
        self._service = service
        self._failures = failures
        self._with_commits = with_commits
        self._loader = TextBatchLoader(service.reader, service.texts)
        self._finder = _CommitFinder(service)

    def read(self, views: Sequence[View]) -> Iterator[ViewRow]:
        """Yield the rows of views, session by session."""
        stream_view = self._service.stream_view
        with ExitStack() as stack:
            streams = [
                zip(repeat(_Layout(view)), stack.enter_context(stream_view(view)))
                for view in views
            ]
            # A message precedes its calls, because its stream does.
            merged = merge(*streams, key=lambda pair: pair[0].place(pair[1]))
            for layout, row in self._loader.load_ahead(
                merged, lambda pair: pair[0].arguments(pair[1])
            ):
                yield from self._fill(layout, row)

    def _fill(self, layout: _Layout, row: SqlRow) -> list[ViewRow]:
        """Return a row with its texts, and the commits that it made."""
        rows = [layout.fill(row, _NO_TEXTS)]
        try:
            rows = [layout.fill(row, self._load_texts(layout, row))]
            rows += self._find_commits(layout, row)
        except (OSError, MemoryError):
            raise  # affects all sessions
        except Exception as error:
            if self._failures is None:
                raise
            session = self._finder.ids[layout.arguments(row)[0]]
            self._failures.setdefault(session, error)
        return rows

    def _load_texts(self, layout: _Layout, row: SqlRow) -> Sequence[str | None]:
        named = layout.arguments(row)
        if layout.name == "prompts":
            return (self._loader.prompt_text(named),)
        if layout.name == "messages":
            return self._loader.message_texts(named)
        return self._loader.call_texts(named)

    def _find_commits(self, layout: _Layout, row: SqlRow) -> Iterator[ViewRow]:
        named = layout.arguments(row)
        is_call = layout.name == "tool_calls"
        if is_call and self._with_commits and _may_commit(named, self._loader):
            turn = layout.value(row, "turn")
            time_ms = layout.value(row, "called_at")
            for found in self._finder.find(named, turn, time_ms):
                yield "commits", found


def find_commits(service: SqlService) -> Iterator[SqlRow]:
    """Yield the rows of the view of commits."""
    sql = (
        f"SELECT {_CALL_COLUMNS}, turn + 1, time_ms FROM tool_call"  # noqa: S608 (our names)
        f" WHERE flags & {MAY_COMMIT} ORDER BY session, agent, branch, message, position"
    )
    finder = _CommitFinder(service)
    loader = TextBatchLoader(service.reader, finder.originals)
    rows = service.reader.sessions.index.db.execute(sql)
    # Few of these commands commit something, so most results need not be read.
    for row in loader.load_ahead(rows, lambda row: (*row[:8], None, 0)):
        *arguments, turn, time_ms = row
        if _may_commit(arguments, loader):
            yield from finder.find(arguments, turn, time_ms)


def _may_commit(arguments: Sequence[SqlValue], loader: TextBatchLoader) -> bool:
    flags = arguments[_FLAGS]
    if not isinstance(flags, int) or not flags & MAY_COMMIT:
        return False
    command = loader.find_command(arguments)
    if command is not None and not is_git_command(command):
        return False
    line = loader.result_line(arguments)
    return line is None or may_report_commit(line)


class _CommitFinder:
    """Finds the commits that calls made."""

    def __init__(self, service: SqlService) -> None:
        self._service = service
        # Only what is found is redacted.
        self.originals = ContentLoader(service.reader, service.loader, None)
        index = service.reader.sessions.index.db
        self.ids: dict[SqlValue, SessionId] = dict(
            fetch_all(index, "SELECT number, id FROM session_id")
        )
        """The ids of sessions by number."""

    def find(
        self, arguments: Sequence[SqlValue], turn: SqlValue, time_ms: SqlValue
    ) -> Iterator[SqlRow]:
        """Yield the commits of a call as rows of the view."""
        call = self.originals.call(*arguments)  # type: ignore[arg-type]
        session, _, branch, *_ = arguments
        place = Place(session_id=self.ids[session], branch_number=0, turn_number=0)
        clean = self._service.texts.redact
        for commit in find_call_commits(call, place, None) if call else ():
            yield (
                commit.sha or None,
                commit.kind,
                clean(commit.summary) or None,
                clean(commit.git_branch) or None,
                clean(commit.url) or None,
                place.session_id,
                turn,
                int(str(branch)) + 1,
                time_ms,
            )
