"""Answer SQL queries over the views of an archive."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

import msgspec
from msgspec import Struct

from bygones.data.views import VIEWS, View
from bygones.errors import SqlLimitExceeded
from bygones.model.base import RecordId, SessionId, value_library
from bygones.schema.encoding import portable_id
from bygones.store.annotations import with_annotations
from bygones.store.encoding import to_milliseconds
from bygones.store.fact_encoding import decode_id
from bygones.store.index_db import INDEX_FILE
from bygones.store.sql_sandbox import (
    HelperTable,
    SandboxView,
    SqlLimits,
    SqlRow,
    SqlSandbox,
    SqlValue,
)
from bygones.usage.costs import SumPricer

# Late: most queries load no texts, and start much faster without what that needs.
if TYPE_CHECKING:
    from bygones.data.texts import ContentLoader
    from bygones.model.base import Problem
    from bygones.model.summary import Loader
    from bygones.redact.engine import Redactor
    from bygones.store.local_reader import LocalReader
    from bygones.usage.prices import Prices

__all__ = [
    "SqlLimits",
    "SqlParameters",
    "SqlResult",
    "SqlRow",
    "SqlService",
    "SqlValue",
    "unique_names",
]

SqlParameters = Sequence[SqlValue] | Mapping[str, SqlValue]
_FOREVER_MS = 1 << 62
_FOREVER_SECONDS = 1e9
_NO_MEMORY_LIMIT = 1 << 40
_VALUE_BYTES = 64
"""Memory of a value besides its text."""
_json = msgspec.json.Encoder().encode


class SqlResult(Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """The rows of a query."""

    columns: tuple[str, ...]
    rows: tuple[SqlRow, ...]

    def __iter__(self) -> Iterator[SqlRow]:
        """Iterate over the rows."""
        return iter(self.rows)

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.rows)

    def __repr__(self) -> str:
        noun = "row" if len(self.rows) == 1 else "rows"
        columns = ", ".join(self.columns)[:200]
        return f"<SqlResult {len(self.rows)} {noun}: {columns}>"

    def _repr_html_(self) -> str:
        return value_library().html_table(self.columns, self.rows)

    def to_dicts(self) -> list[dict[str, SqlValue]]:
        """Return each row as a dictionary by column."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


class SqlService:
    """Runs queries over an open archive."""

    def __init__(  # noqa: PLR0913 (most by name)
        self,
        reader: LocalReader,
        load_loader: Callable[[], Loader],
        *,
        prices: Prices,
        load_redactor: Callable[[], Redactor] | None,
        problems: Callable[[], Iterable[tuple[SessionId, Problem]]],
        limits: SqlLimits,
    ) -> None:
        self.reader = reader
        self._load_loader = load_loader
        self._prices = prices
        self._load_redactor = load_redactor
        self._problems = problems
        self._limits = limits
        self._index = reader.sessions.index
        self._loaded_texts: ContentLoader | None = None

    @property
    def loader(self) -> Loader:
        """Loads records as they are."""
        return self._load_loader()

    @property
    def texts(self) -> ContentLoader:
        """Loads texts, and redacts them unless that is disabled."""
        if self._loaded_texts is None:
            from bygones.data.texts import ContentLoader

            self._loaded_texts = ContentLoader(
                self.reader,
                self.loader,
                self._load_redactor() if self._load_redactor else None,
            )
        return self._loaded_texts

    @contextmanager
    def stream(
        self, sql: str, values: SqlParameters = ()
    ) -> Iterator[tuple[tuple[str, ...], Iterator[SqlRow]]]:
        """Yield the names of the columns, and the rows one by one."""
        is_redacted = self._load_redactor is not None
        views = {view: view.build_sql(redact=is_redacted) for view in VIEWS}
        sandbox = self._open_sandbox(views, self._limits)
        try:
            yield sandbox.run(sql, values)
        finally:
            sandbox.close()

    def _open_sandbox(self, views: Mapping[View, str], limits: SqlLimits) -> SqlSandbox:
        return SqlSandbox(
            self._index.folder / INDEX_FILE,
            views=[
                SandboxView(view.name, sql, view.helpers, view.column_helpers)
                for view, sql in views.items()
            ],
            helpers=self._helpers(),
            functions=self._functions(),
            limits=limits,
        )

    @contextmanager
    def stream_view(self, view: View) -> Iterator[Iterator[SqlRow]]:
        """Yield the rows of a view as `View.build_export_sql` describes them.

        Queries of users have limits; this has none.
        """
        limits = SqlLimits(seconds=_FOREVER_SECONDS, memory_bytes=_NO_MEMORY_LIMIT)
        sandbox = self._open_sandbox({view: view.build_export_sql()}, limits)
        try:
            yield sandbox.run(f"SELECT * FROM {view.name}")[1]  # noqa: S608 (our names)
        finally:
            sandbox.close()

    def run(self, sql: str, values: SqlParameters = ()) -> SqlResult:
        """Return all rows of a query."""
        with self.stream(sql, values) as (columns, rows):
            return SqlResult(
                columns=unique_names(columns),
                rows=tuple(limit_size(rows, self._limits.memory_bytes)),
            )

    def _functions(self) -> dict[str, tuple[int, Callable[..., SqlValue]]]:
        def call(name: str) -> Callable[..., SqlValue]:
            def load(*values: SqlValue) -> SqlValue:
                # Late: most queries load no text, and a redactor takes time to build.
                return cast("SqlValue", getattr(self.texts, name)(*values))

            return load

        return {
            "redacted": (1, call("redact")),
            "redacted_json": (1, call("redact_json")),
            "record_id": (1, _record_id),
            "portable_id": (1, _portable_id),
            "message_text": (9, call("message_text")),
            "message_thinking": (9, call("message_thinking")),
            "prompt_text": (3, call("prompt_text")),
            "call_input": (10, call("call_input")),
            "call_output": (10, call("call_output")),
        }

    def _helpers(self) -> dict[str, HelperTable]:
        return {
            "session": HelperTable(
                "(number INTEGER PRIMARY KEY, id, title, title_kind, project,"
                " started_ms, ended_ms, prompt_count, message_count, agent_count,"
                " branch_count, models, versions, git_branches, entrypoints, flags,"
                " tags, note, is_starred, is_empty, problem_count, source_bytes)",
                self._session_rows,
                key="id",
            ),
            "rate": HelperTable(
                "(payer INTEGER, since_ms INTEGER, until_ms INTEGER,"
                " threshold INTEGER, factor REAL, search INTEGER,"
                " input INTEGER, output INTEGER, write_5m INTEGER, write_1h INTEGER,"
                " read INTEGER, input_long INTEGER, output_long INTEGER,"
                " write_5m_long INTEGER, write_1h_long INTEGER, read_long INTEGER,"
                " PRIMARY KEY (payer, since_ms)) WITHOUT ROWID",
                self._rate_rows,
            ),
            "commit": HelperTable(
                "(sha, kind, summary, git_branch, url, session_id, turn, branch,"
                " made_ms)",
                self._commit_rows,
            ),
            "problem": HelperTable(
                "(session_id, kind, detail, count, source, offset, length)",
                self._problem_rows,
            ),
        }

    def _session_rows(self) -> Iterator[SqlRow]:
        annotations = self.reader.annotations()
        for number, summary in self.reader.lookup.numbered_summaries():
            one = with_annotations(summary, annotations)
            yield (
                number,
                one.id,
                one.title.text,
                str(one.title.kind),
                one.project,
                to_milliseconds(one.started_at),
                to_milliseconds(one.ended_at),
                one.prompt_count,
                one.message_count,
                one.agent_count,
                one.branch_count,
                *map(_list_json, (one.models, one.versions, one.git_branches)),
                *map(_list_json, (one.entrypoints, one.flags, one.tags)),
                one.note,
                one.is_starred,
                one.is_empty,
                one.problem_count,
                one.source_bytes,
            )

    def _rate_rows(self) -> Iterator[SqlRow]:
        """Yield the rates of each payer, from one time up to another."""
        payers = self.reader.usage.load_payers()
        pricer = SumPricer(self._prices, payers)
        times = [0, *pricer.division.price_changes, _FOREVER_MS]
        for payer in payers:
            for period, since in enumerate(times[:-1]):
                found = pricer.find_rates(payer, period)
                if found is not None:
                    standard, long_context, threshold = found
                    yield (
                        payer.number,
                        since if period else -_FOREVER_MS,
                        times[period + 1],
                        threshold,
                        standard.multiplier[0] / standard.multiplier[1],
                        standard.per_search,
                        *standard.per_token,
                        *long_context.per_token,
                    )

    def _commit_rows(self) -> Iterator[SqlRow]:
        from bygones.data.exported_rows import find_commits

        return find_commits(self)

    def _problem_rows(self) -> Iterator[SqlRow]:
        clean = self.texts.redact
        sources = {one.id: one.path for one in self.reader.byte_store.sources()}
        for session_id, problem in self._problems():
            position = problem.position
            yield (
                session_id,
                str(problem.kind),
                clean(problem.detail),
                problem.count,
                clean(sources.get(position.source_id)),
                position.offset,
                position.length,
            )


def _list_json(values: Iterable[object]) -> str:
    return _json([str(value) for value in values]).decode()


def limit_size(rows: Iterable[SqlRow], limit: int) -> Iterator[SqlRow]:
    """Yield rows; raise `SqlLimitExceeded` if together they are larger than a limit."""
    size = 0
    for row in rows:
        size += _VALUE_BYTES * len(row)
        size += sum(len(value) for value in row if isinstance(value, str | bytes))
        if size > limit:
            raise SqlLimitExceeded(f"{limit >> 20} MiB of memory")
        yield row


def unique_names(columns: Sequence[str]) -> tuple[str, ...]:
    """Return the names of columns; a repeated one gets a number."""
    names: dict[str, None] = {}
    for column in columns:
        name, number = column, 2
        while name in names:
            name, number = f"{column}_{number}", number + 1
        names[name] = None
    return tuple(names)


def _record_id(raw: SqlValue) -> SqlValue:
    return portable_id(RecordId(decode_id(raw))) if isinstance(raw, bytes) else None


def _portable_id(id_: SqlValue) -> SqlValue:
    return portable_id(RecordId(id_)) if isinstance(id_, str) else None
