"""Small values that sessions are made of, and what opens their full text."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

from bygones.model.ids import AgentId, Position, ProjectKey, RecordId, SessionId
from bygones.model.usage import Usage

if TYPE_CHECKING:  # whoever only lists sessions opens none of this
    from bygones.model.blocks import Block
    from bygones.model.metadata import FileDelta, FileSnapshot
    from bygones.model.tools import Outcome, ReadOutcome

__all__ = [
    "AgentKind",
    "AgentStatus",
    "Hidden",
    "Lineage",
    "LineageKind",
    "Loader",
    "Piece",
    "Project",
    "Role",
    "Spend",
    "Title",
    "TitleKind",
]


class Loader:
    """Opens what stands at a position.

    Loaders are all equal, so that sessions compare by what they say and not by
    where they were read from.
    """

    def blocks(self, position: Position) -> tuple[Block, ...]:
        """Return the content blocks of the record at a position."""
        raise NotImplementedError

    def outcome(self, position: Position) -> Outcome | None:
        """Return the structured result in the record at a position."""
        raise NotImplementedError

    def extent(self, position: Position) -> ReadOutcome | None:
        """Return what the outcome of a Read says of the file, without the file."""
        raise NotImplementedError

    def glance(self, position: Position, *signs: bytes) -> bool:
        """Whether the outcome at a position is written with one of some signs.

        That is cheaper to know than what it says.
        """
        raise NotImplementedError

    def written(self, position: Position) -> tuple[bytes, bytes]:
        """Return JSON that holds all that the blocks and the outcome there say."""
        raise NotImplementedError

    def snapshot(self, position: Position) -> FileSnapshot | FileDelta | None:
        """Return what the record at a position says of edited files."""
        raise NotImplementedError

    def raw(self, position: Position) -> bytes:
        """Return the bytes at a position."""
        raise NotImplementedError

    def stored(self, position: Position, path: str) -> str | None:
        """Return an output that was too long for the transcript, if it is kept."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        """Whether the other is a loader."""
        return isinstance(other, Loader)

    def __hash__(self) -> int:
        """Return the same for all loaders."""
        return 0


class Role(StrEnum):
    """Which side a message is on."""

    USER = "user"
    ASSISTANT = "assistant"
    SYSTEM = "system"


class Piece(Struct, frozen=True, gc=False, array_like=True):
    """A record of a message, and which of its blocks count.

    A block that an earlier record of the message holds already does not.
    """

    position: Position
    record: RecordId
    blocks: tuple[int, ...] = ()


class Hidden(Struct, frozen=True, gc=False):
    """A record that is in no message, and why."""

    reason: str
    position: Position
    record: RecordId | None = None


class AgentKind(StrEnum):
    """What an agent run is for."""

    TASK = "task"
    WARM_UP = "warm-up"
    REPLAY = "replay"

    @property
    def is_shown(self) -> bool:
        """Whether it did something of its own."""
        return self is AgentKind.TASK


class AgentStatus(StrEnum):
    """How far an agent run came."""

    COMPLETED = "completed"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    RUNNING = "running"
    UNKNOWN = "unknown"


class TitleKind(StrEnum):
    """Where a title comes from, in order of precedence."""

    CUSTOM = "custom"
    GENERATED = "generated"
    AGENT_NAME = "agent-name"
    SUMMARY = "summary"
    PROMPT = "prompt"
    COMMAND = "command"
    LAST_PROMPT = "last-prompt"
    SLUG = "slug"
    ID = "id"

    @property
    def is_given(self) -> bool:
        """Whether it is more than the beginning of something that was said."""
        return self in {
            TitleKind.CUSTOM,
            TitleKind.GENERATED,
            TitleKind.AGENT_NAME,
            TitleKind.SUMMARY,
        }


class Title(Struct, frozen=True, gc=False):
    """What a session is called."""

    text: str
    kind: TitleKind


class LineageKind(StrEnum):
    """How two sessions are related."""

    CONTINUES = "continues"
    FORKED_FROM = "forked-from"
    CONTINUED_IN = "continued-in"
    SAME_PREFIX = "same-prefix"


class Lineage(Struct, frozen=True, gc=False):
    """A relation to another session, by the records that they share."""

    kind: LineageKind
    session: SessionId
    record: RecordId | None = None
    """The last shared record, where it is known."""
    shared: int = 0


class Spend(Struct, frozen=True, kw_only=True, gc=False):
    """The tokens of one message, and who spent them."""

    key: str
    """The same for the same message in any file."""
    record: RecordId
    model: str | None
    usage: Usage
    time: datetime | None = None
    branch: int = 0
    agent: AgentId | None = None
    terms: tuple[str, ...] = ()
    """What sets its price apart: ``fast``, ``batch``, a region."""
    entrypoint: str | None = None
    """The program in which the answer was asked for."""
    estimate: int = 0
    """Output tokens by the length of what was said, where the count is none."""


class Project(Struct, frozen=True, kw_only=True):
    """What a person worked on."""

    path: str | None
    """The directory that the records name; ``None`` where they name none."""
    keys: tuple[ProjectKey, ...] = ()
    sessions: tuple[SessionId, ...] = ()
    size: int = 0
    """Bytes of its sources."""

    @property
    def name(self) -> str:
        """The last part of the path, or the key."""
        path = (self.path or "").replace("\\", "/").rstrip("/")
        return path.rsplit("/", 1)[-1] or (self.keys[0] if self.keys else "")
