"""Measuring, wrapping and truncating text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bygones.render.text.primitives import (
    display_width,
    truncate_end,
    truncate_start,
    wrap_line,
)

WORDS = st.lists(
    st.text("abc日本語é", min_size=1, max_size=6), min_size=1, max_size=20
).map(" ".join)


@pytest.mark.parametrize(
    ("text", "taken"), [("abc", 3), ("日本", 4), ("e\u0301", 1), ("⚠\ufe0f", 1)]
)
def test_display_width_of_characters(text: str, taken: int) -> None:
    assert display_width(text) == taken


@given(WORDS, st.integers(12, 30))
def test_wrapped_lines_keep_every_word(text: str, room: int) -> None:
    lines = list(wrap_line(text, room, subsequent_indent="  "))

    assert max(map(display_width, lines)) <= room
    assert "".join("".join(lines).split()) == "".join(text.split())


def test_subsequent_lines_are_indented() -> None:
    assert list(wrap_line("- one two three", 9, subsequent_indent="  ")) == [
        "- one two",
        "  three",
    ]


def test_wide_characters_break_anywhere() -> None:
    assert list(wrap_line("日本語日本語", 8)) == ["日本語日", "本語"]


def test_url_is_not_broken() -> None:
    address = "https://example.org/a/very/long/path"

    assert list(wrap_line(f"see {address} now", 12)) == ["see", address, "now"]


def test_truncated_text_has_an_ellipsis() -> None:
    assert truncate_end("日本語", 4) == "日…"


@pytest.mark.parametrize("text", ["👩‍💻", "👨‍👩‍👧‍👦", "❤️‍🔥", "🏴‍☠️", "🧑🏽‍🚀", "👍🏽"])
def test_joined_emoji_has_width_two_and_is_not_split(
    text: str,
) -> None:
    assert display_width(text) == 2
    assert display_width(f"a{text}b") == 4
    assert truncate_end(f"{text}abc", 4) == f"{text}a…"
    assert truncate_start(f"abc{text}", 4) == f"…c{text}"
    assert list(wrap_line(f"ab {text}{text}", 4)) == ["ab", text * 2]
