"""Hiding secrets and persons in a text: a pure function with its tables compiled."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from typing import Any

import re2
from msgspec import Struct

from recollect.errors import PatternRefused
from recollect.render.redact.personal import (
    ADDRESS,
    HOME,
    KEYED_HOME,
    is_nobody,
    names_pattern,
)
from recollect.render.redact.rules import RULES, Rule, is_mixed, is_stand_in
from recollect.render.redact.signs import Seen, Signs

__all__ = ["Found", "Redactor"]

_MEMORY = 64 * 1024 * 1024
_HOME_SIGN = "~"


class Found(Struct, frozen=True, order=True):
    """Something that was hidden: where it stood, and of which kind it is."""

    start: int
    end: int
    kind: str

    @property
    def instead(self) -> str:
        """What is shown in its place."""
        return _HOME_SIGN if self.kind == "home" else f"[redacted {self.kind}]"


class Redactor:
    """Hides what must not leave; made once, used for any number of texts.

    ``names`` are login names or any others to hide; ``patterns`` are RE2 expressions of
    the user's own by name. A pattern with a group hides the group alone. ``sign`` is
    put before all that stands in for something, for whoever has to tell it from text.
    """

    def __init__(
        self,
        *,
        names: Iterable[str] = (),
        patterns: Iterable[tuple[str, str]] = (),
        sign: str = "",
    ) -> None:
        self._sign = sign
        self.names = frozenset(names)
        self.patterns = tuple(patterns)
        own = tuple(Rule(name, pattern) for name, pattern in self.patterns)
        self._secrets: _Rules | None = _known_rules()
        self._own = _Rules(own, confirm=None) if own else None
        spelled = names_pattern(self.names)
        self._names = _compiled(rf"(?i)(?:^|[^\pL\pN])({spelled})") if spelled else None
        self._lowered = [name.lower() for name in self.names]
        # Short texts come again and again: paths, versions, names of tools.
        self._find_again = lru_cache(maxsize=4096)(self._find)
        self._signs = None if own else Signs(self.names)
        self._seen = Seen.ANYTHING
        self._knowing = lru_cache(maxsize=16)(self._with)
        self._persons = cache(self._of_persons)

    def with_names(self, names: Iterable[str]) -> Redactor:
        """Return one that hides these names as well."""
        more = self.names | frozenset(names)
        return self if more == self.names else self._knowing(more)

    def _with(self, names: frozenset[str]) -> Redactor:
        return Redactor(names=names, patterns=self.patterns, sign=self._sign)

    def with_sign(self, sign: str) -> Redactor:
        """Return one that puts a sign before all that stands in for something."""
        return Redactor(names=self.names, patterns=self.patterns, sign=sign)

    def for_line(self, line: bytes) -> Redactor | None:
        """Return what finds all that is to be hidden in a line of JSON, the cheapest.

        ``None`` if nothing in it has to be. The line is looked at as it is written;
        its texts are then redacted one by one.
        """
        seen = self._signs.seen(line) if self._signs else Seen.ANYTHING
        if seen is Seen.ANYTHING:
            return self
        return self._persons(seen) if seen else None

    def _of_persons(self, seen: Seen) -> Redactor:
        """One that hides persons alone, for lines without any sign of a secret."""
        names = self.names if seen & Seen.NAME else ()
        alone = Redactor(names=names, sign=self._sign)
        alone._secrets = None
        alone._seen = seen
        return alone

    def text(self, text: str) -> str:
        """Return a text with everything hidden that must not leave."""
        return self.told(text)[0]

    def told(self, text: str) -> tuple[str, tuple[Found, ...]]:
        """Return a text with what must not leave hidden, and what that was."""
        found = self.find(text)
        if _ESCAPE in text:
            # A colour inside of a secret would hide it from us, and nobody else.
            bare = _COLOUR.sub("", text)
            met = self.find(bare)
            if len(met) > len(found):
                text, found = bare, met
        if not found:
            return text, ()
        parts: list[str] = []
        at = 0
        for one in found:
            sign = "" if one.kind == "home" else self._sign
            parts += (text[at : one.start], sign, one.instead)
            at = one.end
        parts.append(text[at:])
        return "".join(parts), found

    def is_clean(self, lines: tuple[object, ...]) -> bool:
        """Whether none of some lines holds anything, told at once if it can be.

        What tells of persons never reaches over the end of a line; secrets may.
        """
        if self._secrets or self._own or len(lines) < _MANY:
            return False
        return not self.told("\n".join(map(str, lines)))[1]

    def find(self, text: str) -> tuple[Found, ...]:
        """Return what must not leave, in order; none overlaps another."""
        if len(text) < _SHORTEST:
            return ()
        return self._find_again(text) if len(text) < _SHORT else self._find(text)

    def _find(self, text: str) -> tuple[Found, ...]:
        # RE2 reads UTF-8, which has no halves of a pair; each becomes one sign.
        text = _scannable(text)
        found = list(self._secrets.find(text)) if self._secrets else []
        if self._own is not None:
            found += self._own.find(text)
        persons = list(_personal(text, self._seen))
        if self._names is not None:
            lowered = text.lower()
            if any(name in lowered for name in self._lowered):
                persons += _named(text, self._names)
        if not found and not persons:
            return ()
        # A password before an @ is a secret first, and part of an address second.
        return tuple(_apart(persons, taken=_apart(found)))


_SHORTEST = 3
_MANY = 3
_SHORT = 200
_ESCAPE = "\x1b["
_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")


def _scannable(text: str) -> str:
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def _apart(found: Iterable[Found], *, taken: Sequence[Found] = ()) -> list[Found]:
    """Return finds that overlap neither each other nor what is taken, in order.

    Of two that overlap the one that begins first is kept, then the longest.
    """
    kept = list(taken)
    end = 0
    for one in sorted(found, key=lambda one: (one.start, -one.end)):
        at = bisect_left(taken, one)
        is_free = (at == 0 or taken[at - 1].end <= one.start) and (
            at == len(taken) or one.end <= taken[at].start
        )
        if one.start >= end and is_free:
            kept.append(one)
            end = one.end
    return sorted(kept)


class _Rules:
    """A table of rules, of which one pass over a text tells those that fit."""

    def __init__(
        self, rules: Sequence[Rule], confirm: Callable[[str, Rule], bool] | None
    ) -> None:
        self._confirm = confirm
        self._rules = [(rule, _compiled(rule.pattern)) for rule in rules]
        self._fitting = re2.Set.SearchSet(_options())
        for rule in rules:
            self._fitting.Add(rule.pattern)
        self._fitting.Compile()

    def find(self, text: str) -> Iterator[Found]:
        # Of two rules that find the same the first one names it.
        for number in sorted(self._fitting.Match(text) or ()):
            rule, pattern = self._rules[number]
            group = 1 if pattern.groups else 0
            for match in pattern.finditer(text):
                start, end = match.span(group)
                if start < end and (
                    self._confirm is None or self._confirm(text[start:end], rule)
                ):
                    yield Found(start, end, rule.name)


def _is_secret(value: str, rule: Rule) -> bool:
    return not is_stand_in(value) and (not rule.is_loose or is_mixed(value))


def _personal(text: str, seen: Seen) -> Iterator[Found]:
    if seen & Seen.ADDRESS and "@" in text:
        for match in _address().finditer(text):
            if not is_nobody(match.group(0), match.group(1)):
                yield _found(match.span(0), "email")
    if "ome" not in text and "sers" not in text:
        return
    if seen & Seen.HOME:
        for match in _home().finditer(text):
            start, end = match.span(0)
            # A name of several words was read up to the end of its folder.
            yield Found(start, end - (text[end - 1] in "\\/"), "home")
    if seen & Seen.KEYED_HOME:
        for match in _keyed_home().finditer(text):
            yield _found(match.span(1), "user")


def _found(span: tuple[int, int], kind: str) -> Found:
    return Found(span[0], span[1], kind)


def _named(text: str, names: Any) -> Iterator[Found]:  # noqa: ANN401 (RE2 has no types)
    for match in names.finditer(text):
        start, end = match.span(1)
        if end == len(text) or not text[end].isalnum():
            yield Found(start, end, "user")


def _options() -> Any:  # noqa: ANN401 (RE2 has no types)
    options = re2.Options()
    options.max_mem = _MEMORY
    options.log_errors = False
    return options


def _compiled(pattern: str) -> Any:  # noqa: ANN401 (RE2 has no types)
    try:
        return re2.compile(pattern, options=_options())
    except re2.error as error:
        raise PatternRefused(pattern, str(error)) from None


@lru_cache(maxsize=1)
def _known_rules() -> _Rules:
    return _Rules(RULES, confirm=_is_secret)


@lru_cache(maxsize=1)
def _address() -> Any:  # noqa: ANN401 (RE2 has no types)
    return _compiled(ADDRESS)


@lru_cache(maxsize=1)
def _home() -> Any:  # noqa: ANN401 (RE2 has no types)
    return _compiled(HOME)


@lru_cache(maxsize=1)
def _keyed_home() -> Any:  # noqa: ANN401 (RE2 has no types)
    return _compiled(KEYED_HOME)
