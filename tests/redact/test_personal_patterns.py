"""The find functions for personal data agree with their patterns."""

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

FindFunction = Callable[[str], Iterator[tuple[int, int]]]
CASES: tuple[tuple[FindFunction, str, int], ...] = (
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


def assert_agreement(text: str) -> None:
    for find, pattern, group in CASES:
        expected = [match.span(group) for match in re2.finditer(pattern, text)]

        assert list(find(text)) == expected, (find, text)


@given(texts)
def test_find_functions_agree_with_their_patterns(text: str) -> None:
    assert_agreement(text)


@given(
    st.one_of(
        st.from_regex(HOME_PATTERN),
        st.from_regex(PROJECT_KEY_PATTERN),
        st.from_regex(EMAIL_PATTERN),
    )
)
def test_find_functions_find_generated_matches(text: str) -> None:
    assert_agreement(text.encode("utf-8", "replace").decode())


@pytest.mark.parametrize(
    "piece", ["@", "%40", "a%40", "a@a.", "/home/", "Users", "/Users/A b ", "-home-"]
)
def test_repeated_near_misses_are_handled(piece: str) -> None:
    assert_agreement(piece * 2_000)
