"""Connections to PostgreSQL, and its schema."""

from __future__ import annotations

import re
import selectors
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import RLock
from time import monotonic, sleep
from typing import Any
from zlib import crc32

import psycopg

from bygones.errors import (
    ArchiveTooNew,
    ReaderRoleMissing,
    StoreError,
    StoreMissing,
    StoreRightsMissing,
    StoreSignInRejected,
    StoreWithoutTables,
)
from bygones.store.index_db import DERIVATION_VERSION
from bygones.store.schema import TEAM_TABLES
from bygones.team.contract import REBUILD_NOTE, TEAM_DERIVATION_VERSION

READER_ROLE = "bygones_reader"
"""The role of readers, to which row security applies."""
_NUL, _NUL_SUBSTITUTE = "\0", "\ufdd0"
"""PostgreSQL rejects NUL in texts; a noncharacter is stored instead."""


_ROW_ERRORS = (psycopg.DataError, psycopg.errors.ProgramLimitExceeded)
"""Errors about rows that the database can never store."""
_PREFIX = re.compile(r"^connection failed: (?=connection to server)")
_TEXT_OID = 25
RECONNECT_SECONDS = 10.0
"""How long to wait for a server that closed the connection, as in a restart."""
_RECONNECT_INTERVAL = 0.2
_COPY_BATCH = 200
"""Lines that are sent to the server at once."""


class PostgresConnection:
    """A connection to PostgreSQL; threads may share it.

    A transaction keeps other threads waiting.
    """

    def __init__(self, address: str) -> None:
        self._lock = RLock()
        self._address = address
        self._restricted_to: str | None = None
        self._depth = 0
        with translate_errors():
            self.db = self._open()

    def _open(self) -> psycopg.Connection[Any]:
        return psycopg.connect(
            self._address, autocommit=True, options="-c search_path=bygones,public"
        )

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Lock the connection; open it again if the server has closed it.

        Within a transaction it stays broken, because the transaction is lost.
        """
        with self._lock, translate_errors():
            if not self._depth and not self._is_alive():
                self._reopen()
            yield

    def _is_alive(self) -> bool:
        """Whether the server has not closed the connection; it is not asked."""
        if self.db.closed:
            return False
        # Between statements a server sends something only if it closes a connection.
        with selectors.DefaultSelector() as selector:
            selector.register(self.db.pgconn.socket, selectors.EVENT_READ)
            if not selector.select(0):
                return True
        try:
            self.db.pgconn.consume_input()
        except psycopg.OperationalError:
            return False
        return self.db.pgconn.status == psycopg.pq.ConnStatus.OK

    def _reopen(self) -> None:
        """Connect again; a server that is restarted is awaited."""
        with suppress(psycopg.Error):
            self.db.close()
        deadline = monotonic() + RECONNECT_SECONDS
        while True:
            try:
                self.db = self._open()
                break
            except psycopg.OperationalError:
                if monotonic() > deadline:
                    raise
                sleep(_RECONNECT_INTERVAL)
        if self._restricted_to is not None:
            self._apply_restriction(self._restricted_to)

    def restrict_to(self, owners: Sequence[int]) -> None:
        self._restricted_to = ",".join(map(str, owners))
        with self._locked():
            self._apply_restriction(self._restricted_to)

    def _apply_restriction(self, seen: str) -> None:
        sql = b"SELECT set_config('bygones.owners', %s, false)"
        try:
            self.db.execute(sql, (seen,))
            self.db.execute(f"SET ROLE {READER_ROLE}".encode())
            self.db.execute(b"SET default_transaction_read_only = on")
            self.db.execute(b"SET default_transaction_isolation = 'repeatable read'")
        except BaseException:
            # The connection must not be used if it is only partly restricted.
            self.db.close()
            raise

    def rows(self, sql: str, values: Mapping[str, Any]) -> list[Any]:
        with self._locked():
            try:
                cursor = self._query(sql, values)
            except psycopg.OperationalError:
                if self._depth or not self.db.closed:
                    raise
                self._reopen()
                cursor = self._query(sql, values)
            rows = cursor.fetchall()
            text_columns = [
                index
                for index, column in enumerate(cursor.description or ())
                if column.type_code == _TEXT_OID
            ]
        if not text_columns:
            return rows
        return [
            _unescape_row(row)
            if any((text := row[at]) and _NUL_SUBSTITUTE in text for at in text_columns)
            else row
            for row in rows
        ]

    def _query(self, sql: str, values: Mapping[str, Any]) -> psycopg.Cursor[Any]:
        return self.db.execute(sql.encode(), _encode_parameters(values), binary=True)

    def execute(self, sql: str, values: Mapping[str, Any] | None = None) -> int:
        """Run a statement; return the number of rows that it changed."""
        with self._locked():
            parameters = _encode_parameters(values) if values is not None else None
            return self.db.execute(sql.encode(), parameters).rowcount

    def copy(
        self,
        table: str,
        columns: Sequence[str],
        rows: Sequence[Sequence[Any]],
        types: Sequence[str] = (),
    ) -> None:
        """Insert many rows; in binary format if types are given."""
        if not rows:
            return
        sql = f"COPY {table} ({', '.join(columns)}) FROM STDIN"
        sql += " (FORMAT BINARY)" if types else ""
        with (
            self._locked(),
            self.db.cursor() as cursor,
            cursor.copy(sql.encode()) as to,
        ):
            if types:
                to.set_types(types)
            for row in rows:
                to.write_row([_escape_nul(value) for value in row])

    def copy_lines(
        self, table: str, columns: Sequence[str], lines: Sequence[str]
    ) -> None:
        """Insert many rows that are already in the text format of ``COPY``."""
        sql = f"COPY {table} ({', '.join(columns)}) FROM STDIN"
        with (
            self._locked(),
            self.db.cursor() as cursor,
            cursor.copy(sql.encode()) as to,
        ):
            for start in range(0, len(lines), _COPY_BATCH):
                to.write("".join(lines[start : start + _COPY_BATCH]))

    @contextmanager
    def transaction(self) -> Iterator[None]:
        with self._locked(), self.db.transaction():
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1

    @contextmanager
    def read_transaction(self) -> Iterator[None]:
        with self._locked():
            if self._depth:
                yield
                return
            with self.transaction():
                yield

    def visible_rows(self, table: str) -> str:
        return f"(SELECT * FROM {table} WHERE owner = ANY(%(owners)s))"  # noqa: S608 (constants)

    def in_list(self, column: str, key: str) -> str:
        return f"{column} = ANY(%({key})s)"

    def pair_in_list(self, columns: str, key: str) -> str:
        # The planner knows the length of arrays, and uses an index.
        return (
            f"({columns}) IN (SELECT * FROM"  # noqa: S608 (constants)
            f" unnest(%({key}_first)s::bigint[], %({key}_second)s::bigint[]))"
        )

    def integer_division(self, number: str, divisor: int) -> str:
        return f"({number} / {divisor:d})"

    def close(self) -> None:
        self.db.close()


@contextmanager
def translate_errors() -> Iterator[None]:
    """Translate errors of the database."""
    try:
        yield
    except psycopg.Error as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise _error_class(error)(
            _PREFIX.sub("", lines[0]), is_permanent=isinstance(error, _ROW_ERRORS)
        ) from error
    except UnicodeError as error:
        raise StoreError("it is not valid text", is_permanent=True) from error


def _error_class(error: psycopg.Error) -> type[StoreError]:
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        return StoreRightsMissing
    if isinstance(error, psycopg.errors.UndefinedTable):
        return StoreWithoutTables
    # An error while connecting has no code.
    if re.search(r'FATAL:  database ".*" does not exist', str(error)):
        return StoreMissing
    if re.search(r"authentication|password|pg_hba|FATAL:  role ", str(error)):
        return StoreSignInRejected
    return StoreError


def _escape_nul(value: Any) -> Any:  # noqa: ANN401 (any type of column)
    if isinstance(value, str) and _NUL in value:
        return value.replace(_NUL, _NUL_SUBSTITUTE)
    if isinstance(value, list) and value and isinstance(value[0], str):
        return [_escape_nul(item) for item in value]
    return value


def _encode_parameters(values: Mapping[str, Any]) -> dict[str, Any]:
    encoded = {key: _escape_nul(value) for key, value in values.items()}
    for key, value in values.items():
        if isinstance(value, list) and value and isinstance(value[0], tuple):
            first, second = zip(*encoded.pop(key), strict=True)
            encoded |= {f"{key}_first": list(first), f"{key}_second": list(second)}
    return encoded


def _unescape_row(row: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(
        value.replace(_NUL_SUBSTITUTE, _NUL) if isinstance(value, str) else value
        for value in row
    )


def array_literal(numbers: Sequence[object]) -> str:
    """Return numbers as an array literal, which is faster than adapting a list."""
    return f"{{{','.join(map(str, numbers))}}}"


_HERE = Path(__file__).parent
_INDEXES = (
    "session USING hash (session)",
    "session (family)",
    "session (ended_ms)",
    "session_source (source)",
    "record (number, record)",
    "record (key)",
    "record (message_key) WHERE message_key IS NOT NULL",
    "edit (path)",
    "leaf_title (leaf_key)",
    "problem (source)",
    "settled_key (number, key)",
)
_LASTING_TABLES = (
    "owner",
    "source",
    "span",
    "object",
    "tombstone",
    "hold",
    "orphaned_blob",
    "note",
)
"""Tables with what people uploaded, and with what the hub stores for itself."""
_SEARCH_TABLES = ("text", "term", "session_word", "owner_stats")
_READABLE_TABLES = ("owner", "source", "span", *_SEARCH_TABLES)
"""Tables that readers see, besides those of sessions."""
_READER_FUNCTIONS = (
    "matching(tsquery, bigint[])",
    "count_matching(tsquery, bigint[])",
    "term_positions(text[], tsquery, bigint[], bigint)",
    "visible_owners(text, text[], boolean)",
)
"""Functions that readers call with the rights of their creator."""


def iter_migrations() -> Iterator[tuple[int, str]]:
    """Yield the numbers and statements of all migrations, in order."""
    for path in sorted((_HERE / "migrations").glob("*.sql")):
        yield int(path.name[:4]), path.read_text("utf-8")


def prepare(db: PostgresConnection) -> None:
    """Create, migrate or repair the schema; concurrent callers wait.

    A restored database may lack the role of readers, which belongs to the server, and
    with it all rights and policies. They are created again.

    :raises StoreError: if something is missing that cannot be created again.
    """
    with db.transaction():
        db.execute("SELECT pg_advisory_xact_lock(7325662)")
        db.execute("CREATE SCHEMA IF NOT EXISTS bygones")
        db.execute("SET LOCAL search_path = bygones, public")
        db.execute(
            "CREATE TABLE IF NOT EXISTS schema_version (key text PRIMARY KEY, value text)"
        )
        _migrate(db)
        if missing := _missing_tables(db, _LASTING_TABLES):
            raise StoreError(
                f"it is incomplete, without the tables {', '.join(missing)};"
                " restore the backup again into an empty database"
            )
        version = _derived_schema_version()
        if (
            _get_version(db, "derived") != version
            or _missing_tables(db, (*TEAM_TABLES, *_SEARCH_TABLES))
            or _missing_functions(db)
        ):
            _recreate_derived_tables(db)
            _set_version(db, "derived", version)
        elif _find_security_faults(db):
            _enable_row_security(db)
        if faults := _find_security_faults(db):
            raise StoreError(f"its access rules cannot be repaired: {faults[0]}")


def has_other_index(db: PostgresConnection) -> bool:
    """Whether another version derived the tables; nothing is changed."""
    if _missing_tables(db, ["schema_version"]):
        return False
    return _get_version(db, "derived") not in {None, _derived_schema_version()}


def _missing_tables(db: PostgresConnection, names: Sequence[str]) -> list[str]:
    rows = db.rows(
        "SELECT name FROM unnest(%(names)s::text[]) AS name"
        " WHERE to_regclass('bygones.' || quote_ident(name)) IS NULL",
        {"names": list(names)},
    )
    return [row[0] for row in rows]


def _missing_functions(db: PostgresConnection) -> list[str]:
    """Return functions that are missing, or that run without their creator's rights."""
    rows = db.rows(
        "SELECT name FROM unnest(%(names)s::text[]) AS name LEFT JOIN pg_proc AS p"
        " ON p.oid = to_regprocedure('bygones.' || name)"
        " WHERE p.oid IS NULL OR NOT p.prosecdef",
        {"names": list(_READER_FUNCTIONS)},
    )
    return [row[0] for row in rows]


def _find_security_faults(db: PostgresConnection) -> list[str]:
    """Return what readers could not read, or could read without being limited."""
    if not _can_become_reader(db):
        return [f"the role {READER_ROLE} is missing, or cannot be used"]
    rows = db.rows(
        "SELECT 'the schema' WHERE NOT has_schema_privilege(%(reader)s, 'bygones',"
        " 'USAGE') UNION ALL SELECT 'table ' || c.relname FROM pg_class AS c"
        " LEFT JOIN pg_policy AS p ON p.polrelid = c.oid AND p.polname = 'seen'"
        " WHERE c.oid = ANY (SELECT to_regclass('bygones.' || quote_ident(t))"
        " FROM unnest(%(tables)s::text[]) AS t) AND (NOT c.relrowsecurity"
        " OR NOT has_table_privilege(%(reader)s, c.oid, 'SELECT')"
        " OR p.oid IS NULL OR p.polcmd <> 'r' OR NOT p.polpermissive"
        " OR p.polroles <> ARRAY[to_regrole(%(reader)s)::oid]"
        " OR pg_get_expr(p.polqual, p.polrelid) NOT LIKE '%%visible()%%')"
        " UNION ALL SELECT 'function ' || f FROM unnest(%(functions)s::text[]) AS f"
        " WHERE NOT has_function_privilege(%(reader)s, 'bygones.' || f, 'EXECUTE')"
        " OR has_function_privilege('public', 'bygones.' || f, 'EXECUTE')",
        {
            "reader": READER_ROLE,
            "tables": [*TEAM_TABLES, *_READABLE_TABLES],
            "functions": list(_READER_FUNCTIONS),
        },
    )
    return [row[0] for row in rows]


def _can_become_reader(db: PostgresConnection) -> bool:
    rows = db.rows(
        "SELECT pg_has_role(current_user, oid, 'MEMBER') FROM pg_roles"
        " WHERE rolname = %(reader)s",
        {"reader": READER_ROLE},
    )
    return bool(rows and rows[0][0])


def _migrate(db: PostgresConnection) -> None:
    found = int(_get_version(db, "version") or 0)
    latest = max(number for number, _ in iter_migrations())
    if found > latest:
        raise ArchiveTooNew(
            Path("the team's store"), found_version=found, supported_version=latest
        )
    for number, sql in iter_migrations():
        if number > found:
            db.execute(sql)
            _set_version(db, "version", str(number))


def _recreate_derived_tables(db: PostgresConnection) -> None:
    """Create the derived tables again, and make all sources pending."""
    for table in (*TEAM_TABLES, *_SEARCH_TABLES):
        db.execute(f"DROP TABLE IF EXISTS {table} CASCADE")
    for function in (*_READER_FUNCTIONS, "visible()"):
        db.execute(f"DROP FUNCTION IF EXISTS {function} CASCADE")
    for table in TEAM_TABLES:
        db.execute(_table_ddl(table))
        if table not in {"session", "record"}:
            db.execute(f"CREATE INDEX ON {table} (number, part)")
    for place in _INDEXES:
        db.execute(f"CREATE INDEX ON {place}")
    db.execute((_HERE / "layout.sql").read_text("utf-8"))
    _enable_row_security(db)
    db.execute("UPDATE source SET revision = revision + 1, derived_revision = 0")
    db.execute(
        "INSERT INTO note (kind, key, value) SELECT %(kind)s, %(key)s, ''"
        " WHERE EXISTS (SELECT FROM source) ON CONFLICT DO NOTHING",
        dict(zip(("kind", "key"), REBUILD_NOTE, strict=True)),
    )


_TYPES = {"INTEGER": "bigint", "TEXT": 'text COLLATE "C"', "BLOB": "bytea"}


def _table_ddl(table: str) -> str:
    columns = [
        "owner integer NOT NULL",
        "number bigint NOT NULL",
        "part bigint NOT NULL",
    ]
    if table == "session":
        columns[1] = "number bigint PRIMARY KEY"
        columns.append("family bigint NOT NULL")
    columns += [
        f"{column.name} {_TYPES[column.type]}{'' if column.is_nullable else ' NOT NULL'}"
        for column in TEAM_TABLES[table].team_columns
    ]
    return f"CREATE TABLE {table} ({', '.join(columns)})"


def _enable_row_security(db: PostgresConnection) -> None:
    """Limit readers to the rows of the owners that are set on their connection."""
    _ensure_reader_role(db)
    db.execute(f"GRANT USAGE ON SCHEMA bygones TO {READER_ROLE}")
    for table in (*TEAM_TABLES, *_READABLE_TABLES):
        db.execute(f"GRANT SELECT ON {table} TO {READER_ROLE}")
        db.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
        db.execute(f"DROP POLICY IF EXISTS seen ON {table}")
        db.execute(
            f"CREATE POLICY seen ON {table} FOR SELECT TO {READER_ROLE}"
            " USING (owner = ANY ((SELECT visible())::integer[]))"
        )
    for function in _READER_FUNCTIONS:
        db.execute(f"REVOKE ALL ON FUNCTION {function} FROM PUBLIC")
        db.execute(f"GRANT EXECUTE ON FUNCTION {function} TO {READER_ROLE}")


def _ensure_reader_role(db: PostgresConnection) -> None:
    """Create the role of readers, unless an administrator has."""
    if _can_become_reader(db):
        return
    user, exists = db.rows(
        "SELECT quote_ident(current_user), EXISTS"
        " (SELECT FROM pg_roles WHERE rolname = %(reader)s)",
        {"reader": READER_ROLE},
    )[0]
    try:
        if not exists:
            db.execute(
                f"DO $$ BEGIN CREATE ROLE {READER_ROLE} NOLOGIN;"
                " EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$"
            )
        db.execute(f"GRANT {READER_ROLE} TO CURRENT_USER")
    except StoreRightsMissing as error:
        create = "" if exists else f"CREATE ROLE {READER_ROLE}; "
        raise ReaderRoleMissing(
            error.detail, statements=f"{create}GRANT {READER_ROLE} TO {user}"
        ) from error


def _derived_schema_version() -> str:
    layout = (_HERE / "layout.sql").read_text("utf-8")
    schema = (
        f"{TEAM_TABLES}{_INDEXES}{layout}{DERIVATION_VERSION}.{TEAM_DERIVATION_VERSION}"
    )
    return f"{crc32(schema.encode()):08x}"


def _get_version(db: PostgresConnection, key: str) -> str | None:
    rows = db.rows("SELECT value FROM schema_version WHERE key = %(key)s", {"key": key})
    return rows[0][0] if rows else None


def _set_version(db: PostgresConnection, key: str, value: str) -> None:
    db.execute(
        "INSERT INTO schema_version VALUES (%(key)s, %(value)s)"
        " ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        {"key": key, "value": value},
    )
