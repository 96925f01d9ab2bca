"""What long runs reached is told as they told it, and added up from their parts."""

from __future__ import annotations

import json

from tests.faults.torture import FIGURES, HARNESSES, PAGE, command, page, row_with, told


def test_the_page_says_what_the_runs_reached() -> None:
    rows = json.loads(FIGURES.read_text("utf-8"))

    assert set(rows) <= {harness.name for harness in HARNESSES}
    assert page(PAGE.read_text("utf-8"), rows) == PAGE.read_text("utf-8")


def test_parts_of_a_run_are_added_up() -> None:
    first = row_with(None, 0, {"kills": 3000}, "nightly")

    second = row_with(first, 1, {"kills": 4, "hits": 1}, "nightly")
    again = row_with(second, 1, {"kills": 5, "hits": 1}, "nightly")

    assert told(second) == "3,004 kills; 1 hits"
    assert told(again) == "3,005 kills; 1 hits"


def test_a_run_from_the_beginning_or_of_another_size_begins_a_new_row() -> None:
    first = row_with(None, 1, {"kills": 3}, "nightly")

    assert told(row_with(first, 0, {"kills": 4}, "nightly")) == "4 kills"
    assert told(row_with(first, 2, {"kills": 4}, "release")) == "4 kills"


def test_parts_from_several_days_are_of_the_first_of_them() -> None:
    first = row_with(None, 0, {"kills": 3}, "nightly") | {"day": "2026-01-02"}

    assert row_with(first, 1, {"kills": 4}, "nightly")["day"] == "2026-01-02"
    assert row_with(first, 0, {"kills": 4}, "nightly")["day"] > "2026-01-02"


def test_a_row_says_what_was_run() -> None:
    known = {harness.name: harness for harness in HARNESSES}
    row = row_with(None, 0, {"kills": 3}, "nightly")
    long = row_with(None, 0, {"reads": 3}, "release")

    assert command(known["kill"], row) == "`just torture kill --size nightly`"
    two = row_with(row, 1, {"kills": 3}, "nightly")
    assert command(known["kill"], two).endswith("nightly`, then `--part 1`")
    assert command(known["load"], long).startswith("`BYGONES_LOAD_HOME=HOME just ")
