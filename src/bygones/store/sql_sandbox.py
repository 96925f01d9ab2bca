"""Run a query of a user over views of the index, without letting it do anything else.

Three walls: the connection is read-only, SQLite asks an authorizer about every table,
function and action while it compiles the query, and limits end what takes too long or
too much memory.

Views are made of two layers. The outer one has the documented name. The inner one has
a random name, and only what is inside it may read tables: SQLite names the view, or the
common table expression, that something is read for, and a user can choose the second.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import re2

from bygones.errors import SqlError, SqlForbidden, SqlLimitExceeded
from bygones.store.connect import open_index_db

SqlValue = str | int | float | bytes | None
SqlRow = tuple[SqlValue, ...]

_STEPS_BETWEEN_CHECKS = 5_000
_MEBIBYTE = 1 << 20
_MAX_VALUE = 64 * _MEBIBYTE
_TOO_LONG = f"{_MAX_VALUE // _MEBIBYTE} MiB for one value"
_MAX_QUERY = 100_000
_LIMITS = {
    apsw.SQLITE_LIMIT_LENGTH: _MAX_VALUE,
    apsw.SQLITE_LIMIT_SQL_LENGTH: 4 * _MAX_QUERY,
    apsw.SQLITE_LIMIT_COLUMN: 500,
    apsw.SQLITE_LIMIT_EXPR_DEPTH: 200,
    apsw.SQLITE_LIMIT_COMPOUND_SELECT: 50,
    apsw.SQLITE_LIMIT_VDBE_OP: 100_000,
    apsw.SQLITE_LIMIT_FUNCTION_ARG: 64,
    apsw.SQLITE_LIMIT_ATTACHED: 0,
    apsw.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 1_000,
    apsw.SQLITE_LIMIT_VARIABLE_NUMBER: 1_000,
    apsw.SQLITE_LIMIT_TRIGGER_DEPTH: 1,
    apsw.SQLITE_LIMIT_WORKER_THREADS: 0,
}
_READABLE_MODULES = frozenset({"json_each", "json_tree"})
_FORBIDDEN_FUNCTIONS = frozenset(
    {
        "fts3_tokenizer",
        # Quadratic in the number of names, and can't be stopped.
        "json_patch",
        "jsonb_patch",
        "load_extension",
        "sqlite_compileoption_get",
        "sqlite_compileoption_used",
        "sqlite_log",
    }
)
_ACTIONS = {
    code: name.removeprefix("SQLITE_").lower().replace("_", " ")
    for code, name in apsw.mapping_authorizer_function.items()
    if isinstance(code, int) and isinstance(name, str)
}


class SqlLimits(NamedTuple):
    """What a query may use."""

    seconds: float = 60.0
    memory_bytes: int = 512 * _MEBIBYTE
    """Memory of SQLite, and of the values that a caller keeps."""


class HelperTable(NamedTuple):
    """A temporary table that is filled when a query needs it."""

    ddl: str
    """The columns, in parentheses, and options."""
    rows: Callable[[], Iterable[SqlRow]]
    key: str = ""
    """Columns of an index, if there is one."""


class SandboxView(NamedTuple):
    """A view that queries may read."""

    name: str
    sql: str
    """The statement behind it; `{helper}` names the helper table of that name."""
    helpers: tuple[str, ...] = ()
    column_helpers: Mapping[str, tuple[str, ...]] = {}
    """Helpers that only one column needs."""


class SqlSandbox:
    """A connection to an index on which one query can run."""

    def __init__(
        self,
        index_file: Path,
        *,
        views: Sequence[SandboxView],
        helpers: Mapping[str, HelperTable],
        functions: Mapping[str, tuple[int, Callable[..., SqlValue]]],
        limits: SqlLimits,
    ) -> None:
        self._views = {view.name: view for view in views}
        self._helpers = helpers
        self._limits = limits
        self._functions = frozenset(functions)
        self._prefix = f"v{os.urandom(8).hex()}_"
        self._denied = ""
        self._used_columns: set[tuple[str, str]] = set()
        self._deadline = time.monotonic() + limits.seconds
        self._error: BaseException | None = None
        self._db = open_index_db(index_file, write=False)
        try:
            self._set_up(functions)
        except BaseException:
            self._db.close()
            raise

    def close(self) -> None:
        """Close the connection."""
        self._db.close(True)

    def _set_up(
        self, functions: Mapping[str, tuple[int, Callable[..., SqlValue]]]
    ) -> None:
        db = self._db
        db.pragma("temp_store", 2)  # in memory
        for name, (count, function) in functions.items():
            db.create_scalar_function(
                name, self._guarded(function), count, deterministic=True
            )
        for name, arguments, function in _TEXT_FUNCTIONS:
            db.create_scalar_function(name, function, arguments, deterministic=True)
        for name, helper in self._helpers.items():
            db.execute(f"CREATE TEMP TABLE {self._prefix}{name} {helper.ddl}")
            if helper.key:
                db.execute(
                    f"CREATE INDEX temp.{self._prefix}{name}_index"
                    f" ON {self._prefix}{name} ({helper.key})"
                )
        names = {name: f"temp.{self._prefix}{name}" for name in self._helpers}
        for view in self._views.values():
            inner = f"{self._prefix}{view.name}"
            sql = view.sql.format_map(names)
            db.execute(f"CREATE TEMP VIEW {inner} AS {sql}")
            outer = f"CREATE TEMP VIEW {view.name} AS SELECT * FROM temp.{inner}"  # noqa: S608 (our names)
            db.execute(outer)
        db.execute("BEGIN")
        for limit, value in _LIMITS.items():
            db.limit(limit, value)
        db.set_progress_handler(self._check_time, _STEPS_BETWEEN_CHECKS)

    def _guarded(self, function: Callable[..., SqlValue]) -> Callable[..., SqlValue]:
        """Return a function that stops after the deadline, and keeps its own error."""

        def guarded(*values: SqlValue) -> SqlValue:
            if time.monotonic() > self._deadline:
                raise SqlLimitExceeded(f"{self._limits.seconds:g} seconds")
            try:
                return _storable(function(*values))
            except BaseException as error:
                self._error = error
                raise

        return guarded

    def _check_time(self) -> bool:
        return time.monotonic() > self._deadline

    def run(
        self, sql: str, values: Sequence[SqlValue] | Mapping[str, SqlValue] = ()
    ) -> tuple[tuple[str, ...], Iterator[SqlRow]]:
        """Return the names of the columns, and the rows.

        Raises `SqlError` if the query is invalid, `SqlForbidden` if it does something
        else than reading views, and `SqlLimitExceeded`, also while rows are read.
        """
        self._compile(sql, values)
        self._db.authorizer = None
        self._fill_helpers()
        cursor = self._db.cursor()
        cursor.exec_trace = self._check_statement
        self._statement_count = 0
        with self._translated(), self._limited_memory():
            self._db.authorizer = self._authorize
            cursor.execute(sql, values, can_cache=False)
            columns = self._columns
            return columns, self._rows(cursor)

    def _compile(
        self, sql: str, values: Sequence[SqlValue] | Mapping[str, SqlValue]
    ) -> None:
        """Compile a query without running it, to see which views it reads."""
        if len(sql) > _MAX_QUERY:
            raise SqlError(f"the query is longer than {_MAX_QUERY:,} characters")
        cursor = self._db.cursor()
        cursor.exec_trace = self._stop_before_first_step
        self._db.authorizer = self._authorize
        self._columns: tuple[str, ...] = ()
        self._statement_count = 0
        with self._translated():
            try:
                cursor.execute(sql, values, can_cache=False)
            except apsw.ExecTraceAbort:
                return
            except KeyError as error:
                raise SqlError(f"there is no value for :{error.args[0]}") from error
        raise SqlError("the statement is empty")

    def _stop_before_first_step(
        self, cursor: apsw.Cursor, statement: str, _: object
    ) -> bool:
        self._check_statement(cursor, statement, _)
        self._columns = tuple(str(one[0]) for one in cursor.get_description())
        return False

    def _check_statement(self, cursor: apsw.Cursor, _: str, _values: object) -> bool:
        self._statement_count += 1
        if self._statement_count > 1:
            raise SqlForbidden("a second statement")
        if cursor.is_explain:
            raise SqlForbidden("EXPLAIN")
        if not cursor.is_readonly:
            raise SqlForbidden("writing")
        if not cursor.get_description():
            raise SqlError("the statement is empty")
        return True

    def _fill_helpers(self) -> None:
        used = {view for view, _ in self._used_columns}
        wanted: dict[str, None] = {}
        for name in self._views:
            if name in used:
                view = self._views[name]
                wanted |= dict.fromkeys(view.helpers)
                for column, helpers in view.column_helpers.items():
                    if (name, column) in self._used_columns:
                        wanted |= dict.fromkeys(helpers)
        for name in wanted:
            rows = iter(self._helpers[name].rows())
            first = next(rows, None)
            if first is not None:
                marks = ", ".join("?" * len(first))
                sql = f"INSERT INTO temp.{self._prefix}{name} VALUES ({marks})"  # noqa: S608 (our names)
                self._db.execute(sql, first)
                self._db.executemany(sql, rows)

    def _rows(self, cursor: apsw.Cursor) -> Iterator[SqlRow]:
        with self._translated(), self._limited_memory():
            yield from cursor

    @contextmanager
    def _limited_memory(self) -> Iterator[None]:
        """Limit the memory of SQLite, which it counts for the whole process."""
        earlier = apsw.hard_heap_limit(apsw.memory_used() + self._limits.memory_bytes)
        try:
            yield
        finally:
            apsw.hard_heap_limit(earlier)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Raise our own errors for those of SQLite."""
        try:
            yield
        except apsw.ExecTraceAbort:
            raise
        except (apsw.NoMemError, MemoryError) as error:
            size = self._limits.memory_bytes // _MEBIBYTE
            raise SqlLimitExceeded(f"{size} MiB of memory") from error
        except apsw.InterruptError as error:
            raise SqlLimitExceeded(f"{self._limits.seconds:g} seconds") from error
        except apsw.AuthError as error:
            raise SqlForbidden(self._denied or str(error)) from error
        except apsw.TooBigError as error:
            raise SqlLimitExceeded(_TOO_LONG) from error
        except (apsw.Error, ValueError) as error:
            if self._error is not None:
                raise self._error from None
            if "not authorized" in str(error):
                raise SqlForbidden(self._denied) from error
            if str(error).startswith("cannot modify "):
                raise SqlForbidden("writing") from error
            raise SqlError(_without_prefix(str(error), self._prefix)) from error

    def _authorize(
        self,
        action: int,
        first: str | None,
        second: str | None,
        _database: str | None,
        view: str | None,
    ) -> int:
        is_inside = view is not None and view.startswith(self._prefix)
        if action == apsw.SQLITE_READ:
            is_allowed = self._may_read(first or "", second or "", view, is_inside)
            self._denied = self._denied if is_allowed else f"reading {first}"
        elif action == apsw.SQLITE_FUNCTION:
            name = (second or "").lower()
            is_allowed = is_inside or name not in _FORBIDDEN_FUNCTIONS | self._functions
            self._denied = self._denied if is_allowed else f"the function {name}()"
        else:
            is_allowed = action in {apsw.SQLITE_SELECT, apsw.SQLITE_RECURSIVE}
            if not is_allowed:
                # SQLite deletes or inserts a row of its schema to drop or create.
                is_schema = (first or "").startswith("sqlite_")
                name = _ACTIONS.get(action, "this").upper()
                self._denied = "changing tables or views" if is_schema else name
        return apsw.SQLITE_OK if is_allowed else apsw.SQLITE_DENY

    def _may_read(
        self, table: str, column: str, view: str | None, is_inside: bool
    ) -> bool:
        if table in self._views:
            self._used_columns.add((table, column))
            return True
        if table.startswith(self._prefix):
            # The name is random, so a query cannot contain it.
            if view in self._views:
                self._used_columns.add((view, ""))
            return True
        # SQLite asks for the empty column when it counts rows.
        return is_inside or not column or table in _READABLE_MODULES


def _storable(value: SqlValue) -> SqlValue:
    """Return a value without lone surrogates, which SQLite cannot store."""
    if isinstance(value, str) and not value.isascii():
        return value.encode("utf-8", "backslashreplace").decode()
    return value


def _without_prefix(message: str, prefix: str) -> str:
    return message.replace(prefix, "")


@lru_cache(maxsize=64)
def _compile_pattern(pattern: str) -> Any:  # noqa: ANN401 (RE2 has no types)
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        detail = error.args[0] if error.args else ""
        if isinstance(detail, bytes):
            detail = detail.decode("utf-8", "replace")
        raise SqlError(f"invalid regular expression: {detail}") from error


def _as_text(value: SqlValue) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(value)


def _match(pattern: str, value: SqlValue, *, whole: bool) -> int | None:
    text = _as_text(value)
    if text is None:
        return None
    text = text.encode("utf-8", "replace").decode("utf-8")
    compiled = _compile_pattern(pattern)
    found = compiled.fullmatch(text) if whole else compiled.search(text)
    return int(found is not None)


def _regexp(pattern: SqlValue, value: SqlValue) -> int | None:
    expression = _as_text(pattern)
    return None if expression is None else _match(expression, value, whole=False)


@lru_cache(maxsize=64)
def _like_pattern(pattern: str, escape: str) -> str:
    """Return a pattern of LIKE as a regular expression, which takes linear time."""
    parts = ["(?is)"]
    is_escaped = False
    for character in pattern:
        if is_escaped or character not in {"%", "_", escape}:
            parts.append(re2.escape(character))
            is_escaped = False
        elif character == escape:
            is_escaped = True
        else:
            parts.append(".*" if character == "%" else ".")
    return "".join(parts)


def _like(pattern: SqlValue, value: SqlValue, escape: SqlValue = "") -> int | None:
    text = _as_text(pattern)
    if text is None or escape is None:
        return None
    return _match(_like_pattern(text, str(escape)), value, whole=True)


@lru_cache(maxsize=64)
def _glob_pattern(pattern: str) -> str:
    parts, at = ["(?s)"], 0
    while at < len(pattern):
        character = pattern[at]
        at += 1
        if character == "[" and (end := pattern.find("]", at + 2)) > 0:
            inside = pattern[at:end]
            negated = inside.startswith("^")
            letters = re2.escape(inside[negated:]).replace("\\-", "-")
            parts.append(f"[{'^' if negated else ''}{letters}]")
            at = end + 1
        else:
            parts.append({"*": ".*", "?": "."}.get(character) or re2.escape(character))
    return "".join(parts)


def _glob(pattern: SqlValue, value: SqlValue) -> int | None:
    text = _as_text(pattern)
    return None if text is None else _match(_glob_pattern(text), value, whole=True)


def _instr(value: SqlValue, part: SqlValue) -> int | None:
    if isinstance(value, bytes) and isinstance(part, bytes):
        return value.find(part) + 1
    text, wanted = _as_text(value), _as_text(part)
    return None if text is None or wanted is None else text.find(wanted) + 1


def _replace(value: SqlValue, part: SqlValue, new: SqlValue) -> str | None:
    text, old, replacement = _as_text(value), _as_text(part), _as_text(new)
    if text is None or old is None or replacement is None:
        return None
    if not old:
        return text
    growth = len(replacement) - len(old)
    if growth > 0 and len(text) + text.count(old) * growth > _MAX_VALUE:
        raise SqlLimitExceeded(_TOO_LONG)
    return text.replace(old, replacement)


def _trim(
    value: SqlValue, characters: SqlValue, *, left: bool, right: bool
) -> SqlValue:
    text, wanted = _as_text(value), _as_text(characters)
    if text is None or wanted is None:
        return None
    # Of a set, looking up a character does not depend on the number of characters.
    removed = frozenset(wanted)
    start, end = 0, len(text)
    while left and start < end and text[start] in removed:
        start += 1
    while right and end > start and text[end - 1] in removed:
        end -= 1
    return text[start:end]


_TEXT_FUNCTIONS: tuple[tuple[str, int, Callable[..., SqlValue]], ...] = (
    ("regexp", 2, _regexp),
    ("like", 2, _like),
    ("like", 3, _like),
    ("glob", 2, _glob),
    ("instr", 2, _instr),
    ("replace", 3, _replace),
    ("trim", 2, partial(_trim, left=True, right=True)),
    ("ltrim", 2, partial(_trim, left=True, right=False)),
    ("rtrim", 2, partial(_trim, left=False, right=True)),
)
"""SQLite's own take forever for some arguments, and can't be stopped."""
