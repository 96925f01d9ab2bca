"""Each rule redacts its examples and leaves its counterexamples alone."""

from __future__ import annotations

import json
import re
from random import Random

import pytest

from bygones.redact.engine import Redactor
from bygones.redact.rules import (
    TOKEN_START,
    is_mixed_value,
    is_placeholder,
    load_rule_definitions,
    load_rules,
)
from tests.redact.tokens import (
    COUNTEREXAMPLES,
    EXAMPLES,
    RANDOM_PART,
    TEMPLATES,
    make_token,
)

REDACTOR = Redactor()
RULE_IDS = [rule.id for rule in load_rule_definitions()]
ROUNDS = 40
SURROUNDINGS = (
    "{}",
    "I put {} into the settings.",
    '{{"key": "{}"}}',
    "line one\n+  {}\nline three",
    "curl -s '{}' | head",
)


def test_every_rule_has_a_unique_id_examples_and_counterexamples() -> None:
    definitions = load_rule_definitions()

    assert len({rule.id for rule in definitions}) == len(definitions) >= 40
    assert all(rule.examples and rule.counterexamples for rule in definitions)
    assert {rule.id for rule in load_rules()} == {rule.id for rule in definitions}


@pytest.mark.parametrize("rule_id", RULE_IDS)
def test_rule_redacts_its_examples_only(rule_id: str) -> None:
    random = Random(rule_id)  # noqa: S311 (not used for security)
    for make in EXAMPLES[rule_id]:
        for surrounding in SURROUNDINGS:
            secret = make(random)

            redactions = REDACTOR.find(surrounding.format(secret))

            assert [found.kind for found in redactions] == [rule_id], secret

    for text in COUNTEREXAMPLES[rule_id]:
        assert REDACTOR.find(text) == (), text


def test_at_most_one_percent_of_planted_secrets_is_missed() -> None:
    random = Random(1)  # noqa: S311 (not used for security)
    makers = [make for makers in EXAMPLES.values() for make in makers]
    planted = [
        random.choice(SURROUNDINGS).format(make(random))
        for make in makers
        for _ in range(ROUNDS)
    ]

    missed = [text for text in planted if not REDACTOR.find(text)]

    assert len(missed) <= len(planted) / 100


@pytest.mark.parametrize("rule_id", RULE_IDS)
@pytest.mark.parametrize("space", ["\n", "\t"])
def test_escapes_around_or_instead_of_a_secret_stay_whole(
    rule_id: str, space: str
) -> None:
    random = Random(rule_id)  # noqa: S311 (not used for security)
    for template in TEMPLATES[rule_id]:
        secret = make_token(template, random)
        # An empty setting, followed by others.
        empty = RANDOM_PART.sub(f"{space}MODE=shop-2024x", template)
        for text in (f"a{space}{secret}{space}b", empty):
            document = json.dumps({"stdout": json.dumps({"text": text})})

            json.loads(json.loads(REDACTOR.redact_text(document))["stdout"])


BEFORE = ("\\n", "\\t", "\\u0022", "\\x3d", "%3D", "%20", "_", "-", ".", "[0m", "é")
"""What may directly precede a token in text that was encoded as JSON or as a URL."""


@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize(
    "kind",
    ["github-token", "anthropic-key", "aws-key-id", "slack-token", "jwt", "stripe-key"],
)
def test_token_after_an_escape_is_redacted(kind: str, before: str) -> None:
    random = Random(kind)  # noqa: S311 (not used for security)
    for make in EXAMPLES[kind]:
        redacted = REDACTOR.redact_text(f"a{before}{make(random)}")

        assert redacted == f"a{before}[redacted {kind}]"


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
def test_password_is_redacted_completely(value: str, before: str, after: str) -> None:
    redacted = REDACTOR.redact_text(f"{before}{value}{after}")

    assert re.sub(r"\[redacted [a-z-]+\]", "*", redacted) == f"{before}*{after}"


@pytest.mark.parametrize("value", ["hunter2hunter2", "with!signs", "4f9a8b7c6d5e"])
def test_mixed_value_may_be_a_secret(value: str) -> None:
    assert is_mixed_value(value)


@pytest.mark.parametrize(
    "value", ["short1", "only-words_here", "12345678", "a b1 c2", "sk-1-real-key"]
)
def test_value_that_is_not_mixed_is_not_a_secret(value: str) -> None:
    assert not is_mixed_value(value)


@pytest.mark.parametrize(
    "value", ["xxxxxxxxxxxxxxxx", "your-api-key-here", "example-token-1", "aaaabbbb"]
)
def test_placeholder_is_recognized(value: str) -> None:
    assert is_placeholder(value)


@pytest.mark.parametrize(
    "text",
    [
        "password: argon2id (m=65536,t=3,p=4)",
        "Password: PBKDF2-HMAC-SHA256",
        "key exchange: X25519, cipher: xchacha20-poly1305",
        "Symmetric Encryption Key: ChaCha20",
        "token lifetime: 15min30s",
        "session token: 1h30m15s.",
        "access_token=PT15M30S",
        "secret: 2026-01-31T08:15:00.123Z",
        "sed -i 's/password: .*1/password: x/' a.yml",
        "docker run -p 8080:80/tcp x",
        "credentials: aws / eu-central-1",
        "'password' => 'required|min:8|confirmed'",
        "secret: arn:aws:secretsmanager:eu-west-1:123:secret:a1",
    ],
)
def test_algorithm_or_time_after_a_word_for_secrets_is_kept(text: str) -> None:
    assert REDACTOR.redact_text(text) == text


@pytest.mark.parametrize("word", ["example", "EXAMPLE", "12345678901", "xxxx", "dummy"])
def test_token_that_contains_a_placeholder_word_is_redacted(word: str) -> None:
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
def test_example_token_is_a_placeholder(value: str) -> None:
    assert is_placeholder(value)


def test_token_with_a_few_x_is_redacted() -> None:
    key = "sk-" + "ant-api03-q8Zk3Lw0VxxxxXr2Ym5Nb9Hc4Jd6Fs"

    assert REDACTOR.redact_text(key) == "[redacted anthropic-key]"
    assert is_placeholder("sk-" + "ant-api03-xxxx-xxxx-xxxx-xxxx")


@pytest.mark.parametrize("quote", ["'", '"', '\\"'])
@pytest.mark.parametrize(
    "value", ["correct horse battery staple", "Purple monkey dishwasher!"]
)
def test_passphrase_is_redacted(value: str, quote: str) -> None:
    redacted = REDACTOR.redact_text(f"db_password = {quote}{value}{quote}, next")

    assert redacted == f"db_password = {quote}[redacted named-secret]{quote}, next"


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
def test_sentence_about_a_password_is_kept(value: str) -> None:
    text = f'password: "{value}"'

    assert REDACTOR.redact_text(text) == text


@pytest.mark.parametrize("quote", ["'", '"'])
def test_password_option_with_spaces_is_redacted(quote: str) -> None:
    redacted = REDACTOR.redact_text(
        f"mysqldump -uroot -p{quote}but ter fly{quote} shop"
    )

    assert redacted == f"mysqldump -uroot -p{quote}[redacted option-secret]{quote} shop"


def test_rule_that_may_follow_an_escape_has_one_group() -> None:
    groups = {
        rule.pattern: re.compile(rule.pattern).groups
        for rule in load_rules()
        if TOKEN_START in rule.pattern
    }

    assert set(groups.values()) == {1}


@pytest.mark.parametrize("line_break", ["\n", "\\n", "\r\n\t"])
def test_passwords_of_all_accounts_in_a_heredoc_are_redacted(line_break: str) -> None:
    lines = ["chpasswd <<'EOF'", "root:butterfly", "ada:lighthouse", "bob:snowman7"]
    text = line_break.join([*lines, "EOF", "ls -a"])

    redacted = REDACTOR.redact_text(text)

    assert not re.search("butterfly|lighthouse|snowman7", redacted), redacted
    assert redacted.endswith(line_break.join(["", "EOF", "ls -a"]))


def test_variables_for_accounts_in_a_heredoc_are_kept() -> None:
    text = "chpasswd <<EOF\nroot:$ROOT_PW\nada:$ADA_PW\nEOF\nls\n"

    assert REDACTOR.redact_text(text) == text
