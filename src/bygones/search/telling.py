"""Hits: the texts of a session that fit, opened, checked and cut to an excerpt."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct

from bygones.model.buckets import KINDS, part_of, session_of
from bygones.model.hits import Bound, Excerpt, Hit
from bygones.model.ids import RecordId, SessionId
from bygones.model.listing import Listed
from bygones.model.query import Part, Query
from bygones.query import Subject, matches
from bygones.query.excerpts import excerpt, marking
from bygones.search.copies import folded, shared
from bygones.search.plan import Plan, kinds_of
from bygones.search.subjects import Record, Subjects
from bygones.search.titles import Titles
from bygones.store.search import Text, stem_of

if TYPE_CHECKING:  # protocols take long to make
    from bygones.store.engine import Asked, Engine

__all__ = ["Teller", "Told"]

PATIENCE = 10_000
"""Records that are opened for one answer, at most."""
_LOOKED_AT = 24
"""Texts of a session that are ordered anew, for each hit that is told."""
_COMPARED = 200
"""Texts of a session by which it is compared with another."""
_CHECKED = 1_000
"""Texts of a session that are opened to find one that fits, at most."""
_OPENED = 2_000
"""Texts of one session that are opened to know all that fit."""
_AHEAD = 10
"""Sessions of which the texts are asked for at once, where they must be opened."""
_SPARE = 6
"""Texts beyond those that are told: some say the same as others."""
_AT_ONCE = 20_000
"""Texts of all sessions together that are asked for at once."""
_OF_SESSION = 200_000
"""Texts of one session that are asked for at once."""
_WEIGHTS = {
    Part.TITLE: 1.3,
    Part.PROMPT: 1.3,
    Part.REPLY: 1.1,
    Part.TOOL: 0.9,
    Part.THINKING: 0.9,
    Part.OTHER: 0.8,
    Part.RESULT: 0.7,
}


class Told(Struct, frozen=True):
    """A session with its hits."""

    number: int
    listed: Listed
    title: Excerpt
    total: int
    bound: Bound
    hits: tuple[Hit, ...]
    also: tuple[SessionId, ...] = ()


class Teller:
    """Tells of the sessions of one answer."""

    def __init__(  # noqa: PLR0913 (what an answer is made of)
        self,
        subjects: Subjects,
        engine: Engine,
        plan: Plan,
        checked: Query,
        *,
        titles: Titles,
        titled: frozenset[int],
        families: Mapping[int, int],
        hide: Callable[[str], str],
    ) -> None:
        self._hide = hide
        self._gone: dict[int, tuple[int, ...]] = {}
        """Sessions that are told of with another one."""
        self._subjects = subjects
        self._places = subjects.places
        self._families = families
        self._titled = titled
        self._engine = engine
        self._plan = plan
        self._checked = checked
        self._kinds = kinds_of(plan.of_kind) if plan.of_kind else None
        titled_runs = (run for unit in plan.units for run in titles.runs(unit))
        written = (*plan.runs(is_begun=False), *titled_runs)
        self._marking = marking(written, plan.runs(is_begun=True), plan.patterns)
        self._known: dict[tuple[int, int], tuple[int, list[Text]]] = {}
        """Texts that were asked for already, by session and how many."""
        self.is_partial = False
        self._fewest = 1 if plan.of_text else 0
        """Texts that must be opened to know that one fits."""

    def page(
        self, sessions: Sequence[int], offset: int, limit: int, hits: int
    ) -> tuple[list[Told], int]:
        """Return sessions from an offset on, and how many more may follow.

        Where texts must be opened, what follows was not looked at.
        """
        if not self._plan.is_of_sessions:
            self._expect(shared(sessions, self._families), _COMPARED, every=True)
            sessions, self._gone = folded(sessions, self._families, self._records)
        if not self._plan.of_text:
            chosen = sessions[offset : offset + limit]
            self._expect(chosen, hits)
            told = [one for s in chosen if (one := self._tell(s, hits))]
            return told, max(0, len(sessions) - offset - len(told))
        told = []
        for number, session in enumerate(sessions):
            if number % _AHEAD == 0:
                self._expect(sessions[number : number + _AHEAD], hits)
            if self._subjects.opened > PATIENCE:
                self.is_partial = True
                return told[offset:], 0
            one = self._tell(session, hits)
            if one is not None and one.hits:
                told.append(one)
            if len(told) == offset + limit:
                return told[offset:], len(sessions) - number - 1
        return told[offset:], 0

    def _expect(
        self, sessions: Sequence[int], hits: int, *, every: bool = False
    ) -> None:
        """Ask at once for what will be told of sessions, or for ``every`` text of it.

        Where texts are the same it may be more than that; this is then asked for.
        """
        if not sessions:
            return
        if self._plan.of_text and self._gathered is not None:
            found = [self._texts(session, hits) for session in sessions]
        else:
            most = self._most(hits)
            asked = [self._engine.all_of(self._asked(session)) for session in sessions]
            found = self._engine.each_texts(asked, most)
            for session, told in zip(sessions, found, strict=True):
                self._known[session, most] = told
        some = None if every else hits + _SPARE
        records = [
            text.record for _, texts in found for text in self._ordered(texts)[:some]
        ]
        if every and not self._plan.of_text:
            self._places.uuids(records)
            return
        gone = [one for session in sessions for one in self._gone.get(session, ())]
        self._places.expect([*sessions, *gone], records)

    def _tell(self, session: int, hits: int) -> Told | None:
        listed = self._places.listed(session)
        if listed is None:
            return None
        total, texts = self._texts(session, hits)
        found: dict[str, Hit] = {}
        for text in texts:
            if len(found) >= max(hits, self._fewest):
                break
            one = self._subjects.subject(text, listed)
            if one is not None and self._fits(one[0]):
                # A record in two files is one hit, and so is what is said twice.
                hit = self._hit(one)
                if hit.excerpt.text:
                    found.setdefault(hit.excerpt.text, hit)
        also = map(self._places.listed, self._gone.get(session, ()))
        title = excerpt(self._hide(listed.title.text), self._marking)
        if session in self._titled:
            total += 1
            if not found:
                own = Hit(
                    record=RecordId(""),
                    position=None,
                    part=Part.TITLE,
                    time=listed.ended,
                    excerpt=title,
                )
                found[title.text] = own
        return Told(
            session,
            listed,
            title,
            total,
            Bound.AT_MOST if self._plan.of_text and total > 1 else Bound.EXACT,
            tuple(found.values()),
            tuple(other.id for other in also if other),
        )

    def standing(self, session: int) -> frozenset[int]:
        """Return all records of a session that fit, by the numbers of their ids.

        Where texts must be opened to know that, so many are, and no more.
        """
        total, texts = self._engine.texts(
            self._engine.all_of(self._asked(session)), _OF_SESSION
        )
        self.is_partial |= total > len(texts)
        if self._kinds is not None:
            texts = [text for text in texts if text.bucket % KINDS in self._kinds]
        if self._plan.of_text:
            self.is_partial |= len(texts) > _OPENED
            listed = self._places.listed(session)
            texts = [
                text
                for text in texts[:_OPENED]
                if listed is not None and self._is_fitting(text, listed)
            ]
        return self._places.uuids(text.record for text in texts)

    def _records(self, session: int) -> frozenset[int]:
        """Return the records of a session that fit, by the numbers of their ids."""
        _, texts = self._texts(session, _COMPARED)
        if self._plan.of_text:
            listed = self._places.listed(session)
            texts = [t for t in texts if listed and self._is_fitting(t, listed)]
        own = {-session} if session in self._titled else set()
        return self._places.uuids(text.record for text in texts) | own

    def _is_fitting(self, text: Text, listed: Listed) -> bool:
        found = self._subjects.subject(text, listed)
        return found is not None and self._fits(found[0])

    def _texts(self, session: int, hits: int) -> tuple[int, list[Text]]:
        """Return texts of a session, the best first, and how many there are."""
        is_opened = bool(self._plan.of_text)
        most = self._most(hits)
        gathered = self._gathered if is_opened else None
        if gathered is not None:
            texts = gathered.get(session, [])
            total = len(texts)
        else:
            found = self._known.get((session, most))
            if found is None:
                asked = self._engine.all_of(self._asked(session))
                found = self._engine.texts(asked, most)
            total, texts = found
            self.is_partial |= is_opened and total > most
        return total, self._ordered(texts)

    def _most(self, hits: int) -> int:
        """Return how many texts of a session are looked at."""
        least = _CHECKED if self._plan.of_text else _LOOKED_AT * max(hits, 1)
        return max(least, hits)

    @staticmethod
    def _ordered(texts: list[Text]) -> list[Text]:
        texts.sort(
            key=lambda text: (
                -text.score * _WEIGHTS[part_of(text.bucket)],
                text.record,
            )
        )
        return texts

    @cached_property
    def _gathered(self) -> dict[int, list[Text]] | None:
        """The texts of all sessions that must be opened, if they are not too many.

        To ask once is cheaper where words must be looked through, or most sessions
        have nothing that fits.
        """
        asked = self._asked(None) or [self._engine.everything()]
        total, texts = self._engine.texts(self._engine.all_of(asked), _AT_ONCE)
        if total > _AT_ONCE:
            return None
        found: dict[int, list[Text]] = {}
        for text in texts:
            if self._kinds is None or text.bucket % KINDS in self._kinds:
                found.setdefault(session_of(text.bucket), []).append(text)
        return found

    def _asked(self, session: int | None) -> list[Asked]:
        """Return what the engine is asked for, of one session or of all."""
        engine, plan = self._engine, self._plan
        units = plan.words or (plan.units if plan.is_covered else ())
        own = [engine.unscored(engine.of_sessions([session]))] if session else []
        asked = list(own)
        if units:
            # Each way meets the session by itself: their union is far larger than it.
            ways = [way for unit in units for way in unit.each]
            asked = [engine.any_of([engine.all_of([*own, way]) for way in ways])]
        if plan.must is not None:
            asked.append(plan.must)
        if session and self._kinds is not None:
            asked.append(engine.of_kinds(session, sorted(self._kinds)))
        return asked

    def _fits(self, subject: Subject) -> bool:
        if not self._plan.of_text:
            return True
        return matches(self._checked, subject, self._engine.terms_of, stem_of)

    def _hit(self, found: tuple[Subject, Record]) -> Hit:
        told = excerpt(self._hide(found[0].text), self._marking)
        return self._subjects.hit(found, told)
