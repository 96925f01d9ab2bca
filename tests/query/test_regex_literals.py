"""Literals that every match of a pattern contains."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bygones.query.regex import (
    LiteralChoice,
    RequiredLiteral,
    extract_glob_literals,
    extract_literals,
    split_words,
)


@pytest.mark.parametrize(
    ("pattern", "pieces"),
    [
        ("reset", (RequiredLiteral("reset"),)),
        (
            r"\breset\b",
            (RequiredLiteral("reset", is_word_start=True, is_word_end=True),),
        ),
        ("connection reset by", (RequiredLiteral("connection reset by"),)),
        (r"conn\w+ reset", (RequiredLiteral("conn"), RequiredLiteral(" reset"))),
        (
            r"reset\s+by",
            (
                RequiredLiteral("reset", is_word_end=True),
                RequiredLiteral("by", is_word_start=True),
            ),
        ),
        (r"resets?", (RequiredLiteral("reset"),)),
        (
            r"(no|such) file",
            (
                LiteralChoice(((RequiredLiteral("no"),), (RequiredLiteral("such"),))),
                RequiredLiteral(" file"),
            ),
        ),
        (r"(no|) file", (RequiredLiteral(" file"),)),
        (r"(?:a1b2)+x*", (RequiredLiteral("a1b2"),)),
        ("[a-z]+", ()),
        (".*", ()),
    ],
)
def test_literals_of_a_pattern(
    pattern: str, pieces: tuple[RequiredLiteral | LiteralChoice, ...]
) -> None:
    assert extract_literals(pattern) == pieces


def test_only_bounded_literals_are_whole_words() -> None:
    words = list(split_words(RequiredLiteral("ction reset by pe")))

    assert [one.text for one in words] == ["ction", "reset", "by", "pe"]
    assert [one.is_word_start for one in words] == [False, True, True, True]
    assert [one.is_word_end for one in words] == [True, True, True, False]


def test_star_leaves_the_ends_of_words_open() -> None:
    assert extract_glob_literals("src/*.py", is_whole=True) == (
        RequiredLiteral("src/", is_word_start=True),
        RequiredLiteral(".py", is_word_end=True),
    )
    assert extract_glob_literals("*", is_whole=True) == ()


PATTERNS = (
    r"(foo|bar) baz",
    r"\bfoo\b",
    r"foo\s+ba[rz]",
    r"ba{1,2}r.foo",
    r"(?:foo_)+bar?",
    r"^foo|baz$",
    r"x?foo bar baz\W",
)


@given(st.sampled_from(PATTERNS), st.text("fobarz_ \n.x", max_size=40))
def test_every_match_contains_the_literals(pattern: str, text: str) -> None:
    if re.search(pattern, text, re.IGNORECASE):
        assert _has(extract_literals(pattern), text)


def _has(pieces: tuple[RequiredLiteral | LiteralChoice, ...], text: str) -> bool:
    return all(
        any(_has(way, text) for way in piece.alternatives)
        if isinstance(piece, LiteralChoice)
        else _stands(piece, text)
        for piece in pieces
    )


def _stands(piece: RequiredLiteral, text: str) -> bool:
    words = re.findall(r"[^\W_]+", text.lower())
    return all(
        one.text in words
        if one.is_word_start and one.is_word_end
        else any(word.startswith(one.text) for word in words)
        if one.is_word_start
        else any(one.text in word for word in words)
        for one in split_words(piece)
    )
