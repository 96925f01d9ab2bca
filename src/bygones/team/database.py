"""What the readers of a team's store ask an engine: SQL that both engines understand.

A table is named as ``{session}``, and stands for those of its rows that the scope may
see: no statement can name a table in another way, so a forgotten filter finds nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

from bygones.store.harvest import TABLES

__all__ = ["Column", "Database", "Sight", "columns_of"]

_TABLE = re.compile(r"\{(\w+)\}")


class Column(NamedTuple):
    """A column of a table."""

    name: str
    is_number: bool
    is_bytes: bool
    may_miss: bool


def columns_of(table: str) -> tuple[Column, ...]:
    """Return the columns of a table, those aside that every one has."""
    return tuple(
        Column(word.strip("#?!"), "#" in word, "!" in word, "?" in word)
        for word in TABLES[table].split()
    )


class Database(Protocol):
    """An engine, as far as readers know it."""

    def rows(self, sql: str, values: Mapping[str, Any]) -> list[Any]:
        """Return the rows of a statement with ``%(name)s`` in it."""
        ...

    def visible(self, table: str) -> str:
        """Return a table's rows that are of ``%(holders)s``, to be selected from."""
        ...

    def limit(self, holders: Sequence[int]) -> None:
        """Let the connection see rows of some holders only, and change nothing."""
        ...

    def moment(self) -> AbstractContextManager[None]:
        """Have all that is read be of one moment, as far as the engine can."""
        ...

    def among(self, column: str, key: str) -> str:
        """Return the condition that a column is one of the list ``key``."""
        ...

    def pairs(self, columns: str, key: str) -> str:
        """Return the condition that two columns are one of the pairs in ``key``."""
        ...

    def whole(self, number: str, by: int) -> str:
        """Return a division without its rest."""
        ...

    def close(self) -> None:
        """Let go of the connection."""
        ...


class Sight:
    """An engine, as one scope sees it."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self._holders: list[int] = []
        db.limit(())

    def look(self, holders: Sequence[int]) -> None:
        """See the rows of these holders from now on."""
        if list(holders) != self._holders:
            self._holders = list(holders)
            self.db.limit(self._holders)

    def rows(self, sql: str, **values: Any) -> list[Any]:  # noqa: ANN401 (of any kind)
        """Return the rows of a statement, of what may be seen."""
        if not self._holders:
            return []
        said = _TABLE.sub(lambda found: self.db.visible(found[1]), sql)
        return self.db.rows(said, {**values, "holders": self._holders})

    def first(self, sql: str, **values: Any) -> Any:  # noqa: ANN401 (of any kind)
        """Return the first row of a statement, or ``None``."""
        found = self.rows(sql, **values)
        return found[0] if found else None
