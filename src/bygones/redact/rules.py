"""Rules that recognise secrets, loaded from rules.toml."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct

TOKEN_START = (
    r"(?:\b|_|\\[abefnrtv0]|\\u[0-9a-fA-F]{4}|\\x[0-9a-fA-F]{2}|%[0-9a-fA-F]{2}"
    r"|\[[0-9;]{0,10}m)"
)
"""Where a token may start: at a word boundary, or after an escape or color sequence.

Text that was encoded as JSON or as part of a URL contains such escapes.
"""
_RULES_FILE = Path(__file__).with_name("rules.toml")
_FRAGMENT = re.compile(r"\{([a-z_]+)\}")
_LEADING_BOUNDARY = re.compile(r"(\(\?\w+\))?\\b")
_CAPTURING_GROUP = re.compile(r"(?:^|[^\\])(?:\\\\)*\((?!\?)")


class Rule(Struct, frozen=True):
    """One pattern that recognises a kind of secret."""

    id: str
    pattern: str
    validator: str = ""
    """What else a match has to be: "mixed", "passphrase" or anything ("")."""
    prefilter: str = ""
    split_prefix: str = ""


class RuleDefinition(Struct, frozen=True, forbid_unknown_fields=True):
    """An entry of rules.toml; the header of that file explains the fields."""

    id: str
    examples: tuple[str, ...]
    counterexamples: tuple[str, ...]
    gitleaks_id: str = ""
    patterns: tuple[str, ...] = ()
    mixed_patterns: tuple[str, ...] = ()
    passphrase_patterns: tuple[str, ...] = ()
    prefilter: str = ""
    split_prefix: str = ""


class _RulesFile(Struct, frozen=True, forbid_unknown_fields=True):
    fragments: dict[str, str]
    rules: tuple[RuleDefinition, ...]


@cache
def load_rule_definitions() -> tuple[RuleDefinition, ...]:
    return _load_file().rules


@cache
def load_rules() -> tuple[Rule, ...]:
    file = _load_file()
    return tuple(
        Rule(
            definition.id,
            _allow_escape_before(_expand(pattern, file.fragments)),
            validator=validator,
            prefilter=_expand(definition.prefilter, file.fragments),
            split_prefix=definition.split_prefix,
        )
        for definition in file.rules
        for validator, patterns in (
            ("", definition.patterns),
            ("mixed", definition.mixed_patterns),
            ("passphrase", definition.passphrase_patterns),
        )
        for pattern in patterns
    )


@cache
def secret_field_pattern() -> re.Pattern[str]:
    """Match the name of a field that holds a secret."""
    fragments = _load_file().fragments
    return re.compile(_expand("(?i)(?:{password_word}|{secret_word})$", fragments))


@cache
def _load_file() -> _RulesFile:
    content = tomllib.loads(_RULES_FILE.read_text("utf-8"))
    return msgspec.convert(content, _RulesFile)


def _expand(pattern: str, fragments: Mapping[str, str]) -> str:
    return _FRAGMENT.sub(lambda name: _expand(fragments[name[1]], fragments), pattern)


def _allow_escape_before(pattern: str) -> str:
    """Let a pattern that starts at a word boundary also match after an escape."""
    boundary = _LEADING_BOUNDARY.match(pattern)
    if boundary is None:
        return pattern
    rest = pattern[boundary.end() :]
    group = rest if _CAPTURING_GROUP.search(rest) else f"({rest})"
    return f"{boundary[1] or ''}{TOKEN_START}{group}"
