"""The prefilter may report too much, but never too little."""

from __future__ import annotations

import json
import re
from functools import cache
from random import Random
from time import process_time

import msgspec
import pytest
import re2
from hypothesis import given, settings
from hypothesis import strategies as st

from bygones.redact.engine import Redactor, RuleSet, is_secret
from bygones.redact.personal import HOME_PATTERN, PROJECT_KEY_PATTERN
from bygones.redact.prefilter import LinePrefilter, SensitiveKind, matching_rules
from bygones.redact.rules import Rule, load_rules
from tests.redact.tokens import EXAMPLES

RULES = load_rules()
REDACTOR = Redactor(names=["ada"])
PREFILTER = LinePrefilter(["ada"])
AROUND = ("{}", "a\n{}", "a\t{}\r\n", '"{}"', "\\{}", "\\n{}", "é{}é", "'{}'", "a {} b")
_PERSONS = {"home", "user", "email"}
_SECRETS = SensitiveKind.SECRET | SensitiveKind.RANDOM
NEAR_RULES = [n for n, rule in enumerate(RULES) if rule.near]
UNFILTERED = {
    n: RuleSet([RULES[n]], prefilter=lambda _: [0], confirm=is_secret)
    for n in NEAR_RULES
}
"""The rules for values near a word, applied to every text."""
_around = st.sampled_from(AROUND)


def json_spellings(text: str) -> list[bytes]:
    """Return JSON lines with the text, in all spellings that JSON allows."""
    plain = msgspec.json.encode({"cwd": "/", "content": [{"text": text}]})
    odd = "".join(f"\\u{ord(c):04x}" if ord(c) < 0x10000 else c for c in text)
    slashed = json.dumps(text, ensure_ascii=False).replace("/", "\\/")
    return [
        plain,
        json.dumps(text).encode(),
        slashed.encode("utf-8", "replace"),
        f'"{odd}"'.encode("utf-8", "replace"),
    ]


@cache
def compiled(number: int) -> re2._Regexp:
    return re2.compile(RULES[number].pattern)


def assert_prefilter_misses_nothing(text: str) -> None:
    sound = text.encode("utf-8", "replace").decode()
    matches = {
        n for n, rule in enumerate(RULES) if not rule.near and compiled(n).search(sound)
    }
    matches |= {n for n in NEAR_RULES if any(UNFILTERED[n].find(sound, sound.encode()))}
    assert matches <= set(matching_rules(sound))
    kinds = {found.kind for found in REDACTOR.redact(text)[1]}

    for line in json_spellings(text):
        seen = PREFILTER.scan(line)
        assert seen & _SECRETS or not kinds - _PERSONS, (kinds, line)
        # The redactor for this line finds everything in its texts.
        line_redactor = REDACTOR.for_line(line)
        redacted = line_redactor.redact(text) if line_redactor else (text, ())
        assert redacted == REDACTOR.redact(text), (seen, line)


@pytest.mark.parametrize("kind", sorted(EXAMPLES))
def test_examples_of_every_rule_pass_the_prefilter(kind: str) -> None:
    random = Random(kind)  # noqa: S311 (not used for security)
    for make in EXAMPLES[kind]:
        for around in AROUND:
            text = around.format(make(random))

            for line in json_spellings(text):
                assert PREFILTER.scan(line) & _SECRETS, line


@pytest.mark.parametrize("kind", sorted(EXAMPLES))
def test_examples_with_other_whitespace_and_quotes_pass_the_prefilter(
    kind: str,
) -> None:
    random = Random(kind)  # noqa: S311 (not used for security)
    for make in EXAMPLES[kind]:
        text = make(random)
        for char in "\t\n\f\r\v\x85\u00a0":
            for old in (r"\s", " ", "\n"):
                assert_prefilter_misses_nothing(re.sub(old, char, text))
        for quote in "\"'`":
            assert_prefilter_misses_nothing(re.sub("[\"']", quote, text))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
@settings(max_examples=settings().max_examples // 5)
@given(drawn=st.data())
def test_every_match_of_a_rule_passes_the_prefilter(
    rule: Rule, drawn: st.DataObject
) -> None:
    text = drawn.draw(st.from_regex(rule.pattern))

    assert_prefilter_misses_nothing(drawn.draw(_around).format(text))


@pytest.mark.parametrize("number", NEAR_RULES, ids=lambda number: RULES[number].id)
@settings(max_examples=settings().max_examples * 5)
@given(drawn=st.data())
def test_value_after_its_context_passes_the_prefilter(
    number: int, drawn: st.DataObject
) -> None:
    rule = RULES[number]
    context = drawn.draw(st.from_regex(re.compile(rule.near, re.ASCII)))
    value = drawn.draw(st.from_regex(rule.pattern))

    assert_prefilter_misses_nothing(drawn.draw(_around).format(context + value))


@pytest.mark.parametrize(
    "text",
    [
        "\x85-U'000123G0%00000000",
        "a -U'qX7zK2mW9pL4",
        "a\v-pqX7zK2mW9pL4",
        "a\f-pqX7zK2mW9pL4",
        "run -pa1bzkq-Xw",
        "run -p_qX7zK2mW9",
        "kind: Secret\ndata:\n  name: unmixedvalue",
        f"secret key\tRW{'0' * 31}={'0' * 27}1",
        "insert\vinto t (password)\vvalues ('qX7z-K2mW9')",
    ],
)
def test_odd_spelling_of_a_context_passes_the_prefilter(text: str) -> None:
    assert_prefilter_misses_nothing(text)


@given(
    st.sampled_from(["password", "API key", "-k", "auth=('ada',", "x_token", "login"]),
    st.sampled_from([" ", ": ", "\n  ", " is '", '="', "/", " \\n"]),
    st.from_regex(r"\A[A-Za-z0-9_+/=-]{10,30}\Z"),
    _around,
)
def test_random_value_after_a_word_passes_the_prefilter(
    word: str, joint: str, value: str, around: str
) -> None:
    assert_prefilter_misses_nothing(around.format(f"{word}{joint}{value}"))


@given(
    st.one_of(
        st.from_regex(HOME_PATTERN), st.from_regex(PROJECT_KEY_PATTERN), st.emails()
    ),
    _around,
)
def test_personal_data_passes_the_prefilter(text: str, around: str) -> None:
    assert_prefilter_misses_nothing(around.format(text))


@given(st.text(st.sampled_from('aDA@.-/\\"\nhomeUsersC: '), max_size=60))
def test_names_and_homes_pass_the_prefilter(text: str) -> None:
    assert_prefilter_misses_nothing(text)


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
def test_accented_letters_pass_the_prefilter(text: str) -> None:
    assert REDACTOR.find(text)
    assert_prefilter_misses_nothing(text)


@pytest.mark.parametrize("name", ['o"brien', "a\\b", "zoë", "łukasz"])
def test_name_passes_the_prefilter_in_every_spelling(name: str) -> None:
    prefilter = LinePrefilter([name])

    assert all(
        prefilter.scan(line) for line in json_spellings(f"by {name.upper()}, {name}")
    )


def test_ordinary_line_is_filtered_out() -> None:
    line = msgspec.json.encode({"text": "def add(a, b):\n    return a + b"})

    assert PREFILTER.scan(line) is SensitiveKind.NOTHING
    assert REDACTOR.for_line(line) is None


@pytest.mark.parametrize("kind", sorted(EXAMPLES))
def test_personal_data_beside_a_secret_is_found_in_a_line(kind: str) -> None:
    make = EXAMPLES[kind][0]
    secret = make(Random(kind))  # noqa: S311 (not used for security)
    text = f"{secret}\nin /home/grace/src by grace, mail grace@uni.edu"
    line = msgspec.json.encode(text)
    line_redactor = REDACTOR.for_line(line)

    assert line_redactor is not None
    assert line_redactor.redact(text) == REDACTOR.redact(text)


def test_prefilter_reads_ordinary_text_fast() -> None:
    """One pattern that matches almost anything slows down the pass for all of them."""
    random = Random(7)  # noqa: S311 (not for cryptography)
    words = ["".join(random.choices("abcdefilnorst_.", k=6)) for _ in range(2_000)]
    line = json.dumps({"text": " ".join(random.choices(words, k=60_000))}).encode()
    prefilter = LinePrefilter(())
    prefilter.scan(b"{}")
    started = process_time()
    prefilter.scan(line)
    # About 0.005 s. A counted repetition of ordinary characters made it 1.5 s.
    assert process_time() - started < 0.1


def test_user_patterns_disable_the_prefilter() -> None:
    own = Redactor(patterns=[("ticket", r"\bACME-\d+")])

    assert own.for_line(b'"nothing else"') is own
