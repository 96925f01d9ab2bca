"""A survey as a page for people: counts below each other, the remarkable last."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from bygones.cli.terminal import (
    Paint,
    fit_left,
    fit_right,
    plain,
    readable_size,
    table,
    width,
)
from bygones.model.surveys import (
    DriftRow,
    ProblemRow,
    ProblemsRow,
    RecordsRow,
    Survey,
    TotalRow,
    VersionRow,
)

__all__ = ["Page", "place_text"]

_BAR = 20
_NAMELESS = "(none)"


class Page:
    """Sets a survey for a terminal of some width, or for a file."""

    def __init__(
        self,
        *,
        paint: Paint,
        columns: int,
        short: Callable[[str], str] = str,
        is_cut: bool = False,
    ) -> None:
        self.paint = paint
        self.columns = columns
        self.short = short
        """Makes a path shorter for the eye."""
        self.is_cut = is_cut
        """Whether paths are cut to the width; programs need them whole."""

    def lines(
        self, survey: Survey, places: Sequence[str], *, with_places: bool = True
    ) -> Iterator[str]:
        """Yield the lines of the page, without their ends.

        ``places`` are the files and folders that were looked at.
        """
        for place in places:
            where = plain(self.short(place))
            where = fit_left(where, self.columns) if self.is_cut else where
            yield self.paint.heading(where)
        yield from self._head(survey.total)
        yield from self._files(survey)
        yield from self._records(survey.records)
        yield from self._content(survey)
        yield from self._versions(survey.versions)
        yield from self._drift(survey.drift)
        yield from self._problems(survey, with_places=with_places)
        if survey.total.overflow:
            yield ""
            yield self.paint.alert(
                f"{survey.total.overflow:,} records had too many different names to "
                "be told apart"
            )

    def _head(self, total: TotalRow) -> Iterator[str]:
        facts = [
            _several(total.files, "file"),
            readable_size(total.bytes),
            _several(total.records, "record"),
            _several(total.sessions, "session"),
            _several(total.agents, "agent"),
        ]
        if total.first and total.last:
            facts.append(f"{total.first:%Y-%m-%d} to {total.last:%Y-%m-%d}")
        yield from _wrapped(facts, self.columns)

    def _section(
        self, title: str, rows: Sequence[Sequence[str]], right: str
    ) -> Iterator[str]:
        if not rows:
            return
        yield ""
        yield self.paint.heading(title)
        room = max(12, self.columns - 28)
        fitted = [(fit_right(plain(first), room), *rest) for first, *rest in rows]
        for line in table(fitted, right=right):
            yield f"  {line}"

    def _files(self, survey: Survey) -> Iterator[str]:
        rows = [
            (row.kind, f"{row.files:,}", readable_size(row.bytes))
            for row in survey.files
        ]
        yield from self._section("Files", rows, "lrr")
        if survey.kept:
            kept = (_several(row.files, row.kind) for row in survey.kept)
            for line in _wrapped(["not read:", *kept], self.columns - 2, " "):
                yield self.paint.faint(f"  {line}")

    def _records(self, records: Sequence[RecordsRow]) -> Iterator[str]:
        rows = []
        for kind, group in groupby(records, key=lambda row: row.type):
            found = list(group)
            rows.append((kind or _NAMELESS, *_sums(found)))
            if found[0].subtype or len(found) > 1:
                rows.extend(
                    (f"  {row.subtype or _NAMELESS}", *_sums([row])) for row in found
                )
        yield from self._section("Records", rows, "lrr")

    def _content(self, survey: Survey) -> Iterator[str]:
        total = survey.total.bytes or 1
        rows = [
            (
                row.kind,
                readable_size(row.bytes),
                f"{row.bytes / total:.0%}" if row.bytes * 200 >= total else "",
                "█" * round(_BAR * row.bytes / total),
            )
            for row in sorted(survey.content, key=lambda row: -row.bytes)
            if row.bytes
        ]
        yield from self._section("Content", rows, "lrrl")

    def _versions(self, versions: Sequence[VersionRow]) -> Iterator[str]:
        rows = []
        for _, group in groupby(versions, key=lambda row: _series(row.version)):
            found = list(group)
            first, last = found[0].version, found[-1].version
            rows.append(
                (
                    first if first == last else f"{first} to {last}",
                    _several(len(found), "version"),
                    _several(sum(row.records for row in found), "record"),
                )
            )
        yield from self._section("Claude Code", rows, "lrr")

    def _drift(self, drift: Sequence[DriftRow]) -> Iterator[str]:
        rows = []
        for (kind, name), group in groupby(drift, key=lambda row: (row.kind, row.name)):
            found = list(group)
            versions = [row.version for row in found if row.version]
            span = " to ".join(
                dict.fromkeys((versions[0], versions[-1])) if versions else ()
            )
            records = sum(row.records for row in found)
            rows.append(
                (
                    f"{kind} {name or _NAMELESS}",
                    f"{records:,}",
                    fit_right(plain(span), 20),
                )
            )
        yield from self._section("Drift: not met before", rows, "lrl")

    def _problems(self, survey: Survey, *, with_places: bool) -> Iterator[str]:
        yield ""
        if not survey.problems:
            yield self.paint.heading("No problems")
            return
        yield self.paint.heading("Problems")
        for row in survey.problems:
            yield from self._problem(row, with_places=with_places)

    def _problem(self, row: ProblemsRow, *, with_places: bool) -> Iterator[str]:
        head = f"{row.problems:,} {row.kind}"
        is_long = width(head) + width(row.meaning) + 4 > self.columns
        yield f"  {self.paint.alert(head)}" + ("" if is_long else f"  {row.meaning}")
        if is_long:
            yield f"    {row.meaning}"
        if not with_places:
            return
        told = ""
        for problem in row.first:
            detail = plain(problem.detail)
            yield from self._place(problem, "" if detail == told else detail)
            told = detail
        if row.problems > len(row.first):
            more = f"and {row.problems - len(row.first):,} more; --problems lists all"
            yield f"    {self.paint.faint(more)}"

    def _place(self, problem: ProblemRow, detail: str) -> Iterator[str]:
        room = self.columns - 4
        where = plain(place_text(problem, self.short))
        where = fit_left(where, room) if self.is_cut else where
        is_short = width(where) + 2 + width(detail) <= room
        same_line = f"  {self.paint.faint(detail)}" if detail and is_short else ""
        yield f"    {self.paint.place(where)}{same_line}"
        if detail and not is_short:
            yield f"      {self.paint.faint(fit_right(detail, room - 2))}"


def place_text(problem: ProblemRow, short: Callable[[str], str] = str) -> str:
    """Return the place of a problem in the form that editors open."""
    path = short(problem.source)
    return path if problem.line is None else f"{path}:{problem.line}"


def _sums(rows: Sequence[RecordsRow]) -> tuple[str, str]:
    size = sum(row.bytes for row in rows)
    return f"{sum(row.records for row in rows):,}", readable_size(size)


def _several(number: int, name: str) -> str:
    return f"{number:,} {name}" if number == 1 else f"{number:,} {name}s"


def _series(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _wrapped(parts: Sequence[str], columns: int, gap: str = " · ") -> Iterator[str]:
    line = ""
    for part in parts:
        longer = f"{line}{gap}{part}" if line else part
        if width(longer) > columns and line:
            yield line
            longer = part
        line = longer
    yield line
