"""Every requirement has a test, or a step that will bring it."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.requirements import pending, requirements, showing_tests

NUMBERS = [number for group in requirements().values() for number in group]


@pytest.mark.parametrize("number", NUMBERS)
def test_a_requirement_is_either_shown_or_pending(number: str) -> None:
    shown = number in showing_tests()

    assert shown != (number in pending()), (
        f"{number} has a test: take it out of tests/pending.toml"
        if shown
        else f"{number} has no test, and tests/pending.toml does not name it"
    )


def test_marks_and_steps_name_known_requirements() -> None:
    assert set(showing_tests()) <= set(NUMBERS)
    assert set(pending()) <= set(NUMBERS)
    assert set(pending().values()) <= set("ABCDEFGHI")


def test_a_number_is_given_once() -> None:
    assert len(NUMBERS) == len(set(NUMBERS))


def test_marks_are_read_from_tests_classes_tables_and_modules(tmp_path: Path) -> None:
    mark = "pytest.mark." + "req"
    folder = tmp_path / "tests"
    folder.mkdir()
    (folder / "test_all.py").write_text(
        f"pytestmark = {mark}('T1')\n"
        f"TABLE = [pytest.param(1, marks={mark}('T2'))]\n"
        f"@{mark}('T3', 'T4')\n"
        "def test_it_holds(): ...\n"
        "class TestMore:\n"
        f"    @{mark}('T3')\n"
        "    def test_it_still_holds(self): ...\n",
        "utf-8",
    )

    assert showing_tests(folder) == {
        "T1": {"tests/test_all.py": []},
        "T2": {"tests/test_all.py": []},
        "T3": {"tests/test_all.py": ["test_it_holds", "test_it_still_holds"]},
        "T4": {"tests/test_all.py": ["test_it_holds"]},
    }
