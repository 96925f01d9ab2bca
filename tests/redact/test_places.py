"""Homes and addresses are found where their patterns find them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import re2
from hypothesis import given
from hypothesis import strategies as st

from bygones.redact.personal import (
    EMAIL_PATTERN,
    HOME_PATTERN,
    PROJECT_KEY_PATTERN,
    find_emails,
    find_homes,
    find_project_key_logins,
)

Finding = Callable[[str], Iterator[tuple[int, int]]]
WAYS: tuple[tuple[Finding, str, int], ...] = (
    (find_homes, HOME_PATTERN, 0),
    (find_project_key_logins, PROJECT_KEY_PATTERN, 1),
    (find_emails, EMAIL_PATTERN, 0),
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
    st.one_of(
        st.from_regex(HOME_PATTERN),
        st.from_regex(PROJECT_KEY_PATTERN),
        st.from_regex(EMAIL_PATTERN),
    )
)
def test_what_their_patterns_fit_is_found(text: str) -> None:
    asserted(text.encode("utf-8", "replace").decode())


@pytest.mark.parametrize(
    "piece", ["@", "%40", "a%40", "a@a.", "/home/", "Users", "/Users/A b ", "-home-"]
)
def test_many_signs_of_none_are_passed_over(piece: str) -> None:
    asserted(piece * 2_000)
