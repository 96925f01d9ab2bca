"""Scores: a pure function, with a stored table of its answers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bygones.model.buckets import bucket_of
from bygones.model.query import Part
from bygones.query.rank import Measures, Sought, idf, newness, scores

HERE = Path(__file__).parent
SIZES = {1: (3, 300), 2: (30, 6000), 3: (10, 500), 4: (10, 500)}
AMOUNTS = {session: size * len(Part) for session, size in SIZES.items()}
MEASURES = Measures.of(AMOUNTS)


def sought(
    counts: dict[tuple[int, Part], int], *, sessions: int = 4, is_name: bool = False
) -> Sought:
    buckets = {bucket_of(session, part): n for (session, part), n in counts.items()}
    having = len({session for session, _ in counts})
    return Sought(idf(having, sessions), buckets, is_name)


WORDS = {
    "a prompt": sought({(1, Part.PROMPT): 1, (3, Part.REPLY): 1}),
    "long and short": sought({(1, Part.REPLY): 2, (2, Part.REPLY): 2}),
    "results only": sought({(3, Part.RESULT): 5, (4, Part.TOOL): 5}),
    "a name": sought({(3, Part.PROMPT): 3, (4, Part.TOOL): 3}, is_name=True),
    "many and few": sought({(3, Part.REPLY): 10, (4, Part.REPLY): 1}),
    "a title": sought({(3, Part.TITLE): 1, (4, Part.PROMPT): 1}),
}


def test_scores_are_what_they_were(golden: Callable[[Path, str], None]) -> None:
    lines = []
    for name, word in WORDS.items():
        lines.append(f"{name}: {told(scores([word], MEASURES).total)}")
    every = list(WORDS.values())
    lines.append(f"two words: {told(scores(every[:2], MEASURES).total)}")
    lines.append(f"a sentence: {told(scores(every, MEASURES).total)}")
    lines.append(f"as typed: {told(scores(every, MEASURES, {2}).total)}")
    lines.append(f"idf: {' '.join(f'{idf(n, 100):.3f}' for n in (0, 1, 10, 50, 100))}")
    lines.append(f"new: {' '.join(f'{newness(days):.4f}' for days in (0, 90, 900))}")
    golden(HERE / "rank.txt", "\n".join(lines) + "\n")


def told(total: dict[int, float]) -> str:
    return " ".join(
        f"{session}={score:.4f}" for session, score in sorted(total.items())
    )


@pytest.mark.parametrize("count", [2, 3])
def test_so_few_words_are_wanted_all(count: int) -> None:
    rare = sought({(1, Part.PROMPT): 9})
    others = [sought({(2, Part.RESULT): 1, (3, Part.RESULT): 1}) for _ in range(count)]

    total = scores([rare, *others][:count], MEASURES).total

    assert (total[2] > total[1]) == (count == 3)


def test_the_tenth_record_adds_less_than_the_first() -> None:
    def score(count: int) -> float:
        word = Sought(
            1.0, {bucket_of(1, Part.REPLY): count, bucket_of(2, Part.REPLY): 99}
        )
        return scores([word], MEASURES).total[1]

    assert score(2) - score(1) > score(10) - score(9) > 0


def test_nothing_sought_is_nothing_found() -> None:
    assert scores([], MEASURES).total == {}
    assert scores([Sought(1.0, {})], Measures.of({})).total == {}
    assert scores([Sought(1.0, {bucket_of(7, Part.REPLY): 1})], MEASURES).total[7] > 0
