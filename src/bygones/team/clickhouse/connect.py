"""Opening connections to ClickHouse: the one place that does.

An address is that of a server's HTTP port, ``clickhouse://name:word@server:8123/team``,
or of the same engine in this process, ``chdb:///folder?database=team``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import RLock
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import clickhouse_connect
from clickhouse_connect.driver.exceptions import ClickHouseError, DataError

from bygones.errors import PlaceUnreadable, StoreError
from bygones.store.harvest import TABLES

__all__ = ["ClickHouse"]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DATABASE = "bygones"
_BYTES: dict[str, str | dict[str, str]] = dict.fromkeys(
    (
        "listed",
        "lengths",
        "claim",
        "sha256",
        "frame",
        "sign",
        "value",
        "mark",
        "fragment",
    ),
    "bytes",
)
"""Columns that hold bytes, not text."""
_LIVE = (
    "SELECT number FROM session WHERE holder IN %(holders)s"
    " AND number NOT IN (SELECT number FROM dead)"
)
_OF_SOURCES = {"source", "span"}
_OWNED = (*TABLES, "said", "post", *sorted(_OF_SOURCES))
"""Tables whose rows are of a holder."""
_LISTED = 500
"""Holders that the engine is told of besides the statements; these name all."""
_LONGEST = 64 * 1024 * 1024
"""Bytes of a statement: one for an auditor may name ten thousand holders."""


class ClickHouse:
    """A connection, and the SQL in which this engine differs from others."""

    def __init__(self, address: str) -> None:
        self._lock = RLock()
        self._limits: dict[str, Any] = {"max_query_size": _LONGEST}
        plain, self.database = _parted(address)
        with translated():
            self._db = clickhouse_connect.get_client(dsn=plain, **_options(plain))
            self._db.command(f"CREATE DATABASE IF NOT EXISTS {self.database}")
            self._db.close()
            self._db = clickhouse_connect.get_client(
                dsn=plain, database=self.database, **_options(plain)
            )

    def rows(self, sql: str, values: Mapping[str, Any]) -> list[Any]:
        """Return the rows of a statement with ``%(name)s`` in it."""
        with self._lock, translated():
            found = self._db.query(
                sql,
                parameters=dict(values) if values else None,
                column_formats=_BYTES,
                settings=self._limits,
            )
            return list(found.result_rows)

    def execute(self, sql: str, values: Mapping[str, Any] | None = None) -> None:
        """Run a statement."""
        with self._lock, translated():
            self._db.command(sql, parameters=dict(values) if values else None)

    def insert(
        self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]
    ) -> None:
        """Add many rows."""
        if rows:
            with self._lock, translated():
                self._db.insert(table, rows, column_names=list(columns))

    def visible(self, table: str) -> str:
        """Return a table's rows that are of ``%(holders)s``, to be selected from."""
        if table in _OF_SOURCES:
            return f"(SELECT * FROM {table} FINAL WHERE holder IN %(holders)s)"  # noqa: S608 (our names)
        if table == "session":
            return f"({_LIVE.replace('number', '*', 1)})"
        return (
            f"(SELECT * FROM {table} WHERE holder IN %(holders)s"  # noqa: S608 (our names)
            f" AND number IN ({_LIVE}))"
        )

    def limit(self, holders: Sequence[int]) -> None:
        """Let the connection see rows of some holders only, and change nothing.

        The engine itself adds this to every table that a statement reads.
        """
        self._limits = {"max_query_size": _LONGEST, "readonly": 2}
        if len(holders) <= _LISTED:
            own = f"holder IN ({', '.join(map(str, holders)) or 'NULL'})"
            filters = {f"{self.database}.{table}": own for table in _OWNED}
            self._limits["additional_table_filters"] = filters

    def moment(self) -> AbstractContextManager[None]:
        """Nothing: each statement has its own moment, and readers put up with that."""
        return nullcontext()

    def among(self, column: str, key: str) -> str:
        """Return the condition that a column is one of the list ``key``."""
        return f"{column} IN %({key})s"

    def pairs(self, columns: str, key: str) -> str:
        """Return the condition that two columns are one of the pairs in ``key``."""
        return f"({columns}) IN %({key})s"

    def whole(self, number: str, by: int) -> str:
        """Return a division without its rest."""
        return f"intDiv({number}, {by:d})"

    def close(self) -> None:
        """Let go of the connection."""
        self._db.close()


def _options(plain: str) -> dict[str, Any]:
    # A session of the server's own would forbid two questions at once.
    return {} if plain.startswith("chdb:") else {"autogenerate_session_id": False}


def _parted(address: str) -> tuple[str, str]:
    """Return an address without its database, and the database."""
    split = urlsplit(address)
    given = dict(parse_qsl(split.query))
    path = split.path
    database = given.pop("database", "")
    if split.scheme != "chdb":
        database, path = path.strip("/") or database, ""
    database = database or _DATABASE
    if not _NAME.fullmatch(database):
        raise PlaceUnreadable("a database's name has letters, digits and underscores")
    plain = split._replace(path=path, query=urlencode(given))
    return urlunsplit(plain), database


@contextmanager
def translated() -> Iterator[None]:
    """Turn what the engine says into our error."""
    try:
        yield
    except (ClickHouseError, OSError) as error:
        told = str(error).strip().splitlines() or [type(error).__name__]
        is_of_row = isinstance(error, DataError)
        raise StoreError(told[0][:500], is_of_row=is_of_row) from error
    except UnicodeError as error:
        raise StoreError("it is no text", is_of_row=True) from error
