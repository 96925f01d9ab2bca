"""Plan a search: turn a query into engine queries, and conditions to check besides.

A condition is checked in one of four ways: with the session's summary, with the kind of
a text, by the engine, or by opening each text that the engine finds. The last way is
always correct and always slow, so the others are used where they are exact.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

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
from bygones.model.summary import Role, SessionSummary, Title, TitleKind
from bygones.model.usage import Usage
from bygones.query.fields import (
    RESULT_FIELDS,
    FieldLevel,
    SearchableText,
    term_level,
)
from bygones.query.matcher import is_main_agent, matches_text
from bygones.query.regex import (
    LiteralChoice,
    RequiredLiteral,
    extract_glob_literals,
    extract_literals,
    split_words,
)
from bygones.query.tokens import (
    TermRun,
    WordVariants,
    drop_stop_words,
    expand_word,
    expand_words,
    has_word_characters,
    split_alternatives,
)
from bygones.search.texts import EDIT_TOOLS, ROLE_BY_PART
from bygones.store.protocols import EngineQuery, SearchEngine

_IDENTIFIER = re.compile(
    r"\w[._/:\\-]+\w|[a-z][A-Z]|[A-Z]{2}[a-z]|^[A-Z0-9_]{4,}$|\d\w|\w\d"
)
_FILE_NAME = re.compile(
    r"(?i:makefile|dockerfile|gemfile|rakefile|procfile|justfile|jenkinsfile|license"
    r"|readme|changelog|codeowners)|[\w.~:/\\-]*[/\\][\w.-]+|[\w-][\w.-]*\.[A-Za-z]\w{0,7}"
)
_MAX_CALL_WORDS = 3
"""Words of a query that may be names of tools and files only."""
_MIN_VERBATIM_TERMS, _MAX_VERBATIM_TERMS = 3, 30
"""Terms of a sentence that is also searched for as it was typed."""
_MIN_SIGNIFICANT_WORDS = 5
"""Words that half a sentence needs to be more than a common expression."""
_HAS_EDIT = FieldValue("has", HasValue.EDIT)
_CALLS = FieldValue("in", Part.TOOL)
_KINDS_BY_FIELD = {
    "cmd": _CALLS,
    **dict.fromkeys(RESULT_FIELDS.values(), FieldValue("in", Part.RESULT)),
}
"""The kind of the texts that a field is about."""
_ABANDONED_FACTS = (FieldValue("is", Flag.ABANDONED), FieldValue("branch", "abandoned"))
_LIVE_BRANCH = FieldValue("branch", "live")
_MAX_TERM_LENGTH = 32
"""Characters up to which a word is certainly one term of the index."""
_MIN_FRAGMENT_LENGTH = 3
"""Characters of a part of a word that make it worth searching for."""
_NO_SESSION = SessionSummary(
    id=SessionId(""), title=Title("", TitleKind.ID), usage=Usage()
)


class ScoredTerm(Struct, frozen=True):
    """Something that is searched for and scored: a word, a phrase, a prefix."""

    label: str
    query: EngineQuery
    variants: tuple[TermRun, ...]
    """The ways in which it may be written."""
    indexed_variants: tuple[TermRun, ...]
    """The same, with all forms of single words that the index has."""
    variant_queries: tuple[EngineQuery, ...] = ()
    """The query in parts: their union is the same."""
    is_exact: bool = False
    """Whether other forms of the words do not count."""
    is_plain_word: bool = True
    """Whether it is a plain word of the query, which may be missing."""
    is_prefix: bool = False
    """Whether the last term of its runs is the beginning of a word."""
    is_identifier: bool = False
    index_terms: tuple[str, ...] = ()
    """The terms of the index that match it, unless some variant is a phrase."""
    tool_name: str = ""
    """The tool that it names, if the query names nothing but tools and files."""
    is_file_name: bool = False
    """Whether it names a file, in such a query."""
    is_alternative: bool = False
    """Whether it is a part of a word with a slash, in such a query."""


class SearchPlan(Struct, frozen=True):
    """How a query is answered."""

    terms: tuple[ScoredTerm, ...]
    required: EngineQuery | None
    """What every text has to match; none if the engine cannot decide it."""
    session_conditions: tuple[Term, ...]
    kind_conditions: tuple[Term, ...]
    text_conditions: tuple[Term, ...]
    """Conditions that can only be checked by opening the text."""
    regexes: tuple[str, ...]
    verbatim: tuple[EngineQuery, ...]
    """The plain words side by side, as typed; then half of them."""
    typed_terms: TermRun
    """The terms of the plain words, as they were typed."""
    has_only_words: bool
    """Whether the query consists of plain words alone."""
    is_covered_by_terms: bool
    """Whether every matching text has one of the terms in it."""

    @property
    def is_session_only(self) -> bool:
        """Whether the query has conditions on sessions alone."""
        return not (
            self.terms or self.text_conditions or self.kind_conditions or self.required
        )

    @property
    def plain_words(self) -> tuple[ScoredTerm, ...]:
        """The terms that are plain words."""
        return tuple(term for term in self.terms if term.is_plain_word)

    @property
    def asks_for_calls(self) -> bool:
        """Whether the query names nothing but tools and files."""
        return any(term.tool_name or term.is_file_name for term in self.terms)

    def indexed_variants(self, *, is_prefix: bool) -> tuple[TermRun, ...]:
        """Return all forms of the terms that are prefixes, or that are not."""
        terms = (term for term in self.terms if term.is_prefix is is_prefix)
        return tuple(run for term in terms for run in term.indexed_variants)


class _ConditionQuery(NamedTuple):
    query: EngineQuery | None
    is_exact: bool


def plan_search(
    query: Query,
    words: Sequence[str],
    engine: SearchEngine,
    abandoned_records: Callable[[], Sequence[int]],
) -> SearchPlan:
    """Return the plan for a query of which these plain words count.

    ``abandoned_records`` returns the records on abandoned branches.
    """
    builder = _QueryBuilder(engine, abandoned_records)
    terms = [
        builder.make_term(variants)
        for variants in expand_words(words, engine.tokenize)
        if variants
    ]
    parts = {part for word in words for part in split_alternatives(word)}
    typed = [term for term in terms if term.label not in parts]
    if 2 * sum(term.is_identifier for term in typed) < len(typed):
        # An identifier in a sentence is one of its words.
        terms = [replace(term, is_identifier=False) for term in terms]
    conditions: dict[FieldLevel, list[Term]] = {level: [] for level in FieldLevel}
    required: list[EngineQuery] = []
    for condition in query.conditions:
        if terms and _is_punctuation(condition, engine):
            continue
        if (kind := _implied_kind(condition)) is not None:
            conditions[FieldLevel.KIND].append(kind)
        level = term_level(condition)
        if level is not FieldLevel.TEXT:
            conditions[level].append(condition)
            continue
        built = builder.build(condition)
        if built.query is not None:
            required.append(built.query)
        if not built.is_exact:
            conditions[FieldLevel.TEXT].append(condition)
        terms += builder.iter_terms(condition)
    text_conditions = conditions[FieldLevel.TEXT]
    if len(terms) == len(required) == len(query.conditions) == 1 and (
        not text_conditions and _implies_term(query.conditions[0])
    ):
        # The only condition is the only term, which is searched for anyway.
        required = []
    return SearchPlan(
        terms=tuple(terms),
        required=engine.all_of(required) if required else None,
        session_conditions=tuple(conditions[FieldLevel.SESSION]),
        kind_conditions=tuple(conditions[FieldLevel.KIND]),
        text_conditions=tuple(text_conditions),
        regexes=tuple(_iter_regexes(query.root)),
        verbatim=tuple(_verbatim_queries(query.plain_words, engine)),
        typed_terms=tuple(
            term for word in query.plain_words for term in engine.tokenize(word)
        ),
        has_only_words=bool(terms) and not query.conditions,
        is_covered_by_terms=bool(terms) and any(map(_implies_term, query.conditions)),
    )


def mark_calls(plan: SearchPlan, tool_names: Callable[[], Iterable[str]]) -> SearchPlan:
    """Mark the words of a query that names nothing but tools and files.

    Such a query asks for calls. The case of a tool's name matters, except in a query of
    one word: `Edit` and `Task` are ordinary words too.
    """
    terms = plan.plain_words
    parts = {part for term in terms for part in split_alternatives(term.label)}
    count = sum(term.label not in parts for term in terms)
    if not terms or terms != plan.terms or count > _MAX_CALL_WORDS:
        return plan
    names = list(tool_names())
    exact = {name: name for name in names}
    folded = {name.casefold(): name for name in names} if count == 1 else {}
    marked = [
        replace(term, is_alternative=True)
        if term.label in parts
        else replace(
            term,
            is_identifier=True,
            tool_name=exact.get(term.label) or folded.get(term.label.casefold(), ""),
            is_file_name=_FILE_NAME.fullmatch(term.label) is not None,
        )
        for term in terms
    ]
    if not all(
        term.tool_name or term.is_file_name or term.is_alternative for term in marked
    ):
        return plan
    return replace(plan, terms=tuple(marked))


def _verbatim_queries(
    sentence: Sequence[str], engine: SearchEngine
) -> Iterator[EngineQuery]:
    """Yield a query for the words of a sentence in a row, then for its halves.

    A pasted line may be longer than what is indexed of a result, or start with
    something that changes, such as a time. An identifier with several variants
    (``TypeError``, ``type error``) is searched for first as it was typed.
    """
    terms = [term for word in sentence for term in engine.tokenize(word)]
    is_identifier = len(sentence) == 1 and _has_variants(sentence[0], engine)
    whole = (
        [terms[:_MAX_VERBATIM_TERMS]]
        if is_identifier or len(terms) >= _MIN_VERBATIM_TERMS
        else []
    )
    middle = len(terms) // 2
    halves = [
        half
        for half in (
            terms[:middle][:_MAX_VERBATIM_TERMS],
            terms[middle:][:_MAX_VERBATIM_TERMS],
        )
        if len(set(drop_stop_words(half))) >= _MIN_SIGNIFICANT_WORDS
    ]
    for runs in (whole, halves):
        queries = [
            engine.match_phrase(run) for run in runs if all(map(engine.frequency, run))
        ]
        if queries:
            yield engine.any_of(queries)


def _has_variants(word: str, engine: SearchEngine) -> bool:
    """Whether a word of one term may also be written as several terms."""
    variants = expand_word(word, engine.tokenize)
    return variants is not None and len(variants.runs) > 1 == len(variants.runs[0])


def relax_query(query: Query, words: Sequence[str]) -> Query:
    """Return the query that a hit has to match: all conditions, and one of the words."""
    alternatives = [Words((word,)) for word in words]
    # Two neighbors may be written as one word.
    for first, second in pairwise(words):
        if first.isalpha() and second.isalpha():
            alternatives.append(Words((first + second,)))
    terms: list[Term] = list(query.conditions)
    if alternatives:
        any_word = Or(tuple(alternatives)) if len(alternatives) > 1 else alternatives[0]
        terms.insert(0, any_word)
    return Query(And(tuple(terms)) if len(terms) > 1 else terms[0] if terms else None)


def matching_kinds(terms: Sequence[Term]) -> frozenset[int]:
    """Return the kinds of text, as in text keys, that match all terms."""
    parts = (*Part, Part.RESULT)
    kinds = set()
    for code, part in enumerate(parts):
        for agent_bit, agent in ((0, None), (8, AgentId(""))):
            text = SearchableText(
                session=_NO_SESSION,
                part=part,
                role=ROLE_BY_PART.get(part),
                is_error=code == len(Part),
                agent_id=agent,
                has=frozenset({HasValue.THINKING} if part is Part.THINKING else ()),
            )
            if all(matches_text(Query(term), text, str.split) for term in terms):
                kinds.add(code + agent_bit)
    return frozenset(kinds)


def _implies_term(term: Term) -> bool:
    """Whether every text that matches has a scored term of this condition."""
    if isinstance(term, Or):
        return all(map(_implies_term, term.terms))
    if isinstance(term, And):
        return any(map(_implies_term, term.terms))
    return isinstance(term, Words | Phrase | Prefix)


def _is_punctuation(term: Term, engine: SearchEngine) -> bool:
    """Whether a term is quoted punctuation, which texts are not searched for."""
    return isinstance(term, Phrase) and not engine.tokenize(term.text)


def _implied_kind(term: Term) -> Term | None:
    """Return a condition on kinds that every text which matches a term meets."""
    if isinstance(term, FieldTerm):
        is_ignored = not has_word_characters(term.term.text)
        return None if is_ignored else _KINDS_BY_FIELD.get(term.field)
    if not isinstance(term, FieldValue):
        return None
    if term == FieldValue("has", HasValue.IMAGE):
        return Not(FieldValue("role", Role.ASSISTANT))
    if term.field == "agent":
        return None if is_main_agent(term) else FieldValue("is", Flag.AGENT)
    is_about_calls = term.field in {"tool", "file"} or term == _HAS_EDIT
    return _CALLS if is_about_calls else _KINDS_BY_FIELD.get(term.field)


def _iter_regexes(term: Term | None) -> Iterator[str]:
    if isinstance(term, Regex):
        yield term.pattern
    elif isinstance(term, And | Or):
        for part in term.terms:
            yield from _iter_regexes(part)


class _QueryBuilder:
    """Builds engine queries: exact ones, or ones that find at least the matches."""

    def __init__(
        self, engine: SearchEngine, abandoned_records: Callable[[], Sequence[int]]
    ) -> None:
        self._engine = engine
        self._abandoned_records = abandoned_records

    def make_term(
        self, word: WordVariants, *, is_plain_word: bool = True
    ) -> ScoredTerm:
        runs = [
            run
            for variant in word.runs
            for run in (
                [(form,) for form in self._engine.word_forms(variant[0])]
                if len(variant) == 1
                else [variant]
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
            index_terms=tuple(run[0] for run in runs)
            if all(len(run) == 1 for run in runs)
            else (),
        )

    def _any_run(self, runs: Sequence[TermRun]) -> EngineQuery:
        single = [run[0] for run in runs if len(run) == 1]
        queries = [self._engine.match_phrase(run) for run in runs if len(run) > 1]
        if single:
            queries.append(self._engine.match_terms(single))
        return self._engine.any_of(queries) if queries else self._engine.match_none()

    def iter_terms(self, term: Term) -> Iterator[ScoredTerm]:
        """Yield what a condition searches for, to be scored together with the words."""
        if isinstance(term, And | Or):
            for part in term.terms:
                yield from self.iter_terms(part)
        elif isinstance(term, Words):
            for variants in expand_words(term.words, self._engine.tokenize):
                if variants:
                    yield self.make_term(variants, is_plain_word=False)
        elif isinstance(term, Phrase | Prefix):
            run = tuple(self._engine.tokenize(term.text))
            if run:
                is_prefix = isinstance(term, Prefix)
                query = self._text_query(term).query or self._engine.match_none()
                yield ScoredTerm(
                    term.text,
                    query,
                    (run,),
                    (run,),
                    self._engine.match_prefix_phrase_parts(run)
                    if is_prefix
                    else (query,),
                    is_exact=True,
                    is_plain_word=False,
                    is_prefix=is_prefix,
                    index_terms=self._index_terms(run, is_prefix=is_prefix),
                )
        elif isinstance(term, FieldTerm) and term.field == "cmd":
            yield from self.iter_terms(_unscoped(term))

    def _index_terms(self, run: TermRun, *, is_prefix: bool) -> tuple[str, ...]:
        if len(run) > 1:
            return ()
        if not is_prefix:
            return run
        return tuple(term for term, _ in self._engine.terms_with_prefix(run[0]))

    def build(self, term: Term) -> _ConditionQuery:
        """Return the query for a condition, and whether it is exact."""
        if isinstance(term, Words | Phrase | Prefix):
            return self._text_query(term)
        if isinstance(term, Not):
            built = self.build(term.term)
            if built.query is None or not built.is_exact:
                return _ConditionQuery(None, is_exact=False)
            return _ConditionQuery(self._engine.none_of(built.query), is_exact=True)
        if isinstance(term, And | Or):
            return self._combine(term)
        if term in _ABANDONED_FACTS or term == _LIVE_BRANCH:
            abandoned = self._engine.in_records(self._abandoned_records())
            is_live = term == _LIVE_BRANCH
            query = self._engine.none_of(abandoned) if is_live else abandoned
            return _ConditionQuery(query, is_exact=True)
        return _ConditionQuery(self._prefilter(term), is_exact=False)

    def _prefilter(
        self, term: Regex | FieldTerm | FieldValue | TimeRange
    ) -> EngineQuery | None:
        """Return a query that finds at least what matches a term, if there is one."""
        if isinstance(term, FieldTerm) and term.field == "cmd":
            return self._text_query(_unscoped(term)).query
        if isinstance(term, Regex):
            return build_prefilter(extract_literals(term.pattern), self._engine)
        if term == _HAS_EDIT:
            return self._engine.match_terms([name.lower() for name in EDIT_TOOLS])
        if isinstance(term, FieldValue) and term.field in {"tool", "file"}:
            # With a star, a path has to match from a directory up to its end.
            is_whole = term.field == "tool" or "*" in term.value
            literals = extract_glob_literals(term.value, is_whole=is_whole)
            return build_prefilter(literals, self._engine)
        return None

    def _combine(self, term: And | Or) -> _ConditionQuery:
        built = [self.build(part) for part in term.terms]
        is_exact = all(one.is_exact for one in built)
        queries = [one.query for one in built if one.query is not None]
        if isinstance(term, And):
            query = self._engine.all_of(queries) if queries else None
            return _ConditionQuery(query, is_exact)
        if len(queries) < len(built):
            return _ConditionQuery(None, is_exact=False)
        return _ConditionQuery(self._engine.any_of(queries), is_exact)

    def _text_query(self, term: Words | Phrase | Prefix) -> _ConditionQuery:
        """Return the query for words in a text; punctuation alone gives none."""
        engine = self._engine
        if isinstance(term, Words):
            variants = expand_words(term.words, engine.tokenize)
            queries = [self.make_term(one).query for one in variants if one]
            query = engine.all_of(queries) if queries else None
            return _ConditionQuery(query, is_exact=bool(queries))
        run = engine.tokenize(term.text)
        if not run:
            return _ConditionQuery(None, is_exact=False)
        if isinstance(term, Prefix):
            return _ConditionQuery(
                engine.match_prefix_phrase(run), is_exact=engine.is_prefix_complete(run)
            )
        return _ConditionQuery(engine.match_phrase(run), is_exact=True)


def _unscoped(term: FieldTerm) -> Words | Phrase | Prefix:
    """Return the words of a field as a condition on the whole text."""
    return Words((term.term.text,)) if isinstance(term.term, Word) else term.term


def build_prefilter(
    literals: Sequence[RequiredLiteral | LiteralChoice], engine: SearchEngine
) -> EngineQuery | None:
    """Return a query that finds at least the texts that have all literals, if any.

    Whole words are searched for, in their order. If there are none, the beginning of a
    word is; the middle of one only then, because that scans all terms of the index.
    """
    words = [query for one in literals for query in _word_queries(one, engine)]
    if words:
        return engine.all_of(words)
    fragments = [word for one in literals for word in _usable_fragments(one)]
    prefixes = [one.text for one in fragments if one.is_word_start]
    if prefixes:
        return engine.match_prefix_phrase([max(prefixes, key=len)])
    substrings = [one.text for one in fragments]
    return engine.match_substring(max(substrings, key=len)) if substrings else None


def _word_queries(
    literal: RequiredLiteral | LiteralChoice, engine: SearchEngine
) -> Iterator[EngineQuery]:
    if isinstance(literal, LiteralChoice):
        queries = [build_prefilter(some, engine) for some in literal.alternatives]
        if all(query is not None for query in queries):
            yield engine.any_of(queries)
        return
    for is_whole, group in groupby(split_words(literal), _is_whole_word):
        if is_whole:
            yield engine.match_phrase([one.text for one in group])


def _is_whole_word(word: RequiredLiteral) -> bool:
    return (
        word.is_word_start
        and word.is_word_end
        and word.text.isascii()
        and len(word.text) <= _MAX_TERM_LENGTH
    )


def _usable_fragments(
    literal: RequiredLiteral | LiteralChoice,
) -> Iterator[RequiredLiteral]:
    if isinstance(literal, RequiredLiteral):
        for word in split_words(literal):
            is_usable = _MIN_FRAGMENT_LENGTH <= len(word.text) <= _MAX_TERM_LENGTH
            if is_usable and word.text.isascii():
                yield word
