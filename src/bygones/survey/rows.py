"""From counts to the rows of a survey, in the order in which they are read."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import TypeVar

from bygones.model.attachments import ATTACHMENTS
from bygones.model.problems import PROBLEM_KINDS
from bygones.model.records import Progress, SystemRecord
from bygones.model.sources import SourceKind
from bygones.model.surveys import (
    ContentKind,
    ContentRow,
    DriftKind,
    DriftRow,
    FileClass,
    FilesRow,
    KeptRow,
    ProblemsRow,
    RecordsRow,
    Survey,
    TotalRow,
    VersionRow,
)
from bygones.parse.full import RECORDS
from bygones.survey.counts import Counts, Drift, Kind, Tally

__all__ = ["rows_of"]

K = TypeVar("K")

_SUBTYPES: Mapping[str, tuple[DriftKind, Container[str | None]]] = {
    "system": (DriftKind.SUBTYPE, SystemRecord.subtypes),
    "attachment": (DriftKind.ATTACHMENT, ATTACHMENTS),
    "progress": (DriftKind.PROGRESS, Progress.types),
}
_MOST_DIGITS = 9


def rows_of(counts: Counts) -> Survey:
    """Return the survey that some counts make."""
    return Survey(
        files=tuple(
            FilesRow(kind=kind, files=files, bytes=size)
            for kind, files, size in _ordered(counts.classes, FileClass)
        ),
        kept=tuple(
            KeptRow(kind=kind, files=files, bytes=size)
            for kind, files, size in _ordered(counts.kept, SourceKind)
        ),
        records=tuple(_records(counts.kinds)),
        versions=tuple(_versions(counts.kinds)),
        content=tuple(
            ContentRow(kind=kind, bytes=getattr(counts.sizes, kind.name.lower()))
            for kind in ContentKind
        ),
        drift=tuple(_drift(counts.kinds, counts.drift)),
        problems=tuple(_problems(counts)),
        total=_total(counts),
    )


def _ordered(tally: Tally[K], order: Iterable[K]) -> Iterator[tuple[K, int, int]]:
    for name in order:
        if name in tally.sums:
            number, size = tally.sums[name]
            yield name, number, size


def _records(kinds: Tally[Kind]) -> Iterator[RecordsRow]:
    """Yield records by type and subtype, the most frequent type first."""
    sums: dict[tuple[str, str | None], list[int]] = {}
    types: dict[str, int] = {}
    for (kind, subtype, _), (number, size) in kinds.sums.items():
        found = sums.setdefault((kind, subtype), [0, 0])
        found[0] += number
        found[1] += size
        types[kind] = types.get(kind, 0) + number
    for kind, subtype in sorted(
        sums,
        key=lambda name: (-types[name[0]], name[0], -sums[name][0], name[1] or ""),
    ):
        number, size = sums[kind, subtype]
        yield RecordsRow(
            type=kind,
            subtype=subtype,
            is_known=_unmet(kind, subtype) is None,
            records=number,
            bytes=size,
        )


def _unmet(kind: str, subtype: str | None) -> tuple[DriftKind, str] | None:
    """Return what is new about a type or subtype, if anything is."""
    if kind not in RECORDS:
        return DriftKind.RECORD, kind
    if kind not in _SUBTYPES:
        return None
    drift, known = _SUBTYPES[kind]
    return None if subtype in known else (drift, subtype or "")


def _versions(kinds: Tally[Kind]) -> Iterator[VersionRow]:
    sums: dict[str, int] = {}
    for (_, _, version), (number, _) in kinds.sums.items():
        if version:
            sums[version] = sums.get(version, 0) + number
    for version in sorted(sums, key=_version_order):
        yield VersionRow(version=version, records=sums[version])


def _version_order(version: str | None) -> tuple[tuple[int, str], ...]:
    """Return a key by which 2.0.9 comes before 2.0.10."""
    return tuple(
        (int(part), "") if part.isdecimal() and len(part) <= _MOST_DIGITS else (0, part)
        for part in (version or "").split(".")
    )


def _drift(kinds: Tally[Kind], drift: Tally[Drift]) -> Iterator[DriftRow]:
    """Yield what has not been met before, by kind, name and version."""
    sums = {met: number for met, (number, _) in drift.sums.items()}
    for (kind, subtype, version), (number, _) in kinds.sums.items():
        unmet = _unmet(kind, subtype)
        if unmet:
            met = (*unmet, version)
            sums[met] = sums.get(met, 0) + number
    order = {kind: number for number, kind in enumerate(DriftKind)}
    for kind, name, version in sorted(
        sums, key=lambda met: (order[met[0]], met[1], _version_order(met[2]))
    ):
        number = sums[kind, name, version]
        yield DriftRow(kind=kind, name=name, version=version, records=number)


def _problems(counts: Counts) -> Iterator[ProblemsRow]:
    for kind, number, _ in _ordered(counts.problems, PROBLEM_KINDS):
        yield ProblemsRow(
            kind=kind,
            meaning=PROBLEM_KINDS[kind].meaning,
            problems=number,
            first=tuple(counts.first_problems[kind]),
        )


def _total(counts: Counts) -> TotalRow:
    tallies = (counts.kinds, counts.drift, counts.sessions, counts.agents)
    files = counts.classes.sums.values()
    return TotalRow(
        files=sum(number for number, _ in files),
        bytes=sum(size for _, size in files),
        lines=counts.lines,
        unread_lines=counts.unread_lines,
        records=counts.records,
        problems=sum(number for number, _ in counts.problems.sums.values()),
        sessions=len(counts.sessions.sums),
        agents=len(counts.agents.sums),
        first=counts.first,
        last=counts.last,
        overflow=sum(tally.overflow for tally in tallies),
    )
