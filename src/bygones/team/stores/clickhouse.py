"""The team store on ClickHouse, and its text search by postings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from bygones.store.text_index import form_prefix, stem_terms
from bygones.team.contract import (
    AccessScope,
    ErasureSelector,
    PendingSource,
    ScopedDatabase,
    Tombstone,
    allocate_numbers,
)
from bygones.team.stores import clickhouse_rows
from bygones.team.stores.base import (
    BaseStore,
    DatabaseBlobStore,
    EngineFunctions,
    encode_selector,
)
from bygones.team.stores.clickhouse_connection import ClickHouseConnection, prepare
from bygones.team.text_engine import TermFilter
from bygones.team.text_query import (
    MatchQuery,
    SessionPostings,
    SqlCondition,
    TermSequence,
    TextQuery,
    split_required_match,
)

_LAST_CHARACTER = "\U0010ffff"
_SELECT_POSTINGS = "SELECT number, text, kind, record FROM {posting} AS p"


class ClickHouseTextSearch:
    """What one scope may know of texts and terms."""

    def __init__(self, sight: ScopedDatabase, scope: AccessScope) -> None:
        self._sight = sight
        self._scope = scope

    def refresh_scope(self) -> object:
        """Look whose rows may be seen; return what changes when these do."""
        rows = self._sight.db.rows(
            "SELECT holder, person, teams FROM holder FINAL ORDER BY holder", {}
        )
        scope = self._scope
        self._sight.set_holders(
            [row[0] for row in rows if scope.can_see(row[1], row[2])]
        )
        # No number is used twice: whatever is replaced changes what they make together.
        sql = "SELECT count(*), groupBitXor(number) FROM {session} AS s"
        return self._sight.rows(sql)

    def totals(self) -> tuple[int, int]:
        """Return how many texts there are, and how many terms in all of them."""
        row = self._sight.first_row("SELECT count(*), sum(length) FROM {text} AS s")
        return (int(row[0]), int(row[1])) if row else (0, 0)

    def terms(self, wanted: TermFilter) -> list[tuple[str, int]]:
        values: dict[str, object] = {"exact": list(wanted.exact)}
        conditions = ["term IN %(exact)s"] if wanted.exact else []
        ranges = [form_prefix(stem) for stem in wanted.stems]
        ranges += [wanted.prefix] if wanted.prefix is not None else []
        for index, prefix in enumerate(ranges):
            values |= {f"low{index}": prefix, f"high{index}": prefix + _LAST_CHARACTER}
            conditions.append(f"(term >= %(low{index})s AND term < %(high{index})s)")
        if wanted.substring is not None:
            values["substring"] = wanted.substring
            conditions.append("position(term, %(substring)s) > 0")
        if not conditions:
            return []
        rows = self._sight.rows(
            f"SELECT term, count(*) FROM {{posting}} AS p WHERE {' OR '.join(conditions)}"  # noqa: S608 (constants)
            " GROUP BY term ORDER BY term",
            **values,
        )
        found = [(term, int(count)) for term, count in rows]
        return _with_stems(found, wanted) if wanted.stems else found

    def count_texts(
        self, queries: Sequence[TextQuery]
    ) -> list[tuple[int, int, int, int]]:
        """Return how many texts are found, by question, session and kind."""
        condition = SqlCondition(self._sight.db, _match_source_sql)
        parts: list[str] = []
        for at, one in enumerate(queries):
            found, rest = split_required_match(one)
            table = "{text}" if found is None else condition.match_source(found)
            where = f" WHERE {condition.compile(rest)}" if rest is not None else ""
            parts.append(
                f"SELECT {at:d}, number, kind, uniqExact(text) FROM {table} AS t{where}"  # noqa: S608 (our names)
                " GROUP BY number, kind"
            )
        rows = self._sight.rows(" UNION ALL ".join(parts), **condition.values)
        return [(int(at), number, int(kind), int(n)) for at, number, kind, n in rows]

    def load_postings(
        self, sessions: Sequence[int], terms: Sequence[str], *, include_unmatched: bool
    ) -> dict[int, SessionPostings]:
        """Return where terms stand in the texts of sessions."""
        found = {session: SessionPostings({}, {}) for session in sessions}
        if terms:
            rows = self._sight.rows(
                "SELECT number, text, record, kind, length, term, places"
                " FROM {posting} AS p WHERE term IN %(terms)s AND number IN %(numbers)s",
                numbers=list(sessions),
                terms=list(terms),
            )
            for number, text, *facts, term, places in rows:
                record, kind, length = facts
                found[number].text_facts[text] = (record, kind, length)
                found[number].positions.setdefault(term, {})[text] = places
        if include_unmatched:
            sql = "SELECT number, text, record, kind, length FROM {text} AS s"
            sql += " WHERE number IN %(numbers)s"
            for number, text, *facts in self._sight.rows(sql, numbers=list(sessions)):
                record, kind, length = facts
                found[number].text_facts[text] = (record, kind, length)
        return found


def _with_stems(
    found: Sequence[tuple[str, int]], wanted: TermFilter
) -> list[tuple[str, int]]:
    """Return terms without those that only begin like a stem."""
    exact, stems = set(wanted.exact), set(wanted.stems)
    own_stems = stem_terms([term for term, _ in found])
    return [
        row
        for row, stem in zip(found, own_stems, strict=True)
        if stem in stems
        or row[0] in exact
        or (wanted.prefix is not None and row[0].startswith(wanted.prefix))
    ]


def _match_source_sql(query: MatchQuery, add: Callable[[object], str]) -> str:
    single = [run[0] for run in query.phrases if len(run) == 1]
    parts = [f"{_SELECT_POSTINGS} WHERE term IN {add(single)}"] if single else []
    parts += [_phrase_match_sql(run, add) for run in query.phrases if len(run) > 1]
    return f"({' UNION ALL '.join(parts)})"


def _phrase_match_sql(phrase: TermSequence, add: Callable[[object], str]) -> str:
    """Return the texts in which terms stand one right behind the other."""
    each = ", ".join(
        f"anyIf(places, term = {add(term)}) AS p{at}" for at, term in enumerate(phrase)
    )
    later = " AND ".join(f"has(p{step}, at + {step})" for step in range(1, len(phrase)))
    return (
        "SELECT number, text, kind, record FROM (SELECT number, text,"  # noqa: S608 (our names)
        f" any(kind) AS kind, any(record) AS record, {each} FROM {{posting}} AS p"
        f" WHERE term IN {add(sorted(set(phrase)))} GROUP BY number, text)"
        f" WHERE arrayExists(at -> {later}, p0)"
    )


class ClickHouseStore(BaseStore[ClickHouseConnection]):
    """What a company has sent, what is derived of it, and who may see it."""

    _engine = EngineFunctions(
        connect=ClickHouseConnection,
        search_backend=ClickHouseTextSearch,
        prepare=prepare,
        put=clickhouse_rows.put_update,
        upload_progress=clickhouse_rows.upload_progress,
        list_sources=clickhouse_rows.list_sources,
        spans=clickhouse_rows.spans,
        fragments=clickhouse_rows.fragments,
        write_sessions=clickhouse_rows.write_sessions,
        matching_sessions=clickhouse_rows.matching_sessions,
        erase=clickhouse_rows.erase_sessions,
        verify=clickhouse_rows.verify_rows,
    )
    _live_condition = "is_over = 0"
    _table_suffix = " FINAL"

    def pending_sources(self, limit: int = 100) -> Sequence[PendingSource]:
        """Return sources that must be derived, those that wait longest first."""
        rows = self._db.rows(
            "SELECT s.number, s.person FROM (SELECT number, person, revision"
            " FROM source FINAL) AS s LEFT JOIN (SELECT * FROM cleaned FINAL) AS c"
            " ON c.number = s.number WHERE c.clean < s.revision"
            " ORDER BY s.revision LIMIT %(limit)s",
            {"limit": limit},
        )
        return [PendingSource(*row) for row in rows]

    def _sources_with(
        self, person: str, table: str, column: str, values: Sequence[object]
    ) -> set[int]:
        rows = self._db.rows(
            "SELECT DISTINCT source FROM session_source WHERE number IN"  # noqa: S608 (our names)
            f" (SELECT number FROM {table} WHERE {column} IN %(values)s"
            " AND holder IN (SELECT holder FROM holder WHERE person = %(person)s)"
            " AND number NOT IN (SELECT number FROM dead))",
            {"values": list(values), "person": person},
        )
        return {row[0] for row in rows}

    def _query_record_titles(
        self, person: str, records: Sequence[int]
    ) -> Iterable[Any]:
        return self._db.rows(
            "SELECT leaf_key, source, start, leaf, title FROM leaf_title"
            " WHERE leaf_key IN %(records)s"
            " AND holder IN (SELECT holder FROM holder WHERE person = %(person)s)"
            " AND number NOT IN (SELECT number FROM dead)",
            {"records": list(records), "person": person},
        )

    def database_blobs(self) -> ClickHouseBlobStore:
        """Return a blob store in the same database."""
        return ClickHouseBlobStore(self._db)

    def hold(self, selector: ErasureSelector, *, reason: str) -> None:
        """Keep what fits from being erased, until it is released."""
        self._insert_revision(
            "hold", ("selector", "reason"), (encode_selector(selector), reason)
        )

    def release(self, selector: ErasureSelector) -> None:
        """Take a hold back."""
        self._insert_revision(
            "hold",
            ("selector", "reason"),
            (encode_selector(selector), ""),
            is_deleted=True,
        )

    def tombstones(self) -> Sequence[Tombstone]:
        """Return what was erased."""
        sql = "SELECT sign, erased FROM tombstone FINAL ORDER BY erased"
        return [
            Tombstone(hash=sign, erased_at=when)
            for sign, when in self._db.rows(sql, {})
        ]

    def find_tombstones(self, hashes: Sequence[bytes]) -> set[bytes]:
        """Return those of some signs that tombstones have."""
        sql = "SELECT hex(sign) FROM tombstone WHERE hex(sign) IN %(signs)s"
        rows = self._db.rows(sql, {"signs": [sign.hex().upper() for sign in hashes]})
        return {bytes.fromhex(row[0]) for row in rows}

    def add_tombstones(self, tombstones: Iterable[Tombstone]) -> None:
        """Refuse what another store has erased."""
        rows = [(one.hash, one.erased_at) for one in tombstones]
        self._db.insert("tombstone", ("sign", "erased"), rows)

    def forget_orphaned_blobs(self, addresses: Iterable[str]) -> None:
        """Note that objects are gone."""
        for address in addresses:
            self._insert_revision("stray", ("address",), (address,), is_deleted=True)

    def list_notes(self, kind: str) -> dict[str, bytes]:
        """Return all notes of a kind."""
        rows = self._db.rows(
            "SELECT key, value FROM note FINAL WHERE kind = %(kind)s AND is_over = 0"
            " ORDER BY key",
            {"kind": kind},
        )
        return dict(rows)

    def set_note(self, kind: str, key: str, value: bytes | None) -> None:
        """Keep a note, or forget it."""
        row = (kind, key, value or b"")
        self._insert_revision(
            "note", ("kind", "key", "value"), row, is_deleted=value is None
        )

    def _insert_revision(
        self,
        table: str,
        columns: Sequence[str],
        row: Sequence[object],
        *,
        is_deleted: bool = False,
    ) -> None:
        """Write a row anew; the last one counts."""
        (revision,) = allocate_numbers(1)
        names = (*columns, "is_over", "revision")
        self._db.insert(table, names, [(*row, int(is_deleted), revision)])


class ClickHouseBlobStore(DatabaseBlobStore[ClickHouseConnection]):
    """A blob store in the database itself: for trying things out."""

    def _insert(self, address: str, frame: bytes) -> None:
        self._db.insert("object", ("address", "frame"), [(address, frame)])

    def remove(self, addresses: Iterable[str]) -> None:
        """Erase bytes; what is not there is no error."""
        gone = list(addresses)
        if gone:
            self._db.execute(
                "ALTER TABLE object DELETE WHERE address IN %(addresses)s"
                " SETTINGS mutations_sync = 2",
                {"addresses": gone},
            )
