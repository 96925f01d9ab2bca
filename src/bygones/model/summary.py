"""Session summaries, search results, and the small values that sessions consist of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from bygones.model.base import (
    AgentId,
    Position,
    ProjectKey,
    RecordId,
    SessionId,
    shorten,
    value_library,
)
from bygones.model.path_case import ignores_case
from bygones.model.query import Flag, Part, QueryNote
from bygones.model.usage import Usage

if TYPE_CHECKING:  # not needed to list sessions, and slow to import
    from bygones.model.metadata import FileDeltaRecord, FileSnapshotRecord
    from bygones.model.outcomes import Outcome, ReadOutcome
    from bygones.model.records import Block


class Loader:
    """Loads the content of records.

    All loaders are equal, so sessions can be compared regardless of where they were read.
    """

    def load_blocks(self, position: Position) -> tuple[Block, ...]:
        """Return the content blocks of the record at a position."""
        raise NotImplementedError

    def load_outcome(self, position: Position) -> Outcome | None:
        """Return the structured result in the record at a position."""
        raise NotImplementedError

    def load_read_extent(self, position: Position) -> ReadOutcome | None:
        """Return the outcome of a Read without the file's text."""
        raise NotImplementedError

    def outcome_contains(self, position: Position, *needles: bytes) -> bool:
        """Whether the JSON of the outcome contains one of the needles.

        This is faster than decoding the outcome.
        """
        raise NotImplementedError

    def load_json(self, position: Position) -> tuple[bytes, bytes]:
        """Return JSON that contains the blocks, and JSON that contains the outcome."""
        raise NotImplementedError

    def load_snapshot(
        self, position: Position
    ) -> FileSnapshotRecord | FileDeltaRecord | None:
        """Return the file snapshot at a position."""
        raise NotImplementedError

    def read_raw(self, position: Position) -> bytes:
        """Return the bytes at a position."""
        raise NotImplementedError

    def load_stored_output(self, position: Position, path: str) -> str | None:
        """Return an output that was too long for the transcript, if it is stored."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Loader)

    def __hash__(self) -> int:
        return 0


class Role(StrEnum):
    """The sender of a message."""

    USER = "user"
    ASSISTANT = "assistant"
    SYSTEM = "system"


class RecordRef(Struct, frozen=True, gc=False, array_like=True):
    """A record of a message, with the indexes of its blocks.

    Blocks that an earlier record of the message contains are left out.
    """

    position: Position
    record_id: RecordId
    block_indexes: tuple[int, ...] = ()


class HiddenRecord(Struct, frozen=True, gc=False):
    """A record that is not in any message, and the reason."""

    reason: str
    position: Position
    record_id: RecordId | None = None


class AgentKind(StrEnum):
    """The purpose of an agent run."""

    TASK = "task"
    WARM_UP = "warm-up"
    REPLAY = "replay"

    @property
    def is_shown(self) -> bool:
        """Whether it is shown: replays and warm-ups are not."""
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
        """Whether it is a real title, not the beginning of a message."""
        return self in {
            TitleKind.CUSTOM,
            TitleKind.GENERATED,
            TitleKind.AGENT_NAME,
            TitleKind.SUMMARY,
        }


class Title(Struct, frozen=True, gc=False):
    """The title of a session, and its origin."""

    text: str
    kind: TitleKind


class LeafSummary(Struct, frozen=True, gc=False):
    """A summary that Claude Code wrote of a conversation up to one record."""

    leaf_id: RecordId
    text: str


class EmptyReason(StrEnum):
    """What a session without prompts and replies consists of."""

    EMPTY_FILE = "empty file"
    SUMMARIES = "only summaries"
    FILE_HISTORY = "only file history"
    METADATA = "only metadata"
    WARM_UPS = "only warm-ups of agents"
    REPLAYS = "only replays of agents"
    COMMANDS = "only commands"
    NOTICES = "only notices"
    UNREADABLE = "nothing readable"


class LineageKind(StrEnum):
    """How a session is related to another one."""

    CONTINUES = "continues"
    FORKED_FROM = "forked-from"
    CONTINUED_IN = "continued-in"
    SAME_PREFIX = "same-prefix"

    @property
    def is_copy(self) -> bool:
        """Whether the session contains copies of records of the other, older one."""
        return self is not LineageKind.CONTINUED_IN


class Lineage(Struct, frozen=True, gc=False):
    """A relation to another session."""

    kind: LineageKind
    session_id: SessionId
    last_shared_id: RecordId | None = None
    """The last shared record, if it is known."""
    shared_count: int = 0


def find_ancestors(
    session_id: SessionId, lineage_of: Callable[[SessionId], Iterable[Lineage]]
) -> set[SessionId]:
    """Return the sessions from which one copied records, also by way of others."""
    found: set[SessionId] = set()
    waiting = [session_id]
    while waiting:
        lineage = lineage_of(waiting.pop())
        new = {one.session_id for one in lineage if one.kind.is_copy}
        new -= found | {session_id}
        found |= new
        waiting += new
    return found


class MessageUsage(Struct, frozen=True, kw_only=True, gc=False):
    """The usage of one message, and where it belongs."""

    key: str
    """Identifies the message in all files."""
    record_id: RecordId
    model: str | None
    usage: Usage
    sent_at: datetime | None = None
    branch_number: int = 0
    agent_id: AgentId | None = None
    terms: tuple[str, ...] = ()
    """Special terms that change the price: `fast`, `batch`, a region."""
    entrypoint: str | None = None
    """The program that requested the reply."""
    estimated_output: int = 0
    """Output tokens estimated from the text, if they were not counted."""


class Project(Struct, frozen=True, kw_only=True):
    """A project: the sessions of one directory, or of all clones of a repository."""

    path: str | None
    """The directory in the records; `None` if they contain none."""
    other_paths: tuple[str, ...] = ()
    """Clones and worktrees of the same repository, and former names."""
    project_keys: tuple[ProjectKey, ...] = ()
    session_ids: tuple[SessionId, ...] = ()
    source_bytes: int = 0
    """Size of its sources."""
    last_active_at: datetime | None = None
    usage: Usage = Usage()

    def __repr__(self) -> str:
        return f"<Project {self.path or self.name!r} {len(self.session_ids)} sessions>"

    def to_dict(self) -> dict[str, Any]:
        """Return it in JSON schema 2."""
        return value_library().to_dict(self)

    @property
    def name(self) -> str:
        """The last part of the path, or the project key."""
        return _last_part(self.path or "") or (
            self.project_keys[0] if self.project_keys else ""
        )

    @property
    def other_names(self) -> tuple[str, ...]:
        """The last parts of its other paths."""
        return tuple(map(_last_part, self.other_paths))


def _last_part(path: str) -> str:
    return path.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1]


class Annotations(Struct, frozen=True, kw_only=True):
    """Tags, note and star of a session."""

    tags: tuple[str, ...] = ()
    """In alphabetical order."""
    note: str = ""
    is_starred: bool = False


class ProjectIdentity(Struct, frozen=True, gc=False, array_like=True):
    """How a hub recognizes the project of a session, as its client described it."""

    directory: str = ""
    """Where the session started, redacted."""
    key: str = ""
    """The same for all clones of a repository; empty outside of repositories."""
    name: str = ""
    """Such as `github.com/ann/shop`, redacted; empty without a remote."""
    path: str = ""
    """The directory in the working tree; empty for its top."""
    is_worktree: bool = False


class SessionSummary(Struct, frozen=True, kw_only=True, array_like=True):
    """What lists show about a session, without loading its messages."""

    id: SessionId
    title: Title
    project: str | None = None
    project_keys: tuple[ProjectKey, ...] = ()
    started_at: datetime | None = None
    ended_at: datetime | None = None
    prompt_count: int = 0
    message_count: int = 0
    """Prompts and replies on the live branch."""
    agent_count: int = 0
    """Agent runs at any depth, without replays and warm-ups."""
    branch_count: int = 1
    models: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()
    git_branches: tuple[str, ...] = ()
    entrypoints: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    usage: Usage
    """Including its agents."""
    lineage: tuple[Lineage, ...] = ()
    problem_count: int = 0
    flags: tuple[Flag, ...] = ()
    """Properties of the whole session: interrupted, compacted."""
    source_bytes: int = 0
    """Size of its sources."""
    is_empty: bool = False
    note: str = ""
    """A note of the user."""
    is_starred: bool = False
    contained_ids: tuple[SessionId, ...] = ()
    """Other sessions without a file of their own, whose records its files contain."""
    hidden_agent_count: int = 0
    """Warm-ups and replays, at any depth."""
    empty_reason: EmptyReason | None = None
    """What it consists of, if it is empty."""
    project_paths: tuple[str, ...] = ()
    """All directories of its project, the main one first; empty if there is only one."""
    person: str = ""
    """Who pushed it to a hub; empty in a local archive."""
    identity: ProjectIdentity | None = None
    """How a hub recognizes its project; `None` in a local archive."""

    @property
    def project_path(self) -> str | None:
        """The directory that stands for its project."""
        return self.project_paths[0] if self.project_paths else self.project

    @property
    def project_names(self) -> tuple[str, ...]:
        """All directories of its project: clones, worktrees, former names."""
        return self.project_paths or ((self.project,) if self.project else ())

    def __repr__(self) -> str:
        ended = f" {self.ended_at:%Y-%m-%d}" if self.ended_at else ""
        return f"<SessionSummary {self.id[:8]}{ended} {shorten(self.title.text)!r}>"

    def to_dict(self) -> dict[str, Any]:
        """Return it in JSON schema 2, without the cost."""
        return value_library().to_dict(self)


def is_in_folder(path: str | None, folder: str) -> bool:
    """Whether a path is a folder or inside it."""
    if path is None:
        return False
    if ignores_case(path):
        path, folder = path.lower(), folder.lower()
    separator = "\\" if "\\" in folder and "/" not in folder else "/"
    stem = folder.rstrip("/\\")
    return path in {folder, stem} or path.startswith(stem + separator)


class IndexedRecord(Struct, frozen=True, kw_only=True):
    """A record with its position, session and bytes."""

    id: RecordId
    kind: str
    session_id: SessionId
    agent_id: AgentId | None = None
    """The agent run that it belongs to."""
    branch_number: int | None = None
    """The first branch that contains it; `None` if it is hidden."""
    position: Position
    copy_positions: tuple[Position, ...] = ()
    """Copies of the record in resumed and forked sessions."""
    raw: bytes


class IndexedEdit(Struct, frozen=True, kw_only=True):
    """An edit of a file, as stored in the index."""

    path: str
    session_id: SessionId
    branch_number: int
    agent_id: AgentId | None = None
    edited_at: datetime | None = None
    added_lines: int = 0
    removed_lines: int = 0
    is_new_file: bool = False
    is_deleted: bool = False
    has_diff: bool = True
    """Whether the changed lines are recorded; otherwise both counts are 0."""
    tool_name: str = ""


class IndexedPrompt(Struct, frozen=True, kw_only=True):
    """A typed prompt with its full text."""

    id: RecordId
    session_id: SessionId
    sent_at: datetime | None = None
    branch_number: int
    text: str
    is_text_cut: bool = False
    """Whether only the start of the text could be loaded."""
    other_session_id: SessionId | None = None
    """The session that it is of, if `session_id` only contains that in its file."""

    def __repr__(self) -> str:
        sent = f" {self.sent_at:%Y-%m-%d}" if self.sent_at else ""
        return f"<IndexedPrompt {self.id[:8]}{sent} {shorten(self.text)!r}>"

    def to_dict(self) -> dict[str, Any]:
        """Return it in JSON schema 2."""
        return value_library().to_dict(self)

    @property
    def is_abandoned(self) -> bool:
        """Whether it is only on an abandoned branch."""
        return self.branch_number > 0 and self.other_session_id is None


class CountBound(StrEnum):
    """How exact a count is, as the text that is put before it."""

    EXACT = ""
    ABOUT = "about"
    """An estimate: not every session was searched."""
    AT_MOST = "at most"
    """Not every possible match was checked."""
    AT_LEAST = "at least"
    """The search stopped early."""

    def qualify(self, number: str) -> str:
        """Return a number with this text before it."""
        return f"{self} {number}".strip()


class Excerpt(Struct, frozen=True):
    """A part of a text on one line, with the matches."""

    text: str
    highlights: tuple[tuple[int, int], ...] = ()
    """Start and end of each match, in order."""
    is_cut_before: bool = False
    """Whether the text starts before it."""
    is_cut_after: bool = False
    """Whether the text continues after it."""

    def __str__(self) -> str:
        return self.text


class Hit(Struct, frozen=True, kw_only=True):
    """A text that matches a query."""

    record_id: RecordId
    position: Position | None
    """The position of its record; `None` for a title."""
    part: Part
    role: Role | None = None
    sent_at: datetime | None = None
    tool_names: tuple[str, ...] = ()
    """Names of the tools that the message calls."""
    agent_id: AgentId | None = None
    agent_type: str | None = None
    is_abandoned: bool = False
    is_error: bool = False
    excerpt: Excerpt

    def __repr__(self) -> str:
        return f"<Hit {self.record_id[:8]} {self.part} {shorten(str(self.excerpt))!r}>"


class WordShare(Struct, frozen=True):
    """The share of one word in a session's score."""

    word: str
    share: float
    """From 0 to 1."""
    record_counts: tuple[tuple[Part, int], ...] = ()
    """Number of records with the word, by part."""


class ScorePartKind(StrEnum):
    """What a part of a session's score is for."""

    WORDS = "words"
    """The words of the query in the whole session."""
    RECORDS = "records"
    """Its best records."""
    BEST_RECORD = "best-record"
    """Its best record, a call that the query names."""
    COVERAGE = "coverage"
    """How much of the query one record has."""
    MESSAGES = "messages"
    """How much of the query its messages have, calls and results aside."""
    AS_TYPED = "as-typed"
    """A text has the query, or half of it, word for word."""
    ALL_WORDS = "all-words"
    """How many of two words it has."""
    CALLS = "calls"
    """It called the tools, or used the files, that the query names."""
    TITLE = "title"
    """Its title is the query."""
    RECENCY = "recency"
    """It is recent."""


class ScorePart(Struct, frozen=True, gc=False):
    """A part of a session's score."""

    kind: ScorePartKind
    value: float


class SessionMatch(Struct, frozen=True, kw_only=True):
    """A session with hits, including those in its agents."""

    summary: SessionSummary
    highlighted_title: Excerpt
    """The title, with matches."""
    score: float = 0.0
    matched_words: tuple[str, ...] = ()
    """The words of the query that the session contains."""
    hit_count: int = 0
    """Number of matching texts; `hits` contains the best of them."""
    hit_count_bound: CountBound = CountBound.EXACT
    """How exact the count is."""
    hits: tuple[Hit, ...] = ()
    duplicate_ids: tuple[SessionId, ...] = ()
    """Other sessions that only contain copies of the same records."""
    lineage: tuple[SessionSummary, ...] = ()
    """Other sessions that match and share records with it; they are next to it."""
    similar: tuple[SessionSummary, ...] = ()
    """Other sessions that match and are nearly the same, best first."""
    score_parts: tuple[ScorePart, ...] = ()
    """The parts of the score; their sum is the score."""
    word_shares: tuple[WordShare, ...] = ()
    """How the part of the score for words is composed."""

    def __repr__(self) -> str:
        return f"<SessionMatch {self.id[:8]} {shorten(self.title)!r} {self.hit_count} hits>"

    @property
    def id(self) -> SessionId:
        """The id of the session."""
        return self.summary.id

    @property
    def title(self) -> str:
        """The title of the session."""
        return self.summary.title.text

    def to_dict(self) -> dict[str, Any]:
        """Return it in JSON schema 2."""
        return value_library().to_dict(self)

    @property
    def session_ids(self) -> tuple[SessionId, ...]:
        """The ids of the sessions that are shown as one result, the best first."""
        similar = (one.id for one in self.similar)
        return (self.summary.id, *self.duplicate_ids, *similar)


class SpellingCorrection(Struct, frozen=True):
    """A word that does not appear in the archive, and the word that was used instead."""

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
    patterns: tuple[str, ...] = ()
    """Regular expressions that matched."""


class SearchResults(Struct, frozen=True, kw_only=True):
    """The results of a search."""

    sessions: tuple[SessionMatch, ...] = ()
    session_count: int = 0
    """Number of matching sessions."""
    session_count_bound: CountBound = CountBound.EXACT
    """How exact the count is."""
    query_words: tuple[str, ...] = ()
    """The words that were searched for."""
    full_match_count: int = 0
    """Number of sessions with all of the words."""
    corrections: tuple[SpellingCorrection, ...] = ()
    missing_words: tuple[str, ...] = ()
    """Words that do not appear, and have no similar word."""
    notes: tuple[QueryNote, ...] = ()
    is_phrase_relaxed: bool = False
    """Whether quoted words were searched one by one, because the phrase has no match."""
    is_partial: bool = False
    """Whether the search stopped early."""
    is_empty_query: bool = False
    """Whether the query was empty, so that these are the newest sessions."""
    named_id: str = ""
    """The query, if it is the id of a session or a record; ids are not searched."""

    @property
    def is_partly_unmatched(self) -> bool:
        """Whether no session has all of the query, as far as texts are indexed."""
        if self.named_id or self.is_empty_query:
            return False
        has_full_match = self.full_match_count > 0 or len(self.query_words) < 2  # noqa: PLR2004 (one word)
        is_missing = bool(self.missing_words) or self.is_phrase_relaxed
        return is_missing or not has_full_match

    def __iter__(self) -> Iterator[SessionMatch]:
        """Iterate over the sessions, best first."""
        return iter(self.sessions)

    def __len__(self) -> int:
        """Return how many sessions these results have; `session_count` is all matches."""
        return len(self.sessions)

    def __getitem__(self, index: int) -> SessionMatch:
        """Return a session by its rank, from 0."""
        return self.sessions[index]

    def __repr__(self) -> str:
        return f"<SearchResults {len(self.sessions)} of {self.session_count} sessions>"

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return the sessions in JSON schema 2."""
        return value_library().to_dicts(self)

    def _repr_html_(self) -> str:
        return value_library().to_html(self)


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
