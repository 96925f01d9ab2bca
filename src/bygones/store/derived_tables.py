"""Write and read the derived tables of an index."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING

import msgspec
from msgspec import structs

from bygones.model.base import RecordId, SessionId
from bygones.model.projects import (
    ClueKind,
    InferredRepositories,
    ProjectDirectories,
    RepositoryClue,
    infer_repositories,
)
from bygones.model.summary import SessionSummary
from bygones.store.connect import fetch_all, fetch_one
from bygones.store.encoding import TextLengths
from bygones.store.index_db import IndexDB
from bygones.store.schema import (
    ABANDONED_RECORD,
    AGENT_DETAIL,
    AGENT_RUN,
    BRANCH,
    CONVERSATION,
    DIRTY_SESSION,
    EDIT,
    IN_SESSION,
    MESSAGE,
    MESSAGE_BLOCK,
    PROMPT,
    REPOSITORY_CLUE,
    SESSION,
    SESSION_TABLES,
    SETTLED_KEY,
    SETTLED_PART,
    TOOL_CALL,
    TURN,
    deferred_indexes,
)
from bygones.store.usage_tables import RowBounds, UsageTables

if TYPE_CHECKING:  # start-up time of `list`
    from bygones.store.derived_rows import DerivedRows
    from bygones.store.messages import MessageStore


decode_summary = msgspec.msgpack.Decoder(SessionSummary).decode
_decode_bounds = msgspec.msgpack.Decoder(RowBounds).decode
_encode_bounds = msgspec.msgpack.Encoder().encode
_json = msgspec.json.Encoder().encode
_end_time = itemgetter(0)
_FULL_SCAN_MIN = 200
"""Dirty sessions above which one query over all records is cheaper than many."""


def decode_by_end_time(
    rows: Iterable[tuple[int | None, bytes]],
) -> Iterator[SessionSummary]:
    """Yield summaries from rows sorted by end time.

    Sessions that ended at the same time are sorted by id: numbers differ after a
    rebuild.
    """
    for _, group in groupby(rows, _end_time):
        yield from sorted(
            (decode_summary(encoded) for _, encoded in group), key=attrgetter("id")
        )


_AGENT_TABLES = (
    "turn",
    "message_block",
    "agent_run",
    "agent_detail",
    "message",
    "tool_call",
)
"""Tables with rows of agent runs."""


class DerivedTables:
    """Reads and writes the derived rows of sessions."""

    def __init__(
        self, index: IndexDB, directories: ProjectDirectories | None = None
    ) -> None:
        self._db = index.db
        self.index = index
        self._directories = directories or ProjectDirectories()
        self._leaf_titles: dict[int, list[tuple[RecordId, str, int]]] | None = None
        """The leaf titles of all sessions, loaded if many sessions are derived."""

    @cached_property
    def _usage(self) -> UsageTables:

        return UsageTables(self.index)

    @cached_property
    def messages(self) -> MessageStore:
        from bygones.store.messages import MessageStore

        return MessageStore(self.index)

    def create_deferred_indexes(self) -> None:
        """Create the indexes that are left out for the first import."""
        sql = "SELECT 1 FROM sqlite_schema WHERE name = 'record_key'"
        if fetch_one(self._db, sql) is None:
            self._db.execute(deferred_indexes())

    def dirty_sessions(self) -> list[int]:
        """Return the sessions that must be derived again."""
        return [
            row[0] for row in fetch_all(self._db, "SELECT session FROM dirty_session")
        ]

    def dirty_sources(self) -> list[int]:
        """Return the sources of dirty sessions."""
        sql = (
            "SELECT source FROM source_state"
            " WHERE session IN (SELECT session FROM dirty_session)"
        )
        return [row[0] for row in fetch_all(self._db, sql)]

    def mark_titled_sessions_dirty(self) -> None:
        """Mark sessions for which a source of a dirty session has titles."""
        self._db.execute(
            "INSERT OR IGNORE INTO dirty_session"
            " SELECT r.session FROM (SELECT DISTINCT t.leaf_key FROM dirty_session AS d"
            " JOIN source_state AS s ON s.session = d.session"
            " JOIN leaf_title AS t ON t.source = s.source) AS titled"
            " JOIN record AS r ON r.key = titled.leaf_key"
        )

    def families_titled_by_others(self) -> list[tuple[int, int]]:
        """Return pairs of families: one has a title for a session of the other."""
        return fetch_all(
            self._db,
            "SELECT DISTINCT one.family, other.family"
            " FROM (SELECT DISTINCT leaf_key, source FROM leaf_title) AS t"
            " JOIN record AS r ON r.key = t.leaf_key"
            " JOIN session AS other ON other.number = r.session"
            " JOIN source_state AS s ON s.source = t.source"
            " JOIN session AS one ON one.number = s.session"
            " WHERE one.family <> other.family",
        )

    def group_families(self, dirty: Sequence[int]) -> list[list[int]]:
        """Return dirty sessions with all that share records or answers with them."""
        dirty = self._with_previous_families(dirty)
        has_many = len(dirty) > _FULL_SCAN_MIN
        self._leaf_titles = self.all_leaf_titles() if has_many else None
        pairs = self._all_related_pairs() if has_many else self._related_pairs(dirty)
        root: dict[int, int] = {}

        def find(session: int) -> int:
            while root.setdefault(session, session) != session:
                root[session] = root[root[session]]
                session = root[session]
            return session

        for first, second in pairs:
            root[find(first)] = find(second)
        groups: dict[int, set[int]] = {}
        for session in (*root, *dirty):
            groups.setdefault(find(session), set()).add(session)
        wanted = {find(session) for session in dirty}
        return [sorted(groups[family]) for family in sorted(wanted)]

    def _all_related_pairs(self) -> Iterator[tuple[int, int]]:
        for column in ("key", "message_key"):
            yield from fetch_all(
                self._db,
                "SELECT DISTINCT shared.least, r.session FROM record AS r"  # noqa: S608 (our names)
                f" JOIN (SELECT {column} AS id, min(session) AS least FROM record"
                f" WHERE {column} IS NOT NULL GROUP BY {column}"
                " HAVING min(session) <> max(session)) AS shared"
                f" ON r.{column} = shared.id",
            )

    def _related_pairs(self, dirty: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Yield pairs of related sessions, starting with some."""
        pending, visited = list(dirty), set(dirty)
        while pending:
            session = pending.pop()
            for column in ("key", "message_key"):
                rows = fetch_all(
                    self._db,
                    "SELECT DISTINCT other.session"  # noqa: S608 (our names)
                    f" FROM (SELECT DISTINCT {column} AS id FROM record"
                    f" WHERE {IN_SESSION} AND {column} IS NOT NULL) AS own"
                    f" CROSS JOIN record AS other ON other.{column} = own.id"
                    " WHERE other.session <> ?",
                    (session, session),
                )
                for (other,) in rows:
                    yield session, other
                    if other not in visited:
                        visited.add(other)
                        pending.append(other)

    def _with_previous_families(self, dirty: Sequence[int]) -> list[int]:
        """Return sessions with the families they had when last derived.

        If they are separated now, both parts must be derived again.
        """
        sql = (
            "SELECT number FROM session WHERE family IN (SELECT family FROM session"
            " WHERE number IN (SELECT value FROM json_each(?)))"
        )
        rows = fetch_all(self._db, sql, (_json(list(dirty)).decode(),))
        return list({*dirty, *(row[0] for row in rows)})

    def session_sources(self, session: int) -> list[int]:
        sql = "SELECT source FROM source_state WHERE session = ? ORDER BY source"
        return [row[0] for row in fetch_all(self._db, sql, (session,))]

    def leaf_titles(self, sessions: Iterable[int]) -> list[tuple[RecordId, str, int]]:
        """Return titles of the records of sessions, with the source that has them."""
        found: list[tuple[RecordId, str, int]] = []
        for session in sessions:
            if self._leaf_titles is not None:
                found += self._leaf_titles.get(session, ())
                continue
            found += fetch_all(
                self._db,
                "SELECT t.leaf, t.title, t.source"  # noqa: S608 (our names)
                f" FROM (SELECT DISTINCT key FROM record WHERE {IN_SESSION}) AS r"
                " CROSS JOIN leaf_title AS t ON t.leaf_key = r.key"
                " ORDER BY t.source, t.start",
                (session,),
            )
        return found

    def all_leaf_titles(self) -> dict[int, list[tuple[RecordId, str, int]]]:
        """Return titles of the records of all sessions, by session."""
        found: dict[int, list[tuple[RecordId, str, int]]] = {}
        rows = self._db.execute(
            "WITH titled AS MATERIALIZED (SELECT DISTINCT k.leaf_key, r.session"
            " FROM (SELECT DISTINCT leaf_key FROM leaf_title) AS k"
            " CROSS JOIN record AS r ON r.key = k.leaf_key)"
            " SELECT o.session, t.leaf, t.title, t.source FROM titled AS o"
            " CROSS JOIN leaf_title AS t ON t.leaf_key = o.leaf_key"
            " ORDER BY t.source, t.start"
        )
        for session, *values in rows:
            found.setdefault(session, []).append((values[0], values[1], values[2]))
        return found

    def insert_session(
        self, number: int, family: int, derived_rows: DerivedRows
    ) -> None:
        """Insert the rows of a session, which must have none."""
        self.insert_open_rows(number, family, derived_rows, RowBounds())

    def insert_open_rows(
        self, number: int, family: int, derived_rows: DerivedRows, bounds: RowBounds
    ) -> None:
        """Insert the rows of a session that follow those of its settled part."""
        *facts, summary = derived_rows.session_row
        lengths = self._session_lengths(number)
        self._db.execute(
            SESSION.insert_sql(), (number, family, *facts, lengths, summary)
        )
        self._usage.insert_usage(number, derived_rows, bounds.summed_usage)
        self._insert_parts(number, derived_rows)

    def _insert_parts(self, number: int, derived_rows: DerivedRows) -> None:
        """Insert the rows of the parts of a session: edits, prompts, messages, ..."""
        abandoned = [(key,) for key in derived_rows.abandoned_keys]
        for sql, rows in (
            (ABANDONED_RECORD.insert_sql("IGNORE"), abandoned),
            (AGENT_RUN.insert_sql("IGNORE"), derived_rows.agent_runs),
            (CONVERSATION.insert_sql(), derived_rows.conversations),
            (TURN.insert_sql(), derived_rows.turns),
            (MESSAGE_BLOCK.insert_sql(), derived_rows.message_blocks),
            (EDIT.insert_sql(), derived_rows.edits),
            (REPOSITORY_CLUE.insert_sql("IGNORE"), derived_rows.repository_clues),
            (PROMPT.insert_sql(), derived_rows.prompts),
            (MESSAGE.insert_sql(), derived_rows.facts.messages),
            (TOOL_CALL.insert_sql(), derived_rows.facts.tool_calls),
            (BRANCH.insert_sql(), derived_rows.facts.branches),
            (AGENT_DETAIL.insert_sql("IGNORE"), derived_rows.facts.agents),
        ):
            if rows:
                self._db.executemany(sql, [(number, *row) for row in rows])

    def insert_settled_rows(
        self, number: int, derived_rows: DerivedRows, bounds: RowBounds
    ) -> RowBounds:
        """Insert rows that stay when a session grows; return the last ones."""
        bounds = self._usage.insert_settled_usage(number, derived_rows, bounds)
        self._insert_parts(number, derived_rows)
        return structs.replace(
            bounds,
            edit=self._last_row("edit", number),
            prompt=self._last_row("prompt", number),
        )

    def _last_row(self, table: str, number: int) -> int:
        sql = f"SELECT max(rowid) FROM {table} WHERE session = ?"  # noqa: S608 (our names)
        return int(fetch_one(self._db, sql, (number,))[0] or 0)

    def dirty_sessions_with_settled_part(self) -> set[int]:
        sql = "SELECT session FROM settled_part JOIN dirty_session USING (session)"
        return {row[0] for row in fetch_all(self._db, sql)}

    def dirty_sessions_with_nodes(self, count: int) -> set[int]:
        """Return the dirty sessions that have at least so many nodes."""
        sql = (
            "SELECT d.session FROM dirty_session AS d"
            " JOIN source_state AS s ON s.session = d.session"
            " JOIN node_page AS p ON p.source = s.source"
            " GROUP BY d.session HAVING sum(p.node_count) >= ?"
        )
        return {number for (number,) in fetch_all(self._db, sql, (count,))}

    def load_settled_part(self, number: int) -> tuple[RowBounds, bytes] | None:
        """Return what is settled of a session, if anything is."""
        sql = "SELECT bounds, facts FROM settled_part WHERE session = ?"
        row = fetch_one(self._db, sql, (number,))
        return (_decode_bounds(row[0]), row[1]) if row else None

    def save_settled_part(self, number: int, bounds: RowBounds, facts: bytes) -> None:
        sql = SETTLED_PART.insert_sql("REPLACE")
        self._db.execute(sql, (number, _encode_bounds(bounds), facts))

    def add_settled_keys(self, number: int, keys: Iterable[int]) -> None:
        rows = ((number, key) for key in keys)
        self._db.executemany(SETTLED_KEY.insert_sql("IGNORE"), rows)

    def has_settled_key(self, number: int, keys: Iterable[int]) -> bool:
        """Whether records of the settled part name one of some ids."""
        sql = (
            "SELECT 1 FROM json_each(?) AS k"
            " CROSS JOIN settled_key AS s ON s.session = ? AND s.key = k.value LIMIT 1"
        )
        values = (_json(list(keys)).decode(), number)
        return fetch_one(self._db, sql, values) is not None

    def has_other_records(
        self,
        column: str,
        keys: Iterable[int],
        place: tuple[int, int],
        others: Sequence[int],
    ) -> bool:
        """Whether records elsewhere have one of some keys.

        `column` is `key` or `message_key`. Elsewhere is before an offset of a source
        (`place`), and in all sources but `others`.
        """
        sql = (
            "SELECT 1 FROM json_each(?) AS k"  # noqa: S608 (our names)
            f" CROSS JOIN record AS r ON r.{column} = k.value"
            " WHERE NOT (r.source = ? AND r.start >= ?)"
            " AND r.source NOT IN (SELECT value FROM json_each(?)) LIMIT 1"
        )
        values = (_json(list(keys)).decode(), *place, _json(list(others)).decode())
        return fetch_one(self._db, sql, values) is not None

    def has_summaries(self, number: int) -> bool:
        """Whether any source has a summary of a session's record.

        Unlike `leaf_titles` it doesn't read all records of the session.
        """
        sql = (
            "SELECT 1 FROM (SELECT DISTINCT leaf_key FROM leaf_title) AS t"
            " CROSS JOIN record AS r"
            " ON r.key = t.leaf_key WHERE r.session = ? LIMIT 1"
        )
        return fetch_one(self._db, sql, (number,)) is not None

    def has_settled_edit(self, number: int, bounds: RowBounds, path: str) -> bool:
        """Whether a settled edit of a session changed a file."""
        sql = "SELECT 1 FROM edit WHERE path = ? AND session = ? AND rowid <= ? LIMIT 1"
        return fetch_one(self._db, sql, (path, number, bounds.edit)) is not None

    def load_block(self, number: int, start: int) -> bytes | None:
        """Return the block of a session's live branch that starts with a message."""
        sql = (
            "SELECT frame FROM message_block WHERE session = ? AND agent = ''"
            " AND branch = 0 AND start = ?"
        )
        row = fetch_one(self._db, sql, (number, start))
        return row[0] if row else None

    def delete_open_rows(self, number: int, bounds: RowBounds) -> None:
        """Delete the rows of a session that may change, and its dirty mark."""
        self._db.execute(DIRTY_SESSION.delete_sql("session"), (number,))
        self._db.execute(SESSION.delete_sql("number"), (number,))
        self._usage.delete_open_usage(number, bounds)
        for table, last in (("edit", bounds.edit), ("prompt", bounds.prompt)):
            sql = f"DELETE FROM {table} WHERE session = ? AND rowid > ?"  # noqa: S608 (our names)
            self._db.execute(sql, (number, last))
        for table, column, start in (
            ("message_block", "start", bounds.message_block),
            ("turn", "start", bounds.turn),
            ("message", "number", bounds.message),
            ("tool_call", "message", bounds.message),
        ):
            sql = (
                f"DELETE FROM {table} WHERE session = ? AND agent = ''"  # noqa: S608 (our names)
                f" AND branch = 0 AND {column} >= ?"
            )
            self._db.execute(sql, (number, start))
        for agent in ("", *bounds.agents):
            tables = ("conversation", "branch", *_AGENT_TABLES)
            for table in tables if agent else tables[:2]:
                sql = f"DELETE FROM {table} WHERE session = ? AND agent = ?"  # noqa: S608 (our names)
                self._db.execute(sql, (number, agent))

    def _session_lengths(self, number: int) -> bytes:
        """Return the text lengths of all sources of a session."""
        lengths = TextLengths()
        sql = (
            "SELECT lengths FROM text_length JOIN source_state USING (source)"
            " WHERE session = ?"
        )
        for (packed,) in fetch_all(self._db, sql, (number,)):
            lengths.merge(TextLengths(packed))
        return lengths.pack()

    def delete_session(self, number: int, *, is_partial: bool = False) -> None:
        """Delete the rows of a session, and its dirty mark.

        A session that was written only in part has no summary yet.
        """
        self._db.execute(DIRTY_SESSION.delete_sql("session"), (number,))
        sql = "SELECT 1 FROM session WHERE number = ?"
        if not is_partial and fetch_one(self._db, sql, (number,)) is None:
            return
        self._usage.delete_usage(number)
        for table in SESSION_TABLES:
            sql = table.delete_sql(table.session_column or "session")
            self._db.execute(sql, (number,))

    def iter_summaries(
        self, *, include_empty: bool = False
    ) -> Iterator[SessionSummary]:
        """Yield the summaries of sessions, newest first."""
        sql = "SELECT ended_ms, summary FROM session"
        if not include_empty:
            sql += " WHERE NOT is_empty"
        rows = self._db.execute(f"{sql} ORDER BY ended_ms DESC")
        return map(self._directories.apply, decode_by_end_time(rows))

    def projects(self) -> list[str]:
        """Return the directories of all sessions."""
        sql = "SELECT DISTINCT project FROM session WHERE project IS NOT NULL"
        return [row[0] for row in fetch_all(self._db, sql)]

    def infer_repositories(self) -> InferredRepositories:
        """Return what records say about the repositories of directories."""
        sql = (
            "SELECT DISTINCT coalesce(nullif(c.directory, ''), s.project),"
            " c.kind, c.value FROM repository_clue AS c"
            " JOIN session AS s ON s.number = c.session"
        )
        clues = [
            RepositoryClue(directory, ClueKind(kind), value)
            for directory, kind, value in fetch_all(self._db, sql)
            if directory
        ]
        return infer_repositories(clues, self.projects())

    def projects_of(self, sessions: Iterable[SessionId]) -> set[str]:
        """Return the directories of sessions."""
        sql = (
            "SELECT project FROM session JOIN session_id AS s USING (number)"
            " WHERE s.id = ?"
        )
        rows = (fetch_one(self._db, sql, (session,)) for session in sessions)
        return {row[0] for row in rows if row and row[0]}

    def session_number(self, session: SessionId) -> int | None:
        sql = "SELECT number FROM session_id WHERE id = ?"
        row = fetch_one(self._db, sql, (session,))
        return int(row[0]) if row else None

    def family_members(self, number: int) -> list[int]:
        """Return a session and those that share records with it."""
        rows = fetch_all(
            self._db,
            "SELECT number FROM session WHERE family ="
            " (SELECT family FROM session WHERE number = ?) ORDER BY number",
            (number,),
        )
        return [row[0] for row in rows]
