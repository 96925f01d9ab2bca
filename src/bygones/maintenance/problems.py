"""Finds the lines of problems in stored transcripts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from msgspec import structs

from bygones.errors import ArchiveDamaged
from bygones.maintenance.restore import read_source
from bygones.model.base import Problem, SourceId
from bygones.model.reports import ProblemRow
from bygones.store.protocols import StoreReader


def locate_problems(
    reader: StoreReader, problems: Iterable[Problem]
) -> Iterator[ProblemRow]:
    """Yield problems with their line numbers, sorted by file and line.

    A problem has no line if it concerns a whole file, an earlier version of the file, or
    bytes after damaged ones.
    """
    ordered = sorted(problems, key=lambda problem: problem.position)
    for source, group in groupby(ordered, lambda problem: problem.position.source_id):
        rows = list(group)
        lines = _line_numbers(reader, source, rows)
        for problem in rows:
            position = problem.position
            line = lines.get(position.offset) if _has_line(problem) else None
            yield structs.replace(ProblemRow.from_problem(problem), line=line)


def _has_line(problem: Problem) -> bool:
    return problem.position.length > 0


def _line_numbers(
    reader: StoreReader, source: SourceId, problems: Iterable[Problem]
) -> dict[int, int]:
    """Return the line of each offset in the current version of a file."""
    stored = reader.byte_store.source_by_id(source)
    if stored is None:
        return {}
    offsets = sorted(
        {
            problem.position.offset
            for problem in problems
            if problem.position.generation == stored.generation
        },
        reverse=True,
    )
    lines: dict[int, int] = {}
    start, newlines = 0, 0
    try:
        for chunk in read_source(reader, source):
            counted = 0
            while offsets and offsets[-1] < start + len(chunk):
                offset = offsets.pop()
                newlines += chunk.count(b"\n", counted, offset - start)
                counted = offset - start
                lines[offset] = newlines + 1
            if not offsets:
                break
            newlines += chunk.count(b"\n", counted)
            start += len(chunk)
    except ArchiveDamaged:
        return lines
    return lines
