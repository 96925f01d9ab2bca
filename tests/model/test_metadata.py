"""Versions of tracked files."""

from __future__ import annotations

import pytest

from bygones.model.metadata import (
    FileDeltaRecord,
    FileSnapshotRecord,
    collect_file_versions,
)
from bygones.parse.full import parse_line
from tests.build import Written, delta, lines, snapshot


def kept(*records: Written) -> list[FileSnapshotRecord | FileDeltaRecord]:
    parsed = [found for line in lines(records) for found in parse_line(line)]
    return [
        item
        for item in parsed
        if isinstance(item, FileSnapshotRecord | FileDeltaRecord)
    ]


@pytest.mark.req("H1")
def test_snapshots_and_deltas_give_the_versions_of_each_file() -> None:
    records = kept(
        snapshot("p1", {"a.py": None}),
        snapshot("p2", {"a.py": "0f1e2d3c4b5a6978@v2", "b.py": None}),
        snapshot("p2", {"a.py": "0f1e2d3c4b5a6978@v2"}, update=True),
        delta("p3", "p2", "a.py", "0f1e2d3c4b5a6978@v3"),
    )

    versions = collect_file_versions(records)

    assert [(v.version, v.message_id, v.is_new) for v in versions["a.py"]] == [
        (1, "p1", True),
        (2, "p2", False),
        (3, "p3", False),
    ]
    assert [v.message_id for v in versions["b.py"]] == ["p2"]
    assert versions["a.py"][1].backup_name == "0f1e2d3c4b5a6978@v2"
    assert versions["a.py"][1].saved_at is not None


@pytest.mark.req("H1")
def test_empty_snapshots_give_no_versions() -> None:
    bare = delta("p", "p", "a.py", "0f1e2d3c4b5a6978@v3")
    records = kept(
        snapshot("p") | {"snapshot": None},
        bare | {"trackingPath": None},
        bare | {"backup": None},
    )

    assert len(records) == 3
    assert collect_file_versions(records) == {}
