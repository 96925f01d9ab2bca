"""Searching: words that count, candidates in order, then the hits of a page."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from recollect.model.hits import Found, FoundSession, Repair
from recollect.model.query import Query
from recollect.query.terms import counted, reading
from recollect.search.plan import plan_of, relaxed
from recollect.search.ranking import Ranking, Sort
from recollect.search.subjects import Subjects
from recollect.search.telling import Teller
from recollect.search.titles import Titles
from recollect.store.index import Index
from recollect.store.places import Places
from recollect.store.search import Engine
from recollect.store.vault import Vault

__all__ = ["Searching", "Sort"]

MOST_WORDS = 32
"""Words of a query that count; of more, the rarest do."""


class Searching:
    """Answers queries from one index, as it was when this was made."""

    def __init__(self, vault: Vault, index: Index) -> None:
        self._vault = vault
        places = self._places = Places(index)
        self._families = places.families()
        self._engine = Engine(vault.text)
        self._titles = Titles(places, self._engine.terms_of)
        self._ranking = Ranking(self._engine, places, self._titles)

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

        The order is the same for every page of an answer. ``hide`` is given every text
        before it is cut: a secret that is cut in two is no longer known for one.
        """
        words, repairs, missing = self._repaired(query)
        if missing and not words:
            return Found(missing=tuple(missing), notes=query.notes)
        plan = plan_of(query, words, self._engine)
        checked = relaxed(query, words)
        ranked = self._ranking.ranked(plan, checked, Sort(sort))
        subjects = Subjects(self._vault, self._places)
        teller = Teller(
            subjects,
            self._engine,
            plan,
            checked,
            titles=self._titles,
            titled=ranked.titled,
            families=self._families,
            hide=hide,
        )
        page, more = teller.page(ranked.sessions, offset, limit, hits)
        return Found(
            sessions=tuple(
                FoundSession(
                    listed=told.listed,
                    title=told.title,
                    score=ranked.scored.total[told.number],
                    words=ranked.words_of(told.number),
                    total=told.total,
                    hits=told.hits,
                    also=told.also,
                )
                for told in page
            ),
            total=offset + len(page) + more,
            words=tuple(unit.label for unit in plan.words),
            complete=ranked.complete,
            repairs=tuple(repairs),
            missing=tuple(missing),
            notes=query.notes,
            is_partial=teller.is_partial,
        )

    def _repaired(self, query: Query) -> tuple[list[str], list[Repair], list[str]]:
        """Return the words that count, with those changed that nobody wrote."""
        words: list[str] = []
        repairs: list[Repair] = []
        missing: list[str] = []
        for word in self._rarest(counted(query.sentence)):
            found = reading(word, self._engine.terms_of)
            if found is None:
                continue
            if any(all(map(self._is_known, run)) for run in found.runs):
                words.append(word)
                continue
            run = found.runs[0]
            meant = self._engine.corrected(run[0]) if len(run) == 1 else None
            if meant is None:
                missing.append(word)
            else:
                repairs.append(Repair(word, meant))
                words.append(meant)
        return words, repairs, missing

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
