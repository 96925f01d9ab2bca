"""Merging problems."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from bygones.ingest.index_batch import LineBlock, index_block
from bygones.model.base import Position, Problem, SourceId
from bygones.model.problem_runs import (
    MAX_DRIFT_NAMES,
    OTHER_NAMES,
    ProblemRuns,
    add_drift,
    count_problems,
)

SOURCE = SourceId("/a.jsonl")
JUNK = (b"", b"{", b"x", b"\0", b" {", b"1", b"{}", b'{"type":1}', b'{"a":1}{"b":2}')


def problems_of(raw: bytes, start: int = 0) -> list[Problem]:
    return index_block(LineBlock(SOURCE, 0, start, raw)).problems


def problem(kind: str, offset: int, length: int = 0, detail: str = "") -> Problem:
    return Problem(kind, Position(SOURCE, 0, offset, length), detail)


def test_adjacent_problems_of_a_kind_become_one() -> None:
    runs = ProblemRuns(
        [
            problem("blank", 10),
            problem("blank", 11),
            problem("not-json", 12, 5, "a"),
            problem("not-json", 18, 5, "a"),
            problem("not-json", 24, 5, "b"),
            problem("blank", 40),
        ]
    )

    assert [(run.kind, run.position.offset, run.count) for run in runs] == [
        ("blank", 10, 2),
        ("not-json", 12, 2),
        ("not-json", 24, 1),
        ("blank", 40, 1),
    ]


def test_number_of_runs_is_limited() -> None:
    number = 3 * ProblemRuns.MAX_RUNS
    runs = ProblemRuns(problem("blank", 10 * index) for index in range(number))

    *_, last = runs
    assert len(runs) == ProblemRuns.MAX_RUNS
    assert count_problems(runs) == number
    assert last.position.offset + last.position.length == 10 * (number - 1)


@given(
    st.lists(st.tuples(st.sampled_from(JUNK), st.integers(1, 150)), max_size=30),
    st.lists(st.floats(0, 1), max_size=3),
)
def test_problems_do_not_depend_on_how_a_file_is_split(
    lines: list[tuple[bytes, int]], cuts: list[float]
) -> None:
    whole = [line for line, number in lines for _ in range(number)]
    bounds = sorted({0, len(whole), *(int(cut * len(whole)) for cut in cuts)})
    expected = problems_of(b"".join(line + b"\n" for line in whole))

    runs = ProblemRuns()
    offset = 0
    for start, stop in pairwise(bounds):
        raw = b"".join(line + b"\n" for line in whole[start:stop])
        runs.extend(problems_of(raw, offset))
        offset += len(raw)

    assert list(runs) == list(ProblemRuns(expected))
    assert count_problems(runs) >= len(whole)


def test_unknown_names_are_counted_up_to_a_limit() -> None:
    counts: dict[tuple[str, str, str], int] = {}

    add_drift(counts, ((("record", f"t{n}", ""), 2) for n in range(1_000)))

    assert len(counts) == MAX_DRIFT_NAMES + 1
    assert counts["record", OTHER_NAMES, ""] == 2 * (1_000 - MAX_DRIFT_NAMES)
