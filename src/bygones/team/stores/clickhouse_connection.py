"""Connections to ClickHouse, and its schema.

An address is that of a server's HTTP port, ``clickhouse://name:word@server:8123/team``,
or of ClickHouse in this process, ``chdb:///folder?database=team``.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from threading import RLock
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit
from uuid import uuid4
from zlib import crc32

import clickhouse_connect
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import ClickHouseError, DataError

from bygones.errors import (
    InvalidStoreURL,
    StoreError,
    StoreRightsMissing,
    StoreSignInRejected,
    StoreWithoutTables,
)
from bygones.store.index_db import DERIVATION_VERSION
from bygones.store.schema import TEAM_TABLES
from bygones.team.contract import (
    REBUILD_NOTE,
    TEAM_DERIVATION_VERSION,
    allocate_numbers,
)

# Errors are raised; without a handler, the client would print them as well.
logging.getLogger("clickhouse_connect").addHandler(logging.NullHandler())
_VALID_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DEFAULT_DATABASE = "bygones"
_BYTES_COLUMNS: dict[str, str | dict[str, str]] = dict.fromkeys(
    (
        "summary",
        "text_lengths",
        "cost",
        "warm_up_usage",
        "sha256",
        "frame",
        "hash",
        "value",
        "fingerprint",
        "fragment",
        "facts",
    ),
    "bytes",
)
"""Columns with bytes instead of text."""
IS_LIVE_SESSION = "part NOT IN (SELECT part FROM dead)"
"""The condition for rows of ``session`` that were not replaced."""
_SOURCE_TABLES = {"source", "span"}
_OWNER_TABLES = (*TEAM_TABLES, "text", "posting", *sorted(_SOURCE_TABLES))
"""Tables whose rows belong to an owner."""
_MAX_FILTERED_OWNERS = 500
"""Holders up to which a filter is set in addition to that in each statement."""
_MAX_QUERY_BYTES = 64 * 1024 * 1024
"""Bytes of a statement: an auditor may see ten thousand owners."""


class ClickHouseConnection:
    """A connection to ClickHouse; threads may share it."""

    def __init__(self, address: str) -> None:
        self._lock = RLock()
        self._settings: dict[str, Any] = {"max_query_size": _MAX_QUERY_BYTES}
        self._url, self.database = _split_database(address)
        self._open_client: Client | None = None
        with translate_errors(), closing(self._connect("")) as server:
            # A user who only reads may not even ask to create one that exists.
            if server.command(f"EXISTS DATABASE {self.database}"):
                self._open_client = self._connect(self.database)

    def create_database(self) -> None:
        """Create the database if it does not exist."""
        if self._open_client is None:
            with self._lock, translate_errors(), closing(self._connect("")) as server:
                server.command(f"CREATE DATABASE IF NOT EXISTS {self.database}")
                self._open_client = self._connect(self.database)

    def _connect(self, database: str) -> Client:
        options = _client_options(self._url)
        if database:
            options["database"] = database
        return clickhouse_connect.get_client(dsn=self._url, **options)

    @property
    def _db(self) -> Client:
        if self._open_client is None:
            raise StoreWithoutTables(f"there is no database {self.database!r}")
        return self._open_client

    def rows(self, sql: str, values: Mapping[str, Any]) -> list[Any]:
        with self._lock, translate_errors():
            found = self._db.query(
                sql,
                parameters=dict(values) if values else None,
                column_formats=_BYTES_COLUMNS,
                settings=self._settings,
            )
            return list(found.result_rows)

    def execute(self, sql: str, values: Mapping[str, Any] | None = None) -> None:
        with self._lock, translate_errors():
            self._db.command(sql, parameters=dict(values) if values else None)

    def insert(
        self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]
    ) -> None:
        """Insert rows, also if the same ones were inserted and deleted before.

        A replicated table drops an insert that equals an earlier one, unless each has
        its own token.
        """
        if rows:
            settings = {"insert_deduplication_token": uuid4().hex}
            with self._lock, translate_errors():
                self._db.insert(
                    table, rows, column_names=list(columns), settings=settings
                )

    def visible_rows(self, table: str) -> str:
        if table in _SOURCE_TABLES:
            return f"(SELECT * FROM {table} FINAL WHERE owner IN %(owners)s)"  # noqa: S608 (constants)
        owned = "WHERE owner IN %(owners)s AND"
        if table == "session":
            return f"(SELECT * FROM session {owned} {IS_LIVE_SESSION})"  # noqa: S608 (constants)
        return (
            f"(SELECT * FROM {table} {owned} part IN (SELECT arrayJoin(parts)"  # noqa: S608 (constants)
            f" FROM session {owned} {IS_LIVE_SESSION}))"
        )

    def restrict_to(self, owners: Sequence[int]) -> None:
        """Make the connection read-only, and limit it to the rows of some owners.

        ClickHouse adds the filter to every table that a statement reads.
        """
        self._settings = {"max_query_size": _MAX_QUERY_BYTES, "readonly": 2}
        if len(owners) <= _MAX_FILTERED_OWNERS:
            own = f"owner IN ({', '.join(map(str, owners)) or 'NULL'})"
            filters = {f"{self.database}.{table}": own for table in _OWNER_TABLES}
            self._settings["additional_table_filters"] = filters

    def read_transaction(self) -> AbstractContextManager[None]:
        """Do nothing: ClickHouse has no transactions."""
        return nullcontext()

    def in_list(self, column: str, key: str) -> str:
        return f"{column} IN %({key})s"

    def pair_in_list(self, columns: str, key: str) -> str:
        return f"({columns}) IN %({key})s"

    def integer_division(self, number: str, divisor: int) -> str:
        return f"intDiv({number}, {divisor:d})"

    def close(self) -> None:
        if self._open_client is not None:
            self._open_client.close()


def _client_options(url: str) -> dict[str, Any]:
    # The server would reject concurrent statements of one session.
    return {} if url.startswith("chdb:") else {"autogenerate_session_id": False}


def _split_database(url: str) -> tuple[str, str]:
    """Split a URL into one without a database, and the database."""
    split = urlsplit(url)
    given = dict(parse_qsl(split.query))
    path = split.path
    database = given.pop("database", "")
    if split.scheme != "chdb":
        database, path = path.strip("/") or database, ""
    database = database or _DEFAULT_DATABASE
    if not _VALID_NAME.fullmatch(database):
        raise InvalidStoreURL("a database's name has letters, digits and underscores")
    plain = split._replace(path=path, query=urlencode(given))
    return urlunsplit(plain), database


@contextmanager
def translate_errors() -> Iterator[None]:
    """Translate errors of the database."""
    try:
        yield
    except (ClickHouseError, OSError) as error:
        is_permanent = isinstance(error, DataError)
        raise _error_class(error)(
            _describe_error(error), is_permanent=is_permanent
        ) from error
    except UnicodeError as error:
        raise StoreError("it is not valid text", is_permanent=True) from error


_ERRORS_BY_CODE: dict[str, type[StoreError]] = {
    "60": StoreWithoutTables,
    "81": StoreWithoutTables,
    "164": StoreRightsMissing,
    "193": StoreSignInRejected,
    "497": StoreRightsMissing,
    "516": StoreSignInRejected,
}
"""Errors by the codes of ClickHouse: what is missing, and who may not do it."""


def _error_class(error: Exception) -> type[StoreError]:
    found = re.search(r"\bCode: (\d+)", str(error))
    return _ERRORS_BY_CODE.get(found[1], StoreError) if found else StoreError


def _describe_error(error: Exception) -> str:
    """Return what happened in one line; the client adds its attempts to the cause."""
    if found := re.search(
        r"\(host='(.+?)', port=(\d+)\).*\[Errno -?\d+\] ([\w ]+)", str(error)
    ):
        return f"{found[1]} port {found[2]} cannot be reached: {found[3]}"
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0][:500]


DERIVED_TABLES = (*TEAM_TABLES, "text", "posting")
"""Tables whose rows belong to a session."""
_TABLE_SETTINGS = "SETTINGS old_parts_lifetime = 1"
"""Erased rows must not remain in unused parts."""
_LASTING_TABLES = {
    "owner": "owner Int64, person String, teams Array(String), projects Array(String)",
    "source": "number Int64, owner Int64, person String, machine String, home String,"
    " path String, id String, kind String, project Nullable(String),"
    " session Nullable(String), agent Nullable(String), mtime_ns Int64,"
    " generation Int64, stored_bytes Int64, client_offset Int64, revision Int64,"
    " fingerprint String, fragment String, identity String",
    "derived_source": "number Int64, derived_revision Int64",
    "span": "number Int64, owner Int64, generation Int64, start Int64, stop Int64,"
    " client_offset Int64, sha256 String, address String, revision Int64",
    "object": "address String, frame String",
    "tombstone": "hash String, erased_at DateTime64(6, 'UTC')",
    "hold": "selector String, reason String, is_deleted UInt8, revision Int64",
    "orphaned_blob": "address String, is_deleted UInt8, revision Int64",
    "note": "kind String, key String, value String, is_deleted UInt8, revision Int64",
    "schema_version": "key String, value String, revision Int64",
}
_TABLE_ENGINES = {
    "owner": "ReplacingMergeTree ORDER BY owner",
    "source": "ReplacingMergeTree(revision) ORDER BY number",
    "derived_source": "ReplacingMergeTree(derived_revision) ORDER BY number",
    "span": "ReplacingMergeTree(revision) ORDER BY (number, generation, start)",
    "object": "ReplacingMergeTree ORDER BY address",
    "tombstone": "ReplacingMergeTree ORDER BY hash",
    "hold": "ReplacingMergeTree(revision) ORDER BY selector",
    "orphaned_blob": "ReplacingMergeTree(revision) ORDER BY address",
    "note": "ReplacingMergeTree(revision) ORDER BY (kind, key)",
    "schema_version": "ReplacingMergeTree(revision) ORDER BY key",
}
_ADDED_COLUMNS = (("owner", "projects Array(String)"), ("source", "identity String"))
"""Columns that hubs of earlier versions lack."""
_SORT_KEYS = {
    "session": "owner, session, number",
    "record": "number, record",
    "edit": "path, number, position",
    "leaf_title": "leaf_key, number",
    "session_source": "source, number",
    "settled_key": "number, key",
}
_SKIP_INDEXES = {
    "record": ", INDEX by_key key TYPE bloom_filter GRANULARITY 1"
    ", INDEX by_message message_key TYPE bloom_filter GRANULARITY 1",
}
"""Records are usually found by session, and rarely by id."""
_SEARCH_COLUMNS = {
    "text": "text UInt32, record UInt32, kind UInt8, length UInt32",
    "posting": "term String CODEC(ZSTD(1)), text UInt32 CODEC(Delta, ZSTD(1)),"
    " record UInt32 CODEC(Delta, ZSTD(1)), kind UInt8 CODEC(ZSTD(1)),"
    " length UInt32 CODEC(ZSTD(1)),"
    " positions Array(UInt32) CODEC(ZSTD(1))",
}


def prepare(db: ClickHouseConnection) -> None:
    """Create or repair the schema; if it has changed, everything is derived again.

    :raises StoreError: if something is missing that cannot be derived again.
    """
    db.create_database()
    rows = db.rows(
        "SELECT name FROM system.tables WHERE database = %(name)s",
        {"name": db.database},
    )
    existing = {row[0] for row in rows}
    missing = sorted(_LASTING_TABLES.keys() - existing)
    if missing and existing & _LASTING_TABLES.keys():
        raise StoreError(
            f"it is incomplete, without the tables {', '.join(missing)};"
            " restore the backup again into an empty database"
        )
    for table, columns in _LASTING_TABLES.items():
        db.execute(
            f"CREATE TABLE IF NOT EXISTS {table} ({columns})"
            f" ENGINE = {_TABLE_ENGINES[table]} {_TABLE_SETTINGS}"
        )
    for table, column in _ADDED_COLUMNS:
        db.execute(f"ALTER TABLE {table} ADD COLUMN IF NOT EXISTS {column}")
    version = _derived_schema_version()
    is_current = _get_derived_version(db) == version
    if not is_current or not existing.issuperset((*DERIVED_TABLES, "dead")):
        _recreate_derived_tables(db)
        db.execute(
            "INSERT INTO schema_version"
            " SELECT 'derived', %(version)s, toUnixTimestamp(now())",
            {"version": version},
        )


def has_other_index(db: ClickHouseConnection) -> bool:
    """Whether another version derived the tables; nothing is changed."""
    try:
        found = _get_derived_version(db)
    except StoreWithoutTables:
        return False
    return found not in {"", _derived_schema_version()}


def _derived_schema_version() -> str:
    schema = f"{TEAM_TABLES}{_SEARCH_COLUMNS}{_SORT_KEYS}{_SKIP_INDEXES}"
    versions = f"{DERIVATION_VERSION}.{TEAM_DERIVATION_VERSION}"
    return f"{crc32(f'{schema}{versions}'.encode()):08x}"


def _get_derived_version(db: ClickHouseConnection) -> str:
    sql = "SELECT value FROM schema_version FINAL WHERE key = 'derived'"
    found = db.rows(sql, {})
    return bytes(found[0][0]).decode() if found else ""


def _recreate_derived_tables(db: ClickHouseConnection) -> None:
    for table in (*DERIVED_TABLES, "dead"):
        db.execute(f"DROP TABLE IF EXISTS {table} SYNC")
    for table in TEAM_TABLES:
        db.execute(_table_ddl(table))
    owned = (
        "owner Int64, number Int64 CODEC(Delta, ZSTD(1)),"
        " part Int64 CODEC(Delta, ZSTD(1))"
    )
    for table, order in (("text", "number, text"), ("posting", "term, number, text")):
        db.execute(
            f"CREATE TABLE {table} ({owned}, {_SEARCH_COLUMNS[table]})"
            f" ENGINE = MergeTree ORDER BY ({order}) {_TABLE_SETTINGS}"
        )
    db.execute("CREATE TABLE dead (part Int64) ENGINE = MergeTree ORDER BY part")
    db.execute("TRUNCATE TABLE derived_source")
    if db.rows("SELECT 1 FROM source LIMIT 1", {}):
        (revision,) = allocate_numbers(1)
        columns = ("kind", "key", "value", "is_deleted", "revision")
        db.insert("note", columns, [(*REBUILD_NOTE, b"", 0, revision)])


def _table_ddl(table: str) -> str:
    columns = ["owner Int64", "number Int64", "part Int64"]
    if table == "session":
        # The parts whose rows belong to the session; the last one is its own.
        columns += ["parts Array(Int64)", "family Int64"]
    for column in TEAM_TABLES[table].team_columns:
        kind = "Int64" if column.type == "INTEGER" else "String"
        columns.append(
            f"{column.name} {f'Nullable({kind})' if column.is_nullable else kind}"
        )
    order = _SORT_KEYS.get(table, "number")
    return (
        f"CREATE TABLE {table} ({', '.join(columns)}{_SKIP_INDEXES.get(table, '')})"
        f" ENGINE = MergeTree ORDER BY ({order}) {_TABLE_SETTINGS}"
    )
