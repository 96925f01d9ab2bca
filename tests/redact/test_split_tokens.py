"""Tokens that a line break or Markdown markup has split."""

from __future__ import annotations

import json
from random import Random

import pytest

from bygones.redact.engine import Redactor
from bygones.redact.json import redact_file
from bygones.redact.rules import load_rule_definitions
from tests.redact.tokens import EXAMPLES

REDACTOR = Redactor()
SPLITTABLE = sorted(rule.id for rule in load_rule_definitions() if rule.split_prefix)
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
@pytest.mark.parametrize("kind", SPLITTABLE)
def test_split_token_is_redacted_completely(kind: str, at: str) -> None:
    random = Random(kind + at)  # noqa: S311 (not used for security)
    for make in EXAMPLES[kind]:
        token = make(random)
        if token.startswith("sk-") and not token.startswith(("sk-ant", "sk-proj")):
            continue  # the prefix alone is too common
        # Somewhere after the prefix and before the end.
        place = random.randrange(min(12, len(token) // 2), len(token) - 8)
        text = f"see {token[:place]}{at}{token[place:]}\nand more"

        redacted = REDACTOR.redact_text(text)

        assert redacted == f"see [redacted {kind}]\nand more"
        # The prefilter must recognize the JSON line too.
        raw, _ = redact_file(json.dumps(text, ensure_ascii=False).encode(), REDACTOR)
        assert json.loads(raw or b"") == redacted


def test_token_with_an_escaped_underscore_is_redacted() -> None:
    assert REDACTOR.redact_text(KEY.replace("_", "\\_")) == "[redacted github-token]"


@pytest.mark.parametrize("after", ["\nnext", "\n\nThe end", " **bold**", "\n- item"])
def test_text_after_a_complete_token_is_kept(after: str) -> None:
    assert REDACTOR.redact_text(KEY + after) == f"[redacted github-token]{after}"


AFTER = (
    "a-plain-name",
    "ImportantWord",
    "Word\nthird",
    "node18-alpine",
    "getUserById2 x",
    "2026-11-16T",
)
FIXED_LENGTH = (
    "anthropic-key",
    "github-token",
    "gitlab-token",
    "jwt",
    "npm-token",
    "openai-key",
)


@pytest.mark.parametrize("after", AFTER)
@pytest.mark.parametrize("kind", SPLITTABLE)
def test_text_on_the_line_after_a_token_is_kept(kind: str, after: str) -> None:
    random = Random(kind + after)  # noqa: S311 (not used for security)
    for make in EXAMPLES[kind]:
        token = make(random)

        redacted = REDACTOR.redact_text(f"{token}\n{after} follows")

        assert redacted == f"[redacted {kind}]\n{after} follows"


@pytest.mark.parametrize("kind", FIXED_LENGTH)
def test_token_of_full_length_does_not_continue_on_the_next_line(kind: str) -> None:
    random = Random(kind)  # noqa: S311 (not used for security)
    token = EXAMPLES[kind][0](random)
    if kind == "openai-key":
        token = "sk-" + "proj-" + "a1B2c3D4" * 6
    next_line = "q8Zk3Lw0Vt7Xr2" * 2

    assert (
        REDACTOR.redact_text(f"{token}\n{next_line}")
        == f"[redacted {kind}]\n{next_line}"
    )


def test_hash_on_the_line_after_a_token_is_kept() -> None:
    token = "sk-" + "ant-" + "q8Zk3Lw0Vt7Xr2Ym" * 4

    assert REDACTOR.redact_text(f"{token}\n3f786850e387550f").endswith(
        "\n3f786850e387550f"
    )


def test_prefix_alone_is_not_a_token() -> None:
    text = "It begins with ghp_\nand has letters; npm_config is\nsomething else."

    assert REDACTOR.redact_text(text) == text
