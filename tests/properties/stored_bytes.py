"""Check that an ingestion stores every byte once.

The archive is read without the product. What an ingestion may do to a source is defined
here a second time: nothing; append; or start a new generation, if the file doesn't
start with the stored bytes any more. A file with a new name is a new source only if it
can't be a file that is gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.store.sandbox import Sandbox

__all__ = ["Row", "assert_archived_once", "rows_of"]

_ROWS = (
    "SELECT s.id, s.home || '/' || s.path, s.kind, g.inode, g.kept,"
    " s.gone_ns IS NOT NULL FROM source AS s"
    " JOIN generation AS g ON g.source = s.id AND g.generation = s.generation"
)
_SPANS = (
    "SELECT g.source, g.kept, coalesce(sum(c.stop - c.start), 0),"
    " coalesce(max(c.stop), 0), (SELECT f.start FROM fragment AS f"
    " WHERE f.source = g.source AND f.generation = g.generation)"
    " FROM generation AS g LEFT JOIN chunk AS c"
    " ON c.source = g.source AND c.generation = g.generation"
    " GROUP BY g.source, g.generation"
)


class Row(NamedTuple):
    """A source in the archive."""

    path: str
    kind: str
    inode: int
    kept: int
    """Bytes of whole lines."""
    is_gone: bool
    """Whether its file was already gone at an earlier ingestion."""
    generations: list[bytes]


def rows_of(sandbox: Sandbox) -> dict[int, Row]:
    """Return all sources by number."""
    if not (sandbox.archive / "archive.db").exists():
        return {}
    raws = sandbox.bytes()
    return {
        int(str(number)): Row(
            str(path),
            str(kind),
            int(str(inode)),
            int(str(kept)),
            bool(is_gone),
            raws[str(path)],
        )
        for number, path, kind, inode, kept, is_gone in sandbox.rows(_ROWS)
    }


def assert_archived_once(
    sandbox: Sandbox, before: Mapping[int, Row], files: Iterable[Path]
) -> None:
    """Compare an archive after an ingestion with the files that existed."""
    present = {str(path): path.read_bytes() for path in files}
    after = rows_of(sandbox)
    for source, kept, length, end, fragment in sandbox.rows(_SPANS):
        assert kept == length == end, source
        assert fragment in (None, kept), source
    assert set(before) <= set(after)
    for number, row in after.items():
        assert row.generations == _grown(before.get(number), present.get(row.path))
    missing = [
        row for number, row in before.items() if after[number].path not in present
    ]
    for number in set(after) - set(before):
        assert not [row.path for row in missing if _may_be(row, after[number])]


def _grown(before: Row | None, raw: bytes | None) -> list[bytes]:
    """Return the generations of a source whose file has these bytes now, if valid."""
    known = before.generations if before is not None else []
    if raw is None:
        return known
    if known and raw.startswith(known[-1]):
        return [*known[:-1], raw]
    return [*known, raw]


def _may_be(gone: Row, new: Row) -> bool:
    """Whether a new file may be a gone one with another name.

    The inode of a file that has been gone for longer may be used again.
    """
    names = Path(gone.path).name == Path(new.path).name
    is_same_file = gone.inode == new.inode and not gone.is_gone
    is_alike = gone.kind == new.kind and (names or is_same_file)
    starts = new.generations[-1].startswith(gone.generations[-1])
    return is_alike and gone.kept > 0 and starts
