"""What must stand in a text for a pattern to be found in it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bygones.query.needed import Either, Piece, needed, pieces_of, stretches


@pytest.mark.parametrize(
    ("pattern", "pieces"),
    [
        ("reset", (Piece("reset"),)),
        (r"\breset\b", (Piece("reset", is_begun=True, is_ended=True),)),
        ("connection reset by", (Piece("connection reset by"),)),
        (r"conn\w+ reset", (Piece("conn"), Piece(" reset"))),
        (
            r"reset\s+by",
            (Piece("reset", is_ended=True), Piece("by", is_begun=True)),
        ),
        (r"resets?", (Piece("reset"),)),
        (
            r"(no|such) file",
            (Either(((Piece("no"),), (Piece("such"),))), Piece(" file")),
        ),
        (r"(no|) file", (Piece(" file"),)),
        (r"(?:a1b2)+x*", (Piece("a1b2"),)),
        ("[a-z]+", ()),
        (".*", ()),
    ],
)
def test_a_pattern_needs(pattern: str, pieces: tuple[Piece | Either, ...]) -> None:
    assert needed(pattern) == pieces


def test_only_what_is_bounded_is_a_word() -> None:
    told = list(stretches(Piece("ction reset by pe")))

    assert [one.text for one in told] == ["ction", "reset", "by", "pe"]
    assert [one.is_begun for one in told] == [False, True, True, True]
    assert [one.is_ended for one in told] == [True, True, True, False]


def test_a_star_leaves_the_ends_of_words_open() -> None:
    assert pieces_of("src/*.py", is_whole=True) == (
        Piece("src/", is_begun=True),
        Piece(".py", is_ended=True),
    )
    assert pieces_of("*", is_whole=True) == ()


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
def test_whatever_a_pattern_finds_has_what_it_needs(pattern: str, text: str) -> None:
    if re.search(pattern, text, re.IGNORECASE):
        assert _has(needed(pattern), text)


def _has(pieces: tuple[Piece | Either, ...], text: str) -> bool:
    return all(
        any(_has(way, text) for way in piece.ways)
        if isinstance(piece, Either)
        else _stands(piece, text)
        for piece in pieces
    )


def _stands(piece: Piece, text: str) -> bool:
    words = re.findall(r"[^\W_]+", text.lower())
    return all(
        one.text in words
        if one.is_begun and one.is_ended
        else any(word.startswith(one.text) for word in words)
        if one.is_begun
        else any(one.text in word for word in words)
        for one in stretches(piece)
    )
