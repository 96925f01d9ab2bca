"""Who wrote each line of a file in the working tree.

The text is compared with the last version that is known from transcripts, and with those
of related files: in worktrees, or under a former name. Lines are matched by content, so
commits may be amended, rebased or squashed. Git says which lines are older than the
turns that seem to have written them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from msgspec import Struct, structs

from bygones.files.diff import diff_lines, pair_similar
from bygones.files.git import GitLine
from bygones.files.history import FileHistory
from bygones.files.origins import (
    BEFORE,
    UNKNOWN,
    Certainty,
    LineOrigin,
    OriginKind,
    is_telling,
    restore_origin,
)
from bygones.files.replay import Cause, Version, VersionKind, changes_tree

_MIN_RUN = 3
"""Consecutive equal lines that are recognized even if each of them is short."""
_CLOCK_TOLERANCE = timedelta(seconds=2)
_OWN_KINDS = frozenset({OriginKind.CLAUDE, OriginKind.MODIFIED, OriginKind.COMMAND})


class BlamedLine(Struct, frozen=True, kw_only=True):
    """A line of a file with its origin."""

    number: int
    """Counted from 1."""
    text: str
    origin: LineOrigin


class _KnownText(Struct, frozen=True):
    """The last known content of a file, with the origins of its lines."""

    lines: list[str]
    origins: list[LineOrigin]


FindNoted = Callable[[GitLine], LineOrigin | None]
"""Returns the origin of a line that a note of its commit names."""


def blame_text(
    text: str,
    histories: Sequence[FileHistory],
    git_lines: Sequence[GitLine] = (),
    find_noted: FindNoted = lambda _: None,
) -> list[BlamedLine]:
    """Return the lines of a text with their origins.

    The first history is that of the file itself; others are related. What is recorded
    in transcripts counts more than notes.
    """
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    matcher = _LineMatcher(lines, histories)
    origins = matcher.match()
    if len(git_lines) == len(lines):
        origins = [
            _apply_note(
                _apply_commit(origin, git_line, matcher.first_known),
                find_noted(git_line),
            )
            for origin, git_line in zip(origins, git_lines, strict=True)
        ]
    rest = matcher.rest_origin
    return [
        BlamedLine(number=number, text=line, origin=origin or rest)
        for number, (line, origin) in enumerate(zip(lines, origins, strict=True), 1)
    ]


def _apply_note(
    origin: LineOrigin | None, noted: LineOrigin | None
) -> LineOrigin | None:
    """Return what a note says, unless a transcript has written the line."""
    is_recorded = origin is not None and origin.kind in _OWN_KINDS
    return origin if noted is None or is_recorded else noted


def _apply_commit(
    origin: LineOrigin | None, line: GitLine, first_known: datetime | None
) -> LineOrigin | None:
    """Return an origin with its commit; what is older than its turn was there before."""
    commit = line.commit
    if commit.is_uncommitted:
        return origin
    committed_at = commit.committed_at
    # What came from outside may be older than the moment at which it was noticed.
    is_own = origin is not None and origin.kind in _OWN_KINDS and origin.cause is None
    known_at = origin.time if origin and is_own else first_known
    is_older = (
        committed_at is not None
        and known_at is not None
        and committed_at + _CLOCK_TOLERANCE < known_at
    )
    if is_older:
        return structs.replace(BEFORE, commit=commit.sha, time=committed_at)
    # Committed while sessions were recorded, but none of them wrote it.
    by_user = LineOrigin(
        kind=OriginKind.USER,
        certainty=Certainty.LIKELY,
        time=committed_at,
        commit=commit.sha,
    )
    if origin is None or (origin.is_noticed and origin.kind is OriginKind.USER):
        return by_user
    if committed_at and origin.suspected_at and committed_at < origin.suspected_at:
        # It was there before the command that seemed to have made it.
        if origin.kind is OriginKind.COMMAND:
            return by_user
        origin = structs.replace(origin, cause=Cause.USER, command="")
    return structs.replace(origin, commit=commit.sha)


class _LineMatcher:
    """Finds the lines of a text in the versions of histories."""

    def __init__(self, lines: list[str], histories: Sequence[FileHistory]) -> None:
        self._lines = lines
        self._histories = [history for history in histories if history.versions]
        self._found: list[LineOrigin | None] = [None] * len(lines)

    @property
    def first_known(self) -> datetime | None:
        """When the file was first seen."""
        times = (h.versions[0].time for h in self._histories)
        return min(filter(None, times), default=None)

    @property
    def rest_origin(self) -> LineOrigin:
        """The origin of lines that are in no version: changed since the last one."""
        if not self._histories:
            return UNKNOWN
        last = self._histories[0].last
        for doubt in reversed(last.doubts):
            if not changes_tree(doubt.command):
                return LineOrigin(
                    kind=OriginKind.COMMAND,
                    certainty=Certainty.LIKELY,
                    place=doubt.place,
                    time=doubt.time,
                    command=doubt.command,
                )
        if last.doubts:
            return UNKNOWN
        return LineOrigin(kind=OriginKind.USER, certainty=Certainty.LIKELY)

    def match(self) -> list[LineOrigin | None]:
        known = [_last_known(history) for history in self._histories]
        for number, version in enumerate(known):
            if version is not None:
                self._match_equal(version, is_related=number > 0)
        self._match_older()
        for version in known[:1]:
            if version is not None:
                self._match_similar(version)
        return self._found

    def _match_equal(self, known: _KnownText, *, is_related: bool) -> None:
        old_at = new_at = 0
        end = (len(known.lines), len(known.lines), len(self._lines), len(self._lines))
        for old_start, old_stop, new_start, new_stop in (
            *diff_lines(known.lines, self._lines),
            end,
        ):
            is_run = new_start - new_at >= _MIN_RUN
            for new, old in zip(
                range(new_at, new_start), range(old_at, old_start), strict=True
            ):
                if not is_related or is_run or is_telling(self._lines[new]):
                    self._set_equal(new, known.origins[old])
            old_at, new_at = old_stop, new_stop

    def _set_equal(self, at: int, origin: LineOrigin) -> None:
        """Use the origin of an equal line, unless a better one is known."""
        current = self._found[at]
        if current is None or (
            current.kind is OriginKind.BEFORE and origin.kind is not OriginKind.BEFORE
        ):
            self._found[at] = origin

    def _match_older(self) -> None:
        """Find lines that an earlier version had, such as after a revert."""
        if all(self._found):
            return
        written: dict[str, LineOrigin] = {}
        for history in self._histories:
            for version in history.versions:
                if version.added_lines:
                    likely = _likely_origin(version)
                    written.update(dict.fromkeys(version.added_lines, likely))
            written.update(history.removed_origins())
        previous: LineOrigin | None = None
        for at, line in enumerate(self._lines):
            if self._found[at] is not None:
                previous = None
                continue
            if is_telling(line):
                previous = restore_origin(written.get(line))
            elif line not in written:
                previous = None
            self._found[at] = previous

    def _match_similar(self, known: _KnownText) -> None:
        """Find lines that were made from lines of the last version."""
        for old_start, old_stop, new_start, new_stop in diff_lines(
            known.lines, self._lines
        ):
            pairs = pair_similar(
                known.lines[old_start:old_stop], self._lines[new_start:new_stop]
            )
            for new, old in pairs.items():
                origin = known.origins[old_start + old]
                if self._found[new_start + new] is None and origin.kind in {
                    OriginKind.CLAUDE,
                    OriginKind.MODIFIED,
                }:
                    self._found[new_start + new] = structs.replace(
                        origin, kind=OriginKind.MODIFIED, certainty=Certainty.LIKELY
                    )


def _likely_origin(version: Version) -> LineOrigin:
    """Return the origin of lines that Claude or a command added somewhere."""
    is_command = version.kind is VersionKind.COMMAND
    return LineOrigin(
        kind=OriginKind.COMMAND if is_command else OriginKind.CLAUDE,
        certainty=Certainty.LIKELY,
        place=version.place,
        path=version.path,
        time=version.time,
        command=version.command,
        version=version.number,
    )


def _last_known(history: FileHistory) -> _KnownText | None:
    """Return the last content that is known, with origins."""
    for version in reversed(history.versions):
        text = history.text(version.number)
        if text is not None:
            origins = history.origins(version.number)
            lines = text.split("\n")
            if lines[-1] == "":
                lines.pop()
            return _KnownText(lines, origins[: len(lines)])
    return None
