"""Says what files hold: one pass over their lines that keeps counts and nothing else.

Memory is bounded whatever the files are: names that a transcript makes up (types,
versions, ids) are kept up to a limit, and places of problems up to a few of a kind.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from bygones.model.problems import Problem
from bygones.model.sources import Source, SourceKind
from bygones.model.surveys import Survey
from bygones.sources import discover, read_lines
from bygones.survey.counts import Counts, FileCounts, Notice
from bygones.survey.rows import rows_of

__all__ = ["Notice", "Passed", "survey", "weigh"]

Passed = Callable[[int], None]
"""Takes a number of bytes that have been read since it was last called."""

_STEP = 1 << 22


def survey(
    paths: Iterable[Path],
    *,
    notice: Notice | None = None,
    passed: Passed | None = None,
) -> Survey:
    """Return what the transcripts in some files and folders hold.

    The light pass finds the problems; those in fields that it does not look into are
    not among them. A path that lies in another one is counted with that.
    """
    counts = Counts(notice)
    for path in _outermost(paths):
        for found in discover(path):
            if isinstance(found, Problem):
                counts.problem(found, None)
            elif _is_read(found):
                _read(found, counts, passed)
            else:
                counts.keep(found)
    return rows_of(counts)


def weigh(paths: Iterable[Path]) -> int:
    """Return how many bytes :func:`survey` will read, by a walk of its own."""
    return sum(
        found.size
        for path in _outermost(paths)
        for found in discover(path)
        if isinstance(found, Source) and _is_read(found)
    )


def _outermost(paths: Iterable[Path]) -> list[Path]:
    places = {Path(os.path.realpath(path)): path for path in paths}
    return [
        path
        for place, path in places.items()
        if not any(above in places for above in place.parents)
    ]


def _is_read(source: Source) -> bool:
    return source.kind.is_transcript or source.kind is SourceKind.JOURNAL


def _read(source: Source, counts: Counts, passed: Passed | None) -> None:
    file = FileCounts(source)
    said = 0
    for number, line in enumerate(read_lines(source), 1):
        if isinstance(line, Problem):
            file.oddities += 1
            counts.problem(line, None)
        else:
            counts.line(line, number, file)
        if passed and file.size - said >= _STEP:
            passed(file.size - said)
            said = file.size
    if passed:
        passed(file.size - said)
    counts.close(file)
