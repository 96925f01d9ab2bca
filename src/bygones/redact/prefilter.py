"""A look at a whole line as it is written, for anything that must be hidden.

Most lines hold nothing that must not leave. One pass over a line's bytes says so, and
its texts need not be looked at one by one. What the pass finds is only a sign: the
rules decide, on decoded text. It may see too much, and never too little.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntFlag
from functools import cache, cached_property, lru_cache, reduce
from operator import or_
from typing import NamedTuple

import re2

from bygones.redact.personal import is_identifying
from bygones.redact.rules import ASSIGNMENT_PATTERNS, RULES, SPACES, TOKEN_START
from bygones.redact.split_tokens import SPLITTABLE_PREFIXES

__all__ = ["LinePrefilter", "SensitiveKind", "matching_rules"]


class SensitiveKind(IntFlag):
    """What a line may hold."""

    NOTHING = 0
    HOME = 1
    PROJECT_KEY = 2
    EMAIL = 4
    NAME = 8
    PERSON = HOME | PROJECT_KEY | EMAIL | NAME
    SECRET = 16
    ANYTHING = PERSON | SECRET


_ESCAPED_WHITESPACE = r"(?:\\[nrtf]|\s)"
_ESCAPED_QUOTE = r"(?:\\*[\"'])?"
_JSON_SPELLINGS = (
    (TOKEN_START, ""),
    (r"\b", ""),
    (r"(?:^|[\s\"'`{,(])", ""),
    (r"(?:\\*[\"'])?", _ESCAPED_QUOTE),
    (r"[\"']?", _ESCAPED_QUOTE),
    (SPACES, rf"{_ESCAPED_WHITESPACE}{{0,3}}"),
    (r"\s{0,3}", rf"{_ESCAPED_WHITESPACE}{{0,3}}"),
    (r"\s+", rf"{_ESCAPED_WHITESPACE}+"),
)
"""What a rule asks of decoded text, and what that is in a line at most.

A blank may be written as ``\\n`` and a quote behind a backslash; what comes before a
word may be the letter of such an escape, so that no word seems to begin.
"""
_PREFILTER_OVERRIDES = {
    "airtable-token": r"\.[0-9a-f]{64}",
    "azure-client-secret": r"8Q~[A-Za-z0-9_~.-]{31}",
    "discord-token": r"\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27}",
    "mailchimp-key": r"[0-9a-f]-us\d",
    "telegram-token": r":AA[A-Za-z0-9_-]{33}",
    "terraform-token": r"\.atlasv1\.",
    "private-key": r"-----(?:BEGIN|END) [A-Z0-9 ]*PRIVATE KEY",
    "url-password": r"://[^\s:/]*:[^\s/]{3,}@[A-Za-z0-9\[]",
    "netrc-password": (
        rf"machine{_ESCAPED_WHITESPACE}+\S+?{_ESCAPED_WHITESPACE}+login"
        rf"{_ESCAPED_WHITESPACE}"
    ),
    **ASSIGNMENT_PATTERNS,
    **SPLITTABLE_PREFIXES,
}
"""Signs of rules that begin with anything, or reach over signs written otherwise.

What begins with anything could begin everywhere: a pass would follow it from each
sign of a line at once.
"""
_PERSONAL_PATTERNS = {
    r"/home/(?:[A-Za-z0-9._-]|[^\x00-\x7f])": SensitiveKind.HOME,
    r"[\\/]Users[\\/]": SensitiveKind.HOME,
    r"-(?:home|Users)-[A-Za-z0-9]": SensitiveKind.PROJECT_KEY,
    # The letter before the @ is one, and not that of an escape such as \n.
    r"(?:(?:[^\\]|\\\\)[A-Za-z0-9._%+-]|[^\x00-\x7f])"
    r"(?:@|%40)(?:(?:[A-Za-z0-9-]|[^\x00-\x7f])+\.)+[A-Za-z]{2}": SensitiveKind.EMAIL,
}
_ESCAPE_PATTERNS = (r"[^\\](?:\\\\)*\\u", r"\\/")
"""Signs that may be written plainly, and are not: anything may be spelled by them."""
_RE2_MAX_MEMORY = 64 * 1024 * 1024
_ESCAPED_CHARS = frozenset('"\\/')
"""Signs that a line may hold in another spelling."""


class LinePrefilter:
    """Knows the signs of all rules, of persons, and of these names."""

    def __init__(self, names: Iterable[str]) -> None:
        self._prefilters = _prefilter_set()
        telling = sorted(filter(is_identifying, names))
        self._is_plain = all(
            name.isprintable() and _ESCAPED_CHARS.isdisjoint(name) for name in telling
        )
        self._identifying_names = telling
        self._lowercase_names = [
            name.lower().encode() for name in telling if name.isascii()
        ]
        self._is_ascii = len(self._lowercase_names) == len(telling)
        self._cached_combine = cache(self._combine_kinds)

    def scan(self, line: bytes) -> SensitiveKind:
        """Return what a line of JSON may hold, in whatever text of it."""
        if not self._is_plain:
            return SensitiveKind.ANYTHING
        met = self._prefilters.patterns.Match(line)
        seen = self._cached_combine(tuple(met)) if met else SensitiveKind.NOTHING
        is_named = seen is not SensitiveKind.ANYTHING and self._contains_name(line)
        return seen | SensitiveKind.NAME if is_named else seen

    def _combine_kinds(self, met: tuple[int, ...]) -> SensitiveKind:
        seen = reduce(or_, (self._prefilters.kinds[number] for number in met))
        return SensitiveKind.ANYTHING if seen >= SensitiveKind.SECRET else seen

    def _contains_name(self, line: bytes) -> bool:
        if not self._identifying_names:
            return False
        if self._is_ascii and line.isascii():
            # The usual case; other letters may be capitals of a name's too.
            lowered = line.lower()
            return any(name in lowered for name in self._lowercase_names)
        return bool(self._names.Match(line))

    @cached_property
    def _names(self) -> re2.Set:
        return _compile_set(
            f"(?i){re2.escape(name)}" for name in self._identifying_names
        )


def matching_rules(text: str | bytes) -> list[int]:
    """Return the numbers of rules that may find something in a decoded text.

    The signs of a rule are shorter than the rule, and met in fewer states: a pass with
    the rules themselves took five times as long, and forty megabytes.
    """
    known = _prefilter_set()
    met = known.patterns.Match(text)
    return sorted({one for sign in met for one in known.rules[sign]}) if met else []


class _PrefilterSet(NamedTuple):
    """The signs of secrets and of persons."""

    patterns: re2.Set
    kinds: list[SensitiveKind]
    """What each is a sign of; one in another spelling may be part of anything."""
    rules: list[tuple[int, ...]]
    """The rules that each is a sign of."""


@lru_cache(maxsize=1)
def _prefilter_set() -> _PrefilterSet:
    rules: dict[str, tuple[int, ...]] = {}
    for number, rule in enumerate(RULES):
        sign = _PREFILTER_OVERRIDES.get(rule.name) or _json_pattern(rule.pattern)
        rules[sign] = (*rules.get(sign, ()), number)
    kinds = (
        dict.fromkeys((*rules, *_ESCAPE_PATTERNS), SensitiveKind.SECRET)
        | _PERSONAL_PATTERNS
    )
    return _PrefilterSet(
        _compile_set(kinds),
        list(kinds.values()),
        [rules.get(sign, ()) for sign in kinds],
    )


def _json_pattern(pattern: str) -> str:
    for asked, written in _JSON_SPELLINGS:
        pattern = pattern.replace(asked, written)
    return pattern


def _compile_set(patterns: Iterable[str]) -> re2.Set:
    options = re2.Options()
    options.max_mem = _RE2_MAX_MEMORY
    options.log_errors = False
    made = re2.Set.SearchSet(options)
    for pattern in patterns:
        made.Add(pattern)
    made.Compile()
    return made
