"""Small values that sessions are made of, and what opens their full text."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

from bygones.model.base import AgentId, Position, ProjectKey, RecordId, SessionId
from bygones.model.query import Flag, Part, QueryNote
from bygones.model.usage import Usage

if TYPE_CHECKING:  # whoever only lists sessions opens none of this
    from bygones.model.metadata import FileDeltaRecord, FileSnapshotRecord
    from bygones.model.outcomes import Outcome, ReadOutcome
    from bygones.model.records import Block


class Loader:
    """Opens what stands at a position.

    Loaders are all equal, so that sessions compare by what they say and not by
    where they were read from.
    """

    def load_blocks(self, position: Position) -> tuple[Block, ...]:
        """Return the content blocks of the record at a position."""
        raise NotImplementedError

    def load_outcome(self, position: Position) -> Outcome | None:
        """Return the structured result in the record at a position."""
        raise NotImplementedError

    def load_read_extent(self, position: Position) -> ReadOutcome | None:
        """Return what the outcome of a Read says of the file, without the file."""
        raise NotImplementedError

    def outcome_contains(self, position: Position, *needles: bytes) -> bool:
        """Whether the outcome at a position is written with one of some signs.

        That is cheaper to know than what it says.
        """
        raise NotImplementedError

    def load_json(self, position: Position) -> tuple[bytes, bytes]:
        """Return JSON that holds all that the blocks and the outcome there say."""
        raise NotImplementedError

    def load_snapshot(
        self, position: Position
    ) -> FileSnapshotRecord | FileDeltaRecord | None:
        """Return what the record at a position says of edited files."""
        raise NotImplementedError

    def read_raw(self, position: Position) -> bytes:
        """Return the bytes at a position."""
        raise NotImplementedError

    def load_stored_output(self, position: Position, path: str) -> str | None:
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


class RecordRef(Struct, frozen=True, gc=False, array_like=True):
    """A record of a message, and which of its blocks count.

    A block that an earlier record of the message holds already does not.
    """

    position: Position
    record_id: RecordId
    block_indexes: tuple[int, ...] = ()


class HiddenRecord(Struct, frozen=True, gc=False):
    """A record that is in no message, and why."""

    reason: str
    position: Position
    record_id: RecordId | None = None


class AgentKind(StrEnum):
    """What an agent run is for."""

    TASK = "task"
    WARM_UP = "warm-up"
    REPLAY = "replay"

    @property
    def is_shown(self) -> bool:
        """Whether it did something of its own."""
        return self is AgentKind.TASK


REPLAY_ID_PREFIXES = ("acompact-", "aside_question-", "aprompt_suggestion-")
"""Prefixes of the ids of agents that replay the conversation for the harness."""


class AgentStatus(StrEnum):
    """How an agent run ended, if it did."""

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
    def is_explicit(self) -> bool:
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
    session_id: SessionId
    last_shared_id: RecordId | None = None
    """The last shared record, where it is known."""
    shared_count: int = 0


class MessageUsage(Struct, frozen=True, kw_only=True, gc=False):
    """The tokens of one message, and who spent them."""

    key: str
    """The same for the same message in any file."""
    record_id: RecordId
    model: str | None
    usage: Usage
    sent_at: datetime | None = None
    branch_number: int = 0
    agent_id: AgentId | None = None
    terms: tuple[str, ...] = ()
    """What sets its price apart: ``fast``, ``batch``, a region."""
    entrypoint: str | None = None
    """The program in which the answer was asked for."""
    estimated_output: int = 0
    """Output tokens by the length of what was said, where the count is none."""


class Project(Struct, frozen=True, kw_only=True):
    """What a person worked on."""

    path: str | None
    """The directory that the records name; ``None`` where they name none."""
    project_keys: tuple[ProjectKey, ...] = ()
    session_ids: tuple[SessionId, ...] = ()
    source_bytes: int = 0
    """Bytes of its sources."""
    last_active_at: datetime | None = None
    usage: Usage = Usage()

    @property
    def name(self) -> str:
        """The last part of the path, or the key."""
        path = (self.path or "").replace("\\", "/").rstrip("/")
        return path.rsplit("/", 1)[-1] or (
            self.project_keys[0] if self.project_keys else ""
        )


class Annotations(Struct, frozen=True, kw_only=True):
    """A session's tags, its note and its star."""

    tags: tuple[str, ...] = ()
    """In the order of the alphabet."""
    note: str = ""
    is_starred: bool = False


class SessionSummary(Struct, frozen=True, kw_only=True, array_like=True):
    """A session in a list."""

    id: SessionId
    title: Title
    project: str | None = None
    project_keys: tuple[ProjectKey, ...] = ()
    started_at: datetime | None = None
    ended_at: datetime | None = None
    prompt_count: int = 0
    message_count: int = 0
    """Prompts and answers on the live branch."""
    agent_count: int = 0
    """Agent runs that did something, at any depth."""
    branch_count: int = 1
    models: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()
    git_branches: tuple[str, ...] = ()
    entrypoints: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    usage: Usage
    """With that of its agents."""
    lineage: tuple[Lineage, ...] = ()
    problem_count: int = 0
    flags: tuple[Flag, ...] = ()
    """What is true of it as a whole: interrupted, compacted."""
    source_bytes: int = 0
    """Bytes of its sources."""
    is_empty: bool = False
    note: str = ""
    """What a reader wrote beside it."""
    is_starred: bool = False


def is_in_folder(path: str | None, folder: str) -> bool:
    """Whether a path is a folder, or is below it."""
    separator = "\\" if "\\" in folder and "/" not in folder else "/"
    stem = folder.rstrip("/\\")
    return path is not None and (
        path in {folder, stem} or path.startswith(stem + separator)
    )


class IndexedRecord(Struct, frozen=True, kw_only=True):
    """A record: where it stands, what it belongs to, and its line."""

    id: RecordId
    kind: str
    session_id: SessionId
    agent_id: AgentId | None = None
    """The agent run in which it was said."""
    branch_number: int | None = None
    """The number of the branch on which it was said first; none if it is hidden."""
    position: Position
    copy_positions: tuple[Position, ...] = ()
    """Where else the same record stands: in resumed and forked sessions."""
    raw: bytes


class IndexedEdit(Struct, frozen=True, kw_only=True):
    """A change of a file by a call, as the index knows it."""

    path: str
    session_id: SessionId
    branch_number: int
    agent_id: AgentId | None = None
    edited_at: datetime | None = None
    added_lines: int = 0
    removed_lines: int = 0
    is_new_file: bool = False


class IndexedPrompt(Struct, frozen=True, kw_only=True):
    """What a person typed, exactly, and where."""

    id: RecordId
    session_id: SessionId
    sent_at: datetime | None = None
    branch_number: int
    text: str


class CountBound(StrEnum):
    """How sure a number is, as it is said before it."""

    EXACT = ""
    ABOUT = "about"
    """An estimate: not every session was looked at."""
    AT_MOST = "at most"
    """Not every text was opened that may fit."""
    AT_LEAST = "at least"
    """There was too much to look at all of it."""

    def qualify(self, number: str) -> str:
        """Return a number as it is told, with this before it."""
        return f"{self} {number}".strip()


class Excerpt(Struct, frozen=True):
    """Some words of a text on one line, and which of them were looked for."""

    text: str
    highlights: tuple[tuple[int, int], ...] = ()
    """Where marked words begin and end, in order."""
    is_cut_before: bool = False
    """Whether the text begins before it."""
    is_cut_after: bool = False
    """Whether the text goes on behind it."""


class Hit(Struct, frozen=True, kw_only=True):
    """A text that fits: where it stands, and why it is there."""

    record_id: RecordId
    position: Position | None
    """Where its line stands; a title has none."""
    part: Part
    role: Role | None = None
    sent_at: datetime | None = None
    tool_names: tuple[str, ...] = ()
    """Names of the tools that it calls."""
    agent_id: AgentId | None = None
    agent_type: str | None = None
    is_rewound: bool = False
    is_error: bool = False
    excerpt: Excerpt


class WordShare(Struct, frozen=True):
    """What one word of the query gave to a session's score."""

    word: str
    share: float
    """Of all that its words gave it, from 0 to 1."""
    record_counts: tuple[tuple[Part, int], ...] = ()
    """How many records of each part have it."""


class SessionMatch(Struct, frozen=True, kw_only=True):
    """A session that has hits; agents are told of with it."""

    summary: SessionSummary
    highlighted_title: Excerpt
    """Its title, with the words marked that were looked for."""
    score: float = 0.0
    matched_words: tuple[str, ...] = ()
    """The words of the query that it has."""
    hit_count: int = 0
    """How many texts fit; of these the best are told."""
    hit_count_bound: CountBound = CountBound.EXACT
    """How sure that is."""
    hits: tuple[Hit, ...] = ()
    duplicate_ids: tuple[SessionId, ...] = ()
    """Other sessions that hold copies of the same records, and nothing more."""
    word_shares: tuple[WordShare, ...] = ()
    """How the score came about."""


class SpellingCorrection(Struct, frozen=True):
    """A word that nobody has written, and the one that was looked for instead."""

    original: str
    corrected: str


class MatchPositions(Struct, frozen=True):
    """The records of one session that match a query.

    Records are numbered by `Archive.record_number`.
    """

    record_numbers: frozenset[int] = frozenset()
    is_partial: bool = False
    """Whether there may be more: not every record could be searched."""
    runs: tuple[tuple[str, ...], ...] = ()
    """The index terms that matched; those of a run follow each other."""
    prefixes: tuple[tuple[str, ...], ...] = ()
    """Runs whose last term is the prefix of a word."""


class SearchResults(Struct, frozen=True, kw_only=True):
    """The answer to a query."""

    sessions: tuple[SessionMatch, ...] = ()
    session_count: int = 0
    """Sessions in all, as far as was looked."""
    session_count_bound: CountBound = CountBound.EXACT
    """How sure that is."""
    query_words: tuple[str, ...] = ()
    """The words that counted."""
    full_match_count: int = 0
    """Sessions that have all of the words."""
    corrections: tuple[SpellingCorrection, ...] = ()
    missing_words: tuple[str, ...] = ()
    """Words that nobody has written, nor any like them."""
    notes: tuple[QueryNote, ...] = ()
    is_phrase_relaxed: bool = False
    """Whether quoted words were looked for one by one: nowhere do they stand so."""
    is_partial: bool = False
    """Whether there was too much to look at all of it."""
    is_empty_query: bool = False
    """Whether there was nothing to look for, so that this is the newest there is."""


class SessionSelection(Struct, frozen=True):
    """The sessions that a query selects, and what a user should know about it."""

    sessions: tuple[SessionSummary, ...] = ()
    """In the order of the given summaries: newest first."""
    corrections: tuple[SpellingCorrection, ...] = ()
    notes: tuple[QueryNote, ...] = ()
    is_phrase_relaxed: bool = False
    """Whether quoted words were looked for one by one, because no text has them."""
    is_partial: bool = False
    """Whether there may be more: there were too many texts to look at all of them."""
