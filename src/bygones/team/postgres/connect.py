"""Opening connections to PostgreSQL: the one place that does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import RLock
from typing import Any

import psycopg

from bygones.errors import StoreError

__all__ = ["READER", "Postgres"]

READER = "bygones_reader"
"""The role of whoever reads: row security holds for it."""
_ZERO, _FOR_ZERO = "\0", "\ufdd0"
"""A sign that the engine refuses, and one that no text has, which stands for it."""


_OF_ROWS = (psycopg.DataError, psycopg.errors.ProgramLimitExceeded)
"""What the engine says of a row that it can never take."""
_LINES = 200
"""Written rows that are handed to the engine at once."""


class Postgres:
    """A connection, and the SQL in which this engine differs from others.

    Threads may share one: whoever writes at once is not disturbed.
    """

    def __init__(self, address: str) -> None:
        self._lock = RLock()
        self._address = address
        self._seen: str | None = None
        self._depth = 0
        with translated():
            self.db = self._open()

    def _open(self) -> psycopg.Connection[Any]:
        return psycopg.connect(
            self._address, autocommit=True, options="-c search_path=bygones,public"
        )

    @contextmanager
    def _ready(self) -> Iterator[None]:
        """Have the connection to oneself; open it again if the server went away.

        Not in the midst of something that is to be written at once: that is lost.
        """
        with self._lock, translated():
            if self.db.broken and not self._depth:
                self.db = self._open()
                if self._seen is not None:
                    self._limit(self._seen)
            yield

    def limit(self, holders: Sequence[int]) -> None:
        """Let the connection see rows of some holders only, and change nothing."""
        self._seen = ",".join(map(str, holders))
        with self._ready():
            self._limit(self._seen)

    def _limit(self, seen: str) -> None:
        sql = b"SELECT set_config('bygones.holders', %s, false)"
        try:
            self.db.execute(sql, (seen,))
            self.db.execute(f"SET ROLE {READER}".encode())
            self.db.execute(b"SET default_transaction_read_only = on")
            self.db.execute(b"SET default_transaction_isolation = 'repeatable read'")
        except BaseException:
            # Nobody may read over a connection that is limited by half.
            self.db.close()
            raise

    def rows(self, sql: str, values: Mapping[str, Any]) -> list[Any]:
        """Return the rows of a statement with ``%(name)s`` in it."""
        with self._ready():
            told = self.db.execute(sql.encode(), _without_zeros(values), binary=True)
            found = told.fetchall()
        return [_with_zeros(row) if _has_zeros(row) else row for row in found]

    def execute(self, sql: str, values: Mapping[str, Any] | None = None) -> int:
        """Run a statement; return how many rows it changed."""
        with self._ready():
            given = _without_zeros(values) if values is not None else None
            return self.db.execute(sql.encode(), given).rowcount

    def copy(
        self,
        table: str,
        columns: Sequence[str],
        rows: Sequence[Sequence[Any]],
        types: Sequence[str] = (),
    ) -> None:
        """Add many rows; in the engine's own form, if types are named."""
        if not rows:
            return
        sql = f"COPY {table} ({', '.join(columns)}) FROM STDIN"
        sql += " (FORMAT BINARY)" if types else ""
        with (
            self._ready(),
            self.db.cursor() as cursor,
            cursor.copy(sql.encode()) as to,
        ):
            if types:
                to.set_types(types)
            for row in rows:
                to.write_row([_without_zero(value) for value in row])

    def copy_lines(
        self, table: str, columns: Sequence[str], lines: Sequence[str]
    ) -> None:
        """Add many rows that are written already, as the engine's text has them."""
        sql = f"COPY {table} ({', '.join(columns)}) FROM STDIN"
        with self._ready(), self.db.cursor() as cursor, cursor.copy(sql.encode()) as to:
            for start in range(0, len(lines), _LINES):
                to.write("".join(lines[start : start + _LINES]))

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Have all that is written be there, or nothing of it."""
        with self._ready(), self.db.transaction():
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1

    @contextmanager
    def moment(self) -> Iterator[None]:
        """Have all that a reader reads be of one moment; others of it wait."""
        with self._ready():
            if self._depth:
                yield
                return
            with self.at_once():
                yield

    def visible(self, table: str) -> str:
        """Return a table's rows that are of ``%(holders)s``, to be selected from."""
        return f"(SELECT * FROM {table} WHERE holder = ANY(%(holders)s))"  # noqa: S608 (our names)

    def among(self, column: str, key: str) -> str:
        """Return the condition that a column is one of the list ``key``."""
        return f"{column} = ANY(%({key})s)"

    def pairs(self, columns: str, key: str) -> str:
        """Return the condition that two columns are one of the pairs in ``key``."""
        # Of a list the engine knows how long it is, and looks up one by one.
        return (
            f"({columns}) IN (SELECT * FROM"  # noqa: S608 (our names)
            f" unnest(%({key}_first)s::bigint[], %({key}_second)s::bigint[]))"
        )

    def whole(self, number: str, by: int) -> str:
        """Return a division without its rest."""
        return f"({number} / {by:d})"

    def close(self) -> None:
        """Let go of the connection."""
        self.db.close()


@contextmanager
def translated() -> Iterator[None]:
    """Turn what the engine says into our error."""
    try:
        yield
    except psycopg.Error as error:
        told = str(error).strip().splitlines() or [type(error).__name__]
        is_of_row = isinstance(error, _OF_ROWS)
        raise StoreError(told[0], is_of_row=is_of_row) from error
    except UnicodeError as error:
        raise StoreError("it is no text", is_of_row=True) from error


def _without_zero(value: Any) -> Any:  # noqa: ANN401 (of any kind)
    if isinstance(value, str) and _ZERO in value:
        return value.replace(_ZERO, _FOR_ZERO)
    if isinstance(value, list) and value and isinstance(value[0], str):
        return [_without_zero(one) for one in value]
    return value


def _without_zeros(values: Mapping[str, Any]) -> dict[str, Any]:
    given = {key: _without_zero(value) for key, value in values.items()}
    for key, value in values.items():
        if isinstance(value, list) and value and isinstance(value[0], tuple):
            first, second = zip(*given.pop(key), strict=True)
            given |= {f"{key}_first": list(first), f"{key}_second": list(second)}
    return given


def _has_zeros(row: Sequence[Any]) -> bool:
    return any(isinstance(value, str) and _FOR_ZERO in value for value in row)


def _with_zeros(row: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(
        value.replace(_FOR_ZERO, _ZERO) if isinstance(value, str) else value
        for value in row
    )
