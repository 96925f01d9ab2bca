"""Views as Arrow tables and Parquet files; needs the extra ``bygones[data]``."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from bygones.data.sql import SqlRow, SqlService
from bygones.data.views import VIEWS, VIEWS_VERSION, View
from bygones.errors import MissingDataPackage, SqlError

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError:  # pragma: no cover (without the extra)
    pa = pq = None

if TYPE_CHECKING:
    from bygones.model.base import ProgressReporter

_BATCH_ROWS = 8_192
_BATCH_BYTES = 16 << 20
"""Rows are written when there are so many, or their texts are so long."""
_MAX_FILE_ROWS = 500_000
"""Rows from which on a view is divided by month."""
_VERSION_KEY = b"bygones.views_version"


class ParquetFiles(Struct, frozen=True, kw_only=True):
    """What an export to Parquet wrote."""

    files: tuple[Path, ...]
    row_counts: dict[str, int]
    """Rows by view."""
    size: int
    """Bytes of all files."""


def require_pyarrow() -> None:
    """Raise `MissingDataPackage` if the extra is not installed."""
    if pa is None:  # pragma: no cover (without the extra)
        raise MissingDataPackage("pyarrow")


def require_view(name: str) -> View:
    """Return a view by its name, or raise `SqlError`."""
    for view in VIEWS:
        if view.name == name:
            return view
    names = ", ".join(view.name for view in VIEWS)
    raise SqlError(f"there is no view {name!r}; the views are {names}")


def build_table(
    service: SqlService, name: str, columns: Sequence[str] | None = None
) -> Any:  # noqa: ANN401 (a table of pyarrow, which is optional)
    """Return a view, or some of its columns, as a table of pyarrow."""
    require_pyarrow()
    view = _with_columns(require_view(name), columns)
    schema = _arrow_schema(view)
    with service.stream_view(view) as rows:
        batches = list(_record_batches(schema, rows))
    return pa.Table.from_batches(batches, schema)


def write_parquet(
    service: SqlService,
    folder: Path,
    *,
    is_private: bool,
    progress: ProgressReporter | None = None,
) -> ParquetFiles:
    """Write each view to a file, or to a folder with a file per month if it is large."""
    require_pyarrow()
    folder.mkdir(parents=True, exist_ok=True)
    sizes = {view.name: _count_rows(service, view) for view in VIEWS}
    if progress is not None:
        progress.begin("rows", sum(sizes.values()))
    files: list[Path] = []
    counts: dict[str, int] = {}
    for view in VIEWS:
        is_large = sizes[view.name] > _MAX_FILE_ROWS
        writer = _ViewWriter(service, view, is_private=is_private, progress=progress)
        written = list(writer.write(folder, is_large=is_large))
        files += (path for path, _ in written)
        counts[view.name] = sum(count for _, count in written)
    if progress is not None:
        progress.end()
    size = sum(path.stat().st_size for path in files)
    return ParquetFiles(files=tuple(files), row_counts=counts, size=size)


def _count_rows(service: SqlService, view: View) -> int:
    """Return the number of rows; 0 for a view that has to be loaded for that."""
    if view.time_column is None or view.name == "commits":
        return 0
    ((count,),) = service.run(f"SELECT count(*) FROM {view.name}")  # noqa: S608 (our names)
    return int(str(count))


class _ViewWriter:
    """Writes one view."""

    def __init__(
        self,
        service: SqlService,
        view: View,
        *,
        is_private: bool,
        progress: ProgressReporter | None,
    ) -> None:
        self._service = service
        self._view = view
        self._mode = 0o600 if is_private else 0o644
        self._progress = progress

    def write(self, folder: Path, *, is_large: bool) -> Iterator[tuple[Path, int]]:
        """Write a file, or one per month; yield each with its number of rows."""
        view, service = self._view, self._service
        single, divided = folder / f"{view.name}.parquet", folder / view.name
        earlier = set(divided.glob("month=*/part-0.parquet"))
        if not is_large:
            with service.stream_view(view) as rows:
                yield single, self._write_file(rows, single)
        for month in self._months() if is_large else ():
            path = divided / f"month={month or 'unknown'}" / "part-0.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            earlier.discard(path)
            with service.stream_view(view, month=month) as rows:
                yield path, self._write_file(rows, path)
        if is_large:
            single.unlink(missing_ok=True)
        for path in earlier:  # months of an earlier export
            path.unlink()

    def _months(self) -> list[str]:
        month = f"ifnull(substr({self._view.time_column}, 1, 7), '')"
        sql = f"SELECT DISTINCT {month} FROM {self._view.name} ORDER BY 1"  # noqa: S608 (our names)
        return [str(month) for (month,) in self._service.run(sql)]

    def _write_file(self, rows: Iterator[SqlRow], path: Path) -> int:
        """Write rows to a file, which appears when it is complete."""
        schema = _arrow_schema(self._view)
        short = [column.name for column in self._view.columns if not column.is_loaded]
        partial = path.with_name(f".{path.name}.partial")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        handle = os.open(partial, flags, self._mode)
        count = 0
        try:
            with (
                open(handle, "wb") as file,  # noqa: PTH123 (an open file)
                pq.ParquetWriter(
                    file,
                    schema,
                    compression="zstd",
                    compression_level=1,
                    use_dictionary=short,
                    write_statistics=short,
                ) as writer,
            ):
                for batch in _record_batches(schema, rows):
                    writer.write_batch(batch)
                    count += batch.num_rows
                    if self._progress is not None:
                        self._progress.advance(batch.num_rows)
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
        return count


def _with_columns(view: View, columns: Sequence[str] | None) -> View:
    if columns is None:
        return view
    by_name = {column.name: column for column in view.columns}
    unknown = [name for name in columns if name not in by_name]
    if unknown:
        raise SqlError(f"{view.name} has no column {unknown[0]!r}")
    return view._replace(columns=tuple(by_name[name] for name in columns))


def _arrow_schema(view: View) -> Any:  # noqa: ANN401 (of pyarrow)
    types = {
        "text": pa.string(),
        "json": pa.string(),
        "integer": pa.int64(),
        "real": pa.float64(),
        "boolean": pa.bool_(),
        "timestamp": pa.timestamp("ms", tz="UTC"),
    }
    fields = [pa.field(one.name, types[one.kind]) for one in view.columns]
    return pa.schema(fields, {_VERSION_KEY: str(VIEWS_VERSION).encode()})


def _record_batches(schema: Any, rows: Iterator[SqlRow]) -> Iterator[Any]:  # noqa: ANN401 (of pyarrow)
    """Yield rows in batches that stay small even if texts are long."""
    batch: list[SqlRow] = []
    size = 0
    for row in rows:
        batch.append(row)
        size += sum(len(value) for value in row if isinstance(value, str))
        if len(batch) >= _BATCH_ROWS or size >= _BATCH_BYTES:
            yield _make_batch(schema, batch)
            batch, size = [], 0
    if batch:
        yield _make_batch(schema, batch)


def _make_batch(schema: Any, rows: Sequence[SqlRow]) -> Any:  # noqa: ANN401 (of pyarrow)
    arrays = [
        _make_array(field.type, values)
        for field, values in zip(schema, zip(*rows, strict=True), strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _make_array(type_: Any, values: Sequence[object]) -> Any:  # noqa: ANN401 (of pyarrow)
    if pa.types.is_boolean(type_):
        return pa.array([None if v is None else bool(v) for v in values], type_)
    if pa.types.is_timestamp(type_):
        return pa.array(values, pa.int64()).cast(type_)
    if pa.types.is_string(type_):
        # Lone surrogates, which transcripts may contain, are not valid UTF-8.
        try:
            return pa.array(values, type_)
        except UnicodeEncodeError:
            values = [_replace_surrogates(v) for v in values]
    return pa.array(values, type_)


def _replace_surrogates(value: object) -> object:
    if not isinstance(value, str):
        return value
    return value.encode("utf-8", "replace").decode()
