"""From a query to questions for the engine, and what must be looked at besides.

A condition is settled in one of four ways: by the session alone, by the kind of text
alone, by the engine, or by opening each text that the engine offers. The last is
always right and always slow, so the others are used where they are exact.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from bygones.model.ids import AgentId, SessionId
from bygones.model.parts import Role
from bygones.model.query import (
    And,
    Fact,
    Flag,
    Has,
    Not,
    Or,
    Part,
    Period,
    Phrase,
    Prefix,
    Query,
    Regex,
    Scoped,
    Term,
    Word,
    Words,
)
from bygones.query import Subject, matches
from bygones.query.fields import OF_ANSWERS
from bygones.query.match import MAIN
from bygones.query.terms import Reading, Run, counted, reading, readings
from bygones.search.subjects import EDITING, ROLES

if TYPE_CHECKING:  # protocols take long to make
    from bygones.store.engine import Asked, Engine

__all__ = ["Plan", "Unit", "kinds_of", "leaves", "plan_of", "relaxed"]

_OF_SESSION = {"project", "model", "git", "entrypoint", "session", "tag", "title"}
_OF_KIND = {"in", "role"}
_SESSION_FLAGS = {Flag.INTERRUPTED, Flag.COMPACTED}
_KIND_FACTS = (
    *(Fact("is", flag) for flag in (Flag.ERROR, Flag.AGENT)),
    Fact("has", Has.THINKING),
    Fact("agent", MAIN),
)
_NAME = re.compile(r"\w[._/:\\-]+\w|[a-z][A-Z]|[A-Z]{2}[a-z]|^[A-Z0-9_]{4,}$|\d\w|\w\d")
_FEWEST, _MOST = 3, 30
"""Terms of a sentence that are looked for as they were typed."""
_EDIT = Fact("has", Has.EDIT)
_TELLING = 5
"""Words of half a sentence that make it more than a way of saying something."""
_LEFT = (Fact("is", Flag.REWOUND), Fact("branch", "rewound"))
_KEPT = Fact("branch", "live")


class Unit(Struct, frozen=True):
    """Something that is looked for and scored: a word, a phrase, a beginning."""

    label: str
    asked: Asked
    ways: tuple[Run, ...]
    """How it may be written."""
    runs: tuple[Run, ...]
    """The same with all forms that the index knows of single words."""
    each: tuple[Asked, ...] = ()
    """The same question in parts: whoever answers one of them answers it."""
    is_exact: bool = False
    """Whether forms of it do not count."""
    is_word: bool = True
    """Whether it is a plain word of the query, which may be missing."""
    is_begun: bool = False
    """Whether the last term of its runs is the beginning of a word."""
    is_name: bool = False


class Plan(Struct, frozen=True):
    """How a query is answered."""

    units: tuple[Unit, ...]
    must: Asked | None
    """What every text must fit; none, where the engine cannot tell."""
    of_session: tuple[Term, ...]
    of_kind: tuple[Term, ...]
    of_text: tuple[Term, ...]
    """What only a look at the text can tell."""
    patterns: tuple[str, ...]
    whole: tuple[Asked, ...]
    """The plain words as they were typed, side by side; then what is most of them."""
    is_plain: bool
    """Whether nothing but plain words is asked for."""
    is_covered: bool
    """Whether every text that fits has one of the units in it."""

    @property
    def is_of_sessions(self) -> bool:
        """Whether nothing is asked for that is said: a list of sessions answers it."""
        return not (self.units or self.of_text or self.of_kind or self.must)

    @property
    def words(self) -> tuple[Unit, ...]:
        """The plain words."""
        return tuple(unit for unit in self.units if unit.is_word)

    def runs(self, *, is_begun: bool) -> tuple[Run, ...]:
        """Return as what words stand, or as what they begin."""
        units = (unit for unit in self.units if unit.is_begun is is_begun)
        return tuple(run for unit in units for run in unit.runs)


class _Asked(NamedTuple):
    asked: Asked | None
    is_exact: bool


def plan_of(
    query: Query,
    words: Sequence[str],
    engine: Engine,
    rewound: Callable[[], Sequence[int]],
) -> Plan:
    """Return how to answer a query of which these words count.

    ``rewound`` gives the records on branches that were left.
    """
    asker = _Asker(engine, rewound)
    units = [asker.unit(one) for one in readings(words, engine.terms_of) if one]
    if 2 * sum(unit.is_name for unit in units) < len(units):
        # A name in a sentence is one of its words.
        units = [replace(unit, is_name=False) for unit in units]
    levels: dict[Callable[[Term], bool], list[Term]] = {_is_session: [], _is_kind: []}
    of_text: list[Term] = []
    must: list[Asked] = []
    for term in query.conditions:
        if (kind := _kind_of(term)) is not None:
            levels[_is_kind].append(kind)
        level = next((level for level in levels if level(term)), None)
        if level is not None:
            levels[level].append(term)
            continue
        found = asker.ask(term)
        if found.asked is not None:
            must.append(found.asked)
        if not found.is_exact:
            of_text.append(term)
        units += asker.units(term)
    if len(units) == len(must) == len(query.conditions) == 1 and not of_text:
        # The one condition is the one unit, and need not be asked for twice.
        must = [] if _covers(query.conditions[0]) else must
    return Plan(
        units=tuple(units),
        must=engine.all_of(must) if must else None,
        of_session=tuple(levels[_is_session]),
        of_kind=tuple(levels[_is_kind]),
        of_text=tuple(of_text),
        patterns=tuple(_patterns(query.root)),
        whole=tuple(_whole(query.sentence, engine)),
        is_plain=bool(units) and not query.conditions,
        is_covered=bool(units) and any(map(_covers, query.conditions)),
    )


def _whole(sentence: Sequence[str], engine: Engine) -> Iterator[Asked]:
    """Yield the words of a sentence as one run, then as the halves of it.

    A line that was pasted may be longer than what is searched of a result, or begin
    with what changes from time to time. A name that may stand in several ways
    (``TypeError``, ``type error``) is meant as it was typed first.
    """
    terms = [term for word in sentence for term in engine.terms_of(word)]
    is_name = len(sentence) == 1 and _has_ways(sentence[0], engine)
    runs = [terms[:_MOST]] if is_name or len(terms) >= _FEWEST else []
    middle = len(terms) // 2
    halves = [terms[:middle][:_MOST], terms[middle:][:_MOST]]
    halves = [half for half in halves if len(set(counted(half))) >= _TELLING]
    for some in (runs, halves):
        known = [engine.run(run) for run in some if all(map(engine.frequency, run))]
        if known:
            yield engine.any_of(known)


def _has_ways(word: str, engine: Engine) -> bool:
    """Whether a word of one term may stand as several."""
    one = reading(word, engine.terms_of)
    return one is not None and len(one.runs) > 1 == len(one.runs[0])


def relaxed(query: Query, words: Sequence[str]) -> Query:
    """Return the query that a hit must match: all conditions, and one of the words."""
    ways = [Words((word,)) for word in words]
    # Two neighbours may be written as one word.
    for one, other in itertools.pairwise(words):
        if one.isalpha() and other.isalpha():
            ways.append(Words((one + other,)))
    either = Or(tuple(ways)) if len(ways) > 1 else ways[0] if ways else None
    terms = (*((either,) if either else ()), *query.conditions)
    return Query(And(terms) if len(terms) > 1 else terms[0] if terms else None)


def kinds_of(terms: Sequence[Term]) -> frozenset[int]:
    """Return the kinds of text, as in buckets, of which terms hold."""
    parts = (*Part, Part.RESULT)
    found = set()
    for code, part in enumerate(parts):
        for bit, agent in ((0, None), (8, AgentId(""))):
            subject = Subject(
                session=SessionId(""),
                part=part,
                role=ROLES.get(part),
                is_error=code == len(Part),
                agent=agent,
                has=frozenset({Has.THINKING} if part is Part.THINKING else ()),
            )
            if all(matches(Query(term), subject, str.split) for term in terms):
                found.add(code + bit)
    return frozenset(found)


def leaves(term: Term) -> Iterator[Term]:
    """Yield what a term is made of."""
    if isinstance(term, Not):
        yield from leaves(term.term)
    elif isinstance(term, And | Or):
        for part in term.terms:
            yield from leaves(part)
    else:
        yield term


def _is_session(term: Term) -> bool:
    """Whether a session alone settles a term."""
    return all(
        (isinstance(leaf, Fact) and leaf.field in _OF_SESSION)
        or (isinstance(leaf, Scoped) and leaf.field == "title")
        or (
            isinstance(leaf, Fact)
            and leaf.field == "is"
            and leaf.value in _SESSION_FLAGS
        )
        for leaf in leaves(term)
    )


def _is_kind(term: Term) -> bool:
    """Whether the kind of a text alone settles a term."""
    return all(
        isinstance(leaf, Fact) and (leaf.field in _OF_KIND or leaf in _KIND_FACTS)
        for leaf in leaves(term)
    )


def _covers(term: Term) -> bool:
    """Whether a text can fit only if it has a unit of this term."""
    if isinstance(term, Or):
        return all(map(_covers, term.terms))
    if isinstance(term, And):
        return any(map(_covers, term.terms))
    return isinstance(term, Words | Phrase | Prefix)


def _kind_of(term: Term) -> Term | None:
    """Return what tells the only kinds of text of which a term can hold, if any."""
    if isinstance(term, Scoped) and term.field == "cmd":
        return Fact("in", Part.TOOL)
    if isinstance(term, Fact | Scoped) and term.field in OF_ANSWERS.values():
        return Fact("in", Part.RESULT)
    if not isinstance(term, Fact):
        return None
    if term == Fact("has", Has.IMAGE):
        return Not(Fact("role", Role.ASSISTANT))
    if term.field == "agent":
        return Fact("is", Flag.AGENT) if term != Fact("agent", MAIN) else None
    is_of_calls = term.field in {"tool", "file"} or term == _EDIT
    return Fact("in", Part.TOOL) if is_of_calls else None


def _patterns(term: Term | None) -> Iterator[str]:
    if isinstance(term, Regex):
        yield term.pattern
    elif isinstance(term, And | Or):
        for part in term.terms:
            yield from _patterns(part)


class _Asker:
    """Makes questions: exact ones, or such that find at least what is asked for."""

    def __init__(self, engine: Engine, rewound: Callable[[], Sequence[int]]) -> None:
        self._engine = engine
        self._rewound = rewound

    def unit(self, one: Reading, *, is_word: bool = True) -> Unit:
        runs = [
            run
            for way in one.runs
            for run in (
                [(form,) for form in self._engine.forms(way[0])]
                if len(way) == 1
                else [way]
            )
        ]
        return Unit(
            label=one.word,
            asked=self._runs(runs),
            ways=one.runs,
            runs=tuple(runs),
            each=tuple(map(self._engine.run, runs)),
            is_word=is_word,
            is_name=_NAME.search(one.word) is not None,
        )

    def _runs(self, runs: Sequence[Run]) -> Asked:
        single = [run[0] for run in runs if len(run) == 1]
        asked = [self._engine.run(run) for run in runs if len(run) > 1]
        if single:
            asked.append(self._engine.term(single))
        return self._engine.any_of(asked) if asked else self._engine.nothing()

    def units(self, term: Term) -> Iterator[Unit]:
        """Yield what a condition looks for, to be scored with the words."""
        if isinstance(term, And | Or):
            for part in term.terms:
                yield from self.units(part)
        elif isinstance(term, Words):
            for one in readings(term.words, self._engine.terms_of):
                if one:
                    yield self.unit(one, is_word=False)
        elif isinstance(term, Phrase | Prefix):
            run = tuple(self._engine.terms_of(term.text))
            if run:
                begun = isinstance(term, Prefix)
                asked = self._text(term).asked or self._engine.nothing()
                yield Unit(
                    term.text,
                    asked,
                    (run,),
                    (run,),
                    self._engine.each_beginning(run) if begun else (asked,),
                    is_exact=True,
                    is_word=False,
                    is_begun=begun,
                )
        elif isinstance(term, Scoped) and term.field == "cmd":
            inner = term.term
            plain = Words((inner.text,)) if isinstance(inner, Word) else inner
            yield from self.units(plain)

    def ask(self, term: Term) -> _Asked:
        """Return the question for a term, and whether it is exact."""
        if isinstance(term, Words | Phrase | Prefix):
            return self._text(term)
        if isinstance(term, Not):
            found = self.ask(term.term)
            if found.asked is None or not found.is_exact:
                return _Asked(None, is_exact=False)
            return _Asked(self._engine.without(found.asked), is_exact=True)
        if isinstance(term, And | Or):
            return self._joined(term)
        if term in _LEFT or term == _KEPT:
            left = self._engine.of_records(self._rewound())
            asked = self._engine.without(left) if term == _KEPT else left
            return _Asked(asked, is_exact=True)
        return _Asked(self._narrowed(term), is_exact=False)

    def _narrowed(self, term: Regex | Scoped | Fact | Period) -> Asked | None:
        """Return a question that finds at least what a term does, if there is one."""
        # Most queries are words, and need none of it.
        from bygones.query.needed import needed, pieces_of  # noqa: PLC0415
        from bygones.search.narrowing import narrowed  # noqa: PLC0415

        if isinstance(term, Scoped) and term.field == "cmd":
            inner = term.term
            plain = Words((inner.text,)) if isinstance(inner, Word) else inner
            return self._text(plain).asked
        if isinstance(term, Regex):
            return narrowed(needed(term.pattern), self._engine)
        if term == _EDIT:
            return self._engine.term([name.lower() for name in EDITING])
        if isinstance(term, Fact) and term.field in {"tool", "file"}:
            # With a star a path is meant from a folder on, and to its end.
            is_whole = term.field == "tool" or "*" in term.value
            pieces = pieces_of(term.value, is_whole=is_whole)
            return narrowed(pieces, self._engine)
        return None

    def _joined(self, term: And | Or) -> _Asked:
        found = [self.ask(part) for part in term.terms]
        exact = all(one.is_exact for one in found)
        asked = [one.asked for one in found if one.asked is not None]
        if isinstance(term, And):
            return _Asked(self._engine.all_of(asked) if asked else None, exact)
        if len(asked) < len(found):
            return _Asked(None, is_exact=False)
        return _Asked(self._engine.any_of(asked), exact)

    def _text(self, term: Words | Phrase | Prefix) -> _Asked:
        """Return the question for what stands in a text; signs ask for nothing."""
        engine = self._engine
        if isinstance(term, Words):
            found = readings(term.words, engine.terms_of)
            asked = [self.unit(one).asked for one in found if one]
            return _Asked(engine.all_of(asked) if asked else None, bool(asked))
        run = engine.terms_of(term.text)
        if not run:
            return _Asked(None, is_exact=False)
        if isinstance(term, Prefix):
            return _Asked(engine.beginning(run), is_exact=engine.is_whole(run))
        return _Asked(engine.run(run), is_exact=True)
