"""Read the rows of a damaged `archive.db` from its pages, without SQLite.

SQLite finds a row through a tree of pages, so one lost page can hide all rows below it.
Here every page that contains rows is read by itself, and a row is recognized by the
number and types of its values. Chunks are checked by their hashes.

The format is described in https://www.sqlite.org/fileformat2.html.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from struct import Struct as BinaryFormat
from typing import BinaryIO, NamedTuple

_MISSING = object()
"""A value that is on a page that is gone."""
_DEFAULT_PAGE_SIZE = 4096
_PAGE_SIZES = frozenset(1 << power for power in range(9, 17))
_HEADER_BYTES = 100
_TABLE_LEAF, _INDEX_LEAF, _INDEX_INTERIOR = 0x0D, 0x0A, 0x02
_WAL_HEADER_BYTES, _WAL_FRAME_BYTES = 32, 24
_INTEGER_BYTES = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}
_FLOAT_TYPE = 7
_FIRST_BLOB_TYPE = 12
_MAX_VARINT_BYTES = 9
_HASH_BYTES = 32
_UINT16, _UINT32 = BinaryFormat(">H"), BinaryFormat(">I")

_SHAPES = {
    "identity": "ti",
    "source": "ntttTTTiI",
    "generation": "iiiiiiibbb",
    "chunk": "niiiibb",
    "fragment": "iiibb",
    "annotation": "ttti",
    "purged": "bi",
}
"""The types of the values of each table: text, integer, blob or null; capital letters
for values that may also be null.
"""

Value = object


class SalvagedRow(NamedTuple):
    """A row of a table; the last value is `None` if not all of it is left."""

    table: str
    number: int
    """The number of the row; 0 in tables without numbers."""
    values: tuple[Value, ...]


def read_rows(path: Path, wal: Path | None = None) -> Iterator[SalvagedRow]:
    """Yield all rows that are left in a file, also those that were deleted."""
    with path.open("rb") as file:
        pages = _Pages(file, _read_wal(wal) if wal is not None else {})
        for number in pages.numbers():
            for row_number, raw_values in _read_page(pages, number):
                row = _recognize(row_number, raw_values)
                if row is not None:
                    yield row


class _Pages:
    """The pages of a file, and newer versions of some from its log."""

    def __init__(self, file: BinaryIO, newer: dict[int, bytes]) -> None:
        self._file = file
        self._newer = newer
        file.seek(0)
        header = file.read(_HEADER_BYTES).ljust(_HEADER_BYTES, b"\0")
        (size,) = _UINT16.unpack_from(header, 16)
        size = 65536 if size == 1 else size
        self.page_size = size if size in _PAGE_SIZES else _DEFAULT_PAGE_SIZE
        file_size = file.seek(0, os.SEEK_END)
        self._count = -(-file_size // self.page_size)

    def numbers(self) -> Iterator[int]:
        yield from range(1, max(self._count, *self._newer, 0) + 1)

    def read(self, number: int) -> bytes:
        """Return a page, or as much of it as is left."""
        newer = self._newer.get(number)
        if newer is not None:
            return newer
        if not 0 < number <= self._count:
            return b""
        self._file.seek((number - 1) * self.page_size)
        return self._file.read(self.page_size)


def _read_wal(path: Path) -> dict[int, bytes]:
    """Return the newest committed version of each page in a log."""
    try:
        raw = path.read_bytes()
    except OSError:
        return {}
    if len(raw) < _WAL_HEADER_BYTES:
        return {}
    page_size = _UINT32.unpack_from(raw, 8)[0]
    if page_size not in _PAGE_SIZES:
        return {}
    salts = raw[16:24]
    committed: dict[int, bytes] = {}
    pending: dict[int, bytes] = {}
    step = _WAL_FRAME_BYTES + page_size
    for at in range(_WAL_HEADER_BYTES, len(raw) - step + 1, step):
        if raw[at + 8 : at + 16] != salts:
            break  # left from before
        number, size = (_UINT32.unpack_from(raw, at + i)[0] for i in (0, 4))
        pending[number] = raw[at + _WAL_FRAME_BYTES : at + step]
        if size:  # the last page of a transaction
            committed |= pending
            pending = {}
    return committed


def _read_page(pages: _Pages, number: int) -> Iterator[tuple[int, Sequence[Value]]]:
    """Yield the rows on a page, with their numbers."""
    raw = pages.read(number)
    start = _HEADER_BYTES if number == 1 else 0
    if len(raw) < start + 8:
        return
    kind = raw[start]
    if kind not in {_TABLE_LEAF, _INDEX_LEAF, _INDEX_INTERIOR}:
        return
    cells_at = start + (12 if kind == _INDEX_INTERIOR else 8)
    count = _UINT16.unpack_from(raw, start + 3)[0]
    for cell in range(min(count, (len(raw) - cells_at) // 2)):
        at = _UINT16.unpack_from(raw, cells_at + 2 * cell)[0]
        try:
            if kind == _INDEX_INTERIOR:
                at += 4
            size, at = _read_varint(raw, at)
            row_number = 0
            if kind == _TABLE_LEAF:
                row_number, at = _read_varint(raw, at)
            payload = _read_payload(pages, raw, at, size, is_table=kind == _TABLE_LEAF)
            yield row_number, _decode_record(payload)
        except (IndexError, ValueError, UnicodeDecodeError):
            continue  # a damaged row


def _read_payload(
    pages: _Pages, raw: bytes, at: int, size: int, *, is_table: bool
) -> bytes:
    """Return the bytes of a row: on its page, then in a chain of others."""
    usable = pages.page_size
    most = usable - 35 if is_table else (usable - 12) * 64 // 255 - 23
    if size <= most:
        return raw[at : at + size]
    least = (usable - 12) * 32 // 255 - 23
    local = least + (size - least) % (usable - 4)
    if local > most:
        local = least
    parts = [raw[at : at + local]]
    left = size - local
    (following,) = _UINT32.unpack_from(raw.ljust(at + local + 4, b"\0"), at + local)
    while left > 0 and following:
        page = pages.read(following).ljust(4, b"\0")
        (following,) = _UINT32.unpack_from(page, 0)
        part = page[4 : 4 + min(left, usable - 4)]
        parts.append(part)
        if len(part) < min(left, usable - 4):
            break
        left -= len(part)
    return b"".join(parts)


def _decode_record(payload: bytes) -> list[Value]:
    """Return the values of a row."""
    header_size, at = _read_varint(payload, 0)
    types = []
    while at < header_size:
        type_, at = _read_varint(payload, at)
        types.append(type_)
    values: list[Value] = []
    at = header_size
    for type_ in types:
        size = _value_size(type_)
        raw = payload[at : at + size]
        at += size
        values.append(_decode_value(type_, raw) if len(raw) == size else _MISSING)
    return values


def _value_size(type_: int) -> int:
    if type_ >= _FIRST_BLOB_TYPE:
        return (type_ - _FIRST_BLOB_TYPE) // 2
    return 8 if type_ == _FLOAT_TYPE else _INTEGER_BYTES.get(type_, 0)


def _decode_value(type_: int, raw: bytes) -> Value:
    if type_ >= _FIRST_BLOB_TYPE:
        return raw.decode() if type_ % 2 else raw
    if type_ in _INTEGER_BYTES:
        return int.from_bytes(raw, "big", signed=True)
    return {8: 0, 9: 1}.get(type_)


def _read_varint(raw: bytes, at: int) -> tuple[int, int]:
    value = 0
    for length in range(1, _MAX_VARINT_BYTES + 1):
        byte = raw[at]
        at += 1
        if length == _MAX_VARINT_BYTES:
            return value << 8 | byte, at
        value = value << 7 | byte & 0x7F
        if byte < 0x80:  # noqa: PLR2004 (the last byte)
            break
    return value, at


def _recognize(number: int, values: Sequence[Value]) -> SalvagedRow | None:
    """Return the row of one of our tables."""
    *first, last = values or [None]
    if _MISSING in first:
        return None
    for table, shape in _SHAPES.items():
        if len(shape) == len(values) and all(map(_has_type, values, shape)):
            if table in {"chunk", "fragment"} and len(first[-1]) != _HASH_BYTES:  # type: ignore[arg-type]
                return None
            if last is _MISSING and table not in {"chunk", "fragment"}:
                return None
            whole = None if last is _MISSING else last
            return SalvagedRow(table, number, (*first, whole))
    return None


def _has_type(value: Value, letter: str) -> bool:
    if value is _MISSING:
        return True
    if value is None:
        return letter == "n" or letter.isupper()
    expected = {"t": str, "i": int, "b": bytes}.get(letter.lower())
    return expected is not None and isinstance(value, expected)
