"""Tables, ages and other output that commands share."""

from __future__ import annotations

from bygones.cli.output import TextColumn, TextTable
from bygones.render.text.primitives import truncate_start

PLAIN = (TextColumn(), TextColumn(is_right_aligned=True), TextColumn())


def test_columns_are_aligned_in_wide_scripts() -> None:
    table = TextTable(PLAIN, [("日本", "1", "x"), ("abc", "1,000", "")])

    assert table.lines() == ["日本      1  x", "abc   1,000"]


def test_empty_table_has_no_lines() -> None:
    assert TextTable(PLAIN, []).lines() == []


def test_cell_cannot_break_the_table() -> None:
    assert TextTable(PLAIN[:2], [("a\nb", "1")]).lines() == [r"a\nb  1"]


def test_columns_are_dropped_in_order_until_the_rest_fits() -> None:
    columns = (
        TextColumn("ID"),
        TextColumn("FIRST", drop_order=2),
        TextColumn("THEN", drop_order=1),
    )
    rows = [("1", "a", "b")]

    assert TextTable(columns, rows, width=30).lines() == [
        "ID  FIRST  THEN",
        "1   a      b",
    ]
    assert TextTable(columns, rows, width=30, min_rest_width=20).lines() == [
        "ID  THEN",
        "1   b",
    ]
    assert TextTable(columns, rows, width=8, min_rest_width=9).lines() == ["ID", "1"]


def test_rest_of_a_line_is_cut_to_the_width() -> None:
    table = TextTable((TextColumn("ID"),), [("1",)], width=16)

    assert table.lines(["PATH", "/a/long/path/file"], truncate_start) == [
        "ID  PATH",
        "1   …g/path/file",
    ]
