"""Searching: words that count, candidates in order, then the hits of a page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from bygones.model.hits import Bound, Found, FoundSession, Repair
from bygones.model.query import And, Phrase, Query, Words
from bygones.query.terms import Run, counted, reading, readings
from bygones.query.tree import all_of
from bygones.search.known import Known
from bygones.search.plan import Plan, leaves, plan_of, relaxed
from bygones.search.ranking import Ranking, Sort
from bygones.search.subjects import Subjects, Tags
from bygones.search.telling import Teller
from bygones.store.numbers import id_number

if TYPE_CHECKING:  # protocols take long to make
    from bygones.search.commons import Commons
    from bygones.store.shelf import Shelf

__all__ = ["Searching", "Sort", "Standing"]

MOST_WORDS = 32
"""Words of a query that count; of more, the rarest do."""


class _Page(Struct, frozen=True):
    """Which part of an answer is asked for."""

    limit: int
    offset: int
    hits: int
    sort: Sort
    hide: Callable[[str], str]


class Standing(Struct, frozen=True):
    """Where words stand in a session, by the numbers of records' ids."""

    records: frozenset[int] = frozenset()
    is_partial: bool = False
    """Whether there may be more: not all could be looked at."""
    written: tuple[Run, ...] = ()
    """As what they are found: terms that stand behind each other."""
    begun: tuple[Run, ...] = ()
    """The same, where the last term is the beginning of a word."""

    @staticmethod
    def number(record: str) -> int:
        """Return the number of a record's id."""
        return id_number(record)


class Searching:
    """Answers queries from one shelf; what it knows of all sessions may be shared."""

    def __init__(self, shelf: Shelf, commons: Commons | None = None) -> None:
        self._shelf = shelf
        self._commons = commons
        self._own: Known | None = None
        """What is known of the sessions of this shelf, where nobody shares it."""
        with shelf.at_once():
            added = shelf.annotations().items()
            self._tags = {session: one.tags for session, one in added if one.tags}
        if commons is not None:
            commons.look()

    @property
    def known(self) -> Known:
        """What is known of all sessions: what others know, where there are others."""
        if self._own is None:
            shared = self._commons.known(self._shelf) if self._commons else None
            if shared is not None:
                return shared
            self._own = Known(self._shelf)
        return self._own

    def search(  # noqa: PLR0913 (all but one by name and optional)
        self,
        query: Query,
        *,
        limit: int = 10,
        offset: int = 0,
        hits: int = 3,
        sort: str = Sort.BEST,
        hide: Callable[[str], str] = str,
    ) -> Found:
        """Return the sessions that answer a query, and their best hits.

        The order is the same for every page of an answer. Where nothing has quoted
        words side by side, they are looked for one by one. ``hide`` is given every text
        before it is cut: a secret that is cut in two is no longer known for one.
        """
        page = _Page(limit, offset, hits, Sort(sort), hide)
        with self._shelf.at_once():
            search = _Search(self._shelf, self.known, self._tags)
            found = search.answer(query, page)
            loose = _loosened(query) if not found.total else query
            if loose == query:
                return found
            other = search.answer(loose, page)
        return replace(other, is_loosened=True) if other.total else found

    def standing(self, query: Query, session: int | None) -> Standing:
        """Return all records of a session that fit, in no order; none is told."""
        with self._shelf.at_once():
            search = _Search(self._shelf, self.known, self._tags)
            return search.standing(query, session)


class _Search:
    """One search, of what is there now."""

    def __init__(self, shelf: Shelf, known: Known, tags: Tags) -> None:
        self._chunks = shelf.chunks
        self._places = shelf.places
        self._tags = tags
        self._engine = known.engine
        self._families = known.families
        self._titles = known.titles
        self._ranking = Ranking(known, self._places, tags)

    def standing(self, query: Query, session: int | None) -> Standing:
        """Return all records of a session that fit."""
        words, _, missing = self._repaired(query)
        if session is None or (missing and not words):
            return Standing()
        plan = plan_of(query, words, self._engine, self._places.rewound_records)
        teller = self._teller(plan, relaxed(query, words))
        records = teller.standing(session)
        written, begun = plan.runs(is_begun=False), plan.runs(is_begun=True)
        return Standing(records, teller.is_partial, written, begun)

    def _teller(
        self,
        plan: Plan,
        checked: Query,
        titled: frozenset[int] = frozenset(),
        hide: Callable[[str], str] = str,
    ) -> Teller:
        subjects = Subjects(
            self._chunks, self._places, self._tags, answers=bool(plan.of_text)
        )
        return Teller(
            subjects,
            self._engine,
            plan,
            checked,
            titles=self._titles,
            titled=titled,
            families=self._families,
            hide=hide,
        )

    def answer(self, query: Query, asked: _Page) -> Found:
        """Return a page of what answers a query."""
        words, repairs, missing = self._repaired(query)
        if missing and not words:
            return Found(missing=tuple(missing), notes=query.notes)
        plan = plan_of(query, words, self._engine, self._places.rewound_records)
        checked = relaxed(query, words)
        ranked = self._ranking.ranked(
            plan, checked, asked.sort, asked.offset + asked.limit
        )
        teller = self._teller(plan, checked, ranked.titled, asked.hide)
        page, more = teller.page(ranked.sessions, asked.offset, asked.limit, asked.hits)
        bound = Bound.AT_MOST if more and plan.of_text else Bound.EXACT
        if teller.is_partial:
            bound = Bound.AT_LEAST
        elif ranked.about:
            bound = Bound.ABOUT
        return Found(
            sessions=tuple(
                FoundSession(
                    listed=told.listed,
                    title=told.title,
                    score=ranked.scored.total[told.number],
                    words=ranked.words_of(told.number),
                    total=told.total,
                    bound=told.bound,
                    hits=told.hits[: asked.hits],
                    also=told.also,
                    shares=tuple(ranked.shares(told.number, self._ranking.measures)),
                )
                for told in page
            ),
            total=max(asked.offset + len(page) + more, ranked.about),
            bound=bound,
            words=tuple(unit.label for unit in plan.words),
            complete=ranked.complete,
            repairs=tuple(repairs),
            missing=tuple(missing),
            notes=query.notes,
            is_partial=teller.is_partial,
            is_unasked=not plan.units and not query.conditions,
        )

    def _repaired(self, query: Query) -> tuple[list[str], list[Repair], list[str]]:
        """Return the words that count, with those changed that nobody wrote."""
        words: list[str] = []
        repairs: list[Repair] = []
        missing: list[str] = []
        rarest = self._rarest(counted(query.sentence))
        self._expect(query, rarest)
        for word in rarest:
            found = reading(word, self._engine.terms_of)
            if found is None:
                continue
            if any(map(self._is_there, found.runs)):
                words.append(word)
                continue
            meant = [other for run in found.runs[:1] for other in self._meant(run)]
            if meant:
                repairs.append(Repair(word, " ".join(meant)))
                words += [other for other in meant if other not in words]
            else:
                missing.append(word)
        return words, repairs, missing

    def _expect(self, query: Query, words: Sequence[str]) -> None:
        """Tell the engine of all terms that it will be asked for."""
        analyse = self._engine.terms_of
        said = [words, *_worded(query)]
        ways = [way for some in said for way in readings(some, analyse) if way]
        terms = {term for way in ways for run in way.runs for term in run}
        others = {term for word in query.sentence for term in analyse(word)}
        self._engine.expect(terms, others - terms)

    def _meant(self, run: Run) -> Iterator[str]:
        """Yield what may be meant by a word that nobody wrote so."""
        if len(run) > 1:
            # Its parts may be there, though never side by side.
            yield from (term for term in counted(run) if self._is_known(term))
        elif other := self._engine.corrected(run[0]):
            yield other

    def _is_there(self, run: Run) -> bool:
        if len(run) == 1:
            return self._is_known(run[0])
        if not all(map(self._engine.frequency, run)):
            return False
        return bool(self._engine.buckets(self._engine.run(run), 1)[0])

    def _is_known(self, term: str) -> bool:
        return bool(self._engine.forms(term)) or self._titles.has(term)

    def _rarest(self, words: Sequence[str]) -> Sequence[str]:
        if len(words) <= MOST_WORDS:
            return words

        def rarity(word: str) -> int:
            terms = self._engine.terms_of(word)
            return min(map(self._engine.frequency, terms), default=0)

        chosen = set(sorted(words, key=rarity)[:MOST_WORDS])
        return [word for word in words if word in chosen]


def _worded(query: Query) -> Iterator[tuple[str, ...]]:
    """Yield the words that conditions look for."""
    for condition in query.conditions:
        for leaf in leaves(condition):
            if isinstance(leaf, Words):
                yield leaf.words


def _loosened(query: Query) -> Query:
    """Return a query in which quoted words are words."""
    terms = query.root.terms if isinstance(query.root, And) else (query.root,)
    loose = [
        Words(tuple(term.text.split())) if isinstance(term, Phrase) else term
        for term in terms
        if term is not None
    ]
    return Query(all_of(loose), query.notes)
