"""Notes of the git-ai standard 3.0.0, in which tools record who wrote lines of a commit.

A note under ``refs/notes/ai`` lists line ranges of each file by session, then ``---`` and
JSON about the sessions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from hashlib import sha256

import msgspec
from msgspec import Struct

from bygones.model.base import DECODE_ERRORS, SessionId

NOTES_REF = "ai"
_MAX_NOTE = 4 * 1024 * 1024
_MAX_LINE = 10_000_000
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")


class NoteAgent(Struct, frozen=True):
    """The program that wrote lines."""

    tool: str = ""
    id: str = ""
    model: str = ""


class _NoteSession(Struct, frozen=True):
    agent_id: NoteAgent | None = None


class _NoteMetadata(Struct, frozen=True):
    schema_version: str = ""
    prompts: dict[str, _NoteSession] = {}
    sessions: dict[str, _NoteSession] = {}


class NotedRange(Struct, frozen=True):
    """Lines of a file in a commit, counted from 1, and who wrote them."""

    start: int
    stop: int
    agent: NoteAgent
    trace: str
    """What the tool calls the turn."""


class AuthorshipNote(Struct, frozen=True):
    """Who wrote lines of a commit, by path."""

    files: Mapping[str, Sequence[NotedRange]]

    def author(self, path: str, line: int) -> NotedRange | None:
        """Return who wrote a line; none if the note does not say so."""
        ranges = self.files.get(path, ())
        return next((r for r in ranges if r.start <= line <= r.stop), None)


_decode_metadata = msgspec.json.Decoder(_NoteMetadata).decode


def parse_note(raw: bytes) -> AuthorshipNote | None:
    """Return the content of a note; none if it is of another kind."""
    head, separator, tail = (
        raw[:_MAX_NOTE].decode("utf-8", "replace").partition("\n---\n")
    )
    try:
        metadata = _decode_metadata(tail.encode())
    except DECODE_ERRORS:
        return None
    if not separator or not metadata.schema_version.startswith("authorship/3."):
        return None
    authors = {**metadata.prompts, **metadata.sessions}
    files: dict[str, list[NotedRange]] = {}
    path = ""
    for line in head.split("\n"):
        if line and not line.startswith(" "):
            path = line.strip('"')
            continue
        key, _, numbers = line.strip().rpartition(" ")
        session, _, trace = key.partition("::")
        author = authors.get(session)
        if path and author and author.agent_id:
            ranges = files.setdefault(path, [])
            for start, stop in _parse_ranges(numbers):
                ranges.append(NotedRange(start, stop, author.agent_id, trace))
    return AuthorshipNote(files)


def _parse_ranges(text: str) -> list[tuple[int, int]]:
    found = []
    for part in text.split(","):
        if match := _RANGE.fullmatch(part):
            start, stop = int(match[1][:9]), int((match[2] or match[1])[:9])
            found.append((start, min(stop, _MAX_LINE)))
    return found


def session_key(session_id: SessionId) -> str:
    """Return what a note calls a session."""
    return _short_hash("s", f"claude:{session_id}")


def turn_key(session_id: SessionId, turn_number: int) -> str:
    """Return what our notes call a turn."""
    return _short_hash("t", f"{session_id}:{turn_number}")


def _short_hash(prefix: str, text: str) -> str:
    return f"{prefix}_{sha256(text.encode()).hexdigest()[:14]}"
