"""Hiding secrets and persons in a text: a pure function with its tables compiled."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from typing import Any

import re2
from msgspec import Struct

from bygones.errors import InvalidRedactPattern
from bygones.redact.personal import (
    find_emails,
    find_homes,
    find_project_key_logins,
    is_identifying,
    is_impersonal_email,
    login_from_project_key,
    login_names_in,
    name_spellings,
)
from bygones.redact.prefilter import LinePrefilter, SensitiveKind, matching_rules
from bygones.redact.rules import (
    RULES,
    Rule,
    is_mixed_value,
    is_passphrase,
    is_password_field,
    is_placeholder,
)
from bygones.redact.split_tokens import SPLITTABLE_PREFIXES, find_split_tokens

__all__ = ["Redaction", "Redactor"]

_EMAIL, _HOME, _PROJECT_KEY = (
    int(one)
    for one in (SensitiveKind.EMAIL, SensitiveKind.HOME, SensitiveKind.PROJECT_KEY)
)
_RE2_MAX_MEMORY = 64 * 1024 * 1024
_HOME_REPLACEMENT = "~"


class Redaction(Struct, frozen=True, order=True):
    """Something that was hidden: where it stood, and of which kind it is."""

    start: int
    end: int
    kind: str
    path: str = ""
    """The place of the text within what holds it, such as ``content[0].text``."""

    @property
    def replacement(self) -> str:
        """What is shown in its place."""
        return _HOME_REPLACEMENT if self.kind == "home" else f"[redacted {self.kind}]"


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
        marker: str = "",
    ) -> None:
        self._marker = marker
        self.names = frozenset(names)
        self.patterns = tuple(patterns)
        own = tuple(Rule(name, pattern) for name, pattern in self.patterns)
        self._secret_rules: _RuleSet | None = _builtin_rules()
        self._user_rules = _RuleSet(own) if own else None
        known = frozenset(one for name in self.names for one in name_spellings(name))
        self._names = _searchable_names(known)
        self._names_with_spaces = [name for name in self._names if " " in name]
        # Short texts come again and again: paths, versions, names of tools.
        self._cached_find = lru_cache(maxsize=1024)(self._find)
        self._prefilter = None if own else LinePrefilter(known)
        self._kinds = int(SensitiveKind.ANYTHING)
        self._cached_with_names = lru_cache(maxsize=16)(self._copy_with_names)
        self._cached_personal_only = cache(self._personal_only)

    def with_names(self, names: Iterable[str]) -> Redactor:
        """Return one that hides these names as well."""
        more = self.names | frozenset(names)
        return self if more == self.names else self._cached_with_names(more)

    def _copy_with_names(self, names: frozenset[str]) -> Redactor:
        return Redactor(names=names, patterns=self.patterns, marker=self._marker)

    def with_marker(self, marker: str) -> Redactor:
        """Return one that puts a sign before all that stands in for something."""
        return Redactor(names=self.names, patterns=self.patterns, marker=marker)

    def for_line(self, line: bytes) -> Redactor | None:
        """Return what finds all that is to be hidden in a line of JSON, the cheapest.

        ``None`` if nothing in it has to be. The line is looked at as it is written;
        its texts are then redacted one by one.
        """
        seen = self._prefilter.scan(line) if self._prefilter else SensitiveKind.ANYTHING
        if seen is SensitiveKind.ANYTHING:
            return self
        return self._cached_personal_only(seen) if seen else None

    def for_texts(self, texts: Iterable[str]) -> Redactor:
        """Return what finds all that is to be hidden in some texts, the cheapest.

        They are looked at together, which takes less than one by one.
        """
        if (
            self._user_rules
            or not self._secret_rules
            or matching_rules(_replace_surrogates("\n".join(texts)))
        ):
            return self
        return self._cached_personal_only(SensitiveKind.PERSON)

    def _personal_only(self, kinds: SensitiveKind) -> Redactor:
        """One that hides persons alone, for lines without any sign of a secret."""
        names = self.names if kinds & SensitiveKind.NAME else ()
        alone = Redactor(names=names, marker=self._marker)
        alone._secret_rules = None
        alone._kinds = int(kinds)
        return alone

    def redact_text(self, text: str) -> str:
        """Return a text with everything hidden that must not leave."""
        return self.redact(text)[0]

    def redact(
        self, text: str, field_name: str = ""
    ) -> tuple[str, tuple[Redaction, ...]]:
        """Return a text with what must not leave hidden, and what that was.

        ``name`` is that of the field which the text is the value of.
        """
        found = self._find_value(text, field_name) if field_name else self.find(text)
        if _CSI in text:
            # A colour inside of a secret would hide it from us, and nobody else.
            bare = _COLOR_SEQUENCE.sub("", text)
            met = self._find_value(bare, field_name) if field_name else self.find(bare)
            if _redacted_length(met) > _redacted_length(found):
                text, found = bare, met
        if not found:
            return text, ()
        parts: list[str] = []
        at = 0
        for one in found:
            sign = "" if one.kind == "home" else self._marker
            parts += (text[at : one.start], sign, one.replacement)
            at = one.end
        parts.append(text[at:])
        return "".join(parts), found

    def is_clean(self, lines: tuple[object, ...]) -> bool:
        """Whether none of some lines holds anything, told at once if it can be.

        What tells of persons never reaches over the end of a line; secrets may.
        """
        if self._secret_rules or self._user_rules or len(lines) < _MIN_BATCH_LINES:
            return False
        return not self.redact("\n".join(map(str, lines)))[1]

    def find(self, text: str) -> tuple[Redaction, ...]:
        """Return what must not leave, in order; none overlaps another."""
        if len(text) < _MIN_TEXT_LENGTH:
            return ()
        return (
            self._cached_find(text)
            if len(text) < _MAX_CACHED_LENGTH
            else self._find(text)
        )

    def _find_value(self, text: str, field_name: str) -> tuple[Redaction, ...]:
        """Return what must not leave of a field's value, which its name may tell."""
        before = len(field_name) + 2
        found = tuple(
            Redaction(max(one.start - before, 0), one.end - before, one.kind)
            for one in self.find(f"{field_name}: {text}")
            if one.end > before
        )
        if not found and self._secret_rules and is_password_field(field_name, text):
            return (Redaction(0, len(text), "named-secret"),)
        return found

    def _find(self, text: str) -> tuple[Redaction, ...]:
        found: list[Redaction] = []
        if self._secret_rules or self._user_rules:
            # RE2 reads UTF-8, which has no halves of a pair; each becomes one sign.
            text = _replace_surrogates(text)
            # Of plain letters both have the same places, and it need not count them.
            written = text.encode() if text.isascii() else text
            for rules in filter(None, (self._secret_rules, self._user_rules)):
                found += rules.find(text, written)
        persons = list(self._find_personal(text))
        if not found and not persons:
            return ()
        # A password before an @ is a secret first, and part of an address second.
        return tuple(_drop_overlaps(persons, taken=_drop_overlaps(found)))

    def _find_personal(self, text: str) -> Iterator[Redaction]:
        if self._kinds & _EMAIL:
            for start, end in find_emails(text):
                if not is_impersonal_email(text[start:end]):
                    yield Redaction(start, end, "email")
        names = self._names
        lowered = _lower_same_length(text) if names else ""
        if self._kinds & _HOME and ("/home/" in text or "Users" in text):
            met = [
                Redaction(start, self._end_of_home(text, lowered, end), "home")
                for start, end in find_homes(text)
            ]
            yield from met
            # Whoever has a home here may be named beside it.
            others = _names_from_homes({text[one.start : one.end] for one in met})
            if not others.issubset(names):
                names = [*others.union(names)]
                lowered = lowered or _lower_same_length(text)
        if self._kinds & _PROJECT_KEY:
            for start, end in find_project_key_logins(text):
                login = login_from_project_key(text[start:end])
                yield Redaction(start, start + len(login), "user")
        for name in names:
            if name in lowered:
                yield from _find_name(lowered, name)

    def _end_of_home(self, text: str, lowered: str, end: int) -> int:
        """Return where the name of a home folder ends that was read up to ``end``."""
        if text[end - 1] in _HOME_TERMINATORS:
            # A name of several words was read up to the end of its folder.
            return end - 1
        start = max(text.rfind("/", 0, end), text.rfind("\\", 0, end)) + 1
        ends = (
            start + len(name)
            for name in self._names_with_spaces
            if lowered.startswith(name, start)
        )
        return max((end, *ends))


_HOME_TERMINATORS = "\\/\"'`\n"
"""What may end a home folder, and is none of it."""
_MIN_TEXT_LENGTH = 3
_MIN_BATCH_LINES = 3
_MAX_CACHED_LENGTH = 200
_CSI = "\x1b["
_COLOR_SEQUENCE = re.compile(r"\x1b\[[0-9;:]*m")


def _redacted_length(found: Iterable[Redaction]) -> int:
    """Return how many signs are hidden."""
    return sum(one.end - one.start for one in found)


def _searchable_names(names: Iterable[str]) -> list[str]:
    return [name.lower() for name in names if is_identifying(name)]


def _names_from_homes(homes: Iterable[str]) -> frozenset[str]:
    """Return the names that home folders tell, in all their spellings."""
    return frozenset().union(*map(_names_from_home, homes))


@lru_cache(maxsize=512)
def _names_from_home(home: str) -> frozenset[str]:
    names = login_names_in((home,))
    return frozenset(
        _searchable_names(one for name in names for one in name_spellings(name))
    )


def _replace_surrogates(text: str) -> str:
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def _drop_overlaps(
    redactions: Iterable[Redaction], *, taken: Sequence[Redaction] = ()
) -> list[Redaction]:
    """Return finds that overlap neither each other nor what is taken, in order.

    Of two that overlap the one that begins first is kept, then the longest.
    """
    kept = list(taken)
    end = 0
    for one in sorted(redactions, key=lambda one: (one.start, -one.end)):
        at = bisect_left(taken, one)
        is_free = (at == 0 or taken[at - 1].end <= one.start) and (
            at == len(taken) or one.end <= taken[at].start
        )
        if one.start >= end and is_free:
            kept.append(one)
            end = one.end
    return sorted(kept)


class _RuleSet:
    """A table of rules, of which one pass over a text tells those that may fit."""

    def __init__(
        self,
        rules: Sequence[Rule],
        *,
        prefilter: Callable[[str | bytes], Iterable[int]] | None = None,
        confirm: Callable[[str, Rule], bool] = lambda _value, _rule: True,
    ) -> None:
        self._rules = rules
        self._prefilter = prefilter or _make_prefilter(rules)
        self._confirm = confirm
        self._cached_pattern = cache(self._compile_rule)

    def _compile_rule(self, number: int) -> Any:  # noqa: ANN401 (RE2 has no types)
        return _compile(self._rules[number].pattern)

    def find(self, text: str, encoded: str | bytes) -> Iterator[Redaction]:
        # Of two rules that find the same the first one names it.
        for number in self._prefilter(encoded):
            rule, pattern = self._rules[number], self._cached_pattern(number)
            group = 1 if pattern.groups else 0
            places = dict(_spans(pattern, encoded, group))
            if rule.name in SPLITTABLE_PREFIXES:
                places.update(find_split_tokens(text, rule.name, pattern))
            for start, end in places.items():
                if start < end and self._confirm(text[start:end], rule):
                    yield Redaction(start, end, rule.name)


def _make_prefilter(rules: Sequence[Rule]) -> Callable[[str | bytes], list[int]]:
    """Return what tells in one pass which of some rules find something in a text."""
    whole = re2.Set.SearchSet(_re2_options())
    for rule in rules:
        _compile(rule.pattern)
        whole.Add(rule.pattern)
    whole.Compile()
    return lambda text: sorted(whole.Match(text) or ())


def _is_secret(value: str, rule: Rule) -> bool:
    if is_placeholder(value):
        return False
    if rule.is_passphrase:
        return is_passphrase(value)
    return not rule.needs_mixed_value or is_mixed_value(value)


def _spans(
    pattern: Any,  # noqa: ANN401 (RE2 has no types)
    written: str | bytes,
    group: int = 0,
) -> Iterator[tuple[int, int]]:
    for match in pattern.finditer(written):
        yield match.span(group)


def _lower_same_length(text: str) -> str:
    """Return a text in small letters, every sign in its place."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return "".join(low if len(low := one.lower()) == 1 else one for one in text)


def _find_name(lowered: str, name: str) -> Iterator[Redaction]:
    """Yield where a name stands alone."""
    start = lowered.find(name)
    while start >= 0:
        end = start + len(name)
        around = lowered[max(start - 1, 0) : start] + lowered[end : end + 1]
        if not any(map(str.isalnum, around)):
            yield Redaction(start, end, "user")
        start = lowered.find(name, end)


def _re2_options() -> Any:  # noqa: ANN401 (RE2 has no types)
    options = re2.Options()
    options.max_mem = _RE2_MAX_MEMORY
    options.log_errors = False
    return options


def _compile(pattern: str) -> Any:  # noqa: ANN401 (RE2 has no types)
    try:
        return re2.compile(pattern, options=_re2_options())
    except re2.error as error:
        raise InvalidRedactPattern(pattern, str(error)) from None


@lru_cache(maxsize=1)
def _builtin_rules() -> _RuleSet:
    return _RuleSet(RULES, prefilter=matching_rules, confirm=_is_secret)
