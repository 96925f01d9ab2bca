"""Quotations of limited size, and cursors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bygones.errors import InvalidCursor
from bygones.mcp.quoting import Cursor, QuotedRow, build_answer, parse_cursor, take_rows
from tests.mcp.client import body, outside

texts = st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=8)


def quoted(rows: list[str]) -> list[QuotedRow]:
    return [QuotedRow(str(number), text) for number, text in enumerate(rows)]


def framed(rows: list[str], most: int = 999) -> str:
    return build_answer(
        "head",
        iter(quoted(rows)),
        0,
        max_bytes=most,
        tail=lambda answer: [f"To continue, pass cursor {answer.next_cursor}"],
    )


@given(texts, st.integers(1, 60))
def test_parts_joined_are_all_rows(rows: list[str], room: int) -> None:
    parts = []
    rest: Cursor | None = Cursor("0")

    while rest is not None:
        left = quoted(rows)[int(rest.row_id) :]
        taken = take_rows(iter(left), rest.offset, room)
        parts.append(taken.body)
        rest = taken.next_cursor

    assert "".join(parts) == "".join(rows)
    assert all(len(part.encode()) <= max(room, 4) for part in parts)


@given(texts, st.integers(400, 900))
def test_answer_is_never_longer_than_requested(rows: list[str], most: int) -> None:
    text = framed(rows, most)

    assert len(text.encode()) <= most


def test_row_with_enough_room_is_not_cut() -> None:
    rows = quoted(["a" * 30 + "\n", "b" * 30 + "\n"])

    taken = take_rows(iter(rows), 0, 40)

    assert taken.body == "a" * 30 + "\n"
    assert taken.next_cursor == Cursor("1")


def test_long_row_is_cut_at_the_end_of_a_line() -> None:
    taken = take_rows(iter(quoted(["one line\nanother line"])), 0, 15)

    assert taken.body == "one line\n"
    assert taken.next_cursor == Cursor("0", 9)


def test_no_character_is_cut_in_two() -> None:
    taken = take_rows(iter(quoted(["日本語"])), 0, 7)

    assert taken.body == "日本"


def test_every_answer_has_a_new_mark() -> None:
    first, second = framed(["words"]), framed(["words"])

    assert body(first) == body(second) == "words"
    assert first != second


def test_mark_of_another_answer_does_not_close_the_quotation() -> None:
    old = framed(["old"])

    new = framed([old, "more"])

    assert body(new) == old + "more"
    assert "old" not in outside(new)


@pytest.mark.parametrize("text", ["3", "3+17", "5e551000-0000+1"])
def test_cursor_round_trip(text: str) -> None:
    assert str(parse_cursor(text)) == text


@pytest.mark.parametrize("text", ["+", "3+", "3 17", "../3", "é", "3+" + "9" * 20])
def test_invalid_cursor_is_rejected(text: str) -> None:
    with pytest.raises(InvalidCursor):
        parse_cursor(text)
