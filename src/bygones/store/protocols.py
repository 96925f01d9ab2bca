"""What a search asks of words, whatever keeps them: a folder or a team's store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from bygones.store.text_index import TextMatch


EngineQuery = Any
"""A question to an engine; only the engine that made it knows what it is."""


class SearchEngine(Protocol):
    """Which texts have some words, and which words there are."""

    @property
    def text_count(self) -> int:
        """How many texts there are."""
        ...

    def frequency(self, term: str) -> int:
        """Return how many texts have a term."""
        ...

    def word_forms(self, term: str) -> tuple[str, ...]:
        """Return the terms that are forms of one, itself first."""
        ...

    def correct_spelling(self, term: str) -> str | None:
        """Return the term that is likely meant by one which is not there."""
        ...

    def match_all(self) -> EngineQuery:
        """Ask for all texts."""
        ...

    def match_none(self) -> EngineQuery:
        """Ask for no text."""
        ...

    def match_terms(self, terms: Sequence[str]) -> EngineQuery:
        """Ask for texts that have one of some terms."""
        ...

    def match_phrase(self, terms: Sequence[str]) -> EngineQuery:
        """Ask for texts in which terms stand one right behind the other."""
        ...

    def match_prefix_phrase(self, terms: Sequence[str]) -> EngineQuery:
        """Ask for texts in which terms stand in a row, the last of them begun only."""
        ...

    def match_prefix_phrase_parts(
        self, terms: Sequence[str]
    ) -> tuple[EngineQuery, ...]:
        """Ask the same in parts."""
        ...

    def is_prefix_complete(self, terms: Sequence[str]) -> bool:
        """Whether :meth:`beginning` asks for all there is."""
        ...

    def match_substring(self, substring: str) -> EngineQuery:
        """Ask for texts with a term that has a piece somewhere in it."""
        ...

    def in_sessions(self, sessions: Iterable[int]) -> EngineQuery:
        """Ask for the texts of some sessions."""
        ...

    def in_records(self, records: Sequence[int]) -> EngineQuery:
        """Ask for the texts of some records."""
        ...

    def in_kinds(self, session: int, kinds: Iterable[int]) -> EngineQuery:
        """Ask for the texts of a session that are of some kinds."""
        ...

    def without_score(self, query: EngineQuery) -> EngineQuery:
        """Ask the same without adding to any score."""
        ...

    def any_of(self, queries: Sequence[EngineQuery]) -> EngineQuery:
        """Ask for what one question at least finds."""
        ...

    def all_of(self, queries: Sequence[EngineQuery]) -> EngineQuery:
        """Ask for what all questions find."""
        ...

    def none_of(self, query: EngineQuery) -> EngineQuery:
        """Ask for what a question does not find."""
        ...

    def count(self, query: EngineQuery) -> dict[int, int]:
        """Return how many texts are found, by their bucket."""
        ...

    def search(self, query: EngineQuery, limit: int) -> tuple[int, list[TextMatch]]:
        """Return how many texts are found, and those that fit best, best first."""
        ...

    def count_many(self, queries: Sequence[EngineQuery]) -> list[dict[int, int]]:
        """Return the counts of several questions, which cost less if asked at once."""
        ...

    def search_many(
        self, queries: Sequence[EngineQuery], limit: int
    ) -> list[tuple[int, list[TextMatch]]]:
        """Return the texts of several questions, which cost less if asked at once."""
        ...

    def best_keys(self, query: EngineQuery, limit: int) -> tuple[int, dict[int, int]]:
        """Return how many texts are found, and where the best of them lie.

        So many at least are looked at, if there are, and counted by their bucket.
        """
        ...

    def prefetch(self, terms: Iterable[str], count_only: Iterable[str] = ()) -> None:
        """Be told of terms that will be asked for, and of others to be counted only."""
        ...

    def tokenize(self, text: str) -> list[str]:
        """Return the terms of a text, as the index has them."""
        ...


if TYPE_CHECKING:  # most questions are small, and answered before these are loaded
    from contextlib import AbstractContextManager

    from bygones.model.base import Problem, RecordId, SessionId
    from bygones.model.nodes import RecordNode
    from bygones.model.query import FieldTerm, FieldValue, Term
    from bygones.model.summary import Annotations, IndexedEdit, SessionSummary
    from bygones.model.usage import ReportedCost
    from bygones.store.archive_db import Chunk, StoredSource
    from bygones.store.local_reader import PromptRow, RecordLocation, RecordRow
    from bygones.store.usage_tables import (
        Payer,
        RowFilter,
        ToolContextSum,
        UsageSum,
        UtcOffsets,
    )


class ByteReader(Protocol):
    """The bytes of sources."""

    def sources(self) -> Iterator[StoredSource]:
        """Yield all sources."""
        ...

    def source(self, number: int) -> StoredSource | None:
        """Return a source by its number."""
        ...

    def find_source(self, home: str, path: str) -> StoredSource | None:
        """Return a source by its place."""
        ...

    def source_by_id(self, id_: str) -> StoredSource | None:
        """Return a source by the path as it was found."""
        ...

    def fragment(self, number: int, generation: int) -> bytes:
        """Return the unfinished last line of a source."""
        ...

    def try_read_chunks(
        self, number: int, generation: int, *, start: int = 0
    ) -> Iterator[tuple[Chunk, bytes | None]]:
        """Yield chunks with their bytes; one that is damaged has none."""
        ...

    def read_bytes(
        self, number: int, generation: int, offset: int, length: int
    ) -> bytes:
        """Return bytes of a source; fewer where there are fewer."""
        ...

    def read_transaction(self) -> AbstractContextManager[None]:
        """Have all reads see the same moment, whoever writes meanwhile."""
        ...


class NodeReader(Protocol):
    """What is known of the lines of sources."""

    def nodes(self, source: int) -> tuple[RecordNode, ...]:
        """Return all nodes of a source, in order."""
        ...

    def problems(self, stored_source: StoredSource) -> Iterator[Problem]:
        """Yield what was odd in a source, in order."""
        ...


class SourceReader(Protocol):
    """Bytes, and what is known of their lines."""

    @property
    def byte_store(self) -> ByteReader:
        """The bytes of sources."""
        ...

    @property
    def index(self) -> NodeReader | None:
        """What is known of their lines."""
        ...


class SessionReader(Protocol):
    """The rows of sessions."""

    def iter_summaries(
        self, *, include_empty: bool = False
    ) -> Iterator[SessionSummary]:
        """Yield sessions for a list, newest first."""
        ...

    def session_number(self, session: SessionId) -> int | None:
        """Return the number of a session that is known."""
        ...

    def family_members(self, number: int) -> list[int]:
        """Return a session and those it shares records with."""
        ...

    def session_sources(self, session: int) -> list[int]:
        """Return the numbers of a session's sources."""
        ...

    def leaf_titles(self, sessions: Iterable[int]) -> list[tuple[RecordId, str, int]]:
        """Return what files call the records of sessions, and which file does."""
        ...


class Lookup(Protocol):
    """Sessions, records and drift by what a person knows of them."""

    def load_summary(self, number: int) -> SessionSummary | None:
        """Return a session's line by its number."""
        ...

    def find_sessions(self, prefix: str, limit: int) -> list[SessionSummary]:
        """Return sessions whose id begins so."""
        ...

    def numbered_summaries(self) -> Iterator[tuple[int, SessionSummary]]:
        """Yield the line of every session, with its number."""
        ...

    def session_ids(self) -> list[str]:
        """Return the ids of all sessions."""
        ...

    def find_records(self, prefix: str, limit: int) -> list[RecordRow]:
        """Return where records stand whose id may begin so."""
        ...

    def drift(self) -> Iterator[tuple[str, str, str, int]]:
        """Yield what this version knows nothing of."""
        ...


class SearchFacts(Protocol):
    """What a search must know of sessions and records besides their words."""

    def text_lengths(self) -> Mapping[int, tuple[int, ...]]:
        """Return how much each session says, by its number."""
        ...

    def time_ranges(self) -> Mapping[int, tuple[int, int]]:
        """Return the first and last time of each session's records."""
        ...

    def end_times(self) -> Mapping[int, int]:
        """Return when each session ended."""
        ...

    def given_titles(self) -> Sequence[tuple[int, str]]:
        """Return the titles of sessions that were given one."""
        ...

    def load_summary(self, number: int) -> SessionSummary | None:
        """Return a session's line by its number."""
        ...

    def numbered_summaries(self) -> Iterator[tuple[int, SessionSummary]]:
        """Yield the number and the line of every session."""
        ...

    def record_location(self, record: int) -> RecordLocation | None:
        """Return where a record stands."""
        ...

    def abandoned_records(self) -> Sequence[int]:
        """Return all records on branches that were left."""
        ...

    def find_record(self, session: int, key: int) -> int | None:
        """Return a record of a session by the number of its id."""
        ...

    def abandoned_keys(self, session: int) -> set[int]:
        """Return what was left of a session."""
        ...

    def agent_type(self, session: int, agent: str) -> str | None:
        """Return of which type an agent run is."""
        ...

    def families(self) -> Mapping[int, int]:
        """Return the family of each session that shares records with another."""
        ...

    def record_keys(self, records: Iterable[int]) -> frozenset[int]:
        """Return the numbers of records' ids: copies have the same."""
        ...

    def prefetch(self, sessions: Sequence[int], records: Sequence[int]) -> None:
        """Be told of sessions and records that will be asked for and opened."""
        ...


class EditReader(Protocol):
    """Which files calls changed."""

    def edits_in_session(self, session: SessionId) -> list[IndexedEdit]:
        """Return the changes of a session, oldest first."""
        ...

    def edits_under(self, path: str) -> list[IndexedEdit]:
        """Return the changes of a file, or of all below a folder, oldest first."""
        ...

    def edits_with_suffix(self, suffix: str) -> list[IndexedEdit]:
        """Return the changes of files whose path ends so, oldest first."""
        ...


class PromptReader(Protocol):
    """What a person typed."""

    def newest_first(self) -> Iterator[PromptRow]:
        """Yield prompts; one that several sessions hold comes once."""
        ...


class UsageReader(Protocol):
    """What was spent."""

    def load_payers(self, sessions: Iterable[int] | None = None) -> list[Payer]:
        """Return all purses, or those of sessions by their numbers."""

    def session_projects(self) -> Mapping[int, tuple[SessionId, str | None]]:
        """Return the id and the project of each session, by its number."""

    def reported_costs(self) -> list[tuple[int, ReportedCost]]:
        """Return what Claude Code claims, by the session's number."""

    def time_range(self) -> tuple[int, int] | None:
        """Return two times between which about everything was said."""

    def session_titles(self) -> Mapping[SessionId, str]:
        """Return the titles of all sessions."""

    def sum_usage(  # noqa: PLR0913 (each a way to part the sums, all by name)
        self,
        *,
        where: Term | None = None,
        row_filter: Callable[[FieldValue | FieldTerm], RowFilter],
        slot_ms: int = 0,
        utc_offsets: UtcOffsets | None = None,
        context_steps: Sequence[int] = (),
        price_changes: Sequence[int] = (),
        by_branch: bool = False,
        only_reported: bool = False,
    ) -> Iterator[UsageSum]:
        """Yield what was spent, parted as far as a price or a report needs it."""

    def session_tools(self) -> Iterable[tuple[int, str]]:
        """Return which tools each session called, by its number."""

    def sum_tool_context(
        self,
        *,
        where: Term | None,
        row_filter: Callable[[FieldValue | FieldTerm], RowFilter],
    ) -> list[ToolContextSum]:
        """Return what each tool put into contexts."""


class StoreReader(SourceReader, Protocol):
    """What somebody may read."""

    @property
    def sessions(self) -> SessionReader:
        """The rows of sessions."""
        ...

    @property
    def lookup(self) -> Lookup:
        """Sessions and records by what a person knows of them."""
        ...

    @property
    def search_facts(self) -> SearchFacts:
        """What a search must know besides words."""
        ...

    @property
    def edits(self) -> EditReader:
        """Which files calls changed."""
        ...

    @property
    def prompts(self) -> PromptReader:
        """What a person typed."""
        ...

    @property
    def usage(self) -> UsageReader:
        """What was spent."""
        ...

    def engine(self) -> SearchEngine:
        """Return the words as they are now."""
        ...

    def annotations(self) -> dict[SessionId, Annotations]:
        """Return what readers added to sessions."""
        ...

    def read_transaction(self) -> AbstractContextManager[None]:
        """Have all that is read see one moment, as far as the engine can."""
        ...

    def check_for_changes(self) -> bool:
        """Look whether something has come since this was last asked."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...
