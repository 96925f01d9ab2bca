"""What the rest of the program needs from a store: a local archive or a team store."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from datetime import datetime

    from bygones.model.base import Problem, RecordId, SessionId
    from bygones.model.nodes import RecordNode
    from bygones.model.query import FieldTerm, FieldValue, Term
    from bygones.model.summary import (
        Annotations,
        IndexedEdit,
        MessageUsage,
        SessionSummary,
    )
    from bygones.model.usage import ReportedCost
    from bygones.store.archive_db import Chunk, StoredSource
    from bygones.store.tantivy_engine import MatchedText, TextMatch, WordSessions
    from bygones.store.usage_tables import (
        Payer,
        RowFilter,
        ToolContextSum,
        UsageDivision,
        UsageSum,
    )


EngineQuery = Any
"""A query that only the engine that created it can interpret."""


class SearchEngine(Protocol):
    """A full-text index: which texts contain a term, and which terms exist."""

    def frequency(self, term: str) -> int:
        """Return how many texts contain a term."""
        ...

    def word_forms(self, term: str) -> tuple[str, ...]:
        """Return the terms that are forms of a word, the term itself first."""
        ...

    def correct_spelling(self, term: str) -> str | None:
        """Return the term that was probably meant by one that doesn't exist."""
        ...

    def match_all(self) -> EngineQuery: ...

    def match_none(self) -> EngineQuery: ...

    def match_terms(self, terms: Sequence[str]) -> EngineQuery:
        """Match texts with at least one of the terms."""
        ...

    def match_phrase(self, terms: Sequence[str]) -> EngineQuery:
        """Match texts that contain the terms in a row."""
        ...

    def match_prefix_phrase(self, terms: Sequence[str]) -> EngineQuery:
        """Match texts that contain the terms in a row, the last one as a prefix."""
        ...

    def match_prefix_phrase_parts(
        self, terms: Sequence[str]
    ) -> tuple[EngineQuery, ...]:
        """Return `match_prefix_phrase` as several queries."""
        ...

    def is_prefix_complete(self, terms: Sequence[str]) -> bool:
        """Whether `match_prefix_phrase` covers all terms with the prefix."""
        ...

    def match_substring(self, substring: str) -> EngineQuery:
        """Match texts with a term that contains a substring."""
        ...

    def in_sessions(self, sessions: Iterable[int]) -> EngineQuery: ...

    def in_records(self, records: Sequence[int]) -> EngineQuery: ...

    def in_kinds(self, session: int, kinds: Iterable[int]) -> EngineQuery:
        """Match the texts of a session that are of the given kinds."""
        ...

    def without_score(self, query: EngineQuery) -> EngineQuery:
        """Return a query that matches the same texts without a score."""
        ...

    def any_of(self, queries: Sequence[EngineQuery]) -> EngineQuery: ...

    def all_of(self, queries: Sequence[EngineQuery]) -> EngineQuery: ...

    def none_of(self, query: EngineQuery) -> EngineQuery:
        """Match the texts that a query doesn't match."""
        ...

    def count(self, query: EngineQuery) -> dict[int, int]:
        """Return the number of matches by text key."""
        ...

    def count_sessions(self, query: EngineQuery) -> dict[int, int]:
        """Return the number of matches by session."""
        ...

    def search(self, query: EngineQuery, limit: int) -> tuple[int, list[TextMatch]]:
        """Return the number of matches, and the best ones."""
        ...

    def count_many(self, queries: Sequence[EngineQuery]) -> list[dict[int, int]]:
        """Count several queries at once, which may be cheaper."""
        ...

    def search_many(
        self, queries: Sequence[EngineQuery], limit: int
    ) -> list[tuple[int, list[TextMatch]]]:
        """Run several queries at once, which may be cheaper."""
        ...

    def best_keys(self, query: EngineQuery, limit: int) -> tuple[int, dict[int, int]]:
        """Return the number of matches, and counts by text key of the best ones.

        At least `limit` matches are counted, if there are so many.
        """
        ...

    def terms_with_prefix(self, prefix: str) -> Sequence[tuple[str, int]]:
        """Return the terms with a prefix, with the number of texts."""
        ...

    def find_sessions(
        self,
        words: Sequence[Sequence[str]],
        total: int,
        limit: int,
        sessions: Collection[int] | None = None,
    ) -> WordSessions:
        """Count the sessions that have words, and return those that may be the best.

        A word is given as the terms of its forms, ``total`` is the number of sessions.
        At least ``limit`` sessions are returned, if there are so many, among
        ``sessions`` if some are given.
        """
        ...

    def match_texts(
        self,
        queries: Sequence[EngineQuery],
        sessions: Sequence[int] | None,
        conditions: Sequence[EngineQuery],
        limit: int,
    ) -> list[MatchedText]:
        """Return texts of sessions, or of all, with the queries that each matches.

        Only texts that match all conditions count. Of more than the limit, those that
        match later queries are returned, of a single query the shortest ones.
        """
        ...

    def text_checksums(self, records: Sequence[int]) -> Mapping[tuple[int, int], int]:
        """Return the CRC-32 of the texts of records, by record and text key.

        Empty if the engine doesn't have them.
        """
        ...

    def prefetch(self, terms: Iterable[str], count_only: Iterable[str] = ()) -> None:
        """Announce terms that will be searched, and terms that will only be counted."""
        ...

    def tokenize(self, text: str) -> list[str]:
        """Return the terms of a text as they are indexed."""
        ...


class RecordLocation(Struct, frozen=True, gc=False):
    """Where a record is, by the numbers of the index."""

    session: int
    key: int
    source: int
    offset: int
    length: int


class PromptRow(NamedTuple):
    """How a prompt starts, and where it was typed."""

    session: SessionId
    record: RecordId
    time: datetime | None
    branch: int
    head: str
    other_session: SessionId | None = None
    """The session that the prompt is of, if it is inside the file of another."""


class ByteReader(Protocol):
    """The bytes of sources."""

    def sources(self) -> Iterator[StoredSource]: ...

    def source(self, number: int) -> StoredSource | None: ...

    def find_source(self, home: str, path: str) -> StoredSource | None:
        """Return a source by home and path."""
        ...

    def source_by_id(self, id_: str) -> StoredSource | None:
        """Return a source by the path of its file."""
        ...

    def fragment(self, number: int, generation: int) -> bytes:
        """Return the unfinished last line of a source."""
        ...

    def try_read_chunks(
        self, number: int, generation: int, *, start: int = 0
    ) -> Iterator[tuple[Chunk, bytes | None]]:
        """Yield chunks with their bytes, or `None` instead of damaged bytes."""
        ...

    def read_bytes(
        self, number: int, generation: int, offset: int, length: int
    ) -> bytes:
        """Return bytes of a source; fewer if there are fewer."""
        ...

    def read_unchecked(
        self, number: int, generation: int, offset: int, length: int
    ) -> bytes:
        """Return the same faster: they may be damaged, so compare a checksum."""
        ...

    def read_transaction(self) -> AbstractContextManager[None]:
        """Let all reads see the same state, even while others write."""
        ...


class NodeReader(Protocol):
    """The parsed records of sources."""

    def nodes(self, source: int) -> tuple[RecordNode, ...]:
        """Return all nodes of a source, in order."""
        ...

    def problems(self, stored_source: StoredSource) -> Iterator[Problem]:
        """Yield the problems found in a source, in order."""
        ...


class SourceReader(Protocol):
    """Bytes and nodes of sources."""

    @property
    def byte_store(self) -> ByteReader: ...

    @property
    def index(self) -> NodeReader | None: ...


class SessionReader(Protocol):
    """The rows of sessions."""

    def iter_summaries(
        self, *, include_empty: bool = False
    ) -> Iterator[SessionSummary]:
        """Yield the summaries of sessions, newest first."""
        ...

    def session_number(self, session: SessionId) -> int | None: ...

    def family_members(self, number: int) -> list[int]:
        """Return a session and those that share records with it."""
        ...

    def session_sources(self, session: int) -> list[int]:
        """Return the numbers of a session's sources."""
        ...

    def leaf_titles(self, sessions: Iterable[int]) -> list[tuple[RecordId, str, int]]:
        """Return titles of the records of sessions, with the source that has them."""
        ...


class Lookup(Protocol):
    """Finds sessions and records by id, and lists unknown types."""

    def load_summary(self, number: int) -> SessionSummary | None: ...

    def find_sessions(self, prefix: str, limit: int) -> list[SessionSummary]:
        """Return sessions by the prefix of their id."""
        ...

    def numbered_summaries(self) -> Iterator[tuple[int, SessionSummary]]:
        """Yield the summary of every session, with its number."""
        ...

    def session_ids(self) -> list[str]: ...

    def find_records(self, prefix: str, limit: int) -> list[RecordLocation]:
        """Return locations of records whose id may start with a prefix."""
        ...

    def drift(self) -> Iterator[tuple[str, str, str, int]]:
        """Yield types and fields that this version doesn't know."""
        ...


class SearchFacts(Protocol):
    """What a search needs to know about sessions and records besides their text."""

    def text_lengths(self) -> Mapping[int, tuple[int, ...]]:
        """Return the text lengths of each session, by number."""
        ...

    def time_ranges(self) -> Mapping[int, tuple[int, int]]:
        """Return the first and last time of each session's records."""
        ...

    def end_times(self) -> Mapping[int, int]:
        """Return when each session ended."""
        ...

    def given_titles(self) -> Sequence[tuple[int, str]]:
        """Return the titles that were set explicitly, and summaries.

        Those of one session follow each other, its title first.
        """
        ...

    def tool_names(self) -> Sequence[str]:
        """Return the tools that were called."""
        ...

    def sessions_calling(self, tool: str) -> set[int]:
        """Return the sessions that called a tool."""
        ...

    def load_summary(self, number: int) -> SessionSummary | None: ...

    def numbered_summaries(self) -> Iterator[tuple[int, SessionSummary]]:
        """Yield the summary of every session, with its number."""
        ...

    def record_location(self, record: int) -> RecordLocation | None: ...

    def abandoned_records(self) -> Sequence[int]:
        """Return all records on abandoned branches."""
        ...

    def find_record(self, session: int, key: int) -> int | None:
        """Return the number of a session's record by its key."""
        ...

    def abandoned_keys(self, session: int) -> set[int]:
        """Return the keys of a session's records on abandoned branches."""
        ...

    def agent_type(self, session: int, agent: str) -> str | None: ...

    def families(self) -> Mapping[int, int]:
        """Return the family of each session that shares records with another."""
        ...

    def record_keys(self, records: Iterable[int]) -> dict[int, int]:
        """Return the keys of records, which copies have in common, by record."""
        ...

    def prefetch(self, sessions: Sequence[int], records: Sequence[int]) -> None:
        """Announce sessions and records that will be looked up and loaded."""
        ...


class EditReader(Protocol):
    """Which files tool calls changed."""

    def edits_in_session(self, session: SessionId) -> list[IndexedEdit]:
        """Return the edits of a session, oldest first."""
        ...

    def edits_under(self, path: str) -> list[IndexedEdit]:
        """Return the edits of a file, or of all files below a folder, oldest first."""
        ...

    def edits_with_suffix(self, suffix: str) -> list[IndexedEdit]:
        """Return the edits of files whose path ends with a suffix, oldest first."""
        ...


class PromptReader(Protocol):
    """What users typed."""

    def newest_first(self) -> Iterator[PromptRow]:
        """Yield prompts; one that several sessions contain comes once."""
        ...


class UsageReader(Protocol):
    """Token usage and reported costs."""

    def load_payers(self, sessions: Iterable[int] | None = None) -> list[Payer]:
        """Return all payers, or those of sessions given by number."""

    def session_projects(self) -> Mapping[int, tuple[SessionId, str | None]]:
        """Return id and project of each session, by number."""

    def session_people(self) -> Mapping[int, str]:
        """Return who pushed each session to a hub, by number."""

    def reported_costs(self) -> list[tuple[int, ReportedCost]]:
        """Return the costs that Claude Code reported, with the session's number."""

    def warm_up_usages(self) -> list[tuple[int, MessageUsage]]:
        """Return the replies of warm-ups, with the session's number."""

    def time_range(self) -> tuple[int, int] | None:
        """Return two times that include nearly all sessions."""

    def session_titles(self) -> Mapping[SessionId, str]:
        """Return the titles of all sessions."""

    def sum_usage(
        self,
        division: UsageDivision,
        *,
        where: Term | None = None,
        row_filter: Callable[[FieldValue | FieldTerm], RowFilter],
    ) -> Iterator[UsageSum]:
        """Yield usage, divided as far as prices and reports need it."""

    def session_tools(self) -> Iterable[tuple[int, str]]:
        """Return which tools each session called, by number."""

    def sum_tool_context(
        self,
        *,
        where: Term | None,
        row_filter: Callable[[FieldValue | FieldTerm], RowFilter],
    ) -> list[ToolContextSum]:
        """Return how much the results of each tool added to contexts."""


class StoreReader(SourceReader, Protocol):
    """A read-only view of a store."""

    @property
    def sessions(self) -> SessionReader: ...

    @property
    def lookup(self) -> Lookup: ...

    @property
    def search_facts(self) -> SearchFacts: ...

    @property
    def edits(self) -> EditReader: ...

    @property
    def prompts(self) -> PromptReader: ...

    @property
    def usage(self) -> UsageReader: ...

    def engine(self) -> SearchEngine:
        """Return the full-text index in its current state."""
        ...

    def annotations(self) -> dict[SessionId, Annotations]:
        """Return what users added to sessions."""
        ...

    def read_transaction(self) -> AbstractContextManager[None]:
        """Let all reads see the same state, as far as the store can."""
        ...

    def check_for_changes(self) -> bool:
        """Return whether something may have changed since the last call."""
        ...

    def close(self) -> None: ...
