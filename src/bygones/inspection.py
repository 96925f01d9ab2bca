"""The `inspect` command: counts what transcripts contain, in one pass over their lines.

Memory is bounded: names from transcripts (types, versions, ids) are kept up to a limit,
and a few examples per kind of problem.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from bygones.model.base import PROBLEM_KINDS, Problem, SourceFile, SourceKind
from bygones.model.metadata import ATTACHMENTS_BY_TYPE, RECORDS_BY_TYPE
from bygones.model.records import ProgressData, SystemRecord
from bygones.model.reports import (
    ContentKind,
    ContentRow,
    DriftKind,
    DriftRow,
    FileClass,
    FileClassRow,
    ProblemKindRow,
    RecordTypeRow,
    Survey,
    SurveyTotalRow,
    UnreadFilesRow,
    VersionRow,
)
from bygones.sources.lines import read_lines
from bygones.sources.walk import discover_sources
from bygones.transcript_stats import (
    BoundedCounter,
    DriftKey,
    FileStats,
    ProblemCallback,
    RecordKey,
    TranscriptStats,
)

BytesReadCallback = Callable[[int], None]
"""Receives the number of bytes read since the last call."""

_PROGRESS_STEP = 1 << 22


def inspect_transcripts(
    paths: Iterable[Path],
    *,
    on_problem: ProblemCallback | None = None,
    on_bytes_read: BytesReadCallback | None = None,
) -> Survey:
    """Count what the transcripts in some files and folders contain.

    Lines are decoded by the light decoder, so problems in fields that it does not decode
    are not found. A path inside another one is counted once.
    """
    stats = TranscriptStats(on_problem)
    for path in _outermost(paths):
        for source in discover_sources(path):
            if isinstance(source, Problem):
                stats.add_problem(source, None)
            elif _is_parsed(source):
                _read_file(source, stats, on_bytes_read)
            else:
                stats.add_unread_file(source)
    return build_survey(stats)


def total_transcript_size(paths: Iterable[Path]) -> int:
    """Return how many bytes `inspect_transcripts` will read."""
    return sum(
        source.size
        for path in _outermost(paths)
        for source in discover_sources(path)
        if isinstance(source, SourceFile) and _is_parsed(source)
    )


def _outermost(paths: Iterable[Path]) -> list[Path]:
    by_real_path = {Path(os.path.realpath(path)): path for path in paths}
    return [
        path
        for real_path, path in by_real_path.items()
        if not any(parent in by_real_path for parent in real_path.parents)
    ]


def _is_parsed(source: SourceFile) -> bool:
    return source.kind.is_transcript or source.kind is SourceKind.JOURNAL


def _read_file(
    source: SourceFile, stats: TranscriptStats, on_bytes_read: BytesReadCallback | None
) -> None:
    file = FileStats(source)
    reported = 0
    for number, line in enumerate(read_lines(source), 1):
        if isinstance(line, Problem):
            file.problem_count += 1
            stats.add_problem(line, None)
        else:
            stats.add_line(line, number, file)
        if on_bytes_read and file.size - reported >= _PROGRESS_STEP:
            on_bytes_read(file.size - reported)
            reported = file.size
    if on_bytes_read:
        on_bytes_read(file.size - reported)
    stats.finish_file(file)


K = TypeVar("K")

_KNOWN_SUBTYPES: Mapping[str, tuple[DriftKind, Container[str | None]]] = {
    "system": (DriftKind.SUBTYPE, SystemRecord.subtypes),
    "attachment": (DriftKind.ATTACHMENT, ATTACHMENTS_BY_TYPE),
    "progress": (DriftKind.PROGRESS, ProgressData.types),
}
_MAX_VERSION_DIGITS = 9


def build_survey(stats: TranscriptStats) -> Survey:
    return Survey(
        files=tuple(
            FileClassRow(kind=kind, files=files, bytes=size)
            for kind, files, size in _iter_in_order(stats.classes, FileClass)
        ),
        unread_files=tuple(
            UnreadFilesRow(kind=kind, files=files, bytes=size)
            for kind, files, size in _iter_in_order(stats.unread_files, SourceKind)
        ),
        records=tuple(_record_rows(stats.kinds)),
        versions=tuple(_version_rows(stats.kinds)),
        content=tuple(
            ContentRow(kind=kind, bytes=getattr(stats.sizes, kind.name.lower()))
            for kind in ContentKind
        ),
        drift=tuple(_drift_rows(stats.kinds, stats.drift)),
        problems=tuple(_problem_rows(stats)),
        total=_total_row(stats),
    )


def _iter_in_order(
    counter: BoundedCounter[K], order: Iterable[K]
) -> Iterator[tuple[K, int, int]]:
    for name in order:
        if name in counter.totals:
            number, size = counter.totals[name]
            yield name, number, size


def _record_rows(kinds: BoundedCounter[RecordKey]) -> Iterator[RecordTypeRow]:
    """Yield records by type and subtype, the most frequent type first."""
    sums: dict[tuple[str, str | None], list[int]] = {}
    types: dict[str, int] = {}
    for (kind, subtype, _), (number, size) in kinds.totals.items():
        total = sums.setdefault((kind, subtype), [0, 0])
        total[0] += number
        total[1] += size
        types[kind] = types.get(kind, 0) + number
    for kind, subtype in sorted(
        sums,
        key=lambda name: (-types[name[0]], name[0], -sums[name][0], name[1] or ""),
    ):
        number, size = sums[kind, subtype]
        yield RecordTypeRow(
            record_type=kind,
            subtype=subtype,
            is_known=_find_unknown(kind, subtype) is None,
            records=number,
            bytes=size,
        )


def _find_unknown(kind: str, subtype: str | None) -> tuple[DriftKind, str] | None:
    """Return the name that this version does not know: the type or the subtype."""
    if kind not in RECORDS_BY_TYPE:
        return DriftKind.RECORD, kind
    if kind not in _KNOWN_SUBTYPES:
        return None
    drift, known = _KNOWN_SUBTYPES[kind]
    return None if subtype in known else (drift, subtype or "")


def _version_rows(kinds: BoundedCounter[RecordKey]) -> Iterator[VersionRow]:
    sums: dict[str, int] = {}
    for (_, _, version), (number, _) in kinds.totals.items():
        if version:
            sums[version] = sums.get(version, 0) + number
    for version in sorted(sums, key=_version_order):
        yield VersionRow(version=version, records=sums[version])


def _version_order(version: str | None) -> tuple[tuple[int, str], ...]:
    """Return a sort key that puts 2.0.9 before 2.0.10."""
    return tuple(
        (int(part), "")
        if part.isdecimal() and len(part) <= _MAX_VERSION_DIGITS
        else (0, part)
        for part in (version or "").split(".")
    )


def _drift_rows(
    kinds: BoundedCounter[RecordKey], drift: BoundedCounter[DriftKey]
) -> Iterator[DriftRow]:
    """Yield what this version does not know, by kind, name and version."""
    sums = {key: number for key, (number, _) in drift.totals.items()}
    for (kind, subtype, version), (number, _) in kinds.totals.items():
        unknown = _find_unknown(kind, subtype)
        if unknown:
            key = (*unknown, version)
            sums[key] = sums.get(key, 0) + number
    order = {kind: number for number, kind in enumerate(DriftKind)}
    for kind, name, version in sorted(
        sums, key=lambda key: (order[key[0]], key[1], _version_order(key[2]))
    ):
        number = sums[kind, name, version]
        yield DriftRow(kind=kind, name=name, version=version, records=number)


def _problem_rows(stats: TranscriptStats) -> Iterator[ProblemKindRow]:
    for kind, number, _ in _iter_in_order(stats.problems, PROBLEM_KINDS):
        yield ProblemKindRow(
            kind=kind,
            meaning=PROBLEM_KINDS[kind].meaning,
            problems=number,
            examples=tuple(stats.first_problems[kind]),
        )


def _total_row(stats: TranscriptStats) -> SurveyTotalRow:
    counters = (stats.kinds, stats.drift, stats.sessions, stats.agents)
    files = stats.classes.totals.values()
    return SurveyTotalRow(
        files=sum(number for number, _ in files),
        bytes=sum(size for _, size in files),
        lines=stats.lines,
        unread_lines=stats.unread_lines,
        records=stats.records,
        problems=sum(number for number, _ in stats.problems.totals.values()),
        sessions=len(stats.sessions.totals),
        agents=len(stats.agents.totals),
        first_at=stats.first_time,
        last_at=stats.last_time,
        overflow=sum(counter.overflow for counter in counters),
    )
