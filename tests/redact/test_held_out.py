"""Redaction finds most secrets of families that no rule was written for."""

from __future__ import annotations

from random import Random

import pytest

from bygones.redact.engine import Redactor
from tests.redact.measure import SETS, missed_families, wrongly_redacted
from tests.redact.tokens import make_token

REDACTOR = Redactor()
ROUNDS = 3
MIN_RECALL = 0.8
MAX_WRONG = 0.01


@pytest.mark.parametrize("name", SETS)
def test_most_secrets_of_unknown_families_are_redacted(name: str) -> None:
    missed = missed_families(SETS[name], ROUNDS)
    recall = 1 - missed.total() / (ROUNDS * len(missed))

    assert recall >= MIN_RECALL, sorted(name for name in missed if missed[name])


def test_text_without_secrets_is_kept() -> None:
    wrong = wrongly_redacted(ROUNDS)

    assert wrong.total() <= MAX_WRONG * ROUNDS * len(wrong), +wrong


@pytest.mark.parametrize(
    "joint", ['" + "', '" +\n    "', "'\n    '", '" \\\n  "', '"\n  + "', "' . '", '""']
)
def test_token_that_code_joins_is_redacted(joint: str) -> None:
    random = Random(joint)  # noqa: S311 (not used for security)
    token = make_token("ghp_{alnum:36}", random)
    quote = joint[0]
    text = f"token = {quote}{token[:15]}{joint}{token[15:]}{joint[-1]}\n"

    redacted = REDACTOR.redact_text(text)

    assert token[:15] not in redacted
    assert token[15:] not in redacted
