"""Sanitizing text for terminals."""

from __future__ import annotations

import json
import re
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bygones.render.text.primitives import (
    EMOJI_RANGES,
    sanitize,
    sanitize_json,
    sanitize_name,
)

JOINED = re.compile(f"(?<=[{EMOJI_RANGES}\ufe0f])\u200d(?=[{EMOJI_RANGES}])")
INVISIBLE_CATEGORIES = {"Cc", "Cf", "Cs", "Zl", "Zp"}
ATTACKS = {
    "color": "\x1b[31mred\x1b[0m",
    "clear": "\x1b[2J\x1b[H",
    "title": "\x1b]0;owned\x07",
    "link": "\x1b]8;;http://evil.example\x1b\\click\x1b]8;;\x1b\\",
    "clipboard": "\x1b]52;c;cm0gLXJmIC8=\x07",
    "report": "\x1bP$qm\x1b\\",
    "eight bits": "\x9b2J\x9d0;owned\x9c",
    "return": "good\rbad",
    "backspace": "rm -rf\b\b\b\b\b\bls",
    "bell": "\x07\x00\x7f",
    "bidi": "\u202egnp.exe\u202c\u2066\u2069\u061c\u200f",
    "zero width": "pass\u200bword\u200c\u200d\u2060\ufeff",
    "tags": "\U000e0001\U000e0068\U000e0069",
    "selectors": "a\U000e0100\U000e0101\ufe00",
    "fillers": "\u3164\u115f\u1160\uffa0\u034f",
    "half a pair": "\ud800\udfff",
    "line ends": "a\u2028b\u2029c\x0b\x0c\x85",
}


@pytest.mark.parametrize("text", ATTACKS.values(), ids=ATTACKS)
def test_attacks_become_visible(text: str) -> None:
    sanitized = sanitize(text)

    assert not any(
        unicodedata.category(char) in INVISIBLE_CATEGORIES - {""} for char in sanitized
    )
    assert sanitized != text


@given(st.text())
def test_any_sanitized_text_is_visible(text: str) -> None:
    allowed = {
        s
        for s in JOINED.sub("", sanitize(text))
        if unicodedata.category(s) in INVISIBLE_CATEGORIES
    }

    assert allowed <= {"\n", "\t"}
    line = JOINED.sub("", sanitize(text, newlines="space"))
    assert not {s for s in line if unicodedata.category(s) in INVISIBLE_CATEGORIES}


@pytest.mark.parametrize("text", ["👩‍💻", "👨‍👩‍👧‍👦", "❤️‍🔥", "🏴‍☠️", "🧑🏽‍🚀", "🐦‍⬛"])
def test_joined_emoji_is_kept(text: str) -> None:
    assert sanitize(f"a {text} b") == f"a {text} b"
    assert sanitize(text, newlines="space") == sanitize_name(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "a\u200db",
        "\u200d👩",
        "👩\u200d",
        "👩\u200d\u200d💻",
        "👩\u200d\u202e💻",
        "👩 \u200d💻",
    ],
)
def test_joiner_without_emoji_is_escaped(text: str) -> None:
    for output in (
        sanitize(text),
        sanitize(text, newlines="space"),
        sanitize_name(text),
    ):
        assert "\u200d" not in output
        assert "\\u200d" in output


def test_all_invisible_characters_are_escaped() -> None:
    chars = map(chr, range(sys.maxunicode + 1))
    invisible = {
        char for char in chars if unicodedata.category(char) in INVISIBLE_CATEGORIES
    } - {"\n", "\t"}

    assert {char for char in invisible if sanitize(f"a{char}b") == f"a{char}b"} == set()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain words", "plain words"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("of Windows\r\n", "of Windows\n"),
        ("\x1b[1;33mwarm\x1b[0m", "warm"),
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("grüße 日本 🎉 ⚠\ufe0f", "grüße 日本 🎉 ⚠\ufe0f"),
        ("a\ufe0f\ufe0f", "a\ufe0f\\ufe0f"),
        ("one\xa0space", "one\xa0space"),
    ],
)
def test_text_is_kept_and_colors_are_removed(text: str, expected: str) -> None:
    assert sanitize(text) == expected


def test_newlines_become_spaces_or_escapes() -> None:
    assert sanitize("  cd x\n\tmake\x1b[0m  ", newlines="space") == "cd x make"
    assert sanitize_name("a\nb") == r"a\nb"


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_sanitized_json_has_the_same_meaning(text: str) -> None:
    written = sanitize_json(json.dumps(text, ensure_ascii=False))

    assert json.loads(written) == text
    assert not any(
        unicodedata.category(char) in INVISIBLE_CATEGORIES for char in written
    )
