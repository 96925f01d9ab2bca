"""Random tokens made from the examples in rules.toml."""

from __future__ import annotations

import re
import string
from collections.abc import Callable
from functools import partial
from random import Random

from bygones.redact.rules import load_rule_definitions

Maker = Callable[[Random], str]

_ALPHABETS = {
    "alnum": string.ascii_letters + string.digits,
    "base32": string.ascii_uppercase + "234567",
    "base64": string.ascii_letters + string.digits + "+/",
    "dashed": string.ascii_letters + string.digits + "_-",
    "digits": "123456789",
    "hex": "0123456789abcdef",
    "letters": string.ascii_letters,
    "upper": string.ascii_uppercase + string.digits,
}
RANDOM_PART = re.compile(r"\{(?:(\w+):(\d+))?\}")


def make_token(template: str, random: Random) -> str:
    """Replace {alphabet:length} by random characters, and {} by nothing."""
    return RANDOM_PART.sub(
        lambda part: (
            "".join(random.choices(_ALPHABETS[part[1]], k=int(part[2])))
            if part[1]
            else ""
        ),
        template,
    )


TEMPLATES: dict[str, tuple[str, ...]] = {
    rule.id: rule.examples for rule in load_rule_definitions()
}
EXAMPLES: dict[str, tuple[Maker, ...]] = {
    rule_id: tuple(partial(make_token, template) for template in templates)
    for rule_id, templates in TEMPLATES.items()
}
"""Functions that make tokens, by rule."""
COUNTEREXAMPLES: dict[str, tuple[str, ...]] = {
    rule.id: tuple(text.replace("{}", "") for text in rule.counterexamples)
    for rule in load_rule_definitions()
}
"""Texts similar to the tokens of a rule that must not be redacted."""
