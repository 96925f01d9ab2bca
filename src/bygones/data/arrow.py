"""Views as Arrow tables and Parquet files; needs the extra ``bygones[data]``."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from msgspec import Struct

from bygones.data.exported_rows import Failures, read_rows
from bygones.data.sql import SqlRow, SqlService
from bygones.data.views import VIEWS, VIEWS_VERSION, View
from bygones.errors import MissingDataPackage, SqlError
from bygones.model.base import SessionId
from bygones.store.local_reader import from_milliseconds

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError:  # pragma: no cover (without the extra)
    pa = pq = None

if TYPE_CHECKING:
    from bygones.model.base import ProgressReporter

_BATCH_ROWS = 8_192
_BATCH_BYTES = 4 << 20
"""Rows are written when there are so many, or their texts are so long."""
_PROGRESS_ROWS = 1_000
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
    failures: dict[SessionId, Exception] = {}
    """Sessions with texts that could not be loaded or redacted, which are missing."""


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
    builder = _BatchBuilder(service, view)
    batches = []
    for _, row in read_rows(service, [view]):
        builder.add(row)
        if builder.is_full:
            batches.append(builder.build())
    batches.append(builder.build())
    return pa.Table.from_batches(batches, builder.schema)


def write_parquet(
    service: SqlService,
    folder: Path,
    *,
    is_private: bool,
    progress: ProgressReporter | None = None,
) -> ParquetFiles:
    """Write each view to a file, or to a folder with a file per month if it is large.

    Texts of a session that cannot be loaded or redacted are missing in its rows, and do
    not stop the others.
    """
    require_pyarrow()
    folder.mkdir(0o700 if is_private else 0o775, parents=True, exist_ok=True)
    sizes = {view.name: _count_rows(service, view) for view in VIEWS}
    if progress is not None:
        progress.begin("rows", sum(sizes.values()))
    mode = 0o600 if is_private else 0o644
    failures: Failures = {}
    with ExitStack() as stack:
        writers = {
            view.name: stack.enter_context(
                _ViewWriter(
                    view,
                    partial(_BatchBuilder, service, view, failures),
                    folder,
                    mode=mode,
                    is_large=sizes[view.name] > _MAX_FILE_ROWS,
                )
            )
            for view in VIEWS
        }
        for number, (name, row) in enumerate(read_rows(service, VIEWS, failures), 1):
            writers[name].add(row)
            if progress is not None and number % _PROGRESS_ROWS == 0:
                progress.advance(_PROGRESS_ROWS)
        files = [path for writer in writers.values() for path in writer.finish()]
    if progress is not None:
        progress.end()
    return ParquetFiles(
        files=tuple(files),
        row_counts={name: writer.row_count for name, writer in writers.items()},
        size=sum(path.stat().st_size for path in files),
        failures=failures,
    )


def _count_rows(service: SqlService, view: View) -> int:
    """Return the number of rows; 0 for a view that has to be loaded for that."""
    if view.time_column is None or view.name == "commits":
        return 0
    ((count,),) = service.run(f"SELECT count(*) FROM {view.name}")  # noqa: S608 (our names)
    return int(str(count))


class _ViewWriter:
    """Writes the rows of one view; files appear when all of them are complete."""

    def __init__(
        self,
        view: View,
        new_builder: Callable[[], _BatchBuilder],
        folder: Path,
        *,
        mode: int,
        is_large: bool,
    ) -> None:
        self._view = view
        self._new_builder = new_builder
        self._mode = mode
        self._is_large = is_large
        self._single = folder / f"{view.name}.parquet"
        self._divided = folder / view.name
        self._files: dict[str, _ParquetFile] = {}
        names = [one.name for one in view.columns]
        self._time = names.index(view.time_column) if view.time_column else None
        self.row_count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        for file in self._files.values():
            file.discard()

    def add(self, row: SqlRow) -> None:
        """Add a row."""
        month = self._month(row) if self._is_large else ""
        file = self._files.get(month)
        if file is None:
            file = self._files[month] = self._open(month)
        self.row_count += 1
        file.add(row)

    def _month(self, row: SqlRow) -> str:
        time_ms = row[self._time] if self._time is not None else None
        if not isinstance(time_ms, int):
            return "unknown"
        return f"{from_milliseconds(time_ms):%Y-%m}"

    def _open(self, month: str) -> _ParquetFile:
        path = self._single
        if self._is_large:
            path = self._divided / f"month={month}" / "part-0.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
        return _ParquetFile(self._view, self._new_builder(), path, self._mode)

    def finish(self) -> list[Path]:
        """Complete all files, and remove those of an earlier export."""
        if not self._files and not self._is_large:
            self._files[""] = self._open("")
        paths = [file.finish() for _, file in sorted(self._files.items())]
        if self._is_large:
            self._single.unlink(missing_ok=True)
        for path in set(self._divided.glob("month=*/part-0.parquet")).difference(paths):
            path.unlink()
        return paths


class _ParquetFile:
    """A file that is written below another name until it is complete."""

    def __init__(
        self, view: View, builder: _BatchBuilder, path: Path, mode: int
    ) -> None:
        self._path = path
        self._partial = path.with_name(f".{path.name}.partial")
        self._builder = builder
        short = [column.name for column in view.columns if not column.is_loaded]
        # One that a killed export left may be readable by others, or a link.
        self._partial.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        handle = os.open(self._partial, flags, mode)
        self._file = open(handle, "wb")  # noqa: PTH123, SIM115 (an open file, closed below)
        self._writer = pq.ParquetWriter(
            self._file,
            self._builder.schema,
            compression="zstd",
            compression_level=1,
            use_dictionary=short,
            write_statistics=short,
        )

    def add(self, row: SqlRow) -> None:
        self._builder.add(row)
        if self._builder.is_full:
            self._writer.write_batch(self._builder.build())

    def finish(self) -> Path:
        self._writer.write_batch(self._builder.build())
        self._writer.close()
        self._file.close()
        self._partial.replace(self._path)
        return self._path

    def discard(self) -> None:
        """Remove the file unless it is complete."""
        if not self._file.closed:
            self._writer.close()
            self._file.close()
        self._partial.unlink(missing_ok=True)


def _with_columns(view: View, columns: Sequence[str] | None) -> View:
    if columns is None:
        return view
    by_name = {column.name: column for column in view.columns}
    if not columns:
        raise SqlError(f"name at least one column of {view.name}")
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


class _BatchBuilder:
    """Collects rows of a view until they are enough for a batch."""

    def __init__(
        self, service: SqlService, view: View, failures: Failures | None = None
    ) -> None:
        self.schema = _arrow_schema(view)
        self._failures = failures
        texts = service.texts
        self._redactors = [
            (texts.redact_json if column.kind == "json" else texts.redact)
            if column.is_redacted
            else None
            for column in view.columns
        ]
        self._loaded = [at for at, one in enumerate(view.columns) if one.is_loaded]
        self._rows: list[SqlRow] = []
        self._size = 0

    @property
    def is_full(self) -> bool:
        """Whether there are many rows, or their texts are long."""
        return len(self._rows) >= _BATCH_ROWS or self._size >= _BATCH_BYTES

    def add(self, row: SqlRow) -> None:
        """Add a row."""
        self._rows.append(row)
        for at in self._loaded:
            value = row[at]
            if value is not None:
                self._size += len(value)  # type: ignore[arg-type]

    def build(self) -> Any:  # noqa: ANN401 (of pyarrow)
        """Return the rows that were added as a batch, and start the next one."""
        columns = list(zip(*self._rows, strict=True)) or [()] * len(self.schema)
        arrays = []
        for field, values, redact in zip(
            self.schema, columns, self._redactors, strict=True
        ):
            shown = self._redact(values, redact) if redact is not None else values
            arrays.append(_make_array(field.type, shown))
        self._rows, self._size = [], 0
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _redact(
        self, values: Sequence[Any], redact: Callable[[Any], str | None]
    ) -> list[str | None]:
        """Redact a column; a value that cannot be redacted is left out."""
        clean: dict[object, str | None] = {}
        failed: dict[object, Exception] = {}
        for row, value in zip(self._rows, values, strict=False):
            if value not in clean:
                try:
                    clean[value] = redact(value)
                except MemoryError:
                    raise
                except Exception as error:
                    if self._failures is None:
                        raise
                    clean[value], failed[value] = None, error
            if failed and value in failed and self._failures is not None:
                session = row[self.schema.get_field_index("session_id")]
                self._failures.setdefault(SessionId(str(session)), failed[value])
        return [clean[value] for value in values]


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
