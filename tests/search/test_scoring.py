"""Scores of sessions, compared with a golden file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bygones.model.query import Part, pack_text_key
from bygones.model.summary import ScorePartKind
from bygones.search.scoring import (
    CorpusNorms,
    MatchedTexts,
    ScoredText,
    TermCounts,
    add_record_scores,
    idf,
    recency_bonus,
    score_sessions,
    score_texts,
    score_words,
)
from bygones.store.tantivy_engine import TextMatch

HERE = Path(__file__).parent
SIZES = {1: (3, 300), 2: (30, 6000), 3: (10, 500), 4: (10, 500)}
AMOUNTS = {session: size * len(Part) for session, size in SIZES.items()}
MEASURES = CorpusNorms.from_lengths(AMOUNTS)


def make_counts(
    counts: dict[tuple[int, Part], int], *, sessions: int = 4, is_name: bool = False
) -> TermCounts:
    buckets = {pack_text_key(session, part): n for (session, part), n in counts.items()}
    having = len({session for session, _ in counts})
    return TermCounts(idf(having, sessions), buckets, is_name)


WORDS = {
    "a prompt": make_counts({(1, Part.PROMPT): 1, (3, Part.REPLY): 1}),
    "long and short": make_counts({(1, Part.REPLY): 2, (2, Part.REPLY): 2}),
    "results only": make_counts({(3, Part.RESULT): 5, (4, Part.TOOL): 5}),
    "a name": make_counts({(3, Part.PROMPT): 3, (4, Part.TOOL): 3}, is_name=True),
    "many and few": make_counts({(3, Part.REPLY): 10, (4, Part.REPLY): 1}),
    "a title": make_counts({(3, Part.TITLE): 1, (4, Part.PROMPT): 1}),
}


def text(record: int, session: int, score: float, length: int = 20) -> TextMatch:
    return TextMatch(record, pack_text_key(session, Part.REPLY), score, length)


def by_session(texts: list[TextMatch]) -> dict[int, list[ScoredText]]:
    return score_texts(
        [(one.record, one.text_key, at, one.length) for at, one in enumerate(texts)],
        {at: one.score for at, one in enumerate(texts)},
    )


TEXTS = {
    "one record with most words": [text(1, 2, 5.0), text(2, 3, 2.0)],
    "several records": [text(1, 2, 3.0), *(text(at, 3, 2.0) for at in range(2, 8))],
    "a short record and a long one": [text(1, 2, 2.0), text(2, 3, 2.0, 200)],
}


def test_scores_match_the_golden_file(golden: Callable[[Path, str], None]) -> None:
    lines = []
    for name, word in WORDS.items():
        lines.append(
            f"{name}: {format_scores(score_sessions([word], MEASURES).by_session)}"
        )
    every = list(WORDS.values())
    lines.append(
        f"two words: {format_scores(score_sessions(every[:2], MEASURES).by_session)}"
    )
    lines.append(
        f"a sentence: {format_scores(score_sessions(every, MEASURES).by_session)}"
    )
    typed = score_sessions(every, MEASURES, verbatim={2})
    lines.append(f"as typed: {format_scores(typed.by_session)}")
    for name, texts in TEXTS.items():
        scores = score_sessions(every, MEASURES, texts).by_session
        lines.append(f"{name}: {format_scores(scores)}")
    lines.append(f"idf: {' '.join(f'{idf(n, 100):.3f}' for n in (0, 1, 10, 50, 100))}")
    lines.append(
        f"new: {' '.join(f'{recency_bonus(days):.4f}' for days in (0, 90, 900))}"
    )
    golden(HERE / "scores.txt", "\n".join(lines) + "\n")


def format_scores(total: dict[int, float]) -> str:
    return " ".join(
        f"{session}={score:.4f}" for session, score in sorted(total.items())
    )


def test_session_with_both_of_two_words_comes_first() -> None:
    rare = make_counts({(1, Part.PROMPT): 9, (2, Part.RESULT): 1})
    common = make_counts({(2, Part.RESULT): 1, (3, Part.RESULT): 1})

    total = score_sessions([rare, common], MEASURES).by_session

    assert total[2] > total[1]


def test_word_in_results_tells_sessions_apart_that_have_the_other_words() -> None:
    asked = make_counts({(3, Part.PROMPT): 2, (4, Part.PROMPT): 2})
    shown = make_counts({(3, Part.RESULT): 4})

    total = score_sessions([asked, shown], MEASURES).by_session
    words = score_words([asked, shown], MEASURES)

    assert words.words[3] > 1.2 * words.words[4]
    assert total[3] > total[4]


def test_words_in_messages_count_more_than_the_same_in_calls() -> None:
    said = [make_counts({(3, Part.REPLY): 1, (4, Part.REPLY): 1}) for _ in range(2)]
    run = make_counts({(3, Part.REPLY): 1, (4, Part.RESULT): 1})

    scores = score_sessions([*said, run], MEASURES)
    messages = {
        session: part.value
        for session in (3, 4)
        for part in scores.parts_of(session)
        if part.kind is ScorePartKind.MESSAGES
    }

    assert messages[3] == pytest.approx(1.5 * messages[4])


def test_shares_of_words_add_up_to_their_score() -> None:
    scores = score_words(list(WORDS.values()), MEASURES)

    for session, score in scores.words.items():
        shares = [by_session.get(session, 0.0) for by_session in scores.by_term]
        assert sum(shares) == pytest.approx(score)


def test_record_with_all_words_outweighs_words_in_different_records() -> None:
    every = list(WORDS.values())
    spread = [text(at, 3, 1.0) for at in range(1, 7)]

    total = score_sessions(every, MEASURES, [text(9, 1, 6.0), *spread]).by_session
    without = score_sessions(every, MEASURES).by_session

    assert without[3] > without[1]
    assert total[1] > total[3]


def test_parts_add_up_to_the_score() -> None:
    every = list(WORDS.values())
    texts = TEXTS["several records"]
    for terms in (every, every[:2]):
        scores = add_record_scores(
            score_words(terms, MEASURES), by_session(texts), verbatim={2}, titled={3}
        )

        assert scores.by_session == pytest.approx(
            {
                session: sum(part.value for part in scores.parts_of(session))
                for session in scores.by_session
            }
        )


def test_short_record_counts_more_than_a_long_one() -> None:
    texts = [text(1, 2, 2.0), text(2, 3, 2.0, 200)]

    words = score_words(list(WORDS.values()), MEASURES)
    scores = add_record_scores(words, by_session(texts))

    assert scores.records[2].best > 2 * scores.records[3].best
    assert scores.records[2].coverage == scores.records[3].coverage


def test_counts_are_saturated() -> None:
    def score(count: int) -> float:
        word = TermCounts(
            1.0,
            {pack_text_key(1, Part.REPLY): count, pack_text_key(3, Part.REPLY): 999},
        )
        return score_sessions([word], MEASURES).by_session[1]

    assert score(2) - score(1) > score(10) - score(9) > 0


def test_no_terms_give_no_scores() -> None:
    assert score_sessions([], MEASURES).by_session == {}
    assert (
        score_sessions([TermCounts(1.0, {})], CorpusNorms.from_lengths({})).by_session
        == {}
    )
    assert (
        score_sessions(
            [TermCounts(1.0, {pack_text_key(7, Part.REPLY): 1})], MEASURES
        ).by_session[7]
        > 0
    )


def test_terms_are_counted_by_the_bits_of_texts() -> None:
    one, other = pack_text_key(1, Part.REPLY), pack_text_key(2, Part.PROMPT)
    rows = [(at, one, 0b101, 9) for at in range(300)]
    texts = MatchedTexts([*rows, (400, other, 0b100, 9), (401, other, 0b110, 9)], "abc")

    assert texts.count_by_term() == {
        "a": {one: 300},
        "b": {other: 1},
        "c": {one: 300, other: 2},
    }
