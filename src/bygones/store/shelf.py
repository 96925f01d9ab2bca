"""What can be read of an archive, whatever keeps it: a folder or a team's store.

Search, usage and the front door ask a :class:`Shelf`. The shelf of a folder is in
:mod:`bygones.store.folder`, that of a team in :mod:`bygones.team`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # most questions are small, and answered before these are loaded
    from contextlib import AbstractContextManager

    from bygones.model.annotations import Annotations
    from bygones.model.finds import FoundEdit
    from bygones.model.ids import RecordId, SessionId
    from bygones.model.listing import Listed
    from bygones.model.nodes import Node
    from bygones.model.problems import Problem
    from bygones.model.query import Fact, Scoped, Term
    from bygones.model.usage import Claim
    from bygones.store.chunks import Chunk, Kept
    from bygones.store.engine import Engine
    from bygones.store.finding import RecordRow
    from bygones.store.places import Place
    from bygones.store.records import PromptRow
    from bygones.store.spending import Among, Clock, FillSum, Purse, Sum

__all__ = [
    "Changing",
    "Deriving",
    "Keeping",
    "Knowing",
    "Placing",
    "Seeing",
    "Shelf",
    "Stock",
    "Summing",
    "Typing",
]


class Keeping(Protocol):
    """The bytes of sources."""

    def sources(self) -> Iterator[Kept]:
        """Yield all sources."""
        ...

    def source(self, number: int) -> Kept | None:
        """Return a source by its number."""
        ...

    def find(self, home: str, path: str) -> Kept | None:
        """Return a source by its place."""
        ...

    def named(self, id_: str) -> Kept | None:
        """Return a source by the path as it was found."""
        ...

    def fragment(self, number: int, generation: int) -> bytes:
        """Return the unfinished last line of a source."""
        ...

    def tried(
        self, number: int, generation: int, *, start: int = 0
    ) -> Iterator[tuple[Chunk, bytes | None]]:
        """Yield chunks with their bytes; one that is damaged has none."""
        ...

    def read(self, number: int, generation: int, offset: int, length: int) -> bytes:
        """Return bytes of a source; fewer where there are fewer."""
        ...

    def at_once(self) -> AbstractContextManager[None]:
        """Have all reads see the same moment, whoever writes meanwhile."""
        ...


class Seeing(Protocol):
    """What is known of the lines of sources."""

    def nodes(self, source: int) -> tuple[Node, ...]:
        """Return all nodes of a source, in order."""
        ...

    def problems(self, kept: Kept) -> Iterator[Problem]:
        """Yield what was odd in a source, in order."""
        ...


class Stock(Protocol):
    """Bytes, and what is known of their lines."""

    @property
    def chunks(self) -> Keeping:
        """The bytes of sources."""
        ...

    @property
    def index(self) -> Seeing | None:
        """What is known of their lines."""
        ...


class Deriving(Protocol):
    """The rows of sessions."""

    def listed(self, *, empty: bool = False) -> Iterator[Listed]:
        """Yield sessions for a list, newest first."""
        ...

    def number_of(self, session: SessionId) -> int | None:
        """Return the number of a session that is known."""
        ...

    def family_of(self, number: int) -> list[int]:
        """Return a session and those it shares records with."""
        ...

    def sources_of(self, session: int) -> list[int]:
        """Return the numbers of a session's sources."""
        ...

    def summaries(self, sessions: Iterable[int]) -> list[tuple[RecordId, str, int]]:
        """Return what files call the records of sessions, and which file does."""
        ...


class Knowing(Protocol):
    """Sessions, records and drift by what a person knows of them."""

    def listed(self, number: int) -> Listed | None:
        """Return a session's line by its number."""
        ...

    def sessions_like(self, beginning: str, most: int) -> list[Listed]:
        """Return sessions whose id begins so."""
        ...

    def numbered(self) -> Iterator[tuple[int, Listed]]:
        """Yield the line of every session, with its number."""
        ...

    def session_ids(self) -> list[str]:
        """Return the ids of all sessions."""
        ...

    def records_like(self, beginning: str, most: int) -> list[RecordRow]:
        """Return where records stand whose id may begin so."""
        ...

    def drift(self) -> Iterator[tuple[str, str, str, int]]:
        """Yield what this version knows nothing of."""
        ...


class Placing(Protocol):
    """What a search must know of sessions and records besides their words."""

    def amounts(self) -> Mapping[int, tuple[int, ...]]:
        """Return how much each session says, by its number."""
        ...

    def spans(self) -> Mapping[int, tuple[int, int]]:
        """Return the first and last time of each session's records."""
        ...

    def ends(self) -> Mapping[int, int]:
        """Return when each session ended."""
        ...

    def titles(self) -> Sequence[tuple[int, str]]:
        """Return the titles of sessions that were given one."""
        ...

    def listed(self, number: int) -> Listed | None:
        """Return a session's line by its number."""
        ...

    def each_listed(self) -> Iterator[tuple[int, Listed]]:
        """Yield the number and the line of every session."""
        ...

    def place(self, record: int) -> Place | None:
        """Return where a record stands."""
        ...

    def rewound_records(self) -> Sequence[int]:
        """Return all records on branches that were left."""
        ...

    def record(self, session: int, uuid: int) -> int | None:
        """Return a record of a session by the number of its id."""
        ...

    def rewound(self, session: int) -> set[int]:
        """Return what was left of a session."""
        ...

    def agent_type(self, session: int, agent: str) -> str | None:
        """Return of which type an agent run is."""
        ...

    def families(self) -> Mapping[int, int]:
        """Return the family of each session that shares records with another."""
        ...

    def uuids(self, records: Iterable[int]) -> frozenset[int]:
        """Return the numbers of records' ids: copies have the same."""
        ...

    def expect(self, sessions: Sequence[int], records: Sequence[int]) -> None:
        """Be told of sessions and records that will be asked for and opened."""
        ...


class Changing(Protocol):
    """Which files calls changed."""

    def of(self, session: SessionId) -> list[FoundEdit]:
        """Return the changes of a session, oldest first."""
        ...

    def at(self, path: str) -> list[FoundEdit]:
        """Return the changes of a file, or of all below a folder, oldest first."""
        ...

    def ending(self, path: str) -> list[FoundEdit]:
        """Return the changes of files whose path ends so, oldest first."""
        ...


class Typing(Protocol):
    """What a person typed."""

    def newest_first(self) -> Iterator[PromptRow]:
        """Yield prompts; one that several sessions hold comes once."""
        ...


class Summing(Protocol):
    """What was spent."""

    def purses(self, sessions: Iterable[int] | None = None) -> list[Purse]:
        """Return all purses, or those of sessions by their numbers."""

    def names(self) -> Mapping[int, tuple[SessionId, str | None]]:
        """Return the id and the project of each session, by its number."""

    def claims(self) -> list[tuple[int, Claim]]:
        """Return what Claude Code claims, by the session's number."""

    def bounds(self) -> tuple[int, int] | None:
        """Return two times between which about everything was said."""

    def titles(self) -> Mapping[SessionId, str]:
        """Return the titles of all sessions."""

    def sums(  # noqa: PLR0913 (each a way to part the sums, all by name)
        self,
        *,
        where: Term | None = None,
        among: Callable[[Fact | Scoped], Among],
        unit: int = 0,
        clock: Clock | None = None,
        steps: Sequence[int] = (),
        ages: Sequence[int] = (),
        by_branch: bool = False,
        only_claimed: bool = False,
    ) -> Iterator[Sum]:
        """Yield what was spent, parted as far as a price or a report needs it."""

    def tools(self) -> Iterable[tuple[int, str]]:
        """Return which tools each session called, by its number."""

    def fills(
        self, *, where: Term | None, among: Callable[[Fact | Scoped], Among]
    ) -> list[FillSum]:
        """Return what each tool put into contexts."""


class Shelf(Stock, Protocol):
    """What somebody may read."""

    @property
    def derived(self) -> Deriving:
        """The rows of sessions."""
        ...

    @property
    def finding(self) -> Knowing:
        """Sessions and records by what a person knows of them."""
        ...

    @property
    def places(self) -> Placing:
        """What a search must know besides words."""
        ...

    @property
    def changes(self) -> Changing:
        """Which files calls changed."""
        ...

    @property
    def typed(self) -> Typing:
        """What a person typed."""
        ...

    @property
    def spending(self) -> Summing:
        """What was spent."""
        ...

    def engine(self) -> Engine:
        """Return the words as they are now."""
        ...

    def annotations(self) -> dict[SessionId, Annotations]:
        """Return what readers added to sessions."""
        ...

    def at_once(self) -> AbstractContextManager[None]:
        """Have all that is read see one moment, as far as the engine can."""
        ...

    def is_renewed(self) -> bool:
        """Look whether something has come since this was last asked."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...
