"""A look at a whole line as it is written, for anything that must be hidden.

Most lines hold nothing that must not leave. One pass over a line's bytes says so, and
its texts need not be looked at one by one. What the pass finds is only a sign: the
rules decide, on decoded text. It may see too much, and never too little.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntFlag
from functools import lru_cache

import re2

from recollect.render.redact.personal import is_telling
from recollect.render.redact.rules import ASSIGNED, GAP, RULES, START

__all__ = ["Seen", "Signs"]


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
    "private-key": r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY",
    "url-password": r"://[^\s:/@]*:[^\s@/]{3,}@[A-Za-z0-9\[]",
    "netrc-password": rf"machine{_BLANK}+\S+?{_BLANK}+login{_BLANK}",
    **ASSIGNED,
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
    r"@(?:(?:[A-Za-z0-9-]|[^\x00-\x7f])+\.)+[A-Za-z]{2}": Seen.ADDRESS,
}
_ESCAPED = (r"[^\\](?:\\\\)*\\u", r"\\/")
"""Signs that may be written plainly, and are not: anything may be spelled by them."""
_MEMORY = 64 * 1024 * 1024
_ODD = frozenset('"\\/')
"""Signs that a line may hold in another spelling."""


class Signs:
    """Knows the signs of all rules, of persons, and of these names."""

    def __init__(self, names: Iterable[str]) -> None:
        self._anybody, self._kinds = _anybody()
        telling = sorted(filter(is_telling, names))
        self._is_plain = all(
            name.isprintable() and _ODD.isdisjoint(name) for name in telling
        )
        spelled = [f"(?i){re2.escape(name)}" for name in telling]
        self._names = _pass(spelled) if spelled and self._is_plain else None

    def seen(self, line: bytes) -> Seen:
        """Return what a line of JSON may hold, in whatever text of it."""
        if not self._is_plain:
            return Seen.ANYTHING
        seen = Seen.NOTHING
        for number in self._anybody.Match(line) or ():
            seen |= self._kinds[number]
        if seen >= Seen.SECRET:
            return Seen.ANYTHING
        if self._names is not None and self._names.Match(line):
            seen |= Seen.NAME
        return seen


@lru_cache(maxsize=1)
def _anybody() -> tuple[re2.Set, list[Seen]]:
    """Return the signs of secrets and of persons, and what each is a sign of.

    A sign in another spelling may be part of anything.
    """
    signs = {_OTHERS.get(rule.name) or _spelled(rule.pattern): None for rule in RULES}
    kinds = dict.fromkeys((*signs, *_ESCAPED), Seen.SECRET) | _PERSONS
    return _pass(kinds), list(kinds.values())


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
