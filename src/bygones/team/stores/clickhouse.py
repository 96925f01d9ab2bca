"""The team store on ClickHouse."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from bygones.errors import SourceUpdateRejected
from bygones.team.contract import (
    AccessScope,
    DerivedSessions,
    ErasureSelector,
    OwnerAccess,
    PendingSource,
    RemoteSource,
    ScopedDatabase,
    SourceFragment,
    SourceUpdate,
    StoredSpan,
    TeamSource,
    Tombstone,
    VerifyReport,
    allocate_numbers,
    select_new_spans,
)
from bygones.team.projects import encode_identity
from bygones.team.stores.base import (
    SPAN_COLUMNS,
    DatabaseBlobStore,
    SqlStore,
    encode_selector,
    match_rules,
    span_from_row,
    span_rows,
    team_source_from_row,
)
from bygones.team.stores.clickhouse_connection import (
    DERIVED_TABLES,
    IS_LIVE_SESSION,
    ClickHouseConnection,
    has_other_index,
    prepare,
)
from bygones.team.stores.clickhouse_rows import (
    ClickHouseTextSearch,
    delete_sessions,
    get_or_create_owner,
    load_access,
    mark_dead,
    move_source,
    write_sessions,
)

_IS_LIVE = (
    "part IN (SELECT arrayJoin(parts) FROM session"  # noqa: S608 (constants)
    f" WHERE {IS_LIVE_SESSION})"
)
_SYNC_MUTATION = "SETTINGS mutations_sync = 2"
_SOURCE_COLUMNS = (
    "number",
    "owner",
    "person",
    "machine",
    "home",
    "path",
    "id",
    "kind",
    "project",
    "session",
    "agent",
    "mtime_ns",
    "generation",
    "stored_bytes",
    "client_offset",
    "revision",
    "fingerprint",
    "fragment",
    "identity",
)
_SELECT_SOURCE = (
    "SELECT s.person, o.teams, s.machine, s.home, s.path, s.kind, s.project,"
    " s.session, s.agent, s.mtime_ns, s.generation, s.stored_bytes, s.client_offset,"
    " s.revision, s.fingerprint, s.identity FROM (SELECT * FROM source FINAL WHERE {where}) AS s"
    " JOIN (SELECT * FROM owner FINAL) AS o ON o.owner = s.owner"
    " ORDER BY s.machine, s.home, s.path"
)


class ClickHouseStore(SqlStore[ClickHouseConnection]):
    """A team store for companies. ClickHouse has no transactions.

    Rows are never updated: the one with the highest revision counts, and deleted notes
    and holds have a row that says so.
    """

    _live_condition = "is_deleted = 0"
    _final = " FINAL"
    _live_rows = _IS_LIVE
    _sessions_with_owners = (
        f"(SELECT * FROM session WHERE {IS_LIVE_SESSION}) AS s"  # noqa: S608 (constants)
        " JOIN (SELECT * FROM owner FINAL) AS o ON o.owner = s.owner"
    )

    def _connect(self) -> ClickHouseConnection:
        return ClickHouseConnection(self._address)

    def _search_backend(
        self, database: ScopedDatabase, scope: AccessScope
    ) -> ClickHouseTextSearch:
        return ClickHouseTextSearch(database, scope)

    def prepare(self) -> None:
        prepare(self._db)

    def has_other_index(self) -> bool:
        return has_other_index(self._db)

    def database_blobs(self) -> ClickHouseBlobStore:
        return ClickHouseBlobStore(self._db)

    def put(self, update: SourceUpdate) -> TeamSource:
        """Record new spans of a source, and that it must be derived.

        Spans are written first, and the stored bytes are computed from them. So if the
        row of the source is missing after a crash, the next update writes it.
        """
        source = update.source
        if self.find_erased([source]):
            raise SourceUpdateRejected(source.id, "it was erased")
        rows = self._select_sources("number = %(number)s", {"number": source.number})
        before = rows[0] if rows else None
        if before is not None and update.generation < before.generation:
            raise SourceUpdateRejected(source.id, "a newer generation is there")
        same = before if before and before.generation == update.generation else None
        start = min(
            (same.stored_bytes if same else 0, *(span.offset for span in update.spans))
        )
        known = self._load_spans(source.number, update.generation, start)
        stored_bytes = known[-1].stop if known else same.stored_bytes if same else 0
        new = select_new_spans(source.id, update.spans, known, stored_bytes)
        if before is not None and source.identity is None:
            source = replace(source, identity=before.source.identity)
        projects = self._limiting_projects(source)
        access = OwnerAccess(frozenset(source.teams), projects)
        owner = get_or_create_owner(self._db, source.person, access)
        is_moved = before is not None and owner != self._owner_of(source.number)
        (revision,) = allocate_numbers(1)
        self._insert_spans(update, new, owner, revision)
        last = (new or known)[-1] if new or known else None
        stored_bytes = last.stop if last else stored_bytes
        client_offset = same.client_offset if same else 0
        fragment = self._next_fragment(update, before, stored_bytes)
        after = TeamSource(
            source=source,
            generation=update.generation,
            stored_bytes=stored_bytes,
            client_offset=last.client_offset if last else client_offset,
            revision=revision,
            fingerprint=fragment.fingerprint,
        )
        if (
            before is not None
            and not is_moved
            and replace(before, revision=revision) == after
        ):
            return before
        self._insert_source(after, owner, fragment.frame)
        if is_moved:
            known = self._load_spans(source.number, update.generation)
            self._insert_spans(update, known, owner, revision)
        return after

    def _limiting_projects(self, source: RemoteSource) -> frozenset[str]:
        """Return the rules that apply to a source, or did before and still exist."""
        rules = self.project_rules()
        if not rules:
            return frozenset()
        rows = self._db.rows(
            "SELECT projects FROM owner FINAL WHERE owner IN"
            " (SELECT owner FROM source FINAL WHERE number = %(number)s)",
            {"number": source.number},
        )
        before = [name for (names,) in rows for name in names]
        return frozenset(match_rules(rules, source.identity, before))

    def _owner_of(self, number: int) -> int | None:
        sql = "SELECT owner FROM source FINAL WHERE number = %(number)s"
        rows = self._db.rows(sql, {"number": number})
        return rows[0][0] if rows else None

    def _next_fragment(
        self, update: SourceUpdate, before: TeamSource | None, stored_bytes: int
    ) -> SourceFragment:
        """Return the unfinished line of a source after an update; it may be empty."""
        if update.fragment is not None and update.fragment.offset == stored_bytes:
            return update.fragment
        if (
            before is not None
            and before.fingerprint
            and before.generation == update.generation
            and before.stored_bytes == stored_bytes
        ):
            return self.fragments([before.number])[before.number]
        return SourceFragment(offset=stored_bytes, fingerprint=b"")

    def _insert_source(
        self, team_source: TeamSource, owner: int, fragment: bytes
    ) -> None:
        source = team_source.source
        row = (
            source.number,
            owner,
            source.person,
            source.machine,
            source.home,
            source.path,
            source.id,
            source.kind.value,
            source.project,
            source.session,
            source.agent,
            source.mtime_ns,
            team_source.generation,
            team_source.stored_bytes,
            team_source.client_offset,
            team_source.revision,
            team_source.fingerprint,
            fragment,
            encode_identity(source.identity),
        )
        self._db.insert("source", _SOURCE_COLUMNS, [row])

    def _insert_spans(
        self,
        update: SourceUpdate,
        spans: Sequence[StoredSpan],
        owner: int,
        revision: int,
    ) -> None:
        rows = span_rows(update, spans, owner, revision)
        self._db.insert("span", (*SPAN_COLUMNS, "revision"), rows)

    def machine_sources(
        self, person: str, machine: str, numbers: Sequence[int] | None = None
    ) -> list[TeamSource]:
        if numbers is not None and not numbers:
            return []
        where = "person = %(person)s AND machine = %(machine)s"
        where += " AND number IN %(numbers)s" if numbers is not None else ""
        values = {"person": person, "machine": machine, "numbers": list(numbers or ())}
        return self._select_sources(where, values)

    def list_sources(self, person: str) -> list[TeamSource]:
        return self._select_sources("person = %(person)s", {"person": person})

    def _select_sources(self, where: str, values: dict[str, Any]) -> list[TeamSource]:
        rows = self._db.rows(_SELECT_SOURCE.replace("{where}", where), values)
        return [team_source_from_row(row) for row in rows]

    def pending_sources(self, limit: int = 100) -> Sequence[PendingSource]:
        rows = self._db.rows(
            "SELECT s.number, s.person FROM (SELECT number, person, revision"
            " FROM source FINAL) AS s LEFT JOIN (SELECT * FROM derived_source FINAL)"
            " AS d ON d.number = s.number WHERE d.derived_revision < s.revision"
            " ORDER BY s.revision LIMIT %(limit)s",
            {"limit": limit},
        )
        return [PendingSource(*row) for row in rows]

    def spans(self, source: int, start: int = 0) -> list[StoredSpan]:
        return [span for span in self._load_spans(source) if span.stop > start]

    def _load_spans(
        self, source: int, generation: int | None = None, start: int = 0
    ) -> list[StoredSpan]:
        """Return the spans of a generation, or of the newest, up to the first gap.

        From ``start`` on, where one of them starts or the last one stops.
        """
        newest = "(SELECT max(generation) FROM source FINAL WHERE number = %(number)s)"
        wanted = newest if generation is None else "%(generation)s"
        rows = self._db.rows(
            "SELECT start, stop, client_offset, sha256, address FROM span FINAL"  # noqa: S608 (constants)
            f" WHERE number = %(number)s AND generation = {wanted}"
            " AND start >= %(start)s ORDER BY start",
            {"number": source, "generation": generation, "start": start},
        )
        found: list[StoredSpan] = []
        for span in map(span_from_row, rows):
            if span.offset != (found[-1].stop if found else start):
                break
            found.append(span)
        return found

    def _sources_with(
        self, person: str, table: str, column: str, values: Sequence[object]
    ) -> set[int]:
        rows = self._db.rows(
            "SELECT DISTINCT source FROM session_source WHERE number IN"  # noqa: S608 (constants)
            f" (SELECT number FROM {table} WHERE {column} IN %(values)s"
            " AND owner IN (SELECT owner FROM owner WHERE person = %(person)s)"
            f" AND {_IS_LIVE})",
            {"values": list(values), "person": person},
        )
        return {row[0] for row in rows}

    def _query_record_titles(
        self, person: str, records: Sequence[int]
    ) -> Iterable[Any]:
        return self._db.rows(
            "SELECT leaf_key, source, start, leaf, title FROM leaf_title"  # noqa: S608 (constants)
            " WHERE leaf_key IN %(records)s"
            " AND owner IN (SELECT owner FROM owner WHERE person = %(person)s)"
            f" AND {_IS_LIVE}",
            {"records": list(records), "person": person},
        )

    def _query_settled(self, source: int) -> list[Any]:
        return self._db.rows(
            "SELECT s.session, s.number, s.owner, s.parts, p.facts, (SELECT count(*)"  # noqa: S608 (constants)
            f" FROM session WHERE {IS_LIVE_SESSION} AND family IN (SELECT family"
            f" FROM session WHERE {IS_LIVE_SESSION} AND number IN (SELECT number FROM"
            f" session_source WHERE source = %(source)s)))"
            f" FROM (SELECT * FROM session WHERE {IS_LIVE_SESSION} AND number IN"
            " (SELECT number FROM session_source WHERE source = %(source)s)) AS s"
            " JOIN settled_part AS p ON p.part = s.part",
            {"source": source},
        )

    def replace_sessions(self, derived: DerivedSessions) -> None:
        write_sessions(self._db, derived, self.project_rules)

    def _apply_rule(self, name: str) -> int:
        sessions, sources = self._find_limited(name)
        mark_dead(self._db, sessions)
        access = load_access(self._db, sources)
        for number, source in sources.items():
            before = access[number]
            after = OwnerAccess(before.teams, before.projects | {name})
            move_source(self._db, source.person, after, number)
        return len(sessions)

    def _delete_sessions(self, numbers: Sequence[int]) -> int:
        count = self._count_rows(DERIVED_TABLES, numbers)
        mark_dead(self._db, numbers)
        delete_sessions(self._db, numbers)
        return count

    def _delete_sources(self, numbers: Sequence[int]) -> int:
        if not numbers:
            return 0
        count = self._count_rows(("span", "source"), numbers)
        for table in ("span", "source", "derived_source"):
            self._db.execute(
                f"ALTER TABLE {table} DELETE WHERE number IN %(numbers)s"
                f" {_SYNC_MUTATION}",
                {"numbers": list(numbers)},
            )
        return count

    def _count_rows(self, tables: Iterable[str], numbers: Sequence[int]) -> int:
        return sum(
            int(row[0])
            for table in tables
            for row in self._rows_in(
                f"SELECT count(*) FROM {table} WHERE",  # noqa: S608 (constants)
                "number",
                numbers,
            )
        )

    def _add_orphaned_blobs(self, addresses: Sequence[str]) -> None:
        (revision,) = allocate_numbers(1)
        rows = [(address, 0, revision) for address in addresses]
        self._db.insert("orphaned_blob", ("address", "is_deleted", "revision"), rows)

    def forget_orphaned_blobs(self, addresses: Iterable[str]) -> None:
        for address in addresses:
            self._insert_revision(
                "orphaned_blob", ("address",), (address,), is_deleted=True
            )

    def hold(self, selector: ErasureSelector, *, reason: str) -> None:
        row = (encode_selector(selector), reason)
        self._insert_revision("hold", ("selector", "reason"), row)

    def release(self, selector: ErasureSelector) -> None:
        row = (encode_selector(selector), "")
        self._insert_revision("hold", ("selector", "reason"), row, is_deleted=True)

    def find_tombstones(self, hashes: Sequence[bytes]) -> set[bytes]:
        sql = "SELECT hex(hash) FROM tombstone WHERE hex(hash) IN %(hashes)s"
        rows = self._db.rows(sql, {"hashes": [one.hex().upper() for one in hashes]})
        return {bytes.fromhex(row[0]) for row in rows}

    def add_tombstones(self, tombstones: Iterable[Tombstone]) -> None:
        rows = [(one.hash, one.erased_at) for one in tombstones]
        self._db.insert("tombstone", ("hash", "erased_at"), rows)

    def set_note(self, kind: str, key: str, value: bytes | None) -> None:
        self._insert_revision(
            "note",
            ("kind", "key", "value"),
            (kind, key, value or b""),
            is_deleted=value is None,
        )

    def _insert_revision(
        self,
        table: str,
        columns: Sequence[str],
        row: Sequence[object],
        *,
        is_deleted: bool = False,
    ) -> None:
        (revision,) = allocate_numbers(1)
        names = (*columns, "is_deleted", "revision")
        self._db.insert(table, names, [(*row, int(is_deleted), revision)])

    def verify(self) -> VerifyReport:
        faults: list[str] = []
        stops: dict[tuple[int, int], int] = {}
        for number, generation, start, stop in self._db.rows(
            "SELECT number, generation, start, stop FROM span FINAL"
            " ORDER BY number, generation, start",
            {},
        ):
            if start != stops.get((number, generation), 0):
                faults.append(f"source {number} has a gap before byte {start}")
            stops[number, generation] = stop
        lost = self._db.rows(
            f"SELECT session FROM session WHERE {IS_LIVE_SESSION} AND number NOT IN (SELECT"  # noqa: S608 (constants)
            " number FROM session_source WHERE source IN (SELECT number FROM source))",
            {},
        )
        faults += [f"session {session} has no source" for (session,) in lost]
        ((sources, sessions, texts),) = self._db.rows(
            "SELECT (SELECT count(*) FROM source FINAL),"  # noqa: S608 (constants)
            f" (SELECT count(*) FROM session WHERE {IS_LIVE_SESSION}),"
            f" (SELECT count(*) FROM text WHERE {_IS_LIVE})",
            {},
        )
        return VerifyReport(
            sources=int(sources),
            sessions=int(sessions),
            texts=int(texts),
            faults=tuple(faults),
        )


class ClickHouseBlobStore(DatabaseBlobStore[ClickHouseConnection]):
    """Blobs in the table ``object``; for trying things out."""

    def _insert(self, address: str, frame: bytes) -> None:
        self._db.insert("object", ("address", "frame"), [(address, frame)])

    def remove(self, addresses: Iterable[str]) -> None:
        removed = list(addresses)
        if removed:
            self._db.execute(
                "ALTER TABLE object DELETE WHERE address IN %(addresses)s"
                f" {_SYNC_MUTATION}",
                {"addresses": removed},
            )
