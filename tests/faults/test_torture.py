"""What long runs reached is told as they told it, and added up from their parts."""

from __future__ import annotations

import json

from tests.faults.torture import FIGURES, HARNESSES, PAGE, page, row_with, told


def test_the_page_says_what_the_runs_reached() -> None:
    rows = json.loads(FIGURES.read_text("utf-8"))

    assert set(rows) <= {harness.name for harness in HARNESSES}
    assert page(PAGE.read_text("utf-8"), rows) == PAGE.read_text("utf-8")


def test_parts_of_a_run_are_added_up() -> None:
    first = row_with(None, 0, {"kills": 3000}, "nightly")

    second = row_with(first, 1, {"kills": 4, "hits": 1}, "nightly")
    again = row_with(second, 1, {"kills": 5, "hits": 1}, "nightly")

    assert told(second) == "3,004 kills, 1 hits"
    assert told(again) == "3,005 kills, 1 hits"


def test_a_run_from_the_beginning_or_of_another_size_begins_a_new_row() -> None:
    first = row_with(None, 1, {"kills": 3}, "nightly")

    assert told(row_with(first, 0, {"kills": 4}, "nightly")) == "4 kills"
    assert told(row_with(first, 2, {"kills": 4}, "release")) == "4 kills"
