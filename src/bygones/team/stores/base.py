"""The interface of team stores, and the code that both SQL stores share.

How bytes get from a person's machine into an answer:

1. The hub receives lines of a source, redacted by the client. It writes the bytes to
   the blob store and gets an address.
2. ``store.put(SourceUpdate(...))`` records the spans and marks their source as pending,
   in one step. From then on nothing is lost, and the hub acknowledges the upload.
3. ``derive_all(store, blobs)`` of :mod:`bygones.team.worker` runs after uploads and
   when a hub starts. It takes ``store.pending_sources()``, reads whole sources back
   from the blob store, derives their sessions with the code of the local index, and
   passes the rows to ``store.replace_sessions``. It can be stopped at any time and run
   twice: a source stays pending until its sessions are written. Of a long session that
   has grown it reads the end only, and replaces the last part of its rows.
4. ``store.open_reader(scope, blobs)`` is the only way to read. It answers like the
   index of a local archive, limited to the sessions that the scope may see.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from bygones.errors import ArchiveDamaged, SourceUpdateRejected
from bygones.model.base import AgentId, ProjectKey, SessionId, SourceKind
from bygones.model.summary import ProjectIdentity
from bygones.store.compression import compress, decompress, sha256_digest
from bygones.store.encoding import to_milliseconds
from bygones.team.contract import (
    PROJECT_RULE_KIND,
    AccessScope,
    BlobStore,
    DatabaseConnection,
    DerivedSessions,
    ErasureReceipt,
    ErasureSelector,
    LeafTitle,
    PendingSource,
    ProjectRule,
    RelationKeys,
    RemoteSource,
    ScopedDatabase,
    SettledRows,
    SourceFragment,
    SourceUpdate,
    StoredSpan,
    TeamSource,
    Tombstone,
    VerifyReport,
    decode_rule,
    erasure_hashes,
    is_project_named,
    tombstone_hashes,
)
from bygones.team.projects import decode_identity
from bygones.team.reader import BlobCache, TeamReader
from bygones.team.text_engine import TextSearchBackend

_QUERY_BATCH = 20_000
"""Values that are passed to one statement."""
ConnectionT = TypeVar("ConnectionT", bound=DatabaseConnection)
_decode_selector = msgspec.json.Decoder(ErasureSelector).decode


class TeamStore(ABC):
    """A database with what a team has uploaded, and what is derived from it."""

    @abstractmethod
    def prepare(self) -> None:
        """Create or migrate the schema. Only hubs and migrations do this."""

    def has_other_index(self) -> bool:
        """Whether another version derived the index, which `prepare` would drop."""
        return False

    @abstractmethod
    def put(self, update: SourceUpdate) -> TeamSource:
        """Record new spans of a source, and that it must be derived.

        Spans that are already stored are skipped. A fragment replaces the previous one;
        it is skipped unless it starts where the spans end.

        :raises SourceUpdateRejected: if there is a gap, if other bytes are stored at an
            offset, or if the source was erased.
        """

    def put_all(
        self, updates: Sequence[SourceUpdate]
    ) -> Sequence[TeamSource | SourceUpdateRejected]:
        """Put several updates; a rejected one doesn't affect the others."""
        results: list[TeamSource | SourceUpdateRejected] = []
        for update in updates:
            try:
                results.append(self.put(update))
            except SourceUpdateRejected as error:
                results.append(error)
        return results

    @abstractmethod
    def machine_sources(
        self, person: str, machine: str, numbers: Sequence[int] | None = None
    ) -> Sequence[TeamSource]:
        """Return the sources of a machine: all, or those with some numbers."""

    @abstractmethod
    def list_sources(self, person: str) -> Sequence[TeamSource]:
        """Return all sources of a person."""

    @abstractmethod
    def pending_sources(self, limit: int = 100) -> Sequence[PendingSource]:
        """Return sources that must be derived, in the order in which they came."""

    @abstractmethod
    def spans(self, source: int, start: int = 0) -> Sequence[StoredSpan]:
        """Return the spans of a source's newest generation, in order.

        Only those with bytes after ``start``.
        """

    @abstractmethod
    def fragments(self, sources: Sequence[int]) -> dict[int, SourceFragment]:
        """Return the unfinished last lines of those sources that have one."""

    @abstractmethod
    def related_sources(self, person: str, keys: RelationKeys) -> set[int]:
        """Return the sources of a person's sessions that have one of the keys."""

    @abstractmethod
    def record_titles(self, person: str, records: Sequence[int]) -> Sequence[LeafTitle]:
        """Return the titles that a person's sources give to records."""

    @abstractmethod
    def find_settled(self, source: int) -> SettledRows | None:
        """Return the session of a source, if most of its rows are settled."""

    @abstractmethod
    def has_settled_key(self, number: int, keys: Sequence[int]) -> bool:
        """Whether settled records of a session name one of some ids."""

    @abstractmethod
    def has_edited(self, number: int, path: str, count: int) -> bool:
        """Whether one of a session's first edits changed a file."""

    @abstractmethod
    def sources_with_keys(
        self, person: str, session: int, keys: Sequence[int], place: tuple[int, int]
    ) -> set[int]:
        """Return sources in which records have one of some keys.

        Either as their own key or as that of their answer. Records after an offset of
        a source (``place``) don't count. Rows of the session itself may be those of a
        part that is written at the moment.
        """

    @abstractmethod
    def replace_sessions(self, derived: DerivedSessions) -> None:
        """Replace what was derived from the same sources before.

        :raises NotDivisible: if a session can't be continued, because it changed
            meanwhile, or is visible to others than its settled rows.
        """

    @abstractmethod
    def open_reader(self, scope: AccessScope, blobs: BlobStore) -> TeamReader:
        """Return a reader of everything that a scope may see."""

    @abstractmethod
    def database_blobs(self) -> BlobStore:
        """Return a blob store in the same database, for teams without another."""

    @abstractmethod
    def hold(self, selector: ErasureSelector, *, reason: str) -> None:
        """Protect sessions from being erased, until :meth:`release`."""

    @abstractmethod
    def release(self, selector: ErasureSelector) -> None:
        """Remove a hold."""

    @abstractmethod
    def holds(self) -> Sequence[tuple[ErasureSelector, str]]:
        """Return all holds with their reasons."""

    @abstractmethod
    def matching_sessions(self, selector: ErasureSelector) -> Sequence[SessionId]:
        """Return the sessions that a selector matches, held or not."""

    @abstractmethod
    def erase(self, selector: ErasureSelector, *, now: datetime) -> ErasureReceipt:
        """Reject matching sources from now on, then remove all their rows.

        Sources that aren't derived yet match by person and session only, so derive
        first.
        """

    @abstractmethod
    def find_tombstones(self, hashes: Sequence[bytes]) -> set[bytes]:
        """Return those of some hashes that a tombstone has."""

    def find_erased(self, sources: Sequence[RemoteSource]) -> set[int]:
        """Return the numbers of those sources that were erased."""
        hashes = {source.number: tombstone_hashes(source) for source in sources}
        wanted = sorted({one for own in hashes.values() for one in own})
        erased = self.find_tombstones(wanted) if wanted else set()
        return {number for number, own in hashes.items() if erased.intersection(own)}

    @abstractmethod
    def tombstones(self) -> Sequence[Tombstone]:
        """Return all tombstones."""

    @abstractmethod
    def add_tombstones(self, tombstones: Iterable[Tombstone]) -> None:
        """Reject what was erased, here or in another store."""

    @abstractmethod
    def orphaned_blobs(self) -> Sequence[str]:
        """Return addresses of erased blobs that may still be stored."""

    @abstractmethod
    def forget_orphaned_blobs(self, addresses: Iterable[str]) -> None:
        """Record that blobs are removed."""

    @abstractmethod
    def export_updates(self) -> Iterator[SourceUpdate]:
        """Yield everything that was put, one source at a time."""

    @abstractmethod
    def verify(self) -> VerifyReport:
        """Check that spans have no gaps, and that rows belong to a source."""

    @abstractmethod
    def get_note(self, kind: str, key: str) -> bytes | None:
        """Return a value that the hub stored for itself, such as a token."""

    @abstractmethod
    def list_notes(self, kind: str) -> dict[str, bytes]:
        """Return all notes of a kind."""

    def project_rules(self) -> dict[str, ProjectRule]:
        """Return who may see projects, by their names; others are not limited."""
        notes = self.list_notes(PROJECT_RULE_KIND)
        return {name: decode_rule(value) for name, value in notes.items()}

    def limit_project(self, name: str, rule: ProjectRule | None) -> int:
        """Limit who may see a project, or lift the limit.

        Returns how many sessions are hidden until they are derived again: call
        ``derive_all`` afterwards.
        """
        value = msgspec.json.encode(rule) if rule is not None else None
        self.set_note(PROJECT_RULE_KIND, name, value)
        return self._apply_rule(name) if rule is not None else 0

    @abstractmethod
    def count_sessions_by_project(self) -> dict[str, int]:
        """Return how many sessions each repository or directory has."""

    @abstractmethod
    def _apply_rule(self, name: str) -> int:
        """Hide the sessions of a project, and make their sources pending."""

    def blob_addresses(self) -> list[str]:
        """Return the addresses of all blobs that sources refer to."""
        updates = self.export_updates()
        return sorted({span.address for update in updates for span in update.spans})

    def count_pending(self) -> int:
        """Return how many sources are not derived yet."""
        return len(self.pending_sources(1_000_000))

    @abstractmethod
    def note_kinds(self) -> Sequence[str]:
        """Return the kinds of all notes."""

    @abstractmethod
    def set_note(self, kind: str, key: str, value: bytes | None) -> None:
        """Set a note, or delete it."""

    @abstractmethod
    def close(self) -> None:
        """Close all connections."""


class SqlStore(TeamStore, Generic[ConnectionT]):
    """What PostgreSQL and ClickHouse have in common."""

    _live_condition = "true"
    """The condition for rows that aren't marked as deleted."""
    _live_rows = "true"
    """The condition for derived rows that belong to a session."""
    _final = ""
    """A suffix of table names, for the current version of each row."""
    _sessions_with_owners = "session AS s JOIN owner AS o ON o.owner = s.owner"

    def __init__(self, address: str) -> None:
        self._address = address
        self._db = self._connect()
        self._blob_cache = BlobCache()

    @abstractmethod
    def _connect(self) -> ConnectionT: ...

    @abstractmethod
    def _search_backend(
        self, database: ScopedDatabase, scope: AccessScope
    ) -> TextSearchBackend: ...

    def open_reader(self, scope: AccessScope, blobs: BlobStore) -> TeamReader:
        db = self._connect()
        database = ScopedDatabase(db)
        backend = self._search_backend(database, scope)
        return TeamReader(
            database, backend, blobs, db.close, shared_cache=self._blob_cache
        )

    def close(self) -> None:
        self._db.close()

    def _rows_in(
        self, sql: str, column: str, values: Iterable[object], **more: object
    ) -> list[Any]:
        """Run a statement that ends in ``WHERE``, for rows with some values."""
        condition = self._db.in_list(column, "values")
        found: list[Any] = []
        for batch in _batched(list(values)):
            found += self._db.rows(f"{sql} {condition}", {"values": batch, **more})
        return found

    def fragments(self, sources: Sequence[int]) -> dict[int, SourceFragment]:
        rows = self._rows_in(
            "SELECT number, stored_bytes, fingerprint, fragment"  # noqa: S608 (constants)
            f" FROM source{self._final} WHERE fingerprint <> '' AND",
            "number",
            sources,
        )
        return {
            number: SourceFragment(
                offset=offset, fingerprint=bytes(fingerprint), frame=bytes(frame)
            )
            for number, offset, fingerprint, frame in rows
        }

    def related_sources(self, person: str, keys: RelationKeys) -> set[int]:
        found: set[int] = set()
        for table, column, values in (
            ("session", "session", keys.sessions),
            ("record", "key", [*keys.records, *keys.titled_records]),
            ("record", "message_key", keys.messages),
        ):
            for batch in _batched(values):
                found |= self._sources_with(person, table, column, batch)
        return found

    @abstractmethod
    def _sources_with(
        self, person: str, table: str, column: str, values: Sequence[object]
    ) -> set[int]:
        """Return the sources of a person's sessions with values in a table."""

    def find_settled(self, source: int) -> SettledRows | None:
        rows = self._query_settled(source)
        if len(rows) != 1:
            return None
        session, number, owner, parts, facts, members = rows[0]
        sql = f"SELECT source FROM session_source WHERE {self._live_rows} AND"  # noqa: S608 (constants)
        sources = self._rows_in(sql, "number", [number])
        return SettledRows(
            session=SessionId(session),
            number=number,
            owner=owner,
            parts=tuple(parts),
            facts=bytes(facts),
            sources=frozenset(row[0] for row in sources),
            is_alone=int(members) == 1,
        )

    @abstractmethod
    def _query_settled(self, source: int) -> Sequence[Any]:
        """Return session, number, owner, parts, facts, and number of its family."""

    def has_settled_key(self, number: int, keys: Sequence[int]) -> bool:
        sql = "SELECT 1 FROM settled_key WHERE number = %(number)s AND"
        return bool(self._rows_in(sql, "key", keys, number=number))

    def has_edited(self, number: int, path: str, count: int) -> bool:
        rows = self._db.rows(
            "SELECT 1 FROM edit WHERE path = %(path)s AND number = %(number)s"
            " AND position < %(count)s LIMIT 1",
            {"path": path, "number": number, "count": count},
        )
        return bool(rows)

    def sources_with_keys(
        self, person: str, session: int, keys: Sequence[int], place: tuple[int, int]
    ) -> set[int]:
        source, start = place
        values = {"own": session, "source": source, "start": start, "person": person}
        sql = (
            "SELECT DISTINCT source FROM record WHERE (number = %(own)s OR"  # noqa: S608 (constants)
            " owner IN (SELECT owner FROM owner WHERE person = %(person)s)"
            f" AND {self._live_rows}) AND NOT (source = %(source)s"
            " AND start >= %(start)s) AND"
        )
        return {
            row[0]
            for column in ("key", "message_key")
            for row in self._rows_in(sql, column, keys, **values)
        }

    def record_titles(self, person: str, records: Sequence[int]) -> list[LeafTitle]:
        return [
            LeafTitle(*row)
            for batch in _batched(records)
            for row in self._query_record_titles(person, batch)
        ]

    @abstractmethod
    def _query_record_titles(
        self, person: str, records: Sequence[int]
    ) -> Iterable[Any]: ...

    def blob_addresses(self) -> list[str]:
        rows = self._db.rows("SELECT DISTINCT address FROM span ORDER BY 1", {})
        return [row[0] for row in rows]

    def _select_all(self, table: str, columns: str) -> list[Any]:
        return self._db.rows(
            f"SELECT {columns} FROM {table}{self._final}"  # noqa: S608 (constants)
            f" WHERE {self._live_condition} ORDER BY 1",
            {},
        )

    def holds(self) -> Sequence[tuple[ErasureSelector, str]]:
        rows = self._select_all("hold", "selector, reason")
        return [(_decode_selector(selector), reason) for selector, reason in rows]

    def orphaned_blobs(self) -> Sequence[str]:
        return [row[0] for row in self._select_all("orphaned_blob", "address")]

    def get_note(self, kind: str, key: str) -> bytes | None:
        rows = self._db.rows(
            f"SELECT value FROM note{self._final}"  # noqa: S608 (constants)
            f" WHERE kind = %(kind)s AND key = %(key)s AND {self._live_condition}",
            {"kind": kind, "key": key},
        )
        return bytes(rows[0][0]) if rows else None

    def list_notes(self, kind: str) -> dict[str, bytes]:
        rows = self._db.rows(
            f"SELECT key, value FROM note{self._final}"  # noqa: S608 (constants)
            f" WHERE kind = %(kind)s AND {self._live_condition} ORDER BY key",
            {"kind": kind},
        )
        return {key: bytes(value) for key, value in rows}

    def note_kinds(self) -> Sequence[str]:
        return [row[0] for row in self._select_all("note", "DISTINCT kind")]

    def tombstones(self) -> Sequence[Tombstone]:
        sql = f"SELECT hash, erased_at FROM tombstone{self._final} ORDER BY erased_at"  # noqa: S608 (constants)
        rows = self._db.rows(sql, {})
        return [Tombstone(hash=bytes(one), erased_at=when) for one, when in rows]

    def export_updates(self) -> Iterator[SourceUpdate]:
        sql = "SELECT DISTINCT person FROM source ORDER BY 1"
        for (person,) in self._db.rows(sql, {}):
            sources = self.list_sources(person)
            fragments = self.fragments([source.number for source in sources])
            for source in sources:
                yield SourceUpdate(
                    source=source.source,
                    generation=source.generation,
                    spans=tuple(self.spans(source.number)),
                    fragment=fragments.get(source.number),
                )

    def count_sessions_by_project(self) -> dict[str, int]:
        rows = self._db.rows(
            "SELECT s.repository, s.project, count(*)"  # noqa: S608 (constants)
            f" FROM {self._sessions_with_owners} GROUP BY s.repository, s.project",
            {},
        )
        found: dict[str, int] = {}
        for repository, project, count in rows:
            name = repository or project or ""
            found[name] = found.get(name, 0) + int(count)
        return found

    def _find_limited(self, name: str) -> tuple[list[int], dict[int, RemoteSource]]:
        """Return the sessions and sources of a project."""
        rows = self._db.rows(
            "SELECT s.number, s.project, s.identity"  # noqa: S608 (constants)
            f" FROM {self._sessions_with_owners}",
            {},
        )
        sessions = [
            number
            for number, project, identity in rows
            if is_project_named(
                decode_identity(identity) or ProjectIdentity(directory=project or ""),
                name,
            )
        ]
        sql = "SELECT DISTINCT source FROM session_source WHERE"
        own = {row[0] for row in self._rows_in(sql, "number", sessions)}
        people = self._db.rows("SELECT DISTINCT person FROM source ORDER BY 1", {})
        sources = {
            one.number: one.source
            for (person,) in people
            for one in self.list_sources(person)
            if one.number in own
            or (one.source.identity and is_project_named(one.source.identity, name))
        }
        return sessions, sources

    def matching_sessions(self, selector: ErasureSelector) -> Sequence[SessionId]:
        return sorted(self._find_sessions(selector).values())

    def _find_sessions(self, selector: ErasureSelector) -> dict[int, SessionId]:
        """Return the sessions that a selector matches, by their numbers."""
        conditions: list[str] = []
        values: dict[str, object] = {}
        if selector.person is not None:
            conditions.append("o.person = %(person)s")
            values["person"] = selector.person
        if selector.session is not None:
            conditions.append("s.session = %(session)s")
            values["session"] = selector.session
        if selector.before is not None:
            conditions.append("s.ended_ms < %(before)s")
            values["before"] = to_milliseconds(selector.before)
        if selector.project is not None:
            # A directory with everything below it, or the key of a project.
            folder = selector.project.rstrip("/")
            values |= {"project": selector.project}
            values |= {"below": f"{folder}/", "after": f"{folder}{_AFTER_SLASH}"}
            conditions.append(
                "(s.project = %(project)s OR s.repository = %(project)s"
                " OR (s.project >= %(below)s"
                " AND s.project < %(after)s) OR s.number IN"
                " (SELECT number FROM session_source WHERE source IN"
                " (SELECT number FROM source WHERE project = %(project)s)))"
            )
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        rows = self._db.rows(
            f"SELECT s.number, s.session FROM {self._sessions_with_owners}{where}",  # noqa: S608 (constants)
            values,
        )
        return {number: SessionId(session) for number, session in rows}

    def erase(self, selector: ErasureSelector, *, now: datetime) -> ErasureReceipt:
        with self._erasure():
            chosen = self._find_sessions(selector)
            held: set[int] = set()
            held_sources: set[int] = set()
            for hold, _ in self.holds():
                own = self._find_sessions(hold)
                held |= own.keys()
                held_sources |= self._find_sources(hold, own).keys()
            erased = {n: s for n, s in chosen.items() if n not in held}
            sources = {
                number: source
                for number, source in self._find_sources(selector, erased).items()
                if number not in held_sources
            }
            hashes = self._erasure_hashes(selector, sources)
            self.add_tombstones(Tombstone(hash=h, erased_at=now) for h in hashes)
            sql = "SELECT DISTINCT address FROM span WHERE"
            addresses = {row[0] for row in self._rows_in(sql, "number", sources)}
            rows = self._delete_sessions(list(erased))
            rows += self._delete_sources(list(sources))
            used = {row[0] for row in self._rows_in(sql, "address", addresses)}
            orphaned = sorted(addresses - used)
            self._add_orphaned_blobs(orphaned)
        return ErasureReceipt(
            selector=selector,
            sessions=tuple(sorted(erased.values())),
            sources=len(sources),
            rows=rows,
            blob_addresses=tuple(orphaned),
            held_sessions=tuple(sorted(s for n, s in chosen.items() if n in held)),
        )

    def _erasure_hashes(
        self, selector: ErasureSelector, sources: Mapping[int, RemoteSource]
    ) -> set[bytes]:
        """Return the hashes by which sources are rejected from now on.

        Unless only one person's are erased, copies of other people are rejected too;
        not if the hub keeps such a copy, because of a hold.
        """
        names = {one.session for one in sources.values()} - {None}
        sql = "SELECT number, session FROM source WHERE"
        rows = self._rows_in(sql, "session", names) if selector.person is None else ()
        kept = {session for number, session in rows if number not in sources}
        return {
            one
            for source in sources.values()
            for one in erasure_hashes(
                source,
                of_everybody=selector.person is None and source.session not in kept,
            )
        }

    def _find_sources(
        self, selector: ErasureSelector, sessions: Mapping[int, SessionId]
    ) -> dict[int, RemoteSource]:
        """Return the sources of sessions, those beside them, and others that match.

        A source may have been uploaded and not be derived yet.
        """
        sql = "SELECT DISTINCT source FROM session_source WHERE"
        own = {row[0] for row in self._rows_in(sql, "number", sessions)}
        sql = "SELECT DISTINCT person FROM source WHERE"
        people = {row[0] for row in self._rows_in(sql, "number", own)}
        if selector.session is not None:
            rows = self._rows_in(sql, "session", [selector.session])
            people |= {row[0] for row in rows if selector.person in {None, row[0]}}
        if selector.person is not None and selector == ErasureSelector(
            person=selector.person
        ):
            return {
                one.number: one.source for one in self.list_sources(selector.person)
            }
        found: dict[int, RemoteSource] = {}
        for person in people:
            sources = {one.number: one.source for one in self.list_sources(person)}
            names = {sources[n].session for n in own & sources.keys()} - {None}
            if selector.session is not None and selector.person in {None, person}:
                names.add(selector.session)
            folders = tuple(
                f"{sources[number].id.removesuffix('.jsonl')}/"
                for number in own & sources.keys()
            )
            found |= {
                number: source
                for number, source in sources.items()
                if number in own
                or source.session in names
                or source.id.startswith(folders)
            }
        return found

    def _erasure(self) -> AbstractContextManager[None]:
        """Keep others from writing during an erasure, if the database can."""
        return nullcontext()

    @abstractmethod
    def _delete_sessions(self, numbers: Sequence[int]) -> int:
        """Delete all rows of sessions; return how many there were."""

    @abstractmethod
    def _delete_sources(self, numbers: Sequence[int]) -> int:
        """Delete all rows of sources; return how many there were."""

    @abstractmethod
    def _add_orphaned_blobs(self, addresses: Sequence[str]) -> None: ...


_AFTER_SLASH = chr(ord("/") + 1)


def match_rules(
    rules: Iterable[str], identity: ProjectIdentity | None, projects: Iterable[str]
) -> set[str]:
    """Return the rules that apply to a source, besides those that applied before."""
    names = set(rules)
    named = {one for one in names if identity and is_project_named(identity, one)}
    return named | names.intersection(projects)


def encode_selector(selector: ErasureSelector) -> str:
    return msgspec.json.encode(selector).decode()


def team_source_from_row(row: Sequence[Any]) -> TeamSource:
    """Return a source by its row: person, teams, then the columns of ``source``."""
    source = RemoteSource(
        person=row[0],
        teams=tuple(row[1]),
        machine=row[2],
        home=row[3],
        path=row[4],
        kind=SourceKind(row[5]),
        project=ProjectKey(row[6]) if row[6] is not None else None,
        session=SessionId(row[7]) if row[7] is not None else None,
        agent=AgentId(row[8]) if row[8] is not None else None,
        mtime_ns=row[9],
        identity=decode_identity(row[15]),
    )
    return TeamSource(
        source=source,
        generation=row[10],
        stored_bytes=row[11],
        client_offset=row[12],
        revision=row[13],
        fingerprint=bytes(row[14]),
    )


def span_from_row(row: Sequence[Any]) -> StoredSpan:
    start, stop, client_offset, sha256, address = row
    return StoredSpan(
        offset=start,
        length=stop - start,
        client_offset=client_offset,
        sha256=bytes(sha256),
        address=address,
    )


def span_rows(
    update: SourceUpdate, spans: Iterable[StoredSpan], owner: int, *more: object
) -> list[tuple[object, ...]]:
    """Return rows of the table ``span`` with the columns :data:`SPAN_COLUMNS`."""
    return [
        (
            update.source.number,
            owner,
            update.generation,
            span.offset,
            span.stop,
            span.client_offset,
            span.sha256,
            span.address,
            *more,
        )
        for span in spans
    ]


SPAN_COLUMNS = (
    "number",
    "owner",
    "generation",
    "start",
    "stop",
    "client_offset",
    "sha256",
    "address",
)


def _batched(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for start in range(0, len(values), _QUERY_BATCH):
        yield values[start : start + _QUERY_BATCH]


class DatabaseBlobStore(ABC, Generic[ConnectionT]):
    """A blob store in the database of a team store."""

    def __init__(self, db: ConnectionT) -> None:
        self._db = db

    @abstractmethod
    def _insert(self, address: str, frame: bytes) -> None: ...

    @abstractmethod
    def remove(self, addresses: Iterable[str]) -> None: ...

    def put(self, raw: bytes) -> str:
        address = sha256_digest(raw).hex()
        self._insert(address, compress(raw))
        return address

    def get(self, address: str) -> bytes:
        found = self.get_many([address])
        if not found:
            raise ArchiveDamaged(Path(address), "it is missing")
        return found[address]

    def get_many(self, addresses: Sequence[str]) -> dict[str, bytes]:
        frames = self.get_frames(addresses)
        return {address: decompress(frame) for address, frame in frames.items()}

    def get_frames(self, addresses: Sequence[str]) -> dict[str, bytes]:
        condition = self._db.in_list("address", "addresses")
        sql = f"SELECT address, frame FROM object WHERE {condition}"  # noqa: S608 (constants)
        rows = self._db.rows(sql, {"addresses": list(addresses)})
        return {address: bytes(frame) for address, frame in rows}

    def close(self) -> None:
        self._db.close()
