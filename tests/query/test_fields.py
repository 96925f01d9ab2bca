"""Help and hints that are generated from the tables of the query language."""

from __future__ import annotations

import pytest

from bygones.query.fields import (
    FIELDS,
    SYNTAX_FORMS,
    TIME_FORMS,
    format_query_help,
    list_hints,
)


@pytest.mark.parametrize("width", [40, 80, 120])
def test_help_contains_all_tables_within_its_width(width: int) -> None:
    text = format_query_help(width)

    assert all(len(line) <= width for line in text.splitlines())
    for row in (*SYNTAX_FORMS, *TIME_FORMS):
        assert f"  {row.syntax} " in text
    for field in FIELDS:
        assert f"  {field.name}: " in text
        assert all(choice in text for choice in field.choices)


def test_help_is_readable_in_a_narrow_terminal() -> None:
    assert max(map(len, format_query_help(1).splitlines())) <= 40


def test_each_form_and_field_has_a_hint() -> None:
    found = {hint.insert: hint for hint in list_hints()}

    assert len(found) == len(SYNTAX_FORMS) + len(FIELDS)
    assert found["is:"].choices[0] == "error"
    assert found["-not"].example == "timeout -docker"
