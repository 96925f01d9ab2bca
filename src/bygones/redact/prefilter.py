"""Find out cheaply whether a JSON line can contain anything to redact.

Most lines contain nothing. One pass over the bytes of a line shows that, and its
texts need not be decoded and searched one by one. The prefilter may report too much,
because the rules decide on the decoded text, but it must never report too little.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import IntFlag
from functools import cache, cached_property, lru_cache, reduce
from operator import or_
from typing import Any, NamedTuple

import re2

from bygones.redact.personal import is_identifying
from bygones.redact.rules import TOKEN_START, expand, load_rules


class SensitiveKind(IntFlag):
    """What a line may contain."""

    NOTHING = 0
    HOME = 1
    PROJECT_KEY = 2
    EMAIL = 4
    NAME = 8
    PERSON = HOME | PROJECT_KEY | EMAIL | NAME
    RANDOM = 16
    """Random characters after a word that announces a secret."""
    SECRET = 32
    ANYTHING = PERSON | RANDOM | SECRET


_JSON_WHITESPACE = r"(?:\\[nrtf]|\s)"
_JSON_QUOTE = r"(?:\\*[\"'])?"
_JSON_SPELLINGS = (
    (TOKEN_START, ""),
    (r"\b", ""),
    (r"(?:^|[\s\"'`{,(])", ""),
    (r"(?:\\*[\"'])?", _JSON_QUOTE),
    (r"[\"']?", _JSON_QUOTE),
    (r"[ \t]{0,3}", rf"{_JSON_WHITESPACE}{{0,3}}"),
    (r"\s{0,3}", rf"{_JSON_WHITESPACE}{{0,3}}"),
    (r"\s+", rf"{_JSON_WHITESPACE}+"),
)
"""Parts of rules, and the same for text that is encoded as JSON.

Whitespace may be written as ``\\n`` and a quote after a backslash. The letter of such an
escape may precede a word, so word boundaries are dropped.
"""
_PERSONAL_PATTERNS = {
    r"/home/(?:[A-Za-z0-9._%\\-]|[^\x00-\x7f])": SensitiveKind.HOME,
    r"[\\/](?:Users|USERS|users)[\\/]": SensitiveKind.HOME,
    r"wsl(?:\$|\.localhost)[\\/]": SensitiveKind.HOME,
    r"-(?:home|Users)-[A-Za-z0-9]": SensitiveKind.PROJECT_KEY,
    # The letter before the @ must not be part of an escape such as \n.
    r"(?:(?:[^\\]|\\\\)[A-Za-z0-9._%+-]|[^\x00-\x7f])"
    r"(?:@|%40)(?:(?:[A-Za-z0-9-]|[^\x00-\x7f])+\.)+[A-Za-z]{2}": SensitiveKind.EMAIL,
}
_ESCAPE_PATTERNS = (r"[^\\](?:\\\\)*\\u", r"\\/")
"""Escapes that JSON does not require. Any text can be written with them."""
_RE2_MAX_MEMORY = 64 * 1024 * 1024
_MIN_ENCODED_LENGTH = 1000
_BASE64_TEXT = re.compile(r"[A-Za-z0-9+/]*={0,2}")
_BASE64_BYTES = re.compile(_BASE64_TEXT.pattern.encode())
_NOTHING = SensitiveKind.NOTHING
_ESCAPED_CHARS = frozenset('"\\/')
"""Characters that JSON may escape."""


class LinePrefilter:
    """Checks lines for secrets, personal data and the given names.

    ``words`` are other texts to look for, however common they are.
    """

    def __init__(self, names: Iterable[str], words: Iterable[str] = ()) -> None:
        self._prefilters = _prefilter_set()
        identifying = sorted({*filter(is_identifying, names), *words})
        self._is_plain = all(
            name.isprintable() and _ESCAPED_CHARS.isdisjoint(name)
            for name in identifying
        )
        self._identifying_names = identifying
        self._lowercase_names = [
            name.lower().encode() for name in identifying if name.isascii()
        ]
        self._is_ascii = len(self._lowercase_names) == len(identifying)
        self._cached_combine = cache(self._combine_kinds)

    def scan(self, line: bytes) -> SensitiveKind:
        """Return what the strings of a JSON line may contain."""
        if not self._is_plain:
            return SensitiveKind.ANYTHING
        matches = self._prefilters.patterns.Match(line)
        kinds = self._cached_combine(tuple(matches)) if matches else _NOTHING
        if kinds is SensitiveKind.ANYTHING:
            return kinds
        # If there may be a secret, all rules are tried anyway.
        is_secret = kinds & SensitiveKind.SECRET
        if not is_secret and self._prefilters.near_in_json.search(line):
            kinds |= SensitiveKind.RANDOM
        if self._contains_name(line):
            kinds |= SensitiveKind.NAME
        return kinds

    def _combine_kinds(self, matches: tuple[int, ...]) -> SensitiveKind:
        return reduce(or_, (self._prefilters.kinds[number] for number in matches))

    def _contains_name(self, line: bytes) -> bool:
        if not self._identifying_names:
            return False
        if self._is_ascii and line.isascii():
            # Faster. Non-ASCII letters may be the upper case of an ASCII letter.
            lowered = line.lower()
            return any(name in lowered for name in self._lowercase_names)
        return bool(self._names.Match(line))

    @cached_property
    def _names(self) -> re2.Set:
        return compile_set(
            f"(?i){re2.escape(name)}" for name in self._identifying_names
        )


def matching_rules(text: str | bytes) -> list[int]:
    """Return the numbers of the rules that may match a decoded text.

    Uses the prefilters instead of the rules themselves: those would take five times as
    long and 40 MB of memory.
    """
    if _is_encoded(text):
        return []
    prefilters = _prefilter_set()
    matches = prefilters.patterns.Match(text) or ()
    numbers = {rule for match in matches for rule in prefilters.rules[match]}
    return sorted(numbers.union(matching_near_rules(text)))


def matching_near_rules(text: str | bytes) -> tuple[int, ...]:
    """Return the numbers of the rules for values near a word, if they may match."""
    if _is_encoded(text):
        return ()
    prefilters = _prefilter_set()
    return prefilters.near_rules if prefilters.near_in_text.search(text) else ()


def _is_encoded(text: str | bytes) -> bool:
    """Whether a text is encoded content, such as an image, and nothing else."""
    if len(text) < _MIN_ENCODED_LENGTH:
        return False
    if isinstance(text, bytes):
        return _BASE64_BYTES.fullmatch(text) is not None
    return _BASE64_TEXT.fullmatch(text) is not None


class _PrefilterSet(NamedTuple):
    patterns: re2.Set
    kinds: list[SensitiveKind]
    """What each pattern can be part of."""
    rules: list[tuple[int, ...]]
    """The rules that each pattern is the prefilter of."""
    near_rules: tuple[int, ...]
    """Rules for values near a word. One pass of their own is faster."""
    near_in_json: Any
    near_in_text: Any


@lru_cache(maxsize=1)
def _prefilter_set() -> _PrefilterSet:
    rules: dict[str, tuple[int, ...]] = {}
    near_rules = []
    for number, rule in enumerate(load_rules()):
        if rule.near and not rule.prefilter:
            near_rules.append(number)
            continue
        pattern = rule.prefilter or rule.split_prefix or _json_pattern(rule.pattern)
        rules[pattern] = (*rules.get(pattern, ()), number)
    kinds = (
        dict.fromkeys(rules, SensitiveKind.SECRET)
        | dict.fromkeys(_ESCAPE_PATTERNS, SensitiveKind.ANYTHING)
        | _PERSONAL_PATTERNS
    )
    return _PrefilterSet(
        compile_set(kinds),
        list(kinds.values()),
        [rules.get(pattern, ()) for pattern in kinds],
        tuple(near_rules),
        *_near_patterns(),
    )


def _near_patterns() -> tuple[Any, Any]:
    """Compile what precedes every match of a rule for values near a word."""
    word, core = expand("{near_word}"), expand("{mixed_core}")
    field = expand(r"(?i:{password_word}|{secret_word})\"\s*:\s*\"")
    # The word and the value are in the same string, or the word is the name of a field.
    in_json = re2.compile(
        rf"(?:{word}|{field})(?:[^\"\\]|\\.)*{core}", options=re2_options()
    )
    return in_json, re2.compile(rf"(?s){word}.*{core}", options=re2_options())


def _json_pattern(pattern: str) -> str:
    for decoded, encoded in _JSON_SPELLINGS:
        pattern = pattern.replace(decoded, encoded)
    return pattern


def compile_set(patterns: Iterable[str]) -> re2.Set:
    """Return what tells in one pass over a text which of the patterns match."""
    pattern_set = re2.Set.SearchSet(re2_options())
    for pattern in patterns:
        pattern_set.Add(pattern)
    pattern_set.Compile()
    return pattern_set


def re2_options() -> Any:  # noqa: ANN401 (RE2 has no types)
    """Return options for patterns of any size."""
    options = re2.Options()
    options.max_mem = _RE2_MAX_MEMORY
    options.log_errors = False
    return options
