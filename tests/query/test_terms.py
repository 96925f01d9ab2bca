"""Variants of words, and stop words."""

from __future__ import annotations

import pytest

from bygones.query.tokens import drop_stop_words, expand_word, expand_words
from bygones.store.tokenizer import tokenize


@pytest.mark.parametrize(
    ("word", "runs"),
    [
        ("parse", {("parse",)}),
        ("parseTranscript", {("parsetranscript",), ("parse", "transcript")}),
        ("parse_transcript", {("parse", "transcript"), ("parsetranscript",)}),
        ("HTTPServer", {("httpserver",), ("http", "server")}),
        ("auth.go", {("auth", "go")}),
        ("server/index.ts", {("server", "index", "ts")}),
        ("--flag", {("flag",)}),
        ("ENOENT", {("enoent",)}),
        ("multi-stage", {("multi", "stage"), ("multistage",)}),
        ("author's", {("author",)}),
        ("日本", {("日", "本")}),
    ],
)
def test_variants_of_a_word(word: str, runs: set[tuple[str, ...]]) -> None:
    found = expand_word(word, tokenize)

    assert found is not None
    assert set(found.runs) == runs


def test_punctuation_has_no_variants() -> None:
    assert expand_word("&&", tokenize) is None


def test_neighbors_may_be_one_word() -> None:
    first, second, third = expand_words(["parse", "transcript", "the"], tokenize)

    assert first is not None
    assert second is not None
    assert third is not None
    assert ("parsetranscript",) in first.runs
    assert ("parsetranscript",) in second.runs
    assert third.runs == (("the",),)


def test_stop_words_count_only_if_there_are_no_others() -> None:
    assert drop_stop_words(["why", "is", "the", "Parser", "slow", "slow"]) == (
        "Parser",
        "slow",
    )
    assert drop_stop_words(["what", "is", "it"]) == ("what", "is", "it")
