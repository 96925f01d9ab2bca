"""Origins of lines as an Agent Trace record (version 0.1.0)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from hashlib import sha256
from itertools import groupby
from uuid import uuid4

from msgspec import Struct

from bygones.files.blame import BlamedLine
from bygones.files.origins import OriginKind
from bygones.model.base import SessionId

_CONTRIBUTORS = {
    OriginKind.CLAUDE: "ai",
    OriginKind.COMMAND: "ai",
    OriginKind.MODIFIED: "mixed",
    OriginKind.USER: "human",
}


class TraceContributor(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who wrote a range: `ai`, `mixed` or `human`."""

    type: str
    model_id: str | None = None


class TraceRange(Struct, frozen=True, kw_only=True):
    """Lines of a file, counted from 1."""

    start_line: int
    end_line: int
    content_hash: str


class TraceConversation(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The lines that one conversation wrote."""

    url: str | None = None
    contributor: TraceContributor
    ranges: list[TraceRange]


class TraceFile(Struct, frozen=True, kw_only=True):
    """A file with its conversations."""

    path: str
    conversations: list[TraceConversation]


class TraceRevision(Struct, frozen=True, kw_only=True):
    """The commit that the lines belong to."""

    type: str = "git"
    revision: str


class TraceTool(Struct, frozen=True, kw_only=True):
    """The program that wrote the lines."""

    name: str = "claude-code"


class TraceRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An Agent Trace record."""

    version: str
    id: str
    timestamp: datetime
    vcs: TraceRevision | None = None
    tool: TraceTool | None = None
    files: list[TraceFile]


def build_trace(
    path: str,
    lines: Sequence[BlamedLine],
    *,
    model_of: Callable[[SessionId], str | None],
    revision: str | None,
    now: datetime,
) -> TraceRecord:
    """Return the record of a file; lines from before the first version are left out."""
    found: dict[tuple[str | None, str], list[TraceRange]] = {}
    for origin, group in groupby(lines, key=lambda line: line.origin):
        contributor = _CONTRIBUTORS.get(origin.kind)
        block = list(group)
        if contributor is None:
            continue
        is_human = contributor == "human"
        session = origin.place.session_id if origin.place and not is_human else None
        text = "\n".join(line.text for line in block)
        digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        found.setdefault((session, contributor), []).append(
            TraceRange(
                start_line=block[0].number,
                end_line=block[-1].number,
                content_hash=f"sha256:{digest}",
            )
        )
    conversations = []
    for (session, contributor), ranges in found.items():
        model = model_of(SessionId(session)) if session else None
        conversations.append(
            TraceConversation(
                url=f"urn:uuid:{session}" if session else None,
                contributor=TraceContributor(
                    type=contributor, model_id=f"anthropic/{model}" if model else None
                ),
                ranges=ranges,
            )
        )
    return TraceRecord(
        version="0.1.0",
        id=str(uuid4()),
        timestamp=now,
        vcs=TraceRevision(revision=revision) if revision else None,
        tool=TraceTool(),
        files=[TraceFile(path=path, conversations=conversations)],
    )
