"""The store reader of a local archive."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from bygones.errors import AmbiguousSelector, ArchiveDamaged, NotInArchive
from bygones.model.base import AgentId, SessionId, require_valid_text
from bygones.model.path_case import path_ends_with
from bygones.model.projects import ProjectDirectories
from bygones.model.summary import IndexedEdit, SessionSummary
from bygones.store.annotations import load_annotations, load_directories
from bygones.store.archive_db import ArchiveDB, StoredSource
from bygones.store.connect import fetch_all, fetch_one, translate_read_errors
from bygones.store.derived_tables import DerivedTables, decode_summary
from bygones.store.encoding import (
    MAX_CHAR,
    SessionTextLengths,
    TextLengths,
    id_key,
    id_key_range,
    split_titles,
)
from bygones.store.index_db import IndexDB
from bygones.store.protocols import PromptRow, RecordLocation, StoreReader

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from bygones.model.summary import Annotations
    from bygones.store.archive_dir import ArchiveDir
    from bygones.store.protocols import (
        EditReader,
        Lookup,
        NodeReader,
        PromptReader,
        SearchEngine,
        SearchFacts,
        UsageReader,
    )


MAX_SUGGESTIONS = 5
"""Candidates that an error message lists."""
_TITLE_CHARS = 50
"""Characters of a title in an error message."""


def find_session(lookup: Lookup, id_or_prefix: str) -> SessionSummary:
    """Return a session's summary by its id, or by a unique prefix of it."""
    found = (
        lookup.find_sessions(require_valid_text(id_or_prefix), MAX_SUGGESTIONS)
        if id_or_prefix
        else []
    )
    if not found and id_or_prefix:
        found = _find_containing(lookup, id_or_prefix)
    if len(found) > 1:
        count = sum(id_.startswith(id_or_prefix) for id_ in lookup.session_ids())
        raise AmbiguousSelector(
            "session",
            id_or_prefix,
            [_describe_candidate(summary) for summary in found],
            max(0, count - len(found)),
        )
    if not found:
        from difflib import get_close_matches

        prefixes = {id_[: len(id_or_prefix)]: id_ for id_ in lookup.session_ids()}
        close = get_close_matches(id_or_prefix, prefixes, n=MAX_SUGGESTIONS)
        raise NotInArchive(
            "session", id_or_prefix, [prefixes[prefix] for prefix in close]
        )
    return found[0]


def _find_containing(lookup: Lookup, prefix: str) -> list[SessionSummary]:
    """Return the first session that contains each session with a prefix."""
    found: dict[SessionId, SessionSummary] = {}
    for _, summary in lookup.numbered_summaries():
        for contained in summary.contained_ids:
            if contained.startswith(prefix):
                first = found.setdefault(contained, summary)
                if _age_key(summary) < _age_key(first):
                    found[contained] = summary
    return list({summary.id: summary for summary in found.values()}.values())


def _age_key(summary: SessionSummary) -> tuple[bool, float, str]:
    ended_at = summary.ended_at
    return ended_at is None, ended_at.timestamp() if ended_at else 0.0, summary.id


def _describe_candidate(summary: SessionSummary) -> str:
    date = f"{summary.ended_at:%Y-%m-%d}  " if summary.ended_at else ""
    return f"{summary.id}  {date}{summary.title.text[:_TITLE_CHARS]}"


class IndexLookup:
    """Finds sessions and records in an index, with what a search needs to know."""

    def __init__(
        self, index: IndexDB, directories: ProjectDirectories | None = None
    ) -> None:
        self._db = index.db
        self._directories = directories or ProjectDirectories()
        self._summaries: dict[int, SessionSummary] = {}
        self._locations: dict[int, RecordLocation] = {}

    def _decode(self, encoded: bytes) -> SessionSummary:
        return self._directories.apply(decode_summary(encoded))

    def load_summary(self, number: int) -> SessionSummary | None:
        if number in self._summaries:
            return self._summaries[number]
        sql = "SELECT summary FROM session WHERE number = ?"
        row = fetch_one(self._db, sql, (number,))
        return self._decode(row[0]) if row else None

    def find_sessions(self, prefix: str, limit: int) -> list[SessionSummary]:
        """Return sessions by the prefix of their id; an exact match alone."""
        sql = "SELECT summary FROM session JOIN session_id AS s USING (number) WHERE "
        exact = fetch_all(self._db, f"{sql} s.id = ?", (prefix,))
        rows = exact or fetch_all(
            self._db,
            f"{sql} s.id >= ? AND s.id < ? LIMIT ?",
            (prefix, prefix + MAX_CHAR, limit),
        )
        return [self._decode(row[0]) for row in rows]

    def numbered_summaries(self) -> Iterator[tuple[int, SessionSummary]]:
        """Yield the summary of every session, with its number."""
        for number, blob in self._db.execute("SELECT number, summary FROM session"):
            yield number, self._decode(blob)

    def session_ids(self) -> list[str]:
        sql = "SELECT s.id FROM session JOIN session_id AS s USING (number)"
        return [row[0] for row in fetch_all(self._db, sql)]

    def find_records(self, prefix: str, limit: int) -> list[RecordLocation]:
        """Return the locations of records whose id may start with a prefix.

        Those of the oldest session come first. The index only stores keys of ids, so
        the caller must check the records. At most `limit` different keys are returned.
        """
        low = high = id_key(prefix)
        rows = self._records_between(low, high, limit)
        bounds = id_key_range(prefix)
        if not rows and bounds is not None:
            rows = self._records_between(*bounds, limit)
        return rows

    def _records_between(self, low: int, high: int, limit: int) -> list[RecordLocation]:
        rows = fetch_all(
            self._db,
            "SELECT r.session, r.key, r.source, r.start, r.length FROM record AS r"
            " LEFT JOIN session AS s ON s.number = r.session"
            " WHERE r.key IN (SELECT DISTINCT key FROM record"
            "   WHERE key BETWEEN ? AND ? ORDER BY key LIMIT ?)"
            " ORDER BY s.started_ms IS NULL, s.started_ms, r.session, r.source,"
            " r.start",
            (low, high, limit),
        )
        return [RecordLocation(*row) for row in rows]

    def drift(self) -> Iterator[tuple[str, str, str, int]]:
        """Yield what this version doesn't know: kind, name, version, count."""
        yield from self._db.execute(
            "SELECT kind, name, version, sum(count) FROM drift"
            " GROUP BY kind, name, version ORDER BY kind, name, version"
        )

    def text_lengths(self) -> SessionTextLengths:
        """Return the text lengths of each session, by number."""
        return SessionTextLengths(
            dict(self._db.execute("SELECT number, text_lengths FROM session"))
        )

    def time_ranges(self) -> dict[int, tuple[int, int]]:
        """Return the first and last time of each session's records; 0 if unknown."""
        rows = self._db.execute("SELECT number, text_lengths FROM session")
        lengths = ((number, TextLengths(packed)) for number, packed in rows)
        return {number: (found.first_ms, found.last_ms) for number, found in lengths}

    def end_times(self) -> dict[int, int]:
        """Return when each session ended, in milliseconds; 0 if unknown."""
        sql = "SELECT number, ifnull(ended_ms, 0) FROM session"
        return dict(self._db.execute(sql))

    def given_titles(self) -> list[tuple[int, str]]:
        """Return the titles that were set explicitly, and summaries."""
        sql = "SELECT number, title FROM session WHERE title <> ''"
        return split_titles(fetch_all(self._db, sql))

    def tool_names(self) -> list[str]:
        sql = "SELECT DISTINCT tool FROM tool_context"
        return [row[0] for row in fetch_all(self._db, sql)]

    def sessions_calling(self, tool: str) -> set[int]:
        sql = "SELECT DISTINCT session FROM tool_context WHERE tool = ?"
        return {row[0] for row in fetch_all(self._db, sql, (tool,))}

    def record_location(self, record: int) -> RecordLocation | None:
        if record in self._locations:
            return self._locations[record]
        sql = "SELECT session, key, source, start, length FROM record WHERE id = ?"
        row = fetch_one(self._db, sql, (record,))
        return RecordLocation(*row) if row else None

    def abandoned_records(self) -> list[int]:
        """Return all records on abandoned branches."""
        sql = (
            "SELECT r.id FROM abandoned_record AS a CROSS JOIN record AS r"
            " ON r.key = a.record_key AND r.session = a.session"
        )
        return [row[0] for row in fetch_all(self._db, sql)]

    def find_record(self, session: int, key: int) -> int | None:
        """Return the number of a session's record by its key."""
        sql = "SELECT id FROM record WHERE key = ? AND session = ?"
        row = fetch_one(self._db, sql, (key, session))
        return int(row[0]) if row else None

    def abandoned_keys(self, session: int) -> set[int]:
        """Return the keys of a session's records on abandoned branches."""
        sql = "SELECT record_key FROM abandoned_record WHERE session = ?"
        return {row[0] for row in fetch_all(self._db, sql, (session,))}

    def agent_type(self, session: int, agent: str) -> str | None:
        sql = "SELECT agent_type FROM agent_run WHERE session = ? AND agent = ?"
        row = fetch_one(self._db, sql, (session, agent))
        return row[0] if row else None

    def families(self) -> dict[int, int]:
        """Return the family of each session that shares records with another."""
        return dict(
            fetch_all(
                self._db,
                "SELECT number, family FROM session WHERE family IN"
                " (SELECT family FROM session GROUP BY family HAVING count(*) > 1)",
            )
        )

    def prefetch(self, sessions: Sequence[int], records: Sequence[int]) -> None:
        """Load what will be needed of sessions and records."""
        new = [number for number in sessions if number not in self._summaries]
        for number, blob in self._select("number, summary FROM session", "number", new):
            self._summaries[number] = self._decode(blob)
        columns = "id, session, key, source, start, length FROM record"
        new = [number for number in records if number not in self._locations]
        for number, *row in self._select(columns, "id", new):
            self._locations[number] = RecordLocation(*row)

    def record_keys(self, records: Iterable[int]) -> dict[int, int]:
        """Return the keys of records, which copies have in common."""
        return dict(self._select("id, key FROM record", "id", list(records)))

    def _select(self, columns: str, key: str, numbers: Sequence[int]) -> list[Any]:
        """Return the rows with some numbers."""
        if not numbers:
            return []
        encoded = msgspec.json.encode(numbers).decode()
        sql = f"SELECT {columns} WHERE {key} IN (SELECT value FROM json_each(?))"  # noqa: S608 (our names)
        return fetch_all(self._db, sql, (encoded,))


class IndexEdits:
    """Which files tool calls changed."""

    _SQL = (
        "SELECT e.path, s.id, e.branch, e.agent, e.time_ms, e.added, e.removed,"
        " e.is_new, e.is_deleted, e.has_diff, e.tool"
        " FROM edit AS e JOIN session_id AS s ON s.number = e.session"
    )
    _ORDER = " ORDER BY e.time_ms, e.rowid"

    def __init__(self, index: IndexDB) -> None:
        self._db = index.db

    def edits_in_session(self, session: SessionId) -> list[IndexedEdit]:
        """Return the edits of a session, oldest first."""
        sql = f"{self._SQL} WHERE s.id = ?{self._ORDER}"
        return [edit_from_row(row) for row in fetch_all(self._db, sql, (session,))]

    def edits_under(self, path: str) -> list[IndexedEdit]:
        """Return the edits of a file, or of all files below a folder, oldest first."""
        folder = path.rstrip("/\\") + ("\\" if "\\" in path else "/")
        sql = f"{self._SQL} WHERE e.path = ? OR (e.path >= ? AND e.path < ?)"
        values = (path, folder, folder + MAX_CHAR)
        return [
            edit_from_row(row) for row in fetch_all(self._db, sql + self._ORDER, values)
        ]

    def edits_with_suffix(self, suffix: str) -> list[IndexedEdit]:
        """Return the edits of files whose path ends with a suffix, oldest first."""
        sql = (
            f"{self._SQL} WHERE e.path = ?1 COLLATE NOCASE"
            " OR substr(replace(e.path, '\\', '/'), -length(?1) - 1)"
            " = '/' || ?1 COLLATE NOCASE"
        )
        return [
            edit_from_row(row)
            for row in fetch_all(self._db, sql + self._ORDER, (suffix,))
            if path_ends_with(row[0], suffix)
        ]


class IndexPrompts:
    """What users typed, in all sessions."""

    def __init__(self, index: IndexDB) -> None:
        self._db = index.db

    def newest_first(self) -> Iterator[PromptRow]:
        """Yield prompts; one that several sessions contain comes once, in the oldest."""
        rows = self._db.execute(
            "SELECT n.id, p.record, p.time_ms, p.branch, p.text_head, p.other_session"
            " FROM prompt AS p"
            " JOIN session_id AS n ON n.number = p.session"
            " JOIN session AS s ON s.number = p.session"
            " WHERE p.rowid = (SELECT q.rowid FROM prompt AS q"
            "   JOIN session AS t ON t.number = q.session"
            "   WHERE q.record = p.record AND q.session IN"
            "     (SELECT number FROM session WHERE family = s.family)"
            "   ORDER BY t.started_ms, q.session LIMIT 1)"
            " ORDER BY p.time_ms DESC, p.rowid DESC"
        )
        for session, record, time_ms, *rest in rows:
            yield PromptRow(session, record, from_milliseconds(time_ms), *rest)


def edit_from_row(
    row: tuple[str, str, int, str | None, int | None, int, int, int, int, int, str],
) -> IndexedEdit:
    """Return an edit from its row in any store."""
    path, session, branch, agent, time_ms, added, removed, *marks, tool = row
    is_new, is_deleted, has_diff = map(bool, marks)
    return IndexedEdit(
        path=path,
        session_id=SessionId(session),
        branch_number=branch,
        agent_id=AgentId(agent) if agent is not None else None,
        edited_at=from_milliseconds(time_ms),
        added_lines=added,
        removed_lines=removed,
        is_new_file=is_new,
        is_deleted=is_deleted,
        has_diff=has_diff,
        tool_name=tool,
    )


def from_milliseconds(milliseconds: int | None) -> datetime | None:
    """Return the time of a timestamp in milliseconds."""
    if milliseconds is None:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def load_sources(reader: StoreReader) -> list[StoredSource]:
    """Return the sources of a store; of a local archive those that can be read."""
    if isinstance(reader.byte_store, ArchiveDB):
        return load_readable_sources(reader.byte_store)[0]
    return list(reader.byte_store.sources())


def load_readable_sources(
    archive_db: ArchiveDB,
) -> tuple[list[StoredSource], list[int]]:
    """Return the sources that can be read, and the numbers of the others."""
    try:
        return list(archive_db.sources()), []
    except ArchiveDamaged:
        numbers = _find_source_numbers(archive_db)
    found, lost = [], []
    for number in numbers:
        try:
            source = archive_db.source(number)
        except ArchiveDamaged:
            source = None
        if source is None:
            lost.append(number)
        else:
            found.append(source)
    return found, lost


def _find_source_numbers(archive_db: ArchiveDB) -> list[int]:
    """Return the numbers of all sources that any intact page mentions."""
    found: set[int] = set()
    for table in ("generation", "chunk", "fragment"):
        sql = f"SELECT DISTINCT source FROM {table}"  # noqa: S608 (our names)
        with suppress(ArchiveDamaged), translate_read_errors(archive_db.path):
            found.update(row[0] for row in archive_db.db.execute(sql))
    return sorted(found)


class LocalReader:
    """A read-only view of a local archive."""

    def __init__(self, archive_dir: ArchiveDir) -> None:
        self.archive_dir = archive_dir
        self.byte_store = archive_dir.byte_store

    @property
    def index(self) -> NodeReader | None:
        return self.archive_dir.index

    @property
    def sessions(self) -> DerivedTables:
        """The derived tables; raises an error if there is no index."""
        if self.archive_dir.index is None:
            raise self.archive_dir.index_missing_error()
        return DerivedTables(self.archive_dir.index, self.directories)

    @cached_property
    def directories(self) -> ProjectDirectories:
        """Which directories are one project, as of when the archive was opened."""
        index = self.archive_dir.index
        inferred = DerivedTables(index).infer_repositories() if index else None
        return load_directories(self.byte_store.db, inferred)

    @property
    def lookup(self) -> IndexLookup:
        return IndexLookup(self.sessions.index, self.directories)

    @property
    def search_facts(self) -> SearchFacts:
        return IndexLookup(self.sessions.index, self.directories)

    @property
    def edits(self) -> EditReader:
        return IndexEdits(self.sessions.index)

    @property
    def prompts(self) -> PromptReader:
        return IndexPrompts(self.sessions.index)

    @property
    def usage(self) -> UsageReader:
        from bygones.store.usage_tables import UsageTables

        return UsageTables(self.sessions.index, self.directories)

    def engine(self) -> SearchEngine:
        """Return the text index in its current state."""
        from bygones.store.tantivy_engine import TantivyEngine

        return TantivyEngine(self.archive_dir.text_index)

    def annotations(self) -> dict[SessionId, Annotations]:
        return load_annotations(self.archive_dir.byte_store.db)

    def read_transaction(self) -> AbstractContextManager[None]:
        """Let all reads see the same state, even while others write.

        Raises `IndexDamaged` if another program changed the files of the index.
        """
        if not self.archive_dir.is_in_transaction:
            self.archive_dir.check_index_files()
        return self.archive_dir.read_transaction()

    def check_for_changes(self) -> bool:
        """Return `True`: callers open the archive again to see changes."""
        return True

    def close(self) -> None:
        self.archive_dir.close()
