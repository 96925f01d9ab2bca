"""History as data: SQL, Arrow and Parquet."""

from __future__ import annotations

import os
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from bygones.archive.reports import ArchiveReports
from bygones.config import load_redactor
from bygones.errors import SqlOnTeamStore, UnsupportedOnTeamStore
from bygones.store.local_reader import LocalReader

# Most commands need little of this: the rest is imported by the methods that use it.
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime, tzinfo

    from pyarrow import Table

    from bygones.data.arrow import ParquetFiles
    from bygones.data.sql import SqlLimits, SqlParameters, SqlResult, SqlService
    from bygones.model.base import ProgressReporter
    from bygones.model.query import Query
    from bygones.model.reports import FailureRow
    from bygones.model.summary import Loader
    from bygones.redact.engine import Redactor
    from bygones.usage.prices import Prices


class ArchiveData(ArchiveReports):
    """What an archive answers in SQL and as tables, and which calls failed."""

    def sql(
        self,
        query: str,
        values: SqlParameters = (),
        *,
        redact: bool = True,
        prices: Prices | None = None,
        limits: SqlLimits | None = None,
    ) -> SqlResult:
        """Return the rows of an SQL query over the views of the archive.

        ``values`` replace ``?`` or ``:name`` in the query. Texts are redacted like an
        export unless ``redact`` is false. The query can only read the views::

            archive.sql("SELECT name, count(*) FROM tool_calls GROUP BY name").to_dicts()

        Raises `SqlError`, or `SqlLimitExceeded` after 60 seconds.
        """
        return self.sql_service(redact=redact, prices=prices, limits=limits).run(
            query, values
        )

    def to_arrow(
        self,
        view: str,
        *,
        columns: Sequence[str] | None = None,
        redact: bool = True,
        prices: Prices | None = None,
    ) -> Table:
        """Return a view, or some of its columns, as an Arrow table.

        It needs pyarrow, which ``pip install bygones[data]`` installs. Columns with texts
        take the longest::

            archive.to_arrow("usage").to_pandas()

        Raises `SqlError` if there is no such view or column.
        """
        from bygones.data.arrow import build_table

        service = self.sql_service(redact=redact, prices=prices)
        table: Table = build_table(service, view, columns)
        return table

    def export_parquet(
        self,
        folder: str | Path,
        *,
        redact: bool = True,
        prices: Prices | None = None,
        progress: ProgressReporter | None = None,
    ) -> ParquetFiles:
        """Write all views to Parquet files in a folder, and return what was written.

        A view with more than 500,000 rows becomes a folder with a file per month.
        """
        from bygones.data.arrow import write_parquet
        from bygones.ingest.loading import StoreLoader

        load_loader = cache(partial(StoreLoader, self._reader, is_strict=True))
        service = self._create_sql_service(
            load_loader, redact=redact, prices=prices, limits=None
        )
        return write_parquet(
            service, Path(folder).expanduser(), is_private=not redact, progress=progress
        )

    def errors(
        self,
        query: str | Query | None = None,
        *,
        project: str | None = None,
        now: datetime | None = None,
        timezone: tzinfo | None = None,
    ) -> Iterator[FailureRow]:
        """Yield failed tool calls by project and command, the most frequent first.

        Each row has its last error, and how that was fixed: the next call of the same
        command in the session that succeeded. What was refused or interrupted isn't
        counted. The query selects sessions; the arguments are those of `sessions`::

            for row in archive.errors("after:30d"):
                print(row.failure_count, row.command or row.tool_name, row.error)
        """
        from bygones.data.failures import load_failures

        reader = self._reader
        if not isinstance(reader, LocalReader):
            raise UnsupportedOnTeamStore(self.folder.name)
        projects = reader.usage.session_projects()
        selected = {number: path for number, (_, path) in projects.items()}
        if query is not None or project is not None:
            found = self.sessions(query, project=project, now=now, timezone=timezone)
            ids = {one.id for one in found}
            selected = {n: path for n, (id_, path) in projects.items() if id_ in ids}
        return self._until_closed(load_failures(reader, self._loader, selected))

    def sql_service(
        self,
        *,
        redact: bool = True,
        prices: Prices | None = None,
        limits: SqlLimits | None = None,
    ) -> SqlService:
        """Return what runs SQL queries, also row by row; see `sql`."""
        return self._create_sql_service(
            lambda: self._loader, redact=redact, prices=prices, limits=limits
        )

    def _create_sql_service(
        self,
        load_loader: Callable[[], Loader],
        *,
        redact: bool,
        prices: Prices | None,
        limits: SqlLimits | None,
    ) -> SqlService:
        from bygones.data.sql import SqlLimits, SqlService
        from bygones.usage.prices import load_prices

        reader = self._reader
        if not isinstance(reader, LocalReader):
            raise SqlOnTeamStore(self.folder.name)
        return SqlService(
            reader,
            load_loader,
            prices=prices or load_prices(),
            load_redactor=_load_redactor if redact else None,
            problems=self.problems,
            limits=limits or SqlLimits(),
        )


def _load_redactor() -> Redactor:
    return load_redactor(os.environ, Path.home())
