"""What searches know of all sessions, from one search to the next.

It takes memory in proportion to the archive. So it is packed where it can be, and made
once for all archives of a server: see :mod:`bygones.search.commons`.
"""

from __future__ import annotations

from _thread import allocate_lock
from array import array
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from bygones.model.ids import SessionId
from bygones.query import Subject
from bygones.query.rank import Measures, newness
from bygones.search.subjects import of_session
from bygones.search.titles import Titles

if TYPE_CHECKING:  # protocols take long to make
    from bygones.store.shelf import Placing, Shelf

__all__ = ["Alike", "Known"]

T = TypeVar("T")
_DAY_MS = 86_400_000


class Alike(Struct, frozen=True):
    """Sessions of which the same can be told, but for their names."""

    one: Subject
    """Any of them."""
    numbers: array[int]
    ids: list[SessionId]
    titles: list[str]

    def subject(self, at: int, tags: tuple[str, ...]) -> Subject:
        """Return what can be asked about one of them, which was given tags."""
        return replace(
            self.one,
            session=self.ids[at],
            title=self.titles[at],
            tags=(*self.one.tags, *tags),
        )


class Known:
    """What is known of all sessions as they were when this was made.

    Searches of several threads may ask it at once, each with connections of its own.
    """

    def __init__(self, shelf: Shelf) -> None:
        # The words first: what they name is looked up in the index they belong to.
        self.engine = shelf.engine()
        with shelf.at_once():
            places = shelf.places
            self.families = places.families()
            self.ends = places.ends()
            self.measures = Measures.of(places.amounts())
            self.titles = Titles(places.titles(), self.engine.terms_of)
        newest = max(self.ends.values(), default=0)
        self.newness = {
            session: newness((newest - ended) / _DAY_MS)
            for session, ended in self.ends.items()
        }
        """What its age adds to each session."""
        self._lock = allocate_lock()
        self._later: dict[Callable[[Placing], object], object] = {}

    def spans(self, places: Placing) -> Mapping[int, tuple[int, int]]:
        """Return the first and last time of each session's records."""
        return self._once(_spans, places)

    def alike(self, places: Placing) -> list[Alike]:
        """Return all sessions, gathered by what can be asked about them."""
        return self._once(_alike, places)

    def _once(self, read: Callable[[Placing], T], places: Placing) -> T:
        """Return what only some searches need, read when it is first asked for."""
        with self._lock:
            if read not in self._later:
                self._later[read] = read(places)
            found: T = self._later[read]  # type: ignore[assignment]
            return found


def _spans(places: Placing) -> Mapping[int, tuple[int, int]]:
    return places.spans()


def _alike(places: Placing) -> list[Alike]:
    found: dict[tuple[object, ...], Alike] = {}
    for number, listed in places.each_listed():
        one = of_session(listed)
        key = (
            one.project,
            one.models,
            one.git_branches,
            one.entrypoints,
            one.tags,
            one.flags,
        )
        same = found.get(key)
        if same is None:
            same = found[key] = Alike(one, array("q"), [], [])
        same.numbers.append(number)
        same.ids.append(one.session)
        same.titles.append(one.title)
    return list(found.values())
