"""Hiding what must not leave, in any text."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bygones.errors import InvalidRedactPattern
from bygones.redact.engine import Redaction, Redactor

KEY = "gh" + "p_" + "a1B2c3D4e5F6" * 3
REDACTOR = Redactor(names=["ada"])


def test_a_secret_gives_way_to_its_kind() -> None:
    told, found = REDACTOR.redact(f"use {KEY}!")

    assert told == "use [redacted github-token]!"
    assert found == (Redaction(4, 4 + len(KEY), "github-token"),)


def test_only_the_secret_part_of_an_address_goes() -> None:
    url = "postgres://app:" + "h4rdT0gu3ss" + "@db.internal/app"

    assert (
        REDACTOR.redact_text(url)
        == "postgres://app:[redacted url-password]@db.internal/app"
    )


def test_a_secret_inside_of_another_is_told_once() -> None:
    assert REDACTOR.redact_text(f"GITHUB_TOKEN={KEY}").count("redacted") == 1


def test_a_colour_inside_of_a_secret_does_not_save_it() -> None:
    assert KEY[10:] not in REDACTOR.redact_text(f"{KEY[:10]}\x1b[31m{KEY[10:]}")


def test_a_colour_inside_of_a_token_without_a_length_does_not_save_its_end() -> None:
    token = "sk-" + "ant-" + "q8Zk3Lw0Vt7Xr2Ym" * 4

    told = REDACTOR.redact_text(f"{token[:40]}\x1b[0m{token[40:]}")

    assert told == "[redacted anthropic-key]"


def test_own_patterns_hide_their_group() -> None:
    redactor = Redactor(patterns=[("ticket", r"\bACME-\d+"), ("pin", r"pin (\d{4})")])

    assert (
        redactor.redact_text("ACME-12, pin 1234")
        == "[redacted ticket], pin [redacted pin]"
    )


def test_a_pattern_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidRedactPattern, match=r"\(\?<=a\)b"):
        Redactor(patterns=[("odd", "(?<=a)b")])


@given(st.text())
def test_any_text_can_be_redacted(text: str) -> None:
    told, found = REDACTOR.redact(f"{text}\ud800 {KEY} {text}")

    assert KEY not in told
    assert found
    assert all(one.start < one.end for one in found)


@given(st.text(alphabet="ghp_aB1:/@.=-+ \n~", max_size=200))
def test_what_is_redacted_has_nothing_left_to_redact(text: str) -> None:
    told = REDACTOR.redact_text(text)

    assert REDACTOR.find(told) == ()


LONG = ("a" * 1_000_000, "sk-ant-" * 100_000, "@" * 500_000, "ghp_\n" * 20_000)


@pytest.mark.parametrize("text", LONG)
def test_no_text_takes_long(text: str) -> None:
    start = time.process_time()

    REDACTOR.find(text)

    assert time.process_time() - start < 2
