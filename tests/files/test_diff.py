"""Differences between texts, in lines."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bygones.files.diff import (
    apply_changes,
    diff_texts,
    locate_replacement,
    pair_similar,
)

_texts = st.lists(st.sampled_from("abcx"), max_size=30).map("\n".join)


@given(_texts, _texts)
def test_changes_make_one_text_of_the_other(old: str, new: str) -> None:
    lines = old.split("\n")

    apply_changes(lines, diff_texts(old, new))

    assert "\n".join(lines) == new


@given(st.text("ab\n", max_size=40), st.data())
def test_a_replacement_changes_only_its_lines(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    stop = data.draw(st.integers(start, len(text)))
    new = data.draw(st.text("cd\n", max_size=8))
    lines = text.split("\n")

    apply_changes(lines, locate_replacement(text, start, stop - start, new))

    assert "\n".join(lines) == text[:start] + new + text[stop:]


def test_a_unique_line_is_an_anchor_between_repeated_lines() -> None:
    old = "{\n}\nkeep()\n{\n}\n"
    new = "{\n}\n{\n}\nkeep()\n{\n}\n"

    (change,) = diff_texts(old, new)

    assert change.removed == ()
    assert len(change.added) == 2


def test_a_blank_line_is_not_the_end_of_the_text() -> None:
    (change,) = diff_texts("one\n", "one\n\ntwo\n")

    assert change.added == ("", "two")


def test_large_texts_without_unique_lines_are_compared_quickly() -> None:
    old, new = "x\n" * 20_000 + "a\n" * 20_000, "a\n" * 20_000 + "x\n" * 20_000

    assert sum(len(change.added) for change in diff_texts(old, new)) <= 40_001


def test_lines_are_paired_with_what_they_were_made_from() -> None:
    old = ["def add(a,b):", "    return a+b"]
    new = ["import os", "def add(a, b):", "    return a + b"]

    assert pair_similar(old, new) == {1: 0, 2: 1}
