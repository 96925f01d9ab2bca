"""Who wrote each line of a version: origins that are carried through the changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from enum import StrEnum
from itertools import groupby

from msgspec import Struct, structs

from bygones.files.diff import LineChange, pair_similar
from bygones.files.events import Place
from bygones.files.replay import Cause, Version, VersionKind


class OriginKind(StrEnum):
    """Who wrote a line."""

    CLAUDE = "claude"
    MODIFIED = "modified"
    """Claude, but it was changed since."""
    USER = "user"
    """The user, or a program outside of Claude Code."""
    COMMAND = "command"
    """A command that Claude ran."""
    BEFORE = "before"
    """It was there before the first recorded version."""
    UNKNOWN = "unknown"


class Certainty(StrEnum):
    """How sure an origin is."""

    CERTAIN = "certain"
    """It is recorded."""
    LIKELY = "likely"
    """It is inferred from what is recorded."""
    UNKNOWN = "unknown"


class LineOrigin(Struct, frozen=True, kw_only=True):
    """Who wrote a line, where, and how sure this is."""

    kind: OriginKind
    certainty: Certainty
    place: Place | None = None
    path: str = ""
    """The path that the file had."""
    time: datetime | None = None
    command: str = ""
    cause: Cause | None = None
    suspected_at: datetime | None = None
    """When the command was started that probably wrote or changed the line."""
    version: int | None = None
    """The number of the version that added the line."""
    commit: str = ""
    """The commit that git names for the line."""

    @property
    def is_noticed(self) -> bool:
        """Whether it was only noticed at its place, not written there."""
        return self.cause is not None and self.kind in {
            OriginKind.USER,
            OriginKind.UNKNOWN,
        }


BEFORE = LineOrigin(kind=OriginKind.BEFORE, certainty=Certainty.CERTAIN)
UNKNOWN = LineOrigin(kind=OriginKind.UNKNOWN, certainty=Certainty.UNKNOWN)


class OriginRange(Struct, frozen=True):
    """Consecutive lines with the same origin; `start` counts from 0."""

    start: int
    stop: int
    origin: LineOrigin


_MIN_LINE = 12
"""Characters of a line that is recognized on its own, without its neighbors."""


def is_telling(line: str) -> bool:
    """Whether a line is long enough to be recognized."""
    return len(line.strip()) >= _MIN_LINE


class OriginTrace:
    """The origins of lines, carried through versions.

    Lines that were removed are remembered: if they come back with a change that Claude
    did not make, such as a revert, they keep their origin.
    """

    def __init__(self, versions: Iterable[Version]) -> None:
        self.owners = [BEFORE]
        """The origin of each line of the last version.

        A text that ends with a newline has an empty last line.
        """
        self.removed: dict[str, LineOrigin] = {}
        """The origins of lines that were removed."""
        self._unplaced: dict[str, LineOrigin] = {}
        for version in versions:
            self._add(version)

    def _add(self, version: Version) -> None:
        origin = _version_origin(version)
        if not version.is_known:
            likely = structs.replace(origin, certainty=Certainty.LIKELY)
            self._unplaced.update(dict.fromkeys(version.added_lines, likely))
            return
        if version.is_rewritten:
            self.owners = [origin]
        removed: dict[str, LineOrigin] = {}
        for change in reversed(version.changes):
            stop = change.start + len(change.removed)
            replaced = self.owners[change.start : stop]
            added = _added_owners(version, change, origin, replaced)
            if version.kind in {VersionKind.OUTSIDE, VersionKind.COMMAND}:
                added = self._restore(change.added, added)
            if self._unplaced:
                lines = zip(change.added, added, strict=True)
                added = [self._unplaced.get(line, owner) for line, owner in lines]
            removed.update(zip(change.removed, replaced, strict=False))
            self.owners[change.start : stop] = added
        self.removed.update(removed)
        if version.changes:
            self._unplaced.clear()

    def _restore(
        self, lines: Sequence[str], owners: Sequence[LineOrigin]
    ) -> list[LineOrigin]:
        """Return owners, but for lines that were there before those which they had."""
        found = []
        previous: LineOrigin | None = None
        for line, owner in zip(lines, owners, strict=True):
            if is_telling(line):
                previous = restore_origin(self.removed.get(line))
            elif line not in self.removed:
                previous = None
            found.append(previous or owner)
        return found


def restore_origin(origin: LineOrigin | None) -> LineOrigin | None:
    """Return the origin of a line that came back."""
    if origin is None or origin.certainty is not Certainty.CERTAIN:
        return origin
    return structs.replace(origin, certainty=Certainty.LIKELY)


def trace_origins(versions: Sequence[Version]) -> list[LineOrigin]:
    """Return the origin of each line of the last of some versions.

    A text that ends with a newline has an empty last line.
    """
    return OriginTrace(versions).owners


def _added_owners(
    version: Version,
    change: LineChange,
    origin: LineOrigin,
    removed: Sequence[LineOrigin],
) -> list[LineOrigin]:
    if version.proposed is not None:
        proposed = frozenset(version.proposed.split("\n"))
        by_user = structs.replace(origin, kind=OriginKind.USER)
        return [origin if line in proposed else by_user for line in change.added]
    owners = [origin] * len(change.added)
    if version.kind not in {VersionKind.OUTSIDE, VersionKind.COMMAND}:
        return owners
    for at, other in pair_similar(change.removed, change.added).items():
        if removed[other].kind in {OriginKind.CLAUDE, OriginKind.MODIFIED}:
            owners[at] = structs.replace(
                removed[other],
                kind=OriginKind.MODIFIED,
                certainty=Certainty.LIKELY,
                cause=version.cause,
                command=version.command,
                suspected_at=version.suspected_at,
            )
    return owners


_CAUSE_KINDS = {
    Cause.COMMAND: OriginKind.COMMAND,
    Cause.FORMATTER: OriginKind.COMMAND,
    Cause.USER: OriginKind.USER,
    Cause.SESSION: OriginKind.UNKNOWN,
    Cause.BRANCH: OriginKind.UNKNOWN,
}


def _version_origin(version: Version) -> LineOrigin:
    """Return the origin of lines that a version added."""
    if version.kind is VersionKind.SEEN:
        return structs.replace(BEFORE, path=version.path, version=version.number)
    kind, certainty = OriginKind.CLAUDE, Certainty.CERTAIN
    if version.kind is VersionKind.COMMAND:
        kind = OriginKind.COMMAND
    elif version.kind is VersionKind.OUTSIDE:
        kind = _CAUSE_KINDS[version.cause or Cause.USER]
        certainty = Certainty.LIKELY
        if kind is OriginKind.UNKNOWN:
            certainty = Certainty.UNKNOWN
    elif not version.is_base_known:
        # Some of the lines may have been there before.
        certainty = Certainty.LIKELY
    return LineOrigin(
        kind=kind,
        certainty=certainty,
        place=version.suspect or version.place,
        path=version.path,
        time=version.suspected_at or version.time,
        command=version.command,
        cause=version.cause,
        suspected_at=version.suspected_at,
        version=version.number,
    )


def group_ranges(origins: Sequence[LineOrigin]) -> Iterator[OriginRange]:
    """Yield consecutive lines with the same origin."""
    start = 0
    for origin, lines in groupby(origins):
        stop = start + sum(1 for _ in lines)
        yield OriginRange(start, stop, origin)
        start = stop
