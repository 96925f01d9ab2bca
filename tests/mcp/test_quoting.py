"""Quotations: of a stated size, and closed by nobody but us."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bygones.errors import CursorUnreadable
from bygones.mcp.quoting import Cursor, Quoted, answer, read_cursor, slice_of
from tests.mcp.talking import body, outside

texts = st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=8)


def quoted(rows: list[str]) -> list[Quoted]:
    return [Quoted(str(number), text) for number, text in enumerate(rows)]


def framed(rows: list[str], most: int = 999) -> str:
    return answer(
        "head",
        iter(quoted(rows)),
        0,
        budget=most,
        tail=lambda told: [f"To go on: cursor {told.rest}"],
    )


@given(texts, st.integers(1, 60))
def test_all_slices_joined_are_the_whole(rows: list[str], room: int) -> None:
    parts = []
    rest: Cursor | None = Cursor("0")

    while rest is not None:
        left = quoted(rows)[int(rest.place) :]
        found = slice_of(iter(left), rest.offset, room)
        parts.append(found.body)
        rest = found.rest

    assert "".join(parts) == "".join(rows)
    assert all(len(part.encode()) <= max(room, 4) for part in parts)


@given(texts, st.integers(400, 900))
def test_an_answer_is_never_longer_than_was_asked(rows: list[str], most: int) -> None:
    text = framed(rows, most)

    assert len(text.encode()) <= most


def test_a_row_that_fits_is_not_cut() -> None:
    rows = quoted(["a" * 30 + "\n", "b" * 30 + "\n"])

    found = slice_of(iter(rows), 0, 40)

    assert found.body == "a" * 30 + "\n"
    assert found.rest == Cursor("1")


def test_a_long_row_is_cut_at_the_end_of_a_line() -> None:
    found = slice_of(iter(quoted(["one line\nanother line"])), 0, 15)

    assert found.body == "one line\n"
    assert found.rest == Cursor("0", 9)


def test_no_letter_is_cut_in_two() -> None:
    found = slice_of(iter(quoted(["日本語"])), 0, 7)

    assert found.body == "日本"


def test_every_answer_draws_its_own_mark() -> None:
    first, second = framed(["words"]), framed(["words"])

    assert body(first) == body(second) == "words"
    assert first != second


def test_a_mark_of_another_answer_closes_nothing() -> None:
    old = framed(["old"])

    new = framed([old, "more"])

    assert body(new) == old + "more"
    assert "old" not in outside(new)


@pytest.mark.parametrize("text", ["3", "3+17", "5e551000-0000+1"])
def test_a_cursor_is_read_as_it_was_written(text: str) -> None:
    assert str(read_cursor(text)) == text


@pytest.mark.parametrize("text", ["+", "3+", "3 17", "../3", "é", "3+" + "9" * 20])
def test_what_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(CursorUnreadable):
        read_cursor(text)
