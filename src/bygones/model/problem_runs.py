"""Runs of problems: the same problem on many lines is one object."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bygones.model.base import Line, Position, Problem


class ProblemRuns:
    """Merges problems of a source, so that junk takes little memory and space.

    Problems of a kind that are on adjacent lines, with the same detail, become one.
    After `MAX_RUNS` of a kind all others are added to the last one. Merging merged
    problems gives the same result as merging them one by one.
    """

    MAX_RUNS = 100

    def __init__(self, problems: Iterable[Problem] = ()) -> None:
        self._runs: list[Problem] = []
        self._indexes: dict[str, tuple[int, int]] = {}
        """Index of the last run and number of runs, by kind."""
        self.extend(problems)

    def __iter__(self) -> Iterator[Problem]:
        return iter(self._runs)

    def __len__(self) -> int:
        return len(self._runs)

    def extend(self, problems: Iterable[Problem]) -> None:
        for problem in problems:
            self.add(problem)

    def add(self, problem: Problem) -> None:
        index, number = self._indexes.get(problem.kind, (-1, 0))
        if number:
            last = self._runs[index]
            if number >= self.MAX_RUNS or is_adjacent(last, problem):
                self._runs[index] = merge_problems(last, problem)
                return
        self._indexes[problem.kind] = len(self._runs), number + 1
        self._runs.append(problem)


def is_adjacent(last: Problem, problem: Problem) -> bool:
    """Whether a problem is the same as the last one, on the next line."""
    before, after = last.position, problem.position
    return (
        before.offset + before.length + 1 == after.offset
        and last.kind == problem.kind
        and last.detail == problem.detail
        and before.generation == after.generation
        and before.source_id == after.source_id
    )


def merge_problems(last: Problem, problem: Problem) -> Problem:
    before, after = last.position, problem.position
    end = max(before.offset + before.length, after.offset + after.length)
    position = Position(
        before.source_id, before.generation, before.offset, end - before.offset
    )
    return Problem(last.kind, position, last.detail, last.count + problem.count)


def repeat_problem(problem: Problem, line: Line) -> Iterator[Problem]:
    """Yield a problem of the first of several identical lines, for all of them."""
    position = problem.position
    step = len(line.raw) + 1
    if position == line.position:
        # It covers the line, so all of them are adjacent.
        length = position.length + (line.repeats - 1) * step
        position = Position(
            position.source_id, position.generation, position.offset, length
        )
        yield Problem(problem.kind, position, problem.detail, line.repeats)
        return
    for index in range(line.repeats):
        moved = Position(
            position.source_id,
            position.generation,
            position.offset + index * step,
            position.length,
        )
        yield Problem(problem.kind, moved, problem.detail)


def count_problems(problems: Iterable[Problem]) -> int:
    return sum(problem.count for problem in problems)


MAX_DRIFT_NAMES = 200
"""Unknown names that are counted one by one per source."""
OTHER_NAMES = "(others)"


def add_drift(
    counts: dict[tuple[str, str, str], int],
    unknown: Iterable[tuple[tuple[str, str, str], int]],
) -> None:
    """Add unknown types (kind, name, version) of a source to its counts."""
    for what, count in unknown:
        if what not in counts and len(counts) >= MAX_DRIFT_NAMES:
            what = (what[0], OTHER_NAMES, "")  # noqa: PLW2901 (counted together)
        counts[what] = counts.get(what, 0) + count
