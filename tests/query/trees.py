"""Hypothesis strategies for query trees in normal form, and for texts of queries."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import strategies as st

from bygones.model.query import (
    FieldTerm,
    FieldValue,
    Phrase,
    Prefix,
    Regex,
    Term,
    TimeRange,
    Word,
    Words,
)
from bygones.query.fields import FIELDS, FieldType
from bygones.query.parser import and_terms, negate_term, or_terms
from bygones.query.tokens import has_word_characters

SPECIAL = (
    *('"', "“", "”", "(", ")", "-", "*", ":", "/", "\\", "|", "^", "..", " ", "\n"),
    *(" OR ", " AND ", " NOT ", " NEAR ", "std::x", "http://x", "C:\\x", "a", "b1"),
    *(f"{field.name}:" for field in FIELDS),
    *("is:error", "on:today", "last week", "2d", "/a+/", "x*", '"a b"', "é", "日本"),
)
query_texts = st.lists(st.sampled_from(SPECIAL) | st.text(max_size=4), max_size=25).map(
    "".join
)

_letters = st.text("abcé日1_", min_size=1, max_size=4).filter(has_word_characters)
_signs = st.text("ab-*:/\\\"'.#+&|“", min_size=1, max_size=6)
_tricky = st.sampled_from(
    [
        *("OR", "AND", "NOT", "-", "*", "f(x)", "f(", "(a)", "\\", "\\a", "/a/", "/a"),
        *("a/", "-a", "--a", "->", '"a', 'a"', "is:error", "tool:", "x*", "file://a"),
        *("model::A", "last", "week", "a..b", "//", "/*a*/"),
    ]
)
words = _letters | _signs | _tricky
phrases = st.lists(_letters | st.sampled_from(["OR", "-", "(", ")", "*"]), min_size=1)
moments = st.datetimes(
    datetime(1990, 1, 1, tzinfo=UTC).replace(tzinfo=None),
    datetime(2100, 1, 1, tzinfo=UTC).replace(tzinfo=None),
    timezones=st.just(UTC),
)


def periods() -> st.SearchStrategy[TimeRange]:
    return st.one_of(
        moments.map(lambda time: TimeRange(start=time)),
        moments.map(lambda time: TimeRange(end=time)),
        st.tuples(moments, moments).map(lambda pair: TimeRange(min(pair), max(pair))),
    )


def facts() -> st.SearchStrategy[FieldValue]:
    chosen = [
        FieldValue(field.name, choice) for field in FIELDS for choice in field.choices
    ]
    named = [
        field.name
        for field in FIELDS
        if field.value_type in {FieldType.SUBSTRING, FieldType.EXACT, FieldType.PREFIX}
    ]
    values = words | phrases.map(" ".join)
    return st.sampled_from(chosen) | st.builds(
        FieldValue, st.sampled_from(named), values
    )


def texts() -> st.SearchStrategy[Phrase | Prefix]:
    return st.builds(Phrase, phrases.map(" ".join)) | st.builds(Prefix, _letters)


def scoped() -> st.SearchStrategy[FieldTerm]:
    names = st.sampled_from([field.name for field in FIELDS if field.is_text])
    return st.builds(FieldTerm, names, texts() | st.builds(Word, words))


def leaves() -> st.SearchStrategy[Term]:
    return st.one_of(
        words.map(lambda word: Words((word,))),
        texts(),
        st.sampled_from(["a+", "a b", r"\/x", r"\d{2,3}", "[ab]"]).map(Regex),
        facts(),
        scoped(),
        periods(),
    )


def _excluded(term: Term) -> Term:
    """Punctuation alone cannot be excluded: it matches everything."""
    if isinstance(term, Words) and len(term.words) == 1:
        return negate_term(term) if has_word_characters(term.words[0]) else term
    return negate_term(term)


def joined(parts: st.SearchStrategy[Term]) -> st.SearchStrategy[Term]:
    several = st.lists(parts, min_size=1, max_size=4)
    return st.one_of(
        several.map(lambda terms: and_terms(terms) or terms[0]),
        several.map(lambda terms: or_terms(terms) or terms[0]),
        parts.map(_excluded),
    )


terms = st.recursive(leaves(), joined, max_leaves=12)
