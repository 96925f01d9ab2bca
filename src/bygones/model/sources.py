"""What discovery finds in a home: sources and the files kept beside them."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from bygones.model.ids import AgentId, ProjectKey, SessionId, SourceId

__all__ = ["Source", "SourceKind"]


class SourceKind(StrEnum):
    """What a file's place in the home says it is; its content may differ."""

    SESSION = "session"
    AGENT = "agent"
    JOURNAL = "journal"
    SIDECAR = "sidecar"
    TOOL_RESULT = "tool-result"
    WORKFLOW = "workflow"
    BACKUP = "file-history"
    TODO = "todo"
    TASK = "task"
    PLAN = "plan"
    HISTORY = "history"

    @property
    def is_transcript(self) -> bool:
        """Whether the file's lines are records of a conversation."""
        return self in {SourceKind.SESSION, SourceKind.AGENT}


class Source(Struct, frozen=True, kw_only=True):
    """One file of a home, as a walk saw it."""

    id: SourceId
    home: str
    """The folder that was walked."""
    path: str
    """Relative to ``home``, with forward slashes."""
    kind: SourceKind
    size: int
    mtime_ns: int
    inode: int = 0
    ctime_ns: int = 0
    """Changes with every write, even where somebody sets ``mtime_ns`` back."""
    project: ProjectKey | None = None
    session: SessionId | None = None
    """By the name of the file or of the folder that holds it."""
    agent: AgentId | None = None
