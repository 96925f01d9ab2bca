"""From a query to questions for the engine, and what must be looked at besides.

A condition is settled in one of four ways: by the session alone, by the kind of text
alone, by the engine, or by opening each text that the engine offers. The last is
always right and always slow, so the others are used where they are exact.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from bygones.model.base import AgentId, SessionId
from bygones.model.query import (
    And,
    FieldTerm,
    FieldValue,
    Flag,
    HasValue,
    Not,
    Or,
    Part,
    Phrase,
    Prefix,
    Query,
    Regex,
    Term,
    TimeRange,
    Word,
    Words,
)
from bygones.model.summary import Role
from bygones.query.fields import RESULT_FIELDS, FieldLevel, term_level
from bygones.query.matcher import SearchableText, is_main_agent, matches_text
from bygones.query.regex_literals import (
    LiteralChoice,
    RequiredLiteral,
    WordFragment,
    extract_glob_literals,
    extract_literals,
    split_fragments,
)
from bygones.query.terms import (
    TermRun,
    WordVariants,
    drop_stop_words,
    expand_word,
    expand_words,
)
from bygones.search.texts import EDIT_TOOLS, ROLE_BY_PART

if TYPE_CHECKING:  # protocols take long to make
    from bygones.store.protocols import EngineQuery, SearchEngine


_IDENTIFIER = re.compile(
    r"\w[._/:\\-]+\w|[a-z][A-Z]|[A-Z]{2}[a-z]|^[A-Z0-9_]{4,}$|\d\w|\w\d"
)
_MIN_VERBATIM_TERMS, _MAX_VERBATIM_TERMS = 3, 30
"""Terms of a sentence that are looked for as they were typed."""
_HAS_EDIT = FieldValue("has", HasValue.EDIT)
_MIN_SIGNIFICANT_WORDS = 5
"""Words of half a sentence that make it more than a way of saying something."""
_REWOUND_FACTS = (FieldValue("is", Flag.REWOUND), FieldValue("branch", "rewound"))
_LIVE_BRANCH = FieldValue("branch", "live")


class ScoredTerm(Struct, frozen=True):
    """Something that is looked for and scored: a word, a phrase, a beginning."""

    label: str
    query: EngineQuery
    variants: tuple[TermRun, ...]
    """How it may be written."""
    indexed_variants: tuple[TermRun, ...]
    """The same with all forms that the index knows of single words."""
    variant_queries: tuple[EngineQuery, ...] = ()
    """The same question in parts: whoever answers one of them answers it."""
    is_exact: bool = False
    """Whether forms of it do not count."""
    is_plain_word: bool = True
    """Whether it is a plain word of the query, which may be missing."""
    is_prefix: bool = False
    """Whether the last term of its runs is the beginning of a word."""
    is_identifier: bool = False


class SearchPlan(Struct, frozen=True):
    """How a query is answered."""

    terms: tuple[ScoredTerm, ...]
    required: EngineQuery | None
    """What every text must fit; none, where the engine cannot tell."""
    session_conditions: tuple[Term, ...]
    kind_conditions: tuple[Term, ...]
    text_conditions: tuple[Term, ...]
    """What only a look at the text can tell."""
    regexes: tuple[str, ...]
    verbatim: tuple[EngineQuery, ...]
    """The plain words as they were typed, side by side; then what is most of them."""
    has_only_words: bool
    """Whether nothing but plain words is asked for."""
    is_covered_by_terms: bool
    """Whether every text that fits has one of the units in it."""

    @property
    def is_session_only(self) -> bool:
        """Whether nothing is asked for that is said: a list of sessions answers it."""
        return not (
            self.terms or self.text_conditions or self.kind_conditions or self.required
        )

    @property
    def plain_words(self) -> tuple[ScoredTerm, ...]:
        """The plain words."""
        return tuple(unit for unit in self.terms if unit.is_plain_word)

    def indexed_variants(self, *, is_prefix: bool) -> tuple[TermRun, ...]:
        """Return as what words stand, or as what they begin."""
        units = (unit for unit in self.terms if unit.is_prefix is is_prefix)
        return tuple(run for unit in units for run in unit.indexed_variants)


class _ConditionQuery(NamedTuple):
    query: EngineQuery | None
    is_exact: bool


def plan_search(
    query: Query,
    words: Sequence[str],
    engine: SearchEngine,
    rewound_records: Callable[[], Sequence[int]],
) -> SearchPlan:
    """Return how to answer a query of which these words count.

    ``rewound`` gives the records on branches that were left.
    """
    asker = _QueryBuilder(engine, rewound_records)
    units = [
        asker.make_term(one) for one in expand_words(words, engine.tokenize) if one
    ]
    if 2 * sum(unit.is_identifier for unit in units) < len(units):
        # A name in a sentence is one of its words.
        units = [replace(unit, is_identifier=False) for unit in units]
    conditions: dict[FieldLevel, list[Term]] = {level: [] for level in FieldLevel}
    must: list[EngineQuery] = []
    for term in query.conditions:
        if (kind := _implied_kind(term)) is not None:
            conditions[FieldLevel.KIND].append(kind)
        level = term_level(term)
        if level is not FieldLevel.TEXT:
            conditions[level].append(term)
            continue
        found = asker.build(term)
        if found.query is not None:
            must.append(found.query)
        if not found.is_exact:
            conditions[FieldLevel.TEXT].append(term)
        units += asker.iter_terms(term)
    text_conditions = conditions[FieldLevel.TEXT]
    if len(units) == len(must) == len(query.conditions) == 1 and not text_conditions:
        # The one condition is the one unit, and need not be asked for twice.
        must = [] if _implies_term(query.conditions[0]) else must
    return SearchPlan(
        terms=tuple(units),
        required=engine.all_of(must) if must else None,
        session_conditions=tuple(conditions[FieldLevel.SESSION]),
        kind_conditions=tuple(conditions[FieldLevel.KIND]),
        text_conditions=tuple(text_conditions),
        regexes=tuple(_iter_regexes(query.root)),
        verbatim=tuple(_verbatim_queries(query.plain_words, engine)),
        has_only_words=bool(units) and not query.conditions,
        is_covered_by_terms=bool(units) and any(map(_implies_term, query.conditions)),
    )


def _verbatim_queries(
    sentence: Sequence[str], engine: SearchEngine
) -> Iterator[EngineQuery]:
    """Yield the words of a sentence as one run, then as the halves of it.

    A line that was pasted may be longer than what is searched of a result, or begin
    with what changes from time to time. A name that may stand in several ways
    (``TypeError``, ``type error``) is meant as it was typed first.
    """
    terms = [term for word in sentence for term in engine.tokenize(word)]
    is_name = len(sentence) == 1 and _has_variants(sentence[0], engine)
    runs = (
        [terms[:_MAX_VERBATIM_TERMS]]
        if is_name or len(terms) >= _MIN_VERBATIM_TERMS
        else []
    )
    middle = len(terms) // 2
    halves = [
        terms[:middle][:_MAX_VERBATIM_TERMS],
        terms[middle:][:_MAX_VERBATIM_TERMS],
    ]
    halves = [
        half
        for half in halves
        if len(set(drop_stop_words(half))) >= _MIN_SIGNIFICANT_WORDS
    ]
    for some in (runs, halves):
        known = [
            engine.match_phrase(run) for run in some if all(map(engine.frequency, run))
        ]
        if known:
            yield engine.any_of(known)


def _has_variants(word: str, engine: SearchEngine) -> bool:
    """Whether a word of one term may stand as several."""
    one = expand_word(word, engine.tokenize)
    return one is not None and len(one.runs) > 1 == len(one.runs[0])


def relax_query(query: Query, words: Sequence[str]) -> Query:
    """Return the query that a hit must match: all conditions, and one of the words."""
    ways = [Words((word,)) for word in words]
    # Two neighbours may be written as one word.
    for one, other in itertools.pairwise(words):
        if one.isalpha() and other.isalpha():
            ways.append(Words((one + other,)))
    either = Or(tuple(ways)) if len(ways) > 1 else ways[0] if ways else None
    terms = (*((either,) if either else ()), *query.conditions)
    return Query(And(terms) if len(terms) > 1 else terms[0] if terms else None)


def matching_kinds(terms: Sequence[Term]) -> frozenset[int]:
    """Return the kinds of text, as in buckets, of which terms hold."""
    parts = (*Part, Part.RESULT)
    found = set()
    for code, part in enumerate(parts):
        for bit, agent in ((0, None), (8, AgentId(""))):
            subject = SearchableText(
                session_id=SessionId(""),
                part=part,
                role=ROLE_BY_PART.get(part),
                is_error=code == len(Part),
                agent_id=agent,
                has=frozenset({HasValue.THINKING} if part is Part.THINKING else ()),
            )
            if all(matches_text(Query(term), subject, str.split) for term in terms):
                found.add(code + bit)
    return frozenset(found)


def _implies_term(term: Term) -> bool:
    """Whether a text can fit only if it has a unit of this term."""
    if isinstance(term, Or):
        return all(map(_implies_term, term.terms))
    if isinstance(term, And):
        return any(map(_implies_term, term.terms))
    return isinstance(term, Words | Phrase | Prefix)


def _implied_kind(term: Term) -> Term | None:
    """Return what tells the only kinds of text of which a term can hold, if any."""
    if isinstance(term, FieldTerm) and term.field == "cmd":
        return FieldValue("in", Part.TOOL)
    if (
        isinstance(term, FieldValue | FieldTerm)
        and term.field in RESULT_FIELDS.values()
    ):
        return FieldValue("in", Part.RESULT)
    if not isinstance(term, FieldValue):
        return None
    if term == FieldValue("has", HasValue.IMAGE):
        return Not(FieldValue("role", Role.ASSISTANT))
    if term.field == "agent":
        return FieldValue("is", Flag.AGENT) if not is_main_agent(term) else None
    is_of_calls = term.field in {"tool", "file"} or term == _HAS_EDIT
    return FieldValue("in", Part.TOOL) if is_of_calls else None


def _iter_regexes(term: Term | None) -> Iterator[str]:
    if isinstance(term, Regex):
        yield term.pattern
    elif isinstance(term, And | Or):
        for part in term.terms:
            yield from _iter_regexes(part)


class _QueryBuilder:
    """Makes questions: exact ones, or such that find at least what is asked for."""

    def __init__(
        self, engine: SearchEngine, rewound_records: Callable[[], Sequence[int]]
    ) -> None:
        self._engine = engine
        self._rewound_records = rewound_records

    def make_term(
        self, word: WordVariants, *, is_plain_word: bool = True
    ) -> ScoredTerm:
        runs = [
            run
            for way in word.runs
            for run in (
                [(form,) for form in self._engine.word_forms(way[0])]
                if len(way) == 1
                else [way]
            )
        ]
        return ScoredTerm(
            label=word.word,
            query=self._any_run(runs),
            variants=word.runs,
            indexed_variants=tuple(runs),
            variant_queries=tuple(map(self._engine.match_phrase, runs)),
            is_plain_word=is_plain_word,
            is_identifier=_IDENTIFIER.search(word.word) is not None,
        )

    def _any_run(self, runs: Sequence[TermRun]) -> EngineQuery:
        single = [run[0] for run in runs if len(run) == 1]
        asked = [self._engine.match_phrase(run) for run in runs if len(run) > 1]
        if single:
            asked.append(self._engine.match_terms(single))
        return self._engine.any_of(asked) if asked else self._engine.match_none()

    def iter_terms(self, term: Term) -> Iterator[ScoredTerm]:
        """Yield what a condition looks for, to be scored with the words."""
        if isinstance(term, And | Or):
            for part in term.terms:
                yield from self.iter_terms(part)
        elif isinstance(term, Words):
            for one in expand_words(term.words, self._engine.tokenize):
                if one:
                    yield self.make_term(one, is_plain_word=False)
        elif isinstance(term, Phrase | Prefix):
            run = tuple(self._engine.tokenize(term.text))
            if run:
                begun = isinstance(term, Prefix)
                asked = self._text_query(term).query or self._engine.match_none()
                yield ScoredTerm(
                    term.text,
                    asked,
                    (run,),
                    (run,),
                    self._engine.match_prefix_phrase_parts(run) if begun else (asked,),
                    is_exact=True,
                    is_plain_word=False,
                    is_prefix=begun,
                )
        elif isinstance(term, FieldTerm) and term.field == "cmd":
            inner = term.term
            plain = Words((inner.text,)) if isinstance(inner, Word) else inner
            yield from self.iter_terms(plain)

    def build(self, term: Term) -> _ConditionQuery:
        """Return the question for a term, and whether it is exact."""
        if isinstance(term, Words | Phrase | Prefix):
            return self._text_query(term)
        if isinstance(term, Not):
            found = self.build(term.term)
            if found.query is None or not found.is_exact:
                return _ConditionQuery(None, is_exact=False)
            return _ConditionQuery(self._engine.none_of(found.query), is_exact=True)
        if isinstance(term, And | Or):
            return self._combine(term)
        if term in _REWOUND_FACTS or term == _LIVE_BRANCH:
            left = self._engine.in_records(self._rewound_records())
            asked = self._engine.none_of(left) if term == _LIVE_BRANCH else left
            return _ConditionQuery(asked, is_exact=True)
        return _ConditionQuery(self._prefilter(term), is_exact=False)

    def _prefilter(
        self, term: Regex | FieldTerm | FieldValue | TimeRange
    ) -> EngineQuery | None:
        """Return a question that finds at least what a term does, if there is one."""
        if isinstance(term, FieldTerm) and term.field == "cmd":
            inner = term.term
            plain = Words((inner.text,)) if isinstance(inner, Word) else inner
            return self._text_query(plain).query
        if isinstance(term, Regex):
            return build_prefilter(extract_literals(term.pattern), self._engine)
        if term == _HAS_EDIT:
            return self._engine.match_terms([name.lower() for name in EDIT_TOOLS])
        if isinstance(term, FieldValue) and term.field in {"tool", "file"}:
            # With a star a path is meant from a folder on, and to its end.
            is_whole = term.field == "tool" or "*" in term.value
            pieces = extract_glob_literals(term.value, is_whole=is_whole)
            return build_prefilter(pieces, self._engine)
        return None

    def _combine(self, term: And | Or) -> _ConditionQuery:
        found = [self.build(part) for part in term.terms]
        exact = all(one.is_exact for one in found)
        asked = [one.query for one in found if one.query is not None]
        if isinstance(term, And):
            return _ConditionQuery(self._engine.all_of(asked) if asked else None, exact)
        if len(asked) < len(found):
            return _ConditionQuery(None, is_exact=False)
        return _ConditionQuery(self._engine.any_of(asked), exact)

    def _text_query(self, term: Words | Phrase | Prefix) -> _ConditionQuery:
        """Return the question for what stands in a text; signs ask for nothing."""
        engine = self._engine
        if isinstance(term, Words):
            found = expand_words(term.words, engine.tokenize)
            asked = [self.make_term(one).query for one in found if one]
            return _ConditionQuery(engine.all_of(asked) if asked else None, bool(asked))
        run = engine.tokenize(term.text)
        if not run:
            return _ConditionQuery(None, is_exact=False)
        if isinstance(term, Prefix):
            return _ConditionQuery(
                engine.match_prefix_phrase(run), is_exact=engine.is_prefix_complete(run)
            )
        return _ConditionQuery(engine.match_phrase(run), is_exact=True)


if TYPE_CHECKING:  # protocols take long to make
    from bygones.store.protocols import EngineQuery, SearchEngine


_MAX_TERM_LENGTH = 32
"""Letters up to which a word is surely one term, whatever it is part of."""
_MIN_FRAGMENT_LENGTH = 3
"""Letters of a piece of a word that are worth looking for."""


def build_prefilter(
    literals: Sequence[RequiredLiteral | LiteralChoice], engine: SearchEngine
) -> EngineQuery | None:
    """Return a question that finds at least the texts which have all pieces, if any.

    Whole words are asked for, in their order. Where there are none, a beginning is;
    what may be the middle of a word last, as all words must be looked through for it.
    """
    words = [one for piece in literals for one in _word_queries(piece, engine)]
    if words:
        return engine.all_of(words)
    known = [one for piece in literals for one in _usable_fragments(piece)]
    begun = [one.text for one in known if one.is_word_start]
    if begun:
        return engine.match_prefix_phrase([max(begun, key=len)])
    inner = [one.text for one in known]
    return engine.match_substring(max(inner, key=len)) if inner else None


def _word_queries(
    literal: RequiredLiteral | LiteralChoice, engine: SearchEngine
) -> Iterator[EngineQuery]:
    if isinstance(literal, LiteralChoice):
        ways = [build_prefilter(way, engine) for way in literal.alternatives]
        if all(way is not None for way in ways):
            yield engine.any_of(ways)
        return
    for is_whole, group in groupby(split_fragments(literal), _is_whole_word):
        if is_whole:
            yield engine.match_phrase([one.text for one in group])


def _is_whole_word(fragment: WordFragment) -> bool:
    return (
        fragment.is_word_start
        and fragment.is_word_end
        and fragment.text.isascii()
        and len(fragment.text) <= _MAX_TERM_LENGTH
    )


def _usable_fragments(
    literal: RequiredLiteral | LiteralChoice,
) -> Iterator[WordFragment]:
    if isinstance(literal, RequiredLiteral):
        for one in split_fragments(literal):
            if (
                one.text.isascii()
                and _MIN_FRAGMENT_LENGTH <= len(one.text) <= _MAX_TERM_LENGTH
            ):
                yield one
