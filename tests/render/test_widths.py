"""Text takes its room, is wrapped within it, and loses nothing by that."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.render.widths import fit_right, width, wrap

WORDS = st.lists(
    st.text("abc日本語é", min_size=1, max_size=6), min_size=1, max_size=20
).map(" ".join)


@pytest.mark.parametrize(
    ("text", "taken"), [("abc", 3), ("日本", 4), ("e\u0301", 1), ("⚠\ufe0f", 1)]
)
def test_signs_take_their_columns(text: str, taken: int) -> None:
    assert width(text) == taken


@given(WORDS, st.integers(12, 30))
def test_wrapped_lines_fit_and_hold_every_word(text: str, room: int) -> None:
    lines = list(wrap(text, room, hang="  "))

    assert max(map(width, lines)) <= room
    assert "".join("".join(lines).split()) == "".join(text.split())


def test_later_lines_hang() -> None:
    assert list(wrap("- one two three", 9, hang="  ")) == ["- one two", "  three"]


def test_signs_of_double_width_break_anywhere() -> None:
    assert list(wrap("日本語日本語", 8)) == ["日本語日", "本語"]


def test_an_address_stays_whole() -> None:
    address = "https://example.org/a/very/long/path"

    assert list(wrap(f"see {address} now", 12)) == ["see", address, "now"]


def test_a_cut_is_marked() -> None:
    assert fit_right("日本語", 4) == "日…"
