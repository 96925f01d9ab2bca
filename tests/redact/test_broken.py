"""Tokens that a line's end or a sign of Markdown has broken in two."""

from __future__ import annotations

import json
from random import Random

import pytest

from bygones.redact.engine import Redactor
from bygones.redact.json import redact_line
from bygones.redact.split_tokens import SPLITTABLE_PREFIXES
from tests.redact.tokens import FAMILIES

REDACTOR = Redactor()
BREAKS = (
    "\n",
    "\r\n",
    "\\\n",
    "\n    ",
    "\n+   ",
    "\n> ",
    "\n  2\u2192",
    "**",
    "\u200b",
    "\u00ad",
    "&#8203;",
    "&#x200B;",
    "&shy;",
)
KEY = "gh" + "p_" + "a1B2c3D4e5F6" * 3


@pytest.mark.parametrize("at", BREAKS)
@pytest.mark.parametrize("kind", sorted(SPLITTABLE_PREFIXES))
def test_a_broken_token_is_hidden_whole(kind: str, at: str) -> None:
    random = Random(kind + at)  # noqa: S311 (tokens of tests guard nothing)
    for make in FAMILIES[kind]:
        token = make(random)
        if token.startswith("sk-") and not token.startswith(("sk-ant", "sk-proj")):
            continue  # begins as many words do
        # Behind what it begins with, and with some of it left.
        place = random.randrange(min(12, len(token) // 2), len(token) - 8)
        text = f"see {token[:place]}{at}{token[place:]}\nand more"

        told = REDACTOR.redact_text(text)

        assert told == f"see [redacted {kind}]\nand more"
        # The line as it is written must show a sign of it too.
        raw, _ = redact_line(json.dumps(text, ensure_ascii=False).encode(), REDACTOR)
        assert json.loads(raw or b"") == told


def test_an_escaped_sign_does_not_save_a_token() -> None:
    assert REDACTOR.redact_text(KEY.replace("_", "\\_")) == "[redacted github-token]"


@pytest.mark.parametrize("after", ["\nnext", "\n\nThe end", " **bold**", "\n- item"])
def test_what_follows_a_whole_token_stays(after: str) -> None:
    assert REDACTOR.redact_text(KEY + after) == f"[redacted github-token]{after}"


AFTER = (
    "a-plain-name",
    "ImportantWord",
    "Word\nthird",
    "node18-alpine",
    "getUserById2 x",
    "2026-11-16T",
)
WHOLE = (
    "anthropic-key",
    "github-token",
    "gitlab-token",
    "jwt",
    "npm-token",
    "openai-key",
)


@pytest.mark.parametrize("after", AFTER)
@pytest.mark.parametrize("kind", sorted(SPLITTABLE_PREFIXES))
def test_text_in_the_line_behind_a_token_stays(kind: str, after: str) -> None:
    random = Random(kind + after)  # noqa: S311 (tokens of tests guard nothing)
    for make in FAMILIES[kind]:
        token = make(random)

        told = REDACTOR.redact_text(f"{token}\n{after} follows")

        assert told == f"[redacted {kind}]\n{after} follows"


@pytest.mark.parametrize("kind", WHOLE)
def test_a_token_of_full_length_takes_nothing_from_the_next_line(kind: str) -> None:
    random = Random(kind)  # noqa: S311 (tokens of tests guard nothing)
    token = FAMILIES[kind][0](random)
    if kind == "openai-key":
        token = "sk-" + "proj-" + "a1B2c3D4" * 6
    beside = "q8Zk3Lw0Vt7Xr2" * 2

    assert REDACTOR.redact_text(f"{token}\n{beside}") == f"[redacted {kind}]\n{beside}"


def test_a_hash_in_the_line_behind_a_token_stays() -> None:
    token = "sk-" + "ant-" + "q8Zk3Lw0Vt7Xr2Ym" * 4

    assert REDACTOR.redact_text(f"{token}\n3f786850e387550f").endswith(
        "\n3f786850e387550f"
    )


def test_a_beginning_alone_is_no_token() -> None:
    text = "It begins with ghp_\nand has letters; npm_config is\nsomething else."

    assert REDACTOR.redact_text(text) == text
