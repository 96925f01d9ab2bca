"""Homes and addresses are found where their patterns find them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import re2
from hypothesis import given
from hypothesis import strategies as st

from bygones.render.redact.personal import ADDRESS, HOME, KEYED_HOME
from bygones.render.redact.places import addresses, homes, keyed_homes

Finding = Callable[[str], Iterator[tuple[int, int]]]
WAYS: tuple[tuple[Finding, str, int], ...] = (
    (homes, HOME, 0),
    (keyed_homes, KEYED_HOME, 1),
    (addresses, ADDRESS, 0),
)
PIECES = (
    *("/home/", "/var", "/Users/", "Users", "C:", "/mnt/c", "/c", "\\", "\\\\", "/"),
    *("Ada", "ada", "Jean-Luc", "van", "der", "Berg", "\u00c9va", "x" * 63, "a1"),
    *(" ", "%20", "\\ ", "\n", '"', "'", "-", "-home-", "-Users-", "@", "%40", "."),
    *("com", "dev", "_", "%", "\u00fc", "\u0130", "4", "40"),
)
texts = st.lists(st.sampled_from(PIECES), max_size=24).map("".join)


def asserted(text: str) -> None:
    for finding, pattern, group in WAYS:
        met = [one.span(group) for one in re2.finditer(pattern, text)]

        assert list(finding(text)) == met, (finding, text)


@given(texts)
def test_all_are_found_that_their_patterns_fit(text: str) -> None:
    asserted(text)


@given(
    st.one_of(st.from_regex(HOME), st.from_regex(KEYED_HOME), st.from_regex(ADDRESS))
)
def test_what_their_patterns_fit_is_found(text: str) -> None:
    asserted(text.encode("utf-8", "replace").decode())


@pytest.mark.parametrize(
    "piece", ["@", "%40", "a%40", "a@a.", "/home/", "Users", "/Users/A b ", "-home-"]
)
def test_many_signs_of_none_are_passed_over(piece: str) -> None:
    asserted(piece * 2_000)
