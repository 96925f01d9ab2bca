"""The reliability page shows the figures of long runs, added up from their parts."""

from __future__ import annotations

import json

from tests.faults.torture import (
    FIGURES,
    HARNESSES,
    PAGE,
    command,
    page,
    row_with,
    summary_row,
    total_figures,
)


def test_page_shows_the_stored_figures() -> None:
    rows = json.loads(FIGURES.read_text("utf-8"))

    assert set(rows) <= {harness.name for harness in HARNESSES}
    assert page(PAGE.read_text("utf-8"), rows) == PAGE.read_text("utf-8")


def test_figures_of_parts_are_added_up() -> None:
    first = row_with(None, 0, {"kills": 3000}, "nightly")

    second = row_with(first, 1, {"kills": 4, "hits": 1}, "nightly")
    again = row_with(second, 1, {"kills": 5, "hits": 1}, "nightly")

    assert total_figures(second) == {"hits": 1, "kills": 3004}
    assert total_figures(again) == {"hits": 1, "kills": 3005}


def test_first_part_or_another_size_replaces_the_figures() -> None:
    first = row_with(None, 1, {"kills": 3}, "nightly")

    for part, size in ((0, "nightly"), (2, "release")):
        row = row_with(first, part, {"kills": 4}, size)
        assert total_figures(row) == {"kills": 4}


def test_parts_from_several_days_have_the_earliest_date() -> None:
    first = row_with(None, 0, {"kills": 3}, "nightly") | {"day": "2026-01-02"}

    assert row_with(first, 1, {"kills": 4}, "nightly")["day"] == "2026-01-02"
    assert row_with(first, 0, {"kills": 4}, "nightly")["day"] > "2026-01-02"


def test_command_of_a_run_includes_its_parts_and_variables() -> None:
    known = {harness.name: harness for harness in HARNESSES}
    row = row_with(None, 0, {"kills": 3}, "nightly")
    long = row_with(None, 0, {"reads": 3}, "release")

    assert command(known["kill"], row) == "`just torture kill --size nightly`"
    two = row_with(row, 1, {"kills": 3}, "nightly")
    assert command(known["kill"], two).endswith("nightly`, then `--part 1`")
    assert command(known["load"], long).startswith("`BYGONES_LOAD_HOME=HOME just ")


def test_summary_names_result_commit_and_figures() -> None:
    kill = HARNESSES[0]

    passed = summary_row(kill, "nightly", {"kills": 1000}, commit="abc", seconds=61)
    failed = summary_row(kill, "nightly", None, commit="abc", seconds=1)

    assert passed == "| `kill` | nightly | passed | 61 s | abc | 1,000 kills |"
    assert failed == "| `kill` | nightly | **failed** | 1 s | abc |  |"
