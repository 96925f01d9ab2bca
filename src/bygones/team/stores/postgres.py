"""The team store on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from bygones.errors import SourceUpdateRejected
from bygones.team.contract import (
    ErasureSelector,
    PendingSource,
    SourceUpdate,
    Tombstone,
    UploadProgress,
)
from bygones.team.stores import postgres_rows
from bygones.team.stores.base import (
    BaseStore,
    DatabaseBlobStore,
    EngineFunctions,
    encode_selector,
)
from bygones.team.stores.postgres_connection import PostgresConnection, prepare
from bygones.team.stores.postgres_search import PostgresTextSearch


class PostgresStore(BaseStore[PostgresConnection]):
    """What a team has sent, what is derived of it, and who may see it."""

    _engine = EngineFunctions(
        connect=PostgresConnection,
        search_backend=PostgresTextSearch,
        prepare=prepare,
        put=postgres_rows.put_update,
        upload_progress=postgres_rows.upload_progress,
        list_sources=postgres_rows.list_sources,
        spans=postgres_rows.spans,
        fragments=postgres_rows.fragments,
        write_sessions=postgres_rows.write_sessions,
        matching_sessions=postgres_rows.matching_sessions,
        erase=postgres_rows.erase_sessions,
        verify=postgres_rows.verify_rows,
    )

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self._database_blobs: PostgresBlobStore | None = None

    def put_all(
        self, updates: Sequence[SourceUpdate]
    ) -> list[UploadProgress | SourceUpdateRejected]:
        """Put what came at once, in one transaction."""
        return postgres_rows.put_updates(self._db, updates)

    def pending_sources(self, limit: int = 100) -> Sequence[PendingSource]:
        """Return sources that must be derived, those that wait longest first."""
        rows = self._db.rows(
            "SELECT number, person FROM source WHERE clean < revision"
            " ORDER BY waits LIMIT %(limit)s",
            {"limit": limit},
        )
        return [PendingSource(*row) for row in rows]

    def _sources_with(
        self, person: str, table: str, column: str, values: Sequence[object]
    ) -> set[int]:
        is_number = bool(values) and isinstance(values[0], int)
        kind = "::bigint[]" if is_number else ""
        rows = self._db.rows(
            "SELECT DISTINCT b.source FROM session_source AS b WHERE b.number IN"  # noqa: S608 (our names)
            f" (SELECT number FROM {table} WHERE {column} = ANY(%(values)s{kind})"
            " AND holder IN (SELECT holder FROM holder WHERE person = %(person)s))",
            {
                "values": _array_literal(values) if is_number else list(values),
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
            " AND holder IN (SELECT holder FROM holder WHERE person = %(person)s)",
            {"records": _array_literal(records), "person": person},
        )

    def database_blobs(self) -> PostgresBlobStore:
        """Return a blob store in the same database."""
        if self._database_blobs is None:
            self._database_blobs = PostgresBlobStore(PostgresConnection(self._address))
        return self._database_blobs

    def hold(self, selector: ErasureSelector, *, reason: str) -> None:
        """Keep what fits from being erased, until it is released."""
        self._db.execute(
            "INSERT INTO hold VALUES (%(selector)s, %(reason)s)"
            " ON CONFLICT (selector) DO UPDATE SET reason = excluded.reason",
            {"selector": encode_selector(selector), "reason": reason},
        )

    def release(self, selector: ErasureSelector) -> None:
        """Take a hold back."""
        sql = "DELETE FROM hold WHERE selector = %(selector)s"
        self._db.execute(sql, {"selector": encode_selector(selector)})

    def tombstones(self) -> Sequence[Tombstone]:
        """Return what was erased."""
        rows = self._db.rows("SELECT sign, erased FROM tombstone ORDER BY erased", {})
        return [Tombstone(hash=bytes(sign), erased_at=when) for sign, when in rows]

    def find_tombstones(self, hashes: Sequence[bytes]) -> set[bytes]:
        """Return those of some signs that tombstones have."""
        sql = "SELECT sign FROM tombstone WHERE sign = ANY(%(signs)s)"
        return {bytes(row[0]) for row in self._db.rows(sql, {"signs": list(hashes)})}

    def add_tombstones(self, tombstones: Iterable[Tombstone]) -> None:
        """Refuse what another store has erased."""
        for one in tombstones:
            self._db.execute(
                "INSERT INTO tombstone VALUES (%(sign)s, %(erased)s)"
                " ON CONFLICT DO NOTHING",
                {"sign": one.hash, "erased": one.erased_at},
            )

    def forget_orphaned_blobs(self, addresses: Iterable[str]) -> None:
        """Note that objects are gone."""
        sql = "DELETE FROM stray WHERE address = ANY(%(addresses)s)"
        self._db.execute(sql, {"addresses": list(addresses)})

    def list_notes(self, kind: str) -> dict[str, bytes]:
        """Return all notes of a kind."""
        sql = "SELECT key, value FROM note WHERE kind = %(kind)s ORDER BY key"
        return {key: bytes(value) for key, value in self._db.rows(sql, {"kind": kind})}

    def set_note(self, kind: str, key: str, value: bytes | None) -> None:
        """Keep a note, or forget it."""
        named = {"kind": kind, "key": key, "value": value}
        if value is None:
            sql = "DELETE FROM note WHERE kind = %(kind)s AND key = %(key)s"
            self._db.execute(sql, named)
            return
        self._db.execute(
            "INSERT INTO note VALUES (%(kind)s, %(key)s, %(value)s)"
            " ON CONFLICT (kind, key) DO UPDATE SET value = excluded.value",
            named,
        )

    def close(self) -> None:
        """Let go of the engine."""
        super().close()
        if self._database_blobs is not None:
            self._database_blobs.close()


def _array_literal(numbers: Sequence[object]) -> str:
    """Return numbers as the engine writes a list, which the driver does slowly."""
    return f"{{{','.join(map(str, numbers))}}}"


class PostgresBlobStore(DatabaseBlobStore[PostgresConnection]):
    """A blob store in the database itself: for a team that has nothing else."""

    def _insert(self, address: str, frame: bytes) -> None:
        self._db.execute(
            "INSERT INTO object VALUES (%(address)s, %(frame)s) ON CONFLICT DO NOTHING",
            {"address": address, "frame": frame},
        )

    def remove(self, addresses: Iterable[str]) -> None:
        """Erase bytes; what is not there is no error."""
        sql = "DELETE FROM object WHERE address = ANY(%(addresses)s)"
        self._db.execute(sql, {"addresses": list(addresses)})
