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

from bygones.render.redact.broken import BREAKABLE
from bygones.render.redact.personal import is_telling
from bygones.render.redact.rules import ASSIGNED, GAP, RULES, START

__all__ = ["Seen", "Signs", "fitting"]


class Seen(IntFlag):
    """What a line may hold."""

    NOTHING = 0
    HOME = 1
    KEYED_HOME = 2
    ADDRESS = 4
    NAME = 8
    PERSON = HOME | KEYED_HOME | ADDRESS | NAME
    SECRET = 16
    ANYTHING = PERSON | SECRET


_BLANK = r"(?:\\[nrtf]|\s)"
_QUOTE = r"(?:\\*[\"'])?"
_SPELLED = (
    (START, ""),
    (r"\b", ""),
    (r"(?:^|[\s\"'`{,(])", ""),
    (r"(?:\\*[\"'])?", _QUOTE),
    (r"[\"']?", _QUOTE),
    (GAP, rf"{_BLANK}{{0,3}}"),
    (r"\s{0,3}", rf"{_BLANK}{{0,3}}"),
    (r"\s+", rf"{_BLANK}+"),
)
"""What a rule asks of decoded text, and what that is in a line at most.

A blank may be written as ``\\n`` and a quote behind a backslash; what comes before a
word may be the letter of such an escape, so that no word seems to begin.
"""
_OTHERS = {
    "airtable-token": r"\.[0-9a-f]{64}",
    "azure-client-secret": r"8Q~[A-Za-z0-9_~.-]{31}",
    "discord-token": r"\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27}",
    "mailchimp-key": r"[0-9a-f]-us\d",
    "telegram-token": r":AA[A-Za-z0-9_-]{33}",
    "terraform-token": r"\.atlasv1\.",
    "private-key": r"-----(?:BEGIN|END) [A-Z0-9 ]*PRIVATE KEY",
    "url-password": r"://[^\s:/]*:[^\s/]{3,}@[A-Za-z0-9\[]",
    "netrc-password": rf"machine{_BLANK}+\S+?{_BLANK}+login{_BLANK}",
    **ASSIGNED,
    **BREAKABLE,
}
"""Signs of rules that begin with anything, or reach over signs written otherwise.

What begins with anything could begin everywhere: a pass would follow it from each
sign of a line at once.
"""
_PERSONS = {
    r"/home/(?:[A-Za-z0-9._-]|[^\x00-\x7f])": Seen.HOME,
    r"[\\/]Users[\\/]": Seen.HOME,
    r"-(?:home|Users)-[A-Za-z0-9]": Seen.KEYED_HOME,
    # The letter before the @ is one, and not that of an escape such as \n.
    r"(?:(?:[^\\]|\\\\)[A-Za-z0-9._%+-]|[^\x00-\x7f])"
    r"(?:@|%40)(?:(?:[A-Za-z0-9-]|[^\x00-\x7f])+\.)+[A-Za-z]{2}": Seen.ADDRESS,
}
_ESCAPED = (r"[^\\](?:\\\\)*\\u", r"\\/")
"""Signs that may be written plainly, and are not: anything may be spelled by them."""
_MEMORY = 64 * 1024 * 1024
_ODD = frozenset('"\\/')
"""Signs that a line may hold in another spelling."""


class Signs:
    """Knows the signs of all rules, of persons, and of these names."""

    def __init__(self, names: Iterable[str]) -> None:
        self._anybody = _anybody()
        telling = sorted(filter(is_telling, names))
        self._is_plain = all(
            name.isprintable() and _ODD.isdisjoint(name) for name in telling
        )
        self._telling = telling
        self._lowered = [name.lower().encode() for name in telling if name.isascii()]
        self._is_ascii = len(self._lowered) == len(telling)
        self._sum = cache(self._summed)

    def seen(self, line: bytes) -> Seen:
        """Return what a line of JSON may hold, in whatever text of it."""
        if not self._is_plain:
            return Seen.ANYTHING
        met = self._anybody.signs.Match(line)
        seen = self._sum(tuple(met)) if met else Seen.NOTHING
        is_named = seen is not Seen.ANYTHING and self._is_named(line)
        return seen | Seen.NAME if is_named else seen

    def _summed(self, met: tuple[int, ...]) -> Seen:
        seen = reduce(or_, (self._anybody.kinds[number] for number in met))
        return Seen.ANYTHING if seen >= Seen.SECRET else seen

    def _is_named(self, line: bytes) -> bool:
        if not self._telling:
            return False
        if self._is_ascii and line.isascii():
            # The usual case; other letters may be capitals of a name's too.
            lowered = line.lower()
            return any(name in lowered for name in self._lowered)
        return bool(self._names.Match(line))

    @cached_property
    def _names(self) -> re2.Set:
        return _pass(f"(?i){re2.escape(name)}" for name in self._telling)


def fitting(text: str | bytes) -> list[int]:
    """Return the numbers of rules that may find something in a decoded text.

    The signs of a rule are shorter than the rule, and met in fewer states: a pass with
    the rules themselves took five times as long, and forty megabytes.
    """
    known = _anybody()
    met = known.signs.Match(text)
    return sorted({one for sign in met for one in known.rules[sign]}) if met else []


class _Anybody(NamedTuple):
    """The signs of secrets and of persons."""

    signs: re2.Set
    kinds: list[Seen]
    """What each is a sign of; one in another spelling may be part of anything."""
    rules: list[tuple[int, ...]]
    """The rules that each is a sign of."""


@lru_cache(maxsize=1)
def _anybody() -> _Anybody:
    rules: dict[str, tuple[int, ...]] = {}
    for number, rule in enumerate(RULES):
        sign = _OTHERS.get(rule.name) or _spelled(rule.pattern)
        rules[sign] = (*rules.get(sign, ()), number)
    kinds = dict.fromkeys((*rules, *_ESCAPED), Seen.SECRET) | _PERSONS
    return _Anybody(
        _pass(kinds), list(kinds.values()), [rules.get(sign, ()) for sign in kinds]
    )


def _spelled(pattern: str) -> str:
    for asked, written in _SPELLED:
        pattern = pattern.replace(asked, written)
    return pattern


def _pass(patterns: Iterable[str]) -> re2.Set:
    options = re2.Options()
    options.max_mem = _MEMORY
    options.log_errors = False
    made = re2.Set.SearchSet(options)
    for pattern in patterns:
        made.Add(pattern)
    made.Compile()
    return made
