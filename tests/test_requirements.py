"""Every requirement has a test or is listed as pending."""

from __future__ import annotations

from pathlib import Path

from docs.requirements import (
    find_missing_tests,
    pending,
    requirements,
    seed_documents,
    showing_tests,
)

NUMBERS = [number for group in requirements().values() for number in group]


def test_every_requirement_has_a_test_or_is_pending() -> None:
    tested, waiting = set(showing_tests()), set(pending())

    assert [n for n in NUMBERS if n not in tested | waiting] == []
    assert tested & waiting == set(), "remove these from tests/pending.toml"


def test_markers_and_pending_name_known_requirements() -> None:
    assert set(showing_tests()) <= set(NUMBERS)
    assert set(pending()) <= set(NUMBERS)


def test_numbers_are_unique() -> None:
    assert len(NUMBERS) == len(set(NUMBERS))


def test_markers_are_read_from_tests_classes_tables_and_modules(tmp_path: Path) -> None:
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


def test_every_rule_of_the_seed_documents_has_tests_that_exist() -> None:
    documents = seed_documents()
    rules = [rule for document in documents.values() for rule in document.rules]

    assert list(documents) == ["S0", "S1", "S2", "S3", "S4"]
    assert [rule.rule for rule in rules if not rule.tests] == []
    assert find_missing_tests(test for rule in rules for test in rule.tests) == []


def test_missing_test_is_reported() -> None:
    here = "tests/test_requirements.py"
    known = [
        here,
        f"{here}::test_numbers_are_unique",
        f"{here}::test_numbers_are_unique[linear]",
    ]
    missing = [
        "tests/nowhere.py",
        f"{here}::test_of_nothing",
        f"{here}::test_numbers_are_unique[no_such_case]",
    ]

    assert find_missing_tests([*known, *missing]) == missing
