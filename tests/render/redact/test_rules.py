"""Every family of secrets is found, and what only looks like one is not."""

from __future__ import annotations

from random import Random

import pytest

from recollect.render.redact import Redactor
from recollect.render.redact.rules import RULES, is_stand_in
from tests.render.redact.tokens import FAMILIES, INNOCENT

REDACTOR = Redactor()
KINDS = sorted({rule.name for rule in RULES})
ROUNDS = 40
SURROUNDINGS = (
    "{}",
    "I put {} into the settings.",
    '{{"key": "{}"}}',
    "line one\n+  {}\nline three",
    "curl -s '{}' | head",
)


def test_there_are_forty_families_and_each_has_values_for_and_against() -> None:
    assert len(KINDS) >= 40
    assert set(FAMILIES) == set(KINDS) == set(INNOCENT)


@pytest.mark.parametrize("kind", KINDS)
def test_a_secret_is_found_wherever_it_stands(kind: str) -> None:
    random = Random(kind)  # noqa: S311 (tokens of tests guard nothing)
    for make in FAMILIES[kind]:
        for surrounding in SURROUNDINGS:
            secret = make(random)

            found = REDACTOR.find(surrounding.format(secret))

            assert [one.kind for one in found] == [kind], secret


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_secret_is_left_alone(kind: str) -> None:
    for text in INNOCENT[kind]:
        assert REDACTOR.find(text) == ()


def test_of_a_thousand_planted_secrets_ten_may_be_missed_at_most() -> None:
    random = Random(1)  # noqa: S311 (tokens of tests guard nothing)
    makers = [make for makers in FAMILIES.values() for make in makers]
    planted = [
        random.choice(SURROUNDINGS).format(make(random))
        for make in makers
        for _ in range(ROUNDS)
    ]

    missed = [text for text in planted if not REDACTOR.find(text)]

    assert len(missed) <= len(planted) / 100


@pytest.mark.parametrize(
    "value", ["xxxxxxxxxxxxxxxx", "your-api-key-here", "example-token-1", "aaaabbbb"]
)
def test_a_stand_in_is_known(value: str) -> None:
    assert is_stand_in(value)
