"""Ids and state checksums of stored sources."""

from __future__ import annotations

from msgspec import structs

from bygones.model.base import SourceKind
from bygones.store.archive_db import StoredSource, stored_source_from_row

KEPT = StoredSource(
    number=3, home="/h", path="p/a.jsonl", kind=SourceKind.SESSION, size=7
)


def test_source_id_is_the_path_of_its_file() -> None:
    assert KEPT.id == "/h/p/a.jsonl"
    assert structs.replace(KEPT, home="").id == "p/a.jsonl"


def test_state_checksum_changes_with_path_size_time_and_fragment() -> None:
    others = ({"path": "b.jsonl"}, {"mtime_ns": 5}, {"size": 8}, {"rest": b"x"})

    assert all(
        structs.replace(KEPT, **other).state_checksum != KEPT.state_checksum
        for other in others
    )


def test_stored_source_can_be_built_from_its_row() -> None:
    row = tuple(str(v) if v is KEPT.kind else v for v in structs.astuple(KEPT))

    assert stored_source_from_row(row) == KEPT
