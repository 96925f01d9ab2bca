"""Hiding secrets and persons in a text: a pure function with its tables compiled."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from typing import Any

import re2
from msgspec import Struct

from bygones.errors import PatternRefused
from bygones.render.redact.broken import BREAKABLE, broken
from bygones.render.redact.personal import (
    is_nobody,
    is_telling,
    login_in_key,
    names_in,
    spellings,
)
from bygones.render.redact.places import addresses, homes, keyed_homes
from bygones.render.redact.rules import (
    RULES,
    Rule,
    is_mixed,
    is_password,
    is_phrase,
    is_stand_in,
)
from bygones.render.redact.signs import Seen, Signs, fitting

__all__ = ["Found", "Redactor"]

_ADDRESS, _HOME, _KEYED_HOME = (
    int(one) for one in (Seen.ADDRESS, Seen.HOME, Seen.KEYED_HOME)
)
_MEMORY = 64 * 1024 * 1024
_HOME_SIGN = "~"


class Found(Struct, frozen=True, order=True):
    """Something that was hidden: where it stood, and of which kind it is."""

    start: int
    end: int
    kind: str
    within: str = ""
    """The place of the text within what holds it, such as ``content[0].text``."""

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
        self._own = _Rules(own) if own else None
        known = frozenset(one for name in self.names for one in spellings(name))
        self._names = _searched(known)
        self._spaced = [name for name in self._names if " " in name]
        # Short texts come again and again: paths, versions, names of tools.
        self._find_again = lru_cache(maxsize=1024)(self._find)
        self._signs = None if own else Signs(known)
        self._seen = int(Seen.ANYTHING)
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

    def for_texts(self, texts: Iterable[str]) -> Redactor:
        """Return what finds all that is to be hidden in some texts, the cheapest.

        They are looked at together, which takes less than one by one.
        """
        if self._own or not self._secrets or fitting(_scannable("\n".join(texts))):
            return self
        return self._persons(Seen.PERSON)

    def _of_persons(self, seen: Seen) -> Redactor:
        """One that hides persons alone, for lines without any sign of a secret."""
        names = self.names if seen & Seen.NAME else ()
        alone = Redactor(names=names, sign=self._sign)
        alone._secrets = None
        alone._seen = int(seen)
        return alone

    def text(self, text: str) -> str:
        """Return a text with everything hidden that must not leave."""
        return self.told(text)[0]

    def told(self, text: str, name: str = "") -> tuple[str, tuple[Found, ...]]:
        """Return a text with what must not leave hidden, and what that was.

        ``name`` is that of the field which the text is the value of.
        """
        found = self._find_value(text, name) if name else self.find(text)
        if _ESCAPE in text:
            # A colour inside of a secret would hide it from us, and nobody else.
            bare = _COLOUR.sub("", text)
            met = self._find_value(bare, name) if name else self.find(bare)
            if _hidden(met) > _hidden(found):
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

    def _find_value(self, text: str, name: str) -> tuple[Found, ...]:
        """Return what must not leave of a field's value, which its name may tell."""
        before = len(name) + 2
        found = tuple(
            Found(max(one.start - before, 0), one.end - before, one.kind)
            for one in self.find(f"{name}: {text}")
            if one.end > before
        )
        if not found and self._secrets and is_password(name, text):
            return (Found(0, len(text), "named-secret"),)
        return found

    def _find(self, text: str) -> tuple[Found, ...]:
        found: list[Found] = []
        if self._secrets or self._own:
            # RE2 reads UTF-8, which has no halves of a pair; each becomes one sign.
            text = _scannable(text)
            # Of plain letters both have the same places, and it need not count them.
            written = text.encode() if text.isascii() else text
            for rules in filter(None, (self._secrets, self._own)):
                found += rules.find(text, written)
        persons = list(self._personal(text))
        if not found and not persons:
            return ()
        # A password before an @ is a secret first, and part of an address second.
        return tuple(_apart(persons, taken=_apart(found)))

    def _personal(self, text: str) -> Iterator[Found]:
        if self._seen & _ADDRESS:
            for start, end in addresses(text):
                if not is_nobody(text[start:end]):
                    yield Found(start, end, "email")
        names = self._names
        lowered = _lowered(text) if names else ""
        if self._seen & _HOME and ("/home/" in text or "Users" in text):
            met = [
                Found(start, self._end_of_home(text, lowered, end), "home")
                for start, end in homes(text)
            ]
            yield from met
            # Whoever has a home here may be named beside it.
            others = _others({text[one.start : one.end] for one in met})
            if not others.issubset(names):
                names = [*others.union(names)]
                lowered = lowered or _lowered(text)
        if self._seen & _KEYED_HOME:
            for start, end in keyed_homes(text):
                login = login_in_key(text[start:end])
                yield Found(start, start + len(login), "user")
        for name in names:
            if name in lowered:
                yield from _named(lowered, name)

    def _end_of_home(self, text: str, lowered: str, end: int) -> int:
        """Return where the name of a home folder ends that was read up to ``end``."""
        if text[end - 1] in _ENDS:
            # A name of several words was read up to the end of its folder.
            return end - 1
        start = max(text.rfind("/", 0, end), text.rfind("\\", 0, end)) + 1
        ends = (
            start + len(name)
            for name in self._spaced
            if lowered.startswith(name, start)
        )
        return max((end, *ends))


_ENDS = "\\/\"'`\n"
"""What may end a home folder, and is none of it."""
_SHORTEST = 3
_MANY = 3
_SHORT = 200
_ESCAPE = "\x1b["
_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")


def _hidden(found: Iterable[Found]) -> int:
    """Return how many signs are hidden."""
    return sum(one.end - one.start for one in found)


def _searched(names: Iterable[str]) -> list[str]:
    return [name.lower() for name in names if is_telling(name)]


def _others(homes: Iterable[str]) -> frozenset[str]:
    """Return the names that home folders tell, in all their spellings."""
    return frozenset().union(*map(_named_by, homes))


@lru_cache(maxsize=512)
def _named_by(home: str) -> frozenset[str]:
    names = names_in((home,))
    return frozenset(_searched(one for name in names for one in spellings(name)))


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
    """A table of rules, of which one pass over a text tells those that may fit."""

    def __init__(
        self,
        rules: Sequence[Rule],
        *,
        fitting: Callable[[str | bytes], Iterable[int]] | None = None,
        confirm: Callable[[str, Rule], bool] = lambda _value, _rule: True,
    ) -> None:
        self._rules = rules
        self._fitting = fitting or _passing(rules)
        self._confirm = confirm
        self._pattern = cache(self._compiled)

    def _compiled(self, number: int) -> Any:  # noqa: ANN401 (RE2 has no types)
        return _compiled(self._rules[number].pattern)

    def find(self, text: str, written: str | bytes) -> Iterator[Found]:
        # Of two rules that find the same the first one names it.
        for number in self._fitting(written):
            rule, pattern = self._rules[number], self._pattern(number)
            group = 1 if pattern.groups else 0
            places = dict(_spans(pattern, written, group))
            if rule.name in BREAKABLE:
                places.update(broken(text, rule.name, pattern))
            for start, end in places.items():
                if start < end and self._confirm(text[start:end], rule):
                    yield Found(start, end, rule.name)


def _passing(rules: Sequence[Rule]) -> Callable[[str | bytes], list[int]]:
    """Return what tells in one pass which of some rules find something in a text."""
    whole = re2.Set.SearchSet(_options())
    for rule in rules:
        _compiled(rule.pattern)
        whole.Add(rule.pattern)
    whole.Compile()
    return lambda text: sorted(whole.Match(text) or ())


def _is_secret(value: str, rule: Rule) -> bool:
    if is_stand_in(value):
        return False
    if rule.is_phrase:
        return is_phrase(value)
    return not rule.is_loose or is_mixed(value)


def _spans(
    pattern: Any,  # noqa: ANN401 (RE2 has no types)
    written: str | bytes,
    group: int = 0,
) -> Iterator[tuple[int, int]]:
    for match in pattern.finditer(written):
        yield match.span(group)


def _lowered(text: str) -> str:
    """Return a text in small letters, every sign in its place."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return "".join(low if len(low := one.lower()) == 1 else one for one in text)


def _named(lowered: str, name: str) -> Iterator[Found]:
    """Yield where a name stands alone."""
    start = lowered.find(name)
    while start >= 0:
        end = start + len(name)
        around = lowered[max(start - 1, 0) : start] + lowered[end : end + 1]
        if not any(map(str.isalnum, around)):
            yield Found(start, end, "user")
        start = lowered.find(name, end)


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
    return _Rules(RULES, fitting=fitting, confirm=_is_secret)
