"""Redact secrets and personal data in text."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import groupby
from typing import Any

import re2
from msgspec import Struct

from bygones.errors import InvalidRedactPattern
from bygones.redact.accounts import HomeFinder, find_account, is_ordinary_word
from bygones.redact.personal import (
    HOME_WORDS,
    find_emails,
    find_homes,
    find_project_key_logins,
    is_identifying,
    is_impersonal_email,
    login_from_project_key,
    login_names_in,
    may_identify,
    name_spellings,
)
from bygones.redact.prefilter import (
    LinePrefilter,
    SensitiveKind,
    compile_set,
    matching_near_rules,
    matching_rules,
    re2_options,
)
from bygones.redact.rules import (
    Rule,
    is_mixed_literal,
    is_mixed_value,
    is_passphrase,
    is_password_field,
    is_placeholder,
    is_random,
    load_rules,
)
from bygones.redact.split_tokens import find_split_tokens
from bygones.redact.tables import find_column_values

# Plain integers: operators of IntFlag are slow.
_EMAIL, _HOME, _PROJECT_KEY = (
    int(kind)
    for kind in (SensitiveKind.EMAIL, SensitiveKind.HOME, SensitiveKind.PROJECT_KEY)
)
_HOME_REPLACEMENT = "~"


class Redaction(Struct, frozen=True, order=True):
    """A redacted part of a text."""

    start: int
    end: int
    kind: str
    path: str = ""
    """Where the text is within its record, such as ``content[0].text``."""

    @property
    def replacement(self) -> str:
        return _HOME_REPLACEMENT if self.kind == "home" else f"[redacted {self.kind}]"


class Redactor:
    """Redacts any number of texts.

    ``names`` are redacted wherever they are whole words. ``accounts`` are login names:
    one that is also an ordinary word, such as ``cat``, is redacted only where an account
    is meant. ``homes`` are home folders in unusual places. ``patterns`` are pairs of a
    name and an RE2 expression; if an expression has a group, only the group is redacted.
    ``marker`` is put before each replacement to distinguish it from the text.
    """

    def __init__(
        self,
        *,
        names: Iterable[str] = (),
        accounts: Iterable[str] = (),
        homes: Iterable[str] = (),
        patterns: Iterable[tuple[str, str]] = (),
        marker: str = "",
    ) -> None:
        self._marker = marker
        self.names = frozenset(names)
        self.accounts = frozenset(accounts)
        self._homes = HomeFinder(homes)
        self.patterns = tuple(patterns)
        user_rules = tuple(Rule(name, pattern) for name, pattern in self.patterns)
        self._secret_rules: RuleSet | None = _builtin_rules()
        self._user_rules = RuleSet(user_rules) if user_rules else None
        words = {
            name
            for name in self.accounts
            if is_identifying(name) and not is_ordinary_word(name)
        }
        spellings = _spell_names(self.names | words)
        self._names = _searchable_names(spellings)
        self._ordinary_accounts = [
            name.lower() for name in self.accounts - words if may_identify(name)
        ]
        self._names_with_spaces = [name for name in self._names if " " in name]
        # Short texts repeat: paths, versions, tool names.
        self._cached_find = lru_cache(maxsize=1024)(self._find)
        self._prefilter = (
            None
            if user_rules
            else LinePrefilter(
                spellings,
                {
                    *self._ordinary_accounts,
                    *self._homes.words,
                    *self._homes.key_words,
                },
            )
        )
        self._kinds = int(SensitiveKind.ANYTHING)
        self.known_identifiers: set[str] = set()
        """Names of fields, tools and kinds in which nothing has to be redacted."""
        self._cached_with_accounts = lru_cache(maxsize=16)(self._copy_with_accounts)
        self._cached_limited = cache(self._limited_to)

    def with_accounts(
        self, accounts: Iterable[str], homes: Iterable[str] = ()
    ) -> Redactor:
        """Return a redactor that also redacts these login names and home folders."""
        if not self._kinds & _HOME:
            return self
        all_accounts = self.accounts | frozenset(accounts)
        all_homes = self._homes.homes | frozenset(homes)
        if (all_accounts, all_homes) == (self.accounts, self._homes.homes):
            return self
        return self._cached_with_accounts(all_accounts, all_homes)

    def _copy_with_accounts(
        self, accounts: frozenset[str], homes: frozenset[str]
    ) -> Redactor:
        return Redactor(
            names=self.names,
            accounts=accounts,
            homes=homes,
            patterns=self.patterns,
            marker=self._marker,
        )

    def with_marker(self, marker: str) -> Redactor:
        """Return a redactor that puts a marker before each replacement."""
        redactor = Redactor(
            names=self.names,
            accounts=self.accounts,
            homes=self._homes.homes,
            patterns=self.patterns,
            marker=marker,
        )
        redactor._kinds = self._kinds
        return redactor

    def for_this_machine(self) -> Redactor:
        """Return a redactor that leaves paths and accounts as they are.

        A reader on the same machine needs paths that can be opened.
        """
        redactor = Redactor(
            names=self.names, patterns=self.patterns, marker=self._marker
        )
        redactor._kinds = self._kinds & ~(_HOME | _PROJECT_KEY)
        return redactor

    def for_line(self, line: bytes) -> Redactor | None:
        """Return the cheapest redactor that finds everything in a JSON line.

        Returns ``None`` if there is nothing to redact. The line is not decoded.
        """
        kinds = (
            self._prefilter.scan(line) if self._prefilter else SensitiveKind.ANYTHING
        )
        if kinds is SensitiveKind.ANYTHING:
            return self
        kinds &= self._kinds
        return self._cached_limited(kinds) if kinds else None

    def for_texts(self, texts: Iterable[str]) -> Redactor:
        """Return the cheapest redactor that finds everything in these texts.

        One look at all texts together is faster than one per text.
        """
        if (
            self._user_rules
            or not self._secret_rules
            or matching_rules(_replace_surrogates("\n".join(texts)))
        ):
            return self
        return self._cached_limited(SensitiveKind.PERSON)

    def _limited_to(self, kinds: SensitiveKind) -> Redactor:
        """Return a redactor for text in which the prefilter saw nothing else."""
        is_named = bool(kinds & SensitiveKind.NAME)
        redactor = Redactor(
            names=self.names if is_named else (),
            accounts=self.accounts if is_named else (),
            homes=self._homes.homes if is_named else (),
            marker=self._marker,
        )
        if not kinds & SensitiveKind.SECRET:
            is_random = kinds & SensitiveKind.RANDOM
            redactor._secret_rules = _near_rules() if is_random else None
        redactor._kinds = int(kinds) & self._kinds
        return redactor

    def redact_text(self, text: str) -> str:
        return self.redact(text)[0]

    def redact(
        self, text: str, field_name: str = ""
    ) -> tuple[str, tuple[Redaction, ...]]:
        """Return the redacted text and what was redacted.

        ``field_name`` is the name of the field whose value the text is.
        """
        redactions = self._find_in_value(text, field_name)
        if _CSI in text:
            # Color sequences inside a secret prevent a match but are invisible.
            uncolored = _COLOR_SEQUENCE.sub("", text)
            in_uncolored = self._find_in_value(uncolored, field_name)
            if _redacted_length(in_uncolored) > _redacted_length(redactions):
                text, redactions = uncolored, in_uncolored
        if not redactions:
            return text, ()
        parts: list[str] = []
        end = 0
        for redaction in redactions:
            marker = "" if redaction.kind == "home" else self._marker
            parts += (text[end : redaction.start], marker, redaction.replacement)
            end = redaction.end
        parts.append(text[end:])
        return "".join(parts), redactions

    def is_clean(self, lines: tuple[object, ...]) -> bool:
        """Whether one look at all lines together shows that there is nothing in them.

        Personal data never spans lines, but secrets may: with rules for secrets the
        answer is always no.
        """
        if self._secret_rules or self._user_rules or len(lines) < _MIN_BATCH_LINES:
            return False
        return not self.redact("\n".join(map(str, lines)))[1]

    def find(self, text: str) -> tuple[Redaction, ...]:
        """Return what has to be redacted, in order and without overlaps."""
        if len(text) < _MIN_TEXT_LENGTH:
            return ()
        return (
            self._cached_find(text)
            if len(text) < _MAX_CACHED_LENGTH
            else self._find(text)
        )

    def _find_in_value(self, text: str, field_name: str) -> tuple[Redaction, ...]:
        """Find in the value of a field, whose name may show that it is a secret."""
        if not field_name:
            return self.find(text)
        offset = len(field_name) + 2
        redactions = tuple(
            Redaction(max(found.start - offset, 0), found.end - offset, found.kind)
            for found in self.find(f"{field_name}: {text}")
            if found.end > offset
        )
        if (
            not redactions
            and self._secret_rules
            and is_password_field(field_name, text)
        ):
            return (Redaction(0, len(text), "named-secret"),)
        return redactions

    def _find(self, text: str) -> tuple[Redaction, ...]:
        secrets: list[Redaction] = []
        if self._secret_rules or self._user_rules:
            # RE2 works on UTF-8, which has no lone surrogates.
            text = _replace_surrogates(text)
            # Each rule would encode a text again.
            encoded = text.encode()
            for rules in filter(None, (self._secret_rules, self._user_rules)):
                secrets += rules.find(text, encoded)
        personal = list(self._find_personal(text))
        if not secrets and not personal:
            return ()
        # A password before an @ is a secret and not part of an email address.
        return tuple(_drop_overlaps(personal, kept=_drop_overlaps(secrets)))

    def _find_personal(self, text: str) -> Iterator[Redaction]:
        if self._kinds & _EMAIL:
            for start, end in find_emails(text):
                if not is_impersonal_email(text[start:end]):
                    yield Redaction(start, end, "email")
        names = {*self._names, *self._ordinary_accounts}
        lowered = _lower_same_length(text) if names else ""
        for start, end in self._homes.find_paths(text):
            yield Redaction(start, end, "home")
        for start, end in self._homes.find_names(text):
            yield Redaction(start, end, "user")
        owners: frozenset[str] = frozenset()
        if self._kinds & _HOME and any(word in text for word in HOME_WORDS):
            homes = [
                Redaction(start, self._end_of_home(text, lowered, end), "home")
                for start, end in find_homes(text)
            ]
            yield from homes
            # The owner of a home folder may also be named elsewhere in the text.
            owners = _names_from_homes({text[home.start : home.end] for home in homes})
        if self._kinds & _PROJECT_KEY:
            for start, end in find_project_key_logins(text):
                login = login_from_project_key(text[start:end])
                yield Redaction(start, start + len(login), "user")
        if not owners.issubset(names):
            lowered = lowered or _lower_same_length(text)
        yield from self._find_names(lowered, owners)

    def _find_names(self, lowered: str, owners: frozenset[str]) -> Iterator[Redaction]:
        for name in {*self._names, *owners.difference(self._ordinary_accounts)}:
            if name in lowered:
                is_word = name in self._names or not is_ordinary_word(name)
                find = _find_name if is_word else find_account
                for start, end in find(lowered, name):
                    yield Redaction(start, end, "user")
        for name in self._ordinary_accounts:
            if name in lowered:
                for start, end in find_account(lowered, name):
                    yield Redaction(start, end, "user")

    def _end_of_home(self, text: str, lowered: str, end: int) -> int:
        """Return where a home folder that was matched up to ``end`` really ends."""
        if text[end - 1] in _HOME_TERMINATORS:
            # The pattern for names with spaces includes the character after the name.
            return end - 1
        start = max(text.rfind("/", 0, end), text.rfind("\\", 0, end)) + 1
        ends = (
            start + len(name)
            for name in self._names_with_spaces
            if lowered.startswith(name, start)
        )
        return max((end, *ends))


_HOME_TERMINATORS = "\\/\"'`\n"
_MIN_TEXT_LENGTH = 3
_MAX_PATH = 200
"""How far before a value the start of a path is looked for."""
_BASE64_HEAD = re.compile(
    r"(?<![A-Za-z0-9+/.:_-])[A-Za-z0-9+]{1,12}/(?:[A-Za-z0-9+]{0,12}/)*$"
)
_MAX_BASE64_HEAD = 60
_VALUE_HEAD = re.compile(r"[A-Za-z_$-]{0,40}[_$-]")
"""The start of a token that has a name, such as ``live_apikey_``."""
_MIN_BATCH_LINES = 3
_MIN_GROUP = 3
"""Rules from which on one pass for all of them precedes one pass for each."""
_MAX_CACHED_LENGTH = 200
_CSI = "\x1b["
_COLOR_SEQUENCE = re.compile(r"\x1b\[[0-9;:]*m")


def _redacted_length(redactions: Iterable[Redaction]) -> int:
    return sum(redaction.end - redaction.start for redaction in redactions)


def _searchable_names(names: Iterable[str]) -> list[str]:
    return [name.lower() for name in names if is_identifying(name)]


def _spell_names(names: Iterable[str]) -> frozenset[str]:
    return frozenset(spelling for name in names for spelling in name_spellings(name))


def _names_from_homes(homes: Iterable[str]) -> frozenset[str]:
    """Return the login names in paths of home folders, in all spellings."""
    return frozenset().union(*map(_names_from_home, homes))


@lru_cache(maxsize=512)
def _names_from_home(home: str) -> frozenset[str]:
    return frozenset(_searchable_names(_spell_names(login_names_in((home,)))))


def _replace_surrogates(text: str) -> str:
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def _drop_overlaps(
    redactions: Iterable[Redaction], *, kept: Sequence[Redaction] = ()
) -> list[Redaction]:
    """Return ``kept`` and those redactions that overlap neither them nor each other.

    Of two that overlap, the first one wins, then the longer one.
    """
    result = list(kept)
    end = 0
    for redaction in sorted(redactions, key=lambda found: (found.start, -found.end)):
        at = bisect_left(kept, redaction)
        is_free = (at == 0 or kept[at - 1].end <= redaction.start) and (
            at == len(kept) or redaction.end <= kept[at].start
        )
        if redaction.start >= end and is_free:
            result.append(redaction)
            end = redaction.end
    return sorted(result)


class RuleSet:
    """Rules, with a prefilter that selects those that may match a text."""

    def __init__(
        self,
        rules: Sequence[Rule],
        *,
        prefilter: Callable[[bytes], Iterable[int]] | None = None,
        confirm: Callable[[str, Rule], bool] = lambda _value, _rule: True,
    ) -> None:
        self._rules = rules
        self._prefilter = prefilter or _make_prefilter(rules)
        self._confirm = confirm
        self._cached_pattern = cache(self._compile_rule)
        self._cached_group = cache(self._compile_group)

    def _compile_rule(self, number: int) -> Any:  # noqa: ANN401 (RE2 has no types)
        return _compile(self._rules[number].pattern)

    def _compile_group(self, numbers: tuple[int, ...]) -> re2.Set:
        return compile_set(self._rules[number].pattern for number in numbers)

    def _select(self, encoded: bytes) -> Iterator[int]:
        """Yield the numbers of the rules that may match, in order."""
        for prefilter, group in groupby(
            self._prefilter(encoded), lambda number: self._rules[number].prefilter
        ):
            numbers = tuple(group)
            if prefilter and len(numbers) >= _MIN_GROUP:
                # Few of many rules with the same prefilter match: one pass shows which.
                matches = self._cached_group(numbers).Match(encoded) or ()
                yield from sorted(numbers[match] for match in matches)
            else:
                yield from numbers

    def find(self, text: str, encoded: bytes) -> Iterator[Redaction]:
        # If two rules find the same text, the first one names it.
        for number in self._select(encoded):
            rule, pattern = self._rules[number], self._cached_pattern(number)
            group = 1 if pattern.groups else 0
            spans = dict(match.span(group) for match in pattern.finditer(encoded))
            if spans and len(encoded) > len(text):
                spans = _to_character_offsets(spans, encoded)
            if rule.split_prefix:
                spans.update(find_split_tokens(text, rule.split_prefix, pattern))
            if rule.is_title:
                spans = dict(find_column_values(text, sorted(spans.items())))
            for start, end in spans.items():
                if start < end and self._confirm(text[start:end], rule):
                    if rule.near:
                        start = _base64_start(text, start, end)  # noqa: PLW2901
                    if _has_context(text, start, end, rule):
                        yield Redaction(start, end, rule.id)


def _has_context(text: str, start: int, end: int, rule: Rule) -> bool:
    """Whether the text before a value, or its start, says that it is a secret."""
    if not rule.near and not rule.not_after:
        return True
    near, not_after = _context_patterns(rule.near, rule.not_after)
    head = _VALUE_HEAD.match(text, start, end)
    head_end = head.end() if head else start
    return (
        near.search(text, max(start - rule.distance, 0), head_end) is not None
        and not_after.search(text, max(start - _MAX_PATH, 0), start) is None
    )


def _base64_start(text: str, start: int, end: int) -> int:
    """Return where a value starts, of which a slash separated the first characters."""
    if "+" in text[start:end] or text[end - 1] == "=":
        head = _BASE64_HEAD.search(text, max(start - _MAX_BASE64_HEAD, 0), start)
        return head.start() if head else start
    return start


@cache
def _context_patterns(near: str, not_after: str) -> tuple[re.Pattern[str], ...]:
    # In the rules, \s and \w have the same meaning for re as for RE2: ASCII only.
    return tuple(
        re.compile(pattern, re.ASCII)
        for pattern in (near, f"(?:{not_after or '(?!)'})$")
    )


def _to_character_offsets(spans: dict[int, int], encoded: bytes) -> dict[int, int]:
    """Convert spans of bytes to spans of the text that was encoded."""
    characters: dict[int, int] = {-1: -1}
    end = count = 0
    for offset in sorted({*spans, *spans.values()} - {-1}):
        count += len(encoded[end:offset].decode())
        characters[offset] = count
        end = offset
    return {characters[start]: characters[stop] for start, stop in spans.items()}


def _make_prefilter(rules: Sequence[Rule]) -> Callable[[bytes], list[int]]:
    """Return a function that selects the rules matching a text in one pass."""
    for rule in rules:
        _compile(rule.pattern)
    patterns = compile_set(rule.pattern for rule in rules)
    return lambda text: sorted(patterns.Match(text) or ())


def is_secret(value: str, rule: Rule) -> bool:
    if rule.validator and not _VALIDATORS[rule.validator](value):
        return False
    return not is_placeholder(value)


_VALIDATORS = {
    "mixed": is_mixed_value,
    "literal": is_mixed_literal,
    "passphrase": is_passphrase,
    "random": is_random,
}


def _lower_same_length(text: str) -> str:
    """Return the text in lower case, with every character at the same offset."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return "".join(low if len(low := char.lower()) == 1 else char for char in text)


def _find_name(lowered: str, name: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of a name that are not part of a longer word."""
    start = lowered.find(name)
    while start >= 0:
        end = start + len(name)
        around = lowered[max(start - 1, 0) : start] + lowered[end : end + 1]
        if not any(map(str.isalnum, around)):
            yield start, end
        start = lowered.find(name, end)


def _compile(pattern: str) -> Any:  # noqa: ANN401 (RE2 has no types)
    try:
        return re2.compile(pattern, options=re2_options())
    except re2.error as error:
        raise InvalidRedactPattern(pattern, str(error)) from None


@lru_cache(maxsize=1)
def _builtin_rules() -> RuleSet:
    return RuleSet(load_rules(), prefilter=matching_rules, confirm=is_secret)


@lru_cache(maxsize=1)
def _near_rules() -> RuleSet:
    return RuleSet(load_rules(), prefilter=matching_near_rules, confirm=is_secret)
