"""The team store on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

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
    select_new_spans,
)
from bygones.team.projects import decode_identity, encode_identity
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
from bygones.team.stores.postgres_connection import (
    PostgresConnection,
    array_literal,
    has_other_index,
    prepare,
)
from bygones.team.stores.postgres_rows import (
    PostgresTextSearch,
    delete_sessions,
    get_or_create_owner,
    load_access,
    move_sources,
    write_sessions,
)

_SELECT_SOURCE = (
    "SELECT s.person, o.teams, machine, home, path, kind, project, session, agent,"
    " mtime_ns, generation, stored_bytes, client_offset, revision, fingerprint,"
    " identity FROM source AS s JOIN owner AS o USING (owner)"
)


class _SourceState(NamedTuple):
    """The columns of a source that an update may change."""

    generation: int
    stored_bytes: int
    fingerprint: bytes
    owner: int
    mtime_ns: int
    identity: str


class _SourceChange(NamedTuple):
    """What an update changes in a source."""

    update: SourceUpdate
    new_spans: Sequence[StoredSpan]
    fragment: SourceFragment | None
    """The unfinished last line from now on; ``None`` if it stays as it is."""
    owner: int
    before: _SourceState

    @property
    def identity(self) -> str:
        """The project; one that is known stays if a client does not name it."""
        return encode_identity(self.update.source.identity) or self.before.identity

    @property
    def needs_deriving(self) -> bool:
        has_new_fragment = (
            self.fragment is not None
            and self.fragment.fingerprint != self.before.fingerprint
        )
        return (
            bool(self.new_spans)
            or has_new_fragment
            or self.before.owner != self.owner
            or self.before.mtime_ns != self.update.source.mtime_ns
            or self.identity != self.before.identity
        )


class PostgresStore(SqlStore[PostgresConnection]):
    """A team store for teams: one PostgreSQL database, everything in transactions."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self._database_blobs: PostgresBlobStore | None = None

    def _connect(self) -> PostgresConnection:
        return PostgresConnection(self._address)

    def _search_backend(
        self, database: ScopedDatabase, scope: AccessScope
    ) -> PostgresTextSearch:
        return PostgresTextSearch(database, scope)

    def prepare(self) -> None:
        prepare(self._db)

    def has_other_index(self) -> bool:
        return has_other_index(self._db)

    def close(self) -> None:
        super().close()
        if self._database_blobs is not None:
            self._database_blobs.close()

    def database_blobs(self) -> PostgresBlobStore:
        if self._database_blobs is None:
            self._database_blobs = PostgresBlobStore(self._connect())
        return self._database_blobs

    def put(self, update: SourceUpdate) -> TeamSource:
        (result,) = self.put_all([update])
        if isinstance(result, SourceUpdateRejected):
            raise result
        return result

    def put_all(
        self, updates: Sequence[SourceUpdate]
    ) -> list[TeamSource | SourceUpdateRejected]:
        """Put several updates in one transaction; each source at most once."""
        results: dict[int, TeamSource | SourceUpdateRejected] = {}
        if not updates:
            return []
        with self._db.transaction():
            # Uploads and erasures wait for each other: nothing slips past tombstones.
            self._db.execute("LOCK TABLE source IN ROW EXCLUSIVE MODE")
            sources = {update.source.number: update.source for update in updates}
            for number in self.find_erased(list(sources.values())):
                source = sources.pop(number)
                results[number] = SourceUpdateRejected(source.id, "it was erased")
            owners = self._source_owners(sources)
            self._insert_sources(sources, owners)
            before = self._lock_sources(list(sources))
            # Earlier spans are never sent again with a later one.
            first = {u.source.number: u.spans[0].offset for u in updates if u.spans}
            spans = self._load_spans(
                {n: first[n] for n in first.keys() & before.keys() if before[n][1]}
            )
            changes: list[_SourceChange] = []
            for update in updates:
                number = update.source.number
                if number in results:
                    continue
                state = before[number]
                try:
                    new = _new_spans(update, state, spans.get(number, []))
                except SourceUpdateRejected as error:
                    results[number] = error
                    continue
                fragment = _next_fragment(update, state, new)
                changes.append(
                    _SourceChange(update, new, fragment, owners[number], state)
                )
            self._save_changes(changes)
            changed = [change.update.source.number for change in changes]
            for stored in self._select_sources("number = ANY(%(n)s)", {"n": changed}):
                results[stored.number] = stored
        return [results[update.source.number] for update in updates]

    def _source_owners(self, sources: Mapping[int, RemoteSource]) -> dict[int, int]:
        """Return the owners of sources: who pushed them, and with whom they are shared.

        A rule that applied to a source applies as long as it exists.
        """
        rules = self.project_rules()
        limited: dict[int, set[str]] = {}
        if rules:
            rows = self._db.rows(
                "SELECT number, projects, identity FROM source JOIN owner USING (owner)"
                " WHERE number = ANY(%(numbers)s)",
                {"numbers": list(sources)},
            )
            stored = {row[0]: row[1:] for row in rows}
            for number, source in sources.items():
                projects, identity = stored.get(number, ((), ""))
                limited[number] = match_rules(
                    rules, source.identity or decode_identity(identity), projects
                )
        known: dict[tuple[str, OwnerAccess], int] = {}
        found: dict[int, int] = {}
        for number, source in sources.items():
            projects = frozenset(limited.get(number, ()))
            key = (source.person, OwnerAccess(frozenset(source.teams), projects))
            if key not in known:
                known[key] = get_or_create_owner(self._db, *key)
            found[number] = known[key]
        return found

    def _insert_sources(
        self, sources: Mapping[int, RemoteSource], owners: Mapping[int, int]
    ) -> None:
        sql = "SELECT number FROM source WHERE"
        known = {row[0] for row in self._rows_in(sql, "number", sources)}
        for number in sorted(sources.keys() - known):
            source = sources[number]
            self._db.execute(
                "INSERT INTO source (number, owner, person, machine, home, path, id,"
                " kind, project, session, agent, mtime_ns, identity) VALUES (%(number)s,"
                " %(owner)s, %(person)s, %(machine)s, %(home)s, %(path)s, %(id)s,"
                " %(kind)s, %(project)s, %(session)s, %(agent)s, %(mtime_ns)s,"
                " %(identity)s)"
                " ON CONFLICT (number) DO NOTHING",
                {
                    "number": number,
                    "owner": owners[number],
                    "person": source.person,
                    "machine": source.machine,
                    "home": source.home,
                    "path": source.path,
                    "id": source.id,
                    "kind": source.kind.value,
                    "project": source.project,
                    "session": source.session,
                    "agent": source.agent,
                    "mtime_ns": source.mtime_ns,
                    "identity": encode_identity(source.identity),
                },
            )

    def _lock_sources(self, numbers: Sequence[int]) -> dict[int, _SourceState]:
        # Always in the order of numbers, so that two transactions cannot deadlock.
        rows = self._db.rows(
            "SELECT number, generation, stored_bytes, fingerprint, owner, mtime_ns,"
            " identity FROM source WHERE number = ANY(%(numbers)s) ORDER BY number FOR UPDATE",
            {"numbers": list(numbers)},
        )
        return {number: _SourceState(*row) for number, *row in rows}

    def _save_changes(self, changes: Sequence[_SourceChange]) -> None:
        rows = [
            row
            for change in changes
            for row in span_rows(change.update, change.new_spans, change.owner)
        ]
        self._db.copy("span", SPAN_COLUMNS, rows)
        last = [
            change.new_spans[-1] if change.new_spans else None for change in changes
        ]
        fragments = [change.fragment for change in changes]
        # Sources of one request are pending in the order in which they were sent.
        self._db.execute(
            "UPDATE source AS s SET owner = n.owner, mtime_ns = n.mtime_ns,"
            " generation = n.generation, revision = revision + n.changes,"
            " pending_since = CASE WHEN n.changes = 0 OR derived_revision < revision"
            " THEN pending_since ELSE now() + n.index * interval '1 microsecond' END,"
            " stored_bytes = coalesce(n.stored_bytes, s.stored_bytes),"
            " client_offset = coalesce(n.client_offset, s.client_offset),"
            " fingerprint = coalesce(n.fingerprint, s.fingerprint),"
            " fragment = coalesce(n.frame, s.fragment), identity = n.identity"
            " FROM unnest(%(number)s::bigint[], %(owner)s::integer[],"
            " %(mtime_ns)s::bigint[], %(generation)s::integer[],"
            " %(changes)s::integer[], %(stored_bytes)s::bigint[],"
            " %(client_offset)s::bigint[], %(fingerprint)s::bytea[],"
            " %(frame)s::bytea[], %(identity)s::text[]) WITH ORDINALITY AS n (number,"
            " owner, mtime_ns, generation, changes, stored_bytes, client_offset,"
            " fingerprint, frame, identity, index) WHERE s.number = n.number",
            {
                "number": [change.update.source.number for change in changes],
                "owner": [change.owner for change in changes],
                "mtime_ns": [change.update.source.mtime_ns for change in changes],
                "generation": [change.update.generation for change in changes],
                "changes": [int(change.needs_deriving) for change in changes],
                "stored_bytes": [span.stop if span else None for span in last],
                "client_offset": [
                    span.client_offset if span else None for span in last
                ],
                "fingerprint": [one.fingerprint if one else None for one in fragments],
                "frame": [one.frame if one else None for one in fragments],
                "identity": [change.identity for change in changes],
            },
        )
        for change in changes:
            if change.before.owner != change.owner:
                self._db.execute(
                    "UPDATE span SET owner = %(owner)s WHERE number = %(number)s"
                    " AND owner <> %(owner)s",
                    {"owner": change.owner, "number": change.update.source.number},
                )

    def machine_sources(
        self, person: str, machine: str, numbers: Sequence[int] | None = None
    ) -> list[TeamSource]:
        where = "s.person = %(person)s AND machine = %(machine)s"
        where += " AND number = ANY(%(numbers)s)" if numbers is not None else ""
        values = {"person": person, "machine": machine, "numbers": list(numbers or ())}
        return self._select_sources(where, values)

    def list_sources(self, person: str) -> list[TeamSource]:
        return self._select_sources("s.person = %(person)s", {"person": person})

    def _select_sources(self, where: str, values: dict[str, Any]) -> list[TeamSource]:
        sql = f"{_SELECT_SOURCE} WHERE {where} ORDER BY machine, home, path"
        return [team_source_from_row(row) for row in self._db.rows(sql, values)]

    def pending_sources(self, limit: int = 100) -> Sequence[PendingSource]:
        rows = self._db.rows(
            "SELECT number, person FROM source WHERE derived_revision < revision"
            " ORDER BY pending_since LIMIT %(limit)s",
            {"limit": limit},
        )
        return [PendingSource(*row) for row in rows]

    def spans(self, source: int, start: int = 0) -> list[StoredSpan]:
        found = self._load_spans({source: start}).get(source, [])
        return [span for span in found if span.stop > start]

    def _load_spans(self, starts: Mapping[int, int]) -> dict[int, list[StoredSpan]]:
        """Return the spans of sources that have bytes after an offset of each."""
        found: dict[int, list[StoredSpan]] = {}
        rows = self._db.rows(
            "SELECT number, start, stop, p.client_offset, sha256, address"
            " FROM span AS p JOIN source AS s USING (number, generation)"
            " JOIN unnest(%(numbers)s::bigint[], %(starts)s::bigint[])"
            " AS n (number, first) USING (number) WHERE p.start >= coalesce((SELECT"
            " max(q.start) FROM span AS q WHERE q.number = p.number AND q.generation ="
            " p.generation AND q.start <= n.first), 0) ORDER BY number, start",
            {"numbers": list(starts), "starts": list(starts.values())},
        )
        for number, *row in rows:
            found.setdefault(number, []).append(span_from_row(row))
        return found

    def _sources_with(
        self, person: str, table: str, column: str, values: Sequence[object]
    ) -> set[int]:
        is_number = bool(values) and isinstance(values[0], int)
        cast = "::bigint[]" if is_number else ""
        rows = self._db.rows(
            "SELECT DISTINCT b.source FROM session_source AS b WHERE b.number IN"  # noqa: S608 (constants)
            f" (SELECT number FROM {table} WHERE {column} = ANY(%(values)s{cast})"
            " AND owner IN (SELECT owner FROM owner WHERE person = %(person)s))",
            {
                "values": array_literal(values) if is_number else list(values),
                "person": person,
            },
        )
        return {row[0] for row in rows}

    def _query_record_titles(
        self, person: str, records: Sequence[int]
    ) -> Iterable[Any]:
        return self._db.rows(
            "SELECT leaf_key, source, start, leaf, title FROM leaf_title"
            " WHERE leaf_key = ANY(%(records)s::bigint[])"
            " AND owner IN (SELECT owner FROM owner WHERE person = %(person)s)",
            {"records": array_literal(records), "person": person},
        )

    def _query_settled(self, source: int) -> list[Any]:
        return self._db.rows(
            "SELECT s.session, s.number, s.owner, ARRAY[s.part], p.facts, (SELECT"
            " count(*) FROM session AS m WHERE m.family = s.family)"
            " FROM session AS s JOIN settled_part AS p USING (number) WHERE number IN"
            " (SELECT number FROM session_source WHERE source = %(source)s)",
            {"source": source},
        )

    def replace_sessions(self, derived: DerivedSessions) -> None:
        write_sessions(self._db, derived, self.project_rules)

    def _apply_rule(self, name: str) -> int:
        with self._erasure():
            sessions, sources = self._find_limited(name)
            delete_sessions(self._db, sessions)
            owners = dict(
                self._rows_in(
                    "SELECT number, owner FROM source WHERE", "number", sources
                )
            )
            access = load_access(self._db, set(owners.values()))
            for number, source in sources.items():
                before = access[owners[number]]
                after = OwnerAccess(before.teams, before.projects | {name})
                move_sources(self._db, source.person, after, [number])
            self._db.execute(
                "UPDATE source SET revision = revision + 1, pending_since = now()"
                " WHERE number = ANY(%(numbers)s)",
                {"numbers": list(sources)},
            )
        return len(sessions)

    @contextmanager
    def _erasure(self) -> Iterator[None]:
        with self._db.transaction():
            self._db.execute("LOCK TABLE source, session IN SHARE ROW EXCLUSIVE MODE")
            yield

    def _delete_sessions(self, numbers: Sequence[int]) -> int:
        return delete_sessions(self._db, numbers)

    def _delete_sources(self, numbers: Sequence[int]) -> int:
        return sum(
            self._db.execute(
                f"DELETE FROM {table} WHERE number = ANY(%(numbers)s)",  # noqa: S608 (constants)
                {"numbers": list(numbers)},
            )
            for table in ("span", "source")
        )

    def _add_orphaned_blobs(self, addresses: Sequence[str]) -> None:
        self._db.execute(
            "INSERT INTO orphaned_blob SELECT unnest(%(addresses)s::text[])"
            " ON CONFLICT DO NOTHING",
            {"addresses": list(addresses)},
        )

    def forget_orphaned_blobs(self, addresses: Iterable[str]) -> None:
        sql = "DELETE FROM orphaned_blob WHERE address = ANY(%(addresses)s)"
        self._db.execute(sql, {"addresses": list(addresses)})

    def hold(self, selector: ErasureSelector, *, reason: str) -> None:
        self._db.execute(
            "INSERT INTO hold VALUES (%(selector)s, %(reason)s)"
            " ON CONFLICT (selector) DO UPDATE SET reason = excluded.reason",
            {"selector": encode_selector(selector), "reason": reason},
        )

    def release(self, selector: ErasureSelector) -> None:
        sql = "DELETE FROM hold WHERE selector = %(selector)s"
        self._db.execute(sql, {"selector": encode_selector(selector)})

    def find_tombstones(self, hashes: Sequence[bytes]) -> set[bytes]:
        sql = "SELECT hash FROM tombstone WHERE hash = ANY(%(hashes)s)"
        rows = self._db.rows(sql, {"hashes": list(hashes)})
        return {bytes(row[0]) for row in rows}

    def add_tombstones(self, tombstones: Iterable[Tombstone]) -> None:
        added = list(tombstones)
        self._db.execute(
            "INSERT INTO tombstone"
            " SELECT * FROM unnest(%(hashes)s::bytea[], %(times)s::timestamptz[])"
            " ON CONFLICT DO NOTHING",
            {
                "hashes": [one.hash for one in added],
                "times": [one.erased_at for one in added],
            },
        )

    def set_note(self, kind: str, key: str, value: bytes | None) -> None:
        values = {"kind": kind, "key": key, "value": value}
        if value is None:
            sql = "DELETE FROM note WHERE kind = %(kind)s AND key = %(key)s"
            self._db.execute(sql, values)
            return
        self._db.execute(
            "INSERT INTO note VALUES (%(kind)s, %(key)s, %(value)s)"
            " ON CONFLICT (kind, key) DO UPDATE SET value = excluded.value",
            values,
        )

    def verify(self) -> VerifyReport:
        faults = [
            f"source {number} has a gap before byte {start}"
            for number, start in self._db.rows(
                "SELECT number, start FROM (SELECT number, start,"
                " lag(stop, 1, 0::bigint) OVER (PARTITION BY number, generation"
                " ORDER BY start) AS previous FROM span) AS spans"
                " WHERE start <> previous",
                {},
            )
        ]
        faults += [
            f"session {session} has no source"
            for (session,) in self._db.rows(
                "SELECT session FROM session AS s WHERE NOT EXISTS (SELECT 1"
                " FROM session_source AS b JOIN source AS f ON f.number = b.source"
                " WHERE b.number = s.number)",
                {},
            )
        ]
        ((sources, sessions, texts),) = self._db.rows(
            "SELECT (SELECT count(*) FROM source), (SELECT count(*) FROM session),"
            " (SELECT count(*) FROM text WHERE piece = 0)",
            {},
        )
        return VerifyReport(
            sources=sources, sessions=sessions, texts=texts, faults=tuple(faults)
        )


def _new_spans(
    update: SourceUpdate, before: _SourceState, known: Sequence[StoredSpan]
) -> list[StoredSpan]:
    name = update.source.id
    if update.generation < before.generation:
        raise SourceUpdateRejected(name, "a newer generation is there")
    if update.generation > before.generation:
        return select_new_spans(name, update.spans, [], 0)
    return select_new_spans(name, update.spans, known, before.stored_bytes)


def _next_fragment(
    update: SourceUpdate, before: _SourceState, new: Sequence[StoredSpan]
) -> SourceFragment | None:
    """Return the unfinished line after an update, if it is another one than before."""
    is_new_generation = update.generation > before.generation
    offset = 0 if is_new_generation else before.stored_bytes
    if new:
        offset = new[-1].stop
    if update.fragment is not None and update.fragment.offset == offset:
        return update.fragment
    is_replaced = bool(new) or is_new_generation
    return SourceFragment(offset=offset, fingerprint=b"") if is_replaced else None


class PostgresBlobStore(DatabaseBlobStore[PostgresConnection]):
    """Blobs in the table ``object``."""

    def _insert(self, address: str, frame: bytes) -> None:
        self._db.execute(
            "INSERT INTO object VALUES (%(address)s, %(frame)s) ON CONFLICT DO NOTHING",
            {"address": address, "frame": frame},
        )

    def remove(self, addresses: Iterable[str]) -> None:
        sql = "DELETE FROM object WHERE address = ANY(%(addresses)s)"
        self._db.execute(sql, {"addresses": list(addresses)})
