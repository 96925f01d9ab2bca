"""Redacting text."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bygones.errors import InvalidRedactPattern
from bygones.redact.engine import Redaction, Redactor

KEY = "gh" + "p_" + "a1B2c3D4e5F6" * 3
REDACTOR = Redactor(names=["ada"])


def test_secret_is_replaced_by_its_kind() -> None:
    redacted, redactions = REDACTOR.redact(f"use {KEY}!")

    assert redacted == "use [redacted github-token]!"
    assert redactions == (Redaction(4, 4 + len(KEY), "github-token"),)


def test_positions_are_those_of_characters_in_any_script() -> None:
    start = "Schlüssel 🔑 "

    redacted, redactions = REDACTOR.redact(f"{start}{KEY} für 日本 {KEY}!")

    hidden = "[redacted github-token]"
    assert redacted == f"{start}{hidden} für 日本 {hidden}!"
    assert redactions[0] == Redaction(len(start), len(start) + len(KEY), "github-token")


def test_only_the_password_of_a_url_is_redacted() -> None:
    url = "postgres://app:" + "h4rdT0gu3ss" + "@db.internal/app"

    assert (
        REDACTOR.redact_text(url)
        == "postgres://app:[redacted url-password]@db.internal/app"
    )


def test_overlapping_secrets_are_redacted_once() -> None:
    assert REDACTOR.redact_text(f"GITHUB_TOKEN={KEY}").count("redacted") == 1


def test_secret_with_a_color_sequence_is_redacted() -> None:
    assert KEY[10:] not in REDACTOR.redact_text(f"{KEY[:10]}\x1b[31m{KEY[10:]}")


def test_variable_length_token_with_a_color_sequence_is_redacted() -> None:
    token = "sk-" + "ant-" + "q8Zk3Lw0Vt7Xr2Ym" * 4

    redacted = REDACTOR.redact_text(f"{token[:40]}\x1b[0m{token[40:]}")

    assert redacted == "[redacted anthropic-key]"


def test_user_patterns_redact_their_group() -> None:
    redactor = Redactor(patterns=[("ticket", r"\bACME-\d+"), ("pin", r"pin (\d{4})")])

    assert (
        redactor.redact_text("ACME-12, pin 1234")
        == "[redacted ticket], pin [redacted pin]"
    )


def test_invalid_pattern_is_rejected() -> None:
    with pytest.raises(InvalidRedactPattern, match=r"\(\?<=a\)b"):
        Redactor(patterns=[("odd", "(?<=a)b")])


@given(st.text())
def test_any_text_can_be_redacted(text: str) -> None:
    redacted, redactions = REDACTOR.redact(f"{text}\ud800 {KEY} {text}")

    assert KEY not in redacted
    assert redactions
    assert all(redactions.start < redactions.end for redactions in redactions)


@given(st.text(alphabet="ghp_aB1:/@.=-+ \n~", max_size=200))
def test_redacting_twice_changes_nothing(text: str) -> None:
    redacted = REDACTOR.redact_text(text)

    assert REDACTOR.find(redacted) == ()


LONG = ("a" * 1_000_000, "sk-ant-" * 100_000, "@" * 500_000, "ghp_\n" * 20_000)


@pytest.mark.parametrize("text", LONG)
def test_hostile_text_is_redacted_in_linear_time(text: str) -> None:
    start = time.process_time()

    REDACTOR.find(text)

    assert time.process_time() - start < 2
