"""Every family of secrets is found, and what only looks like one is not."""

from __future__ import annotations

import re
from random import Random

import pytest

from bygones.redact.engine import Redactor
from bygones.redact.rules import RULES, TOKEN_START, is_mixed_value, is_placeholder
from tests.redact.tokens import FAMILIES, INNOCENT

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


BEFORE = ("\\n", "\\t", "\\u0022", "\\x3d", "%3D", "%20", "_", "-", ".", "[0m", "é")
"""What text that was written as JSON, or as an address, has directly before a token."""


@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize(
    "kind",
    ["github-token", "anthropic-key", "aws-key-id", "slack-token", "jwt", "stripe-key"],
)
def test_a_token_is_hidden_behind_an_escape(kind: str, before: str) -> None:
    random = Random(kind)  # noqa: S311 (tokens of tests guard nothing)
    for make in FAMILIES[kind]:
        told = REDACTOR.redact_text(f"a{before}{make(random)}")

        assert told == f"a{before}[redacted {kind}]"


@pytest.mark.parametrize("value", ["aB3$xY9!kL2", "Sup3r&S%99(x)", "a,b;c*d|e1f"])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("DB_PASSWORD=", " x"),
        ("PGPASSWORD='", "' psql"),
        ('MYSQL_PWD="', '" mysql'),
        ('{"run": "API_TOKEN=\\"', '\\""}'),
        ('"password": "', '", "user": "ada"'),
        ("password: ", "\nuser: ada"),
    ],
)
def test_a_password_is_hidden_to_its_end(value: str, before: str, after: str) -> None:
    told = REDACTOR.redact_text(f"{before}{value}{after}")

    assert re.sub(r"\[redacted [a-z-]+\]", "*", told) == f"{before}*{after}"


@pytest.mark.parametrize("value", ["hunter2hunter2", "with!signs", "4f9a8b7c6d5e"])
def test_what_is_mixed_may_be_a_secret(value: str) -> None:
    assert is_mixed_value(value)


@pytest.mark.parametrize(
    "value", ["short1", "only-words_here", "12345678", "a b1 c2", "sk-1-real-key"]
)
def test_what_is_not_mixed_is_none(value: str) -> None:
    assert not is_mixed_value(value)


@pytest.mark.parametrize(
    "value", ["xxxxxxxxxxxxxxxx", "your-api-key-here", "example-token-1", "aaaabbbb"]
)
def test_a_stand_in_is_known(value: str) -> None:
    assert is_placeholder(value)


@pytest.mark.parametrize("word", ["example", "EXAMPLE", "12345678901", "xxxx", "dummy"])
def test_a_token_with_the_word_of_a_stand_in_is_hidden(word: str) -> None:
    token = "gh" + "p_" + (word + "q8Zk3Lw0Vt7Xr2Ym5Nb9Hc4Jd6Fs1Gp8Ta3")[:36]

    assert REDACTOR.redact_text(f"use {token}") == "use [redacted github-token]"


@pytest.mark.parametrize(
    "value",
    [
        "wJalrXUtnFEMI/K7MDENG/bPxRfiCY" + "EXAMPLEKEY",
        "ghp_1234567890" + "abcdefghijklmnopqrstuvwxyz",
        "sk-1234567890abcdef" + "1234567890abcdef",
        "an example, and q8Zk3Lw0Vt7Xr2Ym5Nb9 in a text",
    ],
)
def test_what_is_a_stand_in_as_a_whole_stays(value: str) -> None:
    assert is_placeholder(value)


def test_a_token_with_a_few_x_in_it_is_hidden() -> None:
    key = "sk-" + "ant-api03-q8Zk3Lw0VxxxxXr2Ym5Nb9Hc4Jd6Fs"

    assert REDACTOR.redact_text(key) == "[redacted anthropic-key]"
    assert is_placeholder("sk-" + "ant-api03-xxxx-xxxx-xxxx-xxxx")


@pytest.mark.parametrize("quote", ["'", '"', '\\"'])
@pytest.mark.parametrize(
    "value", ["correct horse battery staple", "Purple monkey dishwasher!"]
)
def test_words_that_nobody_would_say_are_a_password(value: str, quote: str) -> None:
    told = REDACTOR.redact_text(f"db_password = {quote}{value}{quote}, next")

    assert told == f"db_password = {quote}[redacted named-secret]{quote}, next"


@pytest.mark.parametrize(
    "value",
    [
        "must be at least 8 characters",
        "Enter a strong one",
        "incorrect password or user",
        "two words",
        "f(x) + g(y) - h",
    ],
)
def test_what_is_said_of_a_password_stays(value: str) -> None:
    text = f'password: "{value}"'

    assert REDACTOR.redact_text(text) == text


@pytest.mark.parametrize("quote", ["'", '"'])
def test_a_password_with_blanks_is_hidden_where_a_program_takes_it(quote: str) -> None:
    told = REDACTOR.redact_text(f"mysqldump -uroot -p{quote}but ter fly{quote} shop")

    assert told == f"mysqldump -uroot -p{quote}[redacted option-secret]{quote} shop"


def test_a_rule_hides_one_group_if_it_begins_behind_an_escape() -> None:
    groups = {
        rule.pattern: re.compile(rule.pattern).groups
        for rule in RULES
        if TOKEN_START in rule.pattern
    }

    assert set(groups.values()) == {1}
