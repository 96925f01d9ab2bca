"""What is always so of sums: nothing is lost, whatever they are parted by."""

from __future__ import annotations

from pathlib import Path

import pytest

from recollect.archive import Archive
from recollect.ingest import ingest
from recollect.model.reports import Grouping, UsageRow
from recollect.model.usage import Usage
from recollect.reading import read
from tests.usage.asking import NOW, usages

CASES = Path(__file__).resolve().parent.parent / "cases"
HOMES = sorted({path.parent for path in CASES.rglob("projects")})


@pytest.mark.req("U1", "U3")
@pytest.mark.parametrize("home", HOMES, ids=lambda path: path.parent.name)
def test_every_way_to_part_a_golden_home_has_the_total_of_its_sessions(
    home: Path, tmp_path: Path
) -> None:
    ingest(tmp_path, [home])
    spent = sum((session.total for session in read(home)), Usage())

    with Archive.open(tmp_path) as archive:
        for by in Grouping:
            report = archive.usage(by, now=NOW)
            rows = [row for row in report.rows if isinstance(row, UsageRow)]

            assert usages(report.total) == (
                spent.input,
                spent.output,
                spent.cache_write_5m,
                spent.cache_write_1h,
                spent.cache_read,
            )
            if by is not Grouping.TOOL:
                assert sum(row.tokens for row in rows) == spent.total
                assert sum(row.answers for row in rows) == report.total.answers
                costs = sum(row.cost or 0 for row in rows)
                assert abs(costs - (report.total.cost or 0)) <= len(rows)
