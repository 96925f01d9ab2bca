"""The versions of files that were kept to go back to."""

from __future__ import annotations

import pytest

from bygones.model.metadata import FileDelta, FileSnapshot
from bygones.model.versions import versions_of
from bygones.parse import parse_line
from tests.build import Written, delta, lines, snapshot


def kept(*records: Written) -> list[FileSnapshot | FileDelta]:
    parsed = [found for line in lines(records) for found in parse_line(line)]
    return [one for one in parsed if isinstance(one, FileSnapshot | FileDelta)]


@pytest.mark.req("H1")
def test_snapshots_and_deltas_give_the_versions_of_every_file() -> None:
    records = kept(
        snapshot("p1", {"a.py": None}),
        snapshot("p2", {"a.py": "0f1e2d3c4b5a6978@v2", "b.py": None}),
        snapshot("p2", {"a.py": "0f1e2d3c4b5a6978@v2"}, update=True),
        delta("p3", "p2", "a.py", "0f1e2d3c4b5a6978@v3"),
    )

    versions = versions_of(records)

    assert [(v.version, v.message, v.is_new) for v in versions["a.py"]] == [
        (1, "p1", True),
        (2, "p2", False),
        (3, "p3", False),
    ]
    assert [v.message for v in versions["b.py"]] == ["p2"]
    assert versions["a.py"][1].backup == "0f1e2d3c4b5a6978@v2"
    assert versions["a.py"][1].time is not None


@pytest.mark.req("H1")
def test_snapshots_that_say_nothing_give_no_versions() -> None:
    bare = delta("p", "p", "a.py", "0f1e2d3c4b5a6978@v3")
    records = kept(
        snapshot("p") | {"snapshot": None},
        bare | {"trackingPath": None},
        bare | {"backup": None},
    )

    assert len(records) == 3
    assert versions_of(records) == {}
