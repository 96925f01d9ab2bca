"""Hashes of the tables of an index, to compare it with a rebuilt one."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

from bygones.store.archive_dir import ArchiveDir
from bygones.store.connect import fetch_all
from bygones.store.index_db import IndexDB
from bygones.store.schema import COMPARED_TABLES

_FAMILIES = (
    "SELECT a.id, b.id FROM session AS x JOIN session AS y ON x.family = y.family"
    " JOIN session_id AS a ON a.number = x.number"
    " JOIN session_id AS b ON b.number = y.number"
)


def hash_tables(archive_dir: ArchiveDir) -> dict[str, str]:
    """Return a hash of each table, of the families, the nodes and the text index."""
    index = archive_dir.index
    if index is None:
        return {}
    queries = {table.name: table.comparison_sql for table in COMPARED_TABLES}
    queries["family"] = _FAMILIES
    hashes = {
        table: _hash_rows(sorted(map(repr, index.db.execute(sql))))
        for table, sql in queries.items()
    }
    sources = fetch_all(index.db, "SELECT source FROM source_state ORDER BY source")
    hashes["node"] = _hash_rows(repr(index.nodes(source)) for (source,) in sources)
    hashes["text"] = _hash_texts(archive_dir, index)
    return hashes


def _hash_texts(archive_dir: ArchiveDir, index: IndexDB) -> str:
    session_ids = dict(fetch_all(index.db, "SELECT number, id FROM session_id"))
    locations = {
        record: (source, start, session_ids[session])
        for record, source, start, session in fetch_all(
            index.db, "SELECT id, source, start, session FROM record"
        )
    }
    texts = (
        repr((locations.get(record), session_ids.get(session), kind, digest))
        for record, session, kind, digest in archive_dir.text_index.iter_documents()
    )
    return _hash_rows(sorted(texts))


def _hash_rows(rows: Iterable[str]) -> str:
    hashed = sha256()
    for row in rows:
        hashed.update(row.encode("utf-8", "surrogatepass"))
        hashed.update(b"\n")
    return hashed.hexdigest()
