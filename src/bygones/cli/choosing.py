"""Which sessions of a list a query asks for.

A list is of sessions, so that what is excluded is: ``-word`` leaves out every session
that has the word somewhere. A search is of texts, and looks for one without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from bygones.model.query import And, Not, Or, Query, Term, Words
from bygones.query.sessions import asks_for_sessions, fits
from bygones.query.tree import all_of
from bygones.render.remarks import remarks
from bygones.store.words import terms_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bygones.archive import Archive
    from bygones.model.ids import SessionId
    from bygones.model.listing import Listed

__all__ = ["Choice"]

_ALL = 1_000_000


class Choice:
    """Chooses sessions of a list by all that is said in them."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._listed: Sequence[Listed] = ()
        self.remarks: list[str] = []
        """What should be known about the choice."""

    def among(self, listed: Sequence[Listed], query: Query) -> Iterator[Listed]:
        """Yield what a query asks for of a list, in its order."""
        self._listed = listed
        if query.root is None:
            yield from listed
            return
        chosen = self._chosen(query.root)
        yield from (one for one in listed if one.id in chosen)

    def _chosen(self, term: Term, *, mends: bool = True) -> set[SessionId]:
        """Return the sessions of which a term holds; ``mends`` slips in words."""
        if asks_for_sessions(term):
            query = Query(term)
            return {one.id for one in self._listed if fits(query, one, terms_of)}
        if isinstance(term, Not):
            left = self._chosen(term.term, mends=False)
            return {one.id for one in self._listed} - left
        if isinstance(term, Or):
            each = (self._chosen(part, mends=mends) for part in term.terms)
            return set().union(*each)
        if isinstance(term, And) and any(map(_excludes, term.terms)):
            alone = [part for part in term.terms if _excludes(part)]
            together = all_of([part for part in term.terms if not _excludes(part)])
            parts = [*alone, *([together] if together else [])]
            each = (self._chosen(part, mends=mends) for part in parts)
            return set.intersection(*each)
        return self._found(term, mends=mends)

    def _found(self, term: Term, *, mends: bool) -> set[SessionId]:
        """Return the sessions that have a text of which a term holds, or all words."""
        found = self._archive.search(Query(term), limit=_ALL, hits=0, sort="newest")
        if found.missing or (found.repairs and not mends):
            return set()
        self.remarks += remarks(replace(found, notes=()))
        asked = set(found.words)
        fitting = [one for one in found.sessions if asked <= set(one.words)]
        # Sessions that say the same are told of with another one.
        return {id_ for one in fitting for id_ in (one.listed.id, *one.also)}


def _excludes(term: Term) -> bool:
    """Whether a term says of texts what must not be."""
    if asks_for_sessions(term) or isinstance(term, Words):
        return False
    if isinstance(term, And | Or):
        return any(map(_excludes, term.terms))
    return isinstance(term, Not)
