"""Commits and pull requests that sessions made, and who wrote the lines of a commit."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import msgspec
from msgspec import Struct

from bygones.errors import AmbiguousSelector, NotInArchive
from bygones.files.events import Place, load_command
from bygones.files.git import GitCommit, GitRepository
from bygones.files.git_notes import session_key, turn_key
from bygones.files.history import BranchLog
from bygones.files.library import FileLibrary
from bygones.files.replay import VersionKind
from bygones.model.base import DECODE_ERRORS, SessionId
from bygones.model.outcomes import BashOutcome
from bygones.model.sessions import ToolCall

_GIT_COMMAND = re.compile(
    r"\bgit\b.*\b(?:commit|merge|cherry-pick|revert|am)\b|\bgh\s+pr\b", re.DOTALL
)
_COMMIT_LINE = re.compile(
    r"^\[(?P<branch>\S+)(?: \(root-commit\))? (?P<sha>[0-9a-f]{7,40})\] (?P<summary>.*)$",
    re.MULTILINE,
)
_PULL_REQUEST = re.compile(r"https://[\w.-]+/[\w.-]+/[\w.-]+/pull/\d+")
_COMMIT_IN_JSON = re.compile(rb'"gitOperation"|/pull\\?/| [0-9a-f]{7,40}\] ')
_CLOCK_TOLERANCE = timedelta(seconds=2)
_MAX_COMMAND = 4_000
"""Characters of a command that are looked at."""


class SessionCommit(Struct, frozen=True, kw_only=True):
    """A commit or pull request that a call of a session made."""

    place: Place
    made_at: datetime | None
    kind: str = "commit"
    sha: str = ""
    summary: str = ""
    git_branch: str = ""
    url: str = ""


class CommitShare(Struct, frozen=True, kw_only=True):
    """How many lines of a commit a session wrote."""

    session_id: SessionId
    turn_number: int
    """The last turn that wrote one of them, counted from 0."""
    line_count: int
    added_line_count: int
    """All lines that the commit added, without blank ones."""


class _CommitOperation(Struct, frozen=True):
    sha: str | None = None
    kind: str | None = None
    branch: str | None = None


class _PullRequest(Struct, frozen=True):
    number: int | None = None
    url: str | None = None
    action: str | None = None


class _GitOperation(Struct, frozen=True):
    commit: _CommitOperation | None = None
    pr: _PullRequest | None = None


_decode_operation = msgspec.json.Decoder(_GitOperation).decode


def find_commits(log: BranchLog) -> Iterator[SessionCommit]:
    """Yield the commits and pull requests that the calls of a branch made."""
    for placed in log.calls:
        if placed.call.name == "Bash" and not placed.call.is_error:
            yield from find_call_commits(placed.call, placed.place, placed.time)


def is_git_command(command: str) -> bool:
    """Whether a shell command may make commits or pull requests."""
    if "git" not in command and "gh" not in command:
        return False  # much faster than the expression
    return _GIT_COMMAND.search(command[:_MAX_COMMAND]) is not None


def may_report_commit(line: bytes) -> bool:
    """Whether the line of a result may name a commit or a pull request."""
    return _COMMIT_IN_JSON.search(line) is not None


def find_call_commits(
    call: ToolCall, place: Place, time: datetime | None
) -> Iterator[SessionCommit]:
    """Yield the commits and pull requests that a shell command made."""
    if not is_git_command(load_command(call)):
        return
    outcome = call.outcome
    if isinstance(outcome, BashOutcome):
        yield from _operation_commits(outcome, place, time)


def _operation_commits(
    outcome: BashOutcome, place: Place, time: datetime | None
) -> Iterator[SessionCommit]:
    try:
        operation = _decode_operation(outcome.git_operation)
    except DECODE_ERRORS:
        operation = _GitOperation()
    output = outcome.stdout or ""
    recorded = operation.commit
    shas: list[str] = []
    for match in _COMMIT_LINE.finditer(output):
        shas.append(match["sha"])
        is_recorded = bool(
            recorded and recorded.sha and _is_same_sha(recorded.sha, match["sha"])
        )
        yield SessionCommit(
            place=place,
            made_at=time,
            kind=(recorded.kind if recorded and is_recorded else None) or "commit",
            sha=recorded.sha
            if recorded and is_recorded and recorded.sha
            else match["sha"],
            summary=match["summary"],
            git_branch=match["branch"],
        )
    if (
        recorded
        and recorded.sha
        and not any(_is_same_sha(recorded.sha, s) for s in shas)
    ):
        yield SessionCommit(
            place=place,
            made_at=time,
            kind=recorded.kind or "commit",
            sha=recorded.sha,
            git_branch=recorded.branch or "",
        )
    url = (operation.pr.url if operation.pr else None) or ""
    if not url and (match_url := _PULL_REQUEST.search(output)):
        url = match_url[0]
    if url:
        kind = (operation.pr.action if operation.pr else None) or ""
        yield SessionCommit(
            place=place,
            made_at=time,
            kind=f"pull_request {kind}".strip().replace(" ", "_"),
            url=url,
        )


def _is_same_sha(a: str, b: str) -> bool:
    return a.startswith(b) or b.startswith(a)


def find_authors(
    library: FileLibrary, repository: GitRepository, commit: GitCommit
) -> list[CommitShare]:
    """Return which sessions wrote the lines that a commit added, most lines first.

    Lines are matched by content in files of the same path, so a commit that was rebased
    or squashed is found as well. A line that several turns wrote belongs to the last one
    before the commit.
    """
    added = repository.added_lines(commit.sha)
    total = sum(bool(line.strip()) for lines in added.values() for _, line in lines)
    counts: dict[SessionId, int] = {}
    turns: dict[SessionId, int] = {}
    for _, _, place in _attribute(library, repository, commit, added):
        id_ = place.session_id
        counts[id_] = counts.get(id_, 0) + 1
        turns[id_] = max(turns.get(id_, 0), place.turn_number)
    shares = [
        CommitShare(
            session_id=session_id,
            turn_number=turns[session_id],
            line_count=count,
            added_line_count=total,
        )
        for session_id, count in counts.items()
    ]
    return sorted(shares, key=lambda share: share.line_count, reverse=True)


def _attribute(
    library: FileLibrary,
    repository: GitRepository,
    commit: GitCommit,
    added: Mapping[str, Sequence[tuple[int, str]]],
) -> Iterator[tuple[str, int, Place]]:
    """Yield path, number and place of the added lines that sessions wrote."""
    for inside, lines in added.items():
        written = _lines_written(library, repository.root / inside, commit.committed_at)
        for number, line in lines:
            place = written.get(line)
            if place is not None and line.strip():
                yield inside, number, place


def format_note(
    library: FileLibrary,
    repository: GitRepository,
    commit: GitCommit,
    model_of: Callable[[SessionId], str | None],
) -> str:
    """Return the lines that sessions wrote as a note of the git-ai standard 3.0.0.

    It belongs under ``refs/notes/ai``. Each turn is a trace of its session.
    """
    added = repository.added_lines(commit.sha)
    files: dict[str, dict[str, list[int]]] = {}
    sessions: dict[str, object] = {}
    for path, number, place in _attribute(library, repository, commit, added):
        session = session_key(place.session_id)
        trace = turn_key(place.session_id, place.turn_number)
        numbers = files.setdefault(path, {}).setdefault(f"{session}::{trace}", [])
        numbers.append(number)
        model = model_of(place.session_id) or "unknown"
        agent = {"tool": "claude", "id": place.session_id, "model": model}
        sessions[session] = {"agent_id": agent}
    rows: list[str] = []
    for path, entries in files.items():
        if "\n" in path:
            continue  # the format has no way to write it
        rows.append(f'"{path}"' if any(c.isspace() for c in path) else path)
        rows += (f"  {key} {_format_ranges(n)}" for key, n in entries.items())
    metadata = {
        "schema_version": "authorship/3.0.0",
        "base_commit_sha": commit.sha,
        "prompts": {},
        "sessions": sessions,
    }
    encoded = msgspec.json.format(msgspec.json.encode(metadata), indent=2).decode()
    return "\n".join([*rows, "---", encoded])


def _format_ranges(numbers: Sequence[int]) -> str:
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join(f"{a}-{b}" if b > a else f"{a}" for a, b in ranges)


def _lines_written(
    library: FileLibrary, path: Path, until: datetime | None
) -> dict[str, Place]:
    """Return the lines that Claude wrote into a file up to a time."""
    try:
        history = library.open(str(path)).history
    except (NotInArchive, AmbiguousSelector):
        return {}
    written: dict[str, Place] = {}
    for version in history.versions:
        is_own = version.kind in {VersionKind.CLAUDE, VersionKind.COMMAND}
        is_late = until and version.time and version.time > until + _CLOCK_TOLERANCE
        if is_own and not is_late:
            lines: Sequence[str] = [
                *version.added_lines,
                *(line for change in version.changes for line in change.added),
            ]
            written.update(dict.fromkeys(lines, version.place))
    return written
