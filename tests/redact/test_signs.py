"""A line in which nothing is seen has nothing in it; more may be seen than there is."""

from __future__ import annotations

import json
from functools import lru_cache
from random import Random

import msgspec
import pytest
import re2
from hypothesis import given, settings
from hypothesis import strategies as st

from bygones.redact.engine import Redactor
from bygones.redact.personal import HOME_PATTERN, PROJECT_KEY_PATTERN
from bygones.redact.prefilter import LinePrefilter, SensitiveKind, matching_rules
from bygones.redact.rules import RULES, Rule
from tests.redact.tokens import FAMILIES

REDACTOR = Redactor(names=["ada"])
SIGNS = LinePrefilter(["ada"])
AROUND = ("{}", "a\n{}", "a\t{}\r\n", '"{}"', "\\{}", "\\n{}", "é{}é", "'{}'", "a {} b")
_PERSONS = {"home", "user", "email"}
_around = st.sampled_from(AROUND)


def written(text: str) -> list[bytes]:
    """Return lines that hold a text, in all the spellings that JSON has for it."""
    plain = msgspec.json.encode({"cwd": "/", "content": [{"text": text}]})
    odd = "".join(f"\\u{ord(one):04x}" if ord(one) < 0x10000 else one for one in text)
    slashed = json.dumps(text, ensure_ascii=False).replace("/", "\\/")
    return [
        plain,
        json.dumps(text).encode(),
        slashed.encode("utf-8", "replace"),
        f'"{odd}"'.encode("utf-8", "replace"),
    ]


@lru_cache
def compiled(number: int) -> re2._Regexp:
    return re2.compile(RULES[number].pattern)


def asserted(text: str) -> None:
    sound = text.encode("utf-8", "replace").decode()
    met = {n for n in range(len(RULES)) if compiled(n).search(sound)}
    assert met <= set(matching_rules(sound))
    kinds = {one.kind for one in REDACTOR.redact(text)[1]}

    for line in written(text):
        seen = SIGNS.scan(line)
        assert seen is SensitiveKind.ANYTHING or not kinds - _PERSONS, (kinds, line)
        # Whoever is asked for this line alone finds all that is in its texts.
        needed = REDACTOR.for_line(line)
        told = needed.redact(text) if needed else (text, ())
        assert told == REDACTOR.redact(text), (seen, line)


@pytest.mark.parametrize("kind", sorted(FAMILIES))
def test_every_family_is_seen_in_a_line(kind: str) -> None:
    random = Random(kind)  # noqa: S311 (tokens of tests guard nothing)
    for make in FAMILIES[kind]:
        for around in AROUND:
            text = around.format(make(random))

            for line in written(text):
                assert SIGNS.scan(line) is SensitiveKind.ANYTHING, line


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
@settings(max_examples=15)
@given(drawn=st.data())
def test_whatever_a_rule_finds_is_seen(rule: Rule, drawn: st.DataObject) -> None:
    text = drawn.draw(st.from_regex(rule.pattern))

    asserted(drawn.draw(_around).format(text))


@given(
    st.one_of(
        st.from_regex(HOME_PATTERN), st.from_regex(PROJECT_KEY_PATTERN), st.emails()
    ),
    _around,
)
def test_persons_are_seen(text: str, around: str) -> None:
    asserted(around.format(text))


@given(st.text(st.sampled_from('aDA@.-/\\"\nhomeUsersC: '), max_size=60))
def test_names_and_places_are_seen_however_they_are_written(text: str) -> None:
    asserted(text)


@pytest.mark.parametrize(
    "text",
    [
        "PASS" + "WORD=\u20acuro12345abc",
        "pass" + "word: \u20acuro12345abc",
        "to\u212aen: a1b2c3d4e5f6",
        "/home/j\u00fcrgen/x",
        "j\u00f6rg@firma.dev",
        "info@m\u00fcller.dev",
        "?to=info%40m\u00fcller.dev",
    ],
)
def test_accents_are_seen_whether_they_are_escaped_or_not(text: str) -> None:
    assert REDACTOR.find(text)
    asserted(text)


@pytest.mark.parametrize("name", ['o"brien', "a\\b", "zoë", "łukasz"])
def test_a_name_is_seen_whatever_its_letters(name: str) -> None:
    signs = LinePrefilter([name])

    assert all(signs.scan(line) for line in written(f"by {name.upper()}, {name}"))


def test_a_plain_line_shows_nothing() -> None:
    line = msgspec.json.encode({"text": "def add(a, b):\n    return a + b"})

    assert SIGNS.scan(line) is SensitiveKind.NOTHING
    assert REDACTOR.for_line(line) is None


def test_patterns_of_the_user_are_looked_for_in_every_line() -> None:
    own = Redactor(patterns=[("ticket", r"\bACME-\d+")])

    assert own.for_line(b'"nothing else"') is own
