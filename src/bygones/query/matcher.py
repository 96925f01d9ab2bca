"""Decide whether a text or a session matches a query.

This is simple rather than fast: tests compare the results of the search engine with it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from bygones.model.query import (
    MAIN_AGENT,
    And,
    FieldTerm,
    FieldValue,
    Flag,
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
from bygones.model.summary import SessionSummary, is_in_folder
from bygones.query.fields import (
    FIELDS_BY_NAME,
    FieldLevel,
    FieldType,
    QueryField,
    SearchableText,
    iter_leaves,
    term_level,
)
from bygones.query.regex import compile_regex
from bygones.query.tokens import Analyzer, WordVariants, expand_word, expand_words

if TYPE_CHECKING:
    from bygones.model.sessions import Session

Stemmer = Callable[[str], str]
"""Returns the stem that the forms of a term have in common."""


def matches_text(
    query: Query, candidate: SearchableText, analyzer: Analyzer, stemmer: Stemmer = str
) -> bool:
    """Whether a text matches a query.

    A word without terms, such as punctuation, is ignored; a query of nothing else
    matches everything. Plain words match in all their forms, phrases only as written.
    """
    return TitleMatcher(query, analyzer, stemmer).matches(candidate)


class TitleMatcher:
    """Matches short texts with a query, and remembers their terms."""

    def __init__(
        self, query: Query, analyzer: Analyzer, stemmer: Stemmer = str
    ) -> None:
        self._root = query.root
        self._terms = _TermCache(analyzer, stemmer)

    def matches(self, candidate: SearchableText) -> bool:
        """Whether a text matches the query, as in `matches_text`."""
        if self._root is None:
            return True
        return _evaluate(self._root, candidate, self._terms) is not False


class _TermCache:
    """Splits texts and the words of a query into terms, each once."""

    def __init__(self, analyzer: Analyzer, stemmer: Stemmer) -> None:
        self.analyzer = analyzer
        self._stemmer = stemmer
        self._terms: dict[str, tuple[str, ...]] = {}
        self._stems: dict[str, set[str]] = {}
        self._variants: dict[tuple[str, ...], tuple[WordVariants | None, ...]] = {}

    def variants(self, words: tuple[str, ...]) -> tuple[WordVariants | None, ...]:
        if words not in self._variants:
            self._variants[words] = expand_words(words, self.analyzer)
        return self._variants[words]

    def terms(self, text: str) -> tuple[str, ...]:
        if text not in self._terms:
            self._terms[text] = tuple(self.analyzer(text))
        return self._terms[text]

    def contains(self, variants: WordVariants, text: str) -> bool:
        if text not in self._stems:
            self._stems[text] = {self._stemmer(term) for term in self.terms(text)}
        return any(
            self._stemmer(run[0]) in self._stems[text]
            if len(run) == 1
            else _contains_run(run, self.terms(text))
            for run in variants.runs
        )


def _evaluate(term: Term, candidate: SearchableText, terms: _TermCache) -> bool | None:
    """Whether a term matches; none if it is to be ignored."""
    if isinstance(term, Not):
        result = _evaluate(term.term, candidate, terms)
        return None if result is None else not result
    if isinstance(term, And | Or):
        results = [_evaluate(part, candidate, terms) for part in term.terms]
        return _combine(results, any if isinstance(term, Or) else all)
    if isinstance(term, Words):
        results = [
            terms.contains(variants, candidate.text) if variants else None
            for variants in terms.variants(term.words)
        ]
        return _combine(results, all)
    if isinstance(term, Regex):
        return compile_regex(term.pattern).search(candidate.text) is not None
    if isinstance(term, Phrase | Prefix):
        return _contains(term, candidate.text, terms)
    return _evaluate_field(term, candidate, terms)


def _combine(
    results: Iterable[bool | None], combine: Callable[[Iterable[bool]], bool]
) -> bool | None:
    known = [result for result in results if result is not None]
    return combine(known) if known else None


def _contains(
    term: Word | Phrase | Prefix, text: str, terms: _TermCache
) -> bool | None:
    """Whether a text contains a word in any form, or a phrase or prefix as written."""
    if isinstance(term, Word):
        variants = expand_word(term.text, terms.analyzer)
        return terms.contains(variants, text) if variants else None
    run, text_terms = terms.terms(term.text), terms.terms(text)
    if not run:
        return None
    if isinstance(term, Phrase):
        return _contains_run(run, text_terms)
    *whole, start = run
    return any(
        found.startswith(start) and text_terms[at - len(whole) : at] == tuple(whole)
        for at, found in enumerate(text_terms)
        if at >= len(whole)
    )


def _contains_run(run: tuple[str, ...], terms: tuple[str, ...]) -> bool:
    count = len(run)
    return any(
        found == run[0] and terms[at : at + count] == run
        for at, found in enumerate(terms)
    )


def _evaluate_field(
    term: FieldTerm | FieldValue | TimeRange,
    candidate: SearchableText,
    terms: _TermCache,
) -> bool | None:
    if isinstance(term, FieldTerm):
        # Without a text no word matches, but punctuation is ignored even then.
        texts = ("", *filter(None, FIELDS_BY_NAME[term.field].values(candidate)))
        return _combine([_contains(term.term, text, terms) for text in texts], any)
    if isinstance(term, TimeRange):
        return _is_within(term, candidate.sent_at or candidate.session.started_at)
    if is_main_agent(term):
        return candidate.agent_id is None
    if term.field == "project" and term.value in candidate.session.project_keys:
        return True
    field = FIELDS_BY_NAME[term.field]
    values = field.values(candidate)
    return any(value_matches(field, term.value, value) for value in values)


def _is_within(period: TimeRange, time: datetime | None) -> bool:
    return (
        time is not None
        and (period.start is None or period.start <= time)
        and (period.end is None or time < period.end)
    )


def value_matches(field: QueryField, expected: str, actual: str | None) -> bool:
    """Whether the value of a field matches the one in a query."""
    if actual is None:
        return False
    if field.value_type is FieldType.DIRECTORY and _is_directory(expected):
        return is_in_folder(actual, resolve_path(expected))
    expected, actual = _normalize(expected), _normalize(actual)
    if field.value_type is FieldType.PREFIX:
        return actual.startswith(expected.rstrip("*"))
    if "*" in expected:
        pattern = ".*".join(map(re.escape, expected.split("*")))
        begin = "(?:.*/)?" if field.value_type in _PARTIAL_TYPES else ""
        return re.fullmatch(begin + pattern, actual, re.DOTALL) is not None
    return (
        expected in actual if field.value_type in _PARTIAL_TYPES else expected == actual
    )


_PARTIAL_TYPES = frozenset({FieldType.SUBSTRING, FieldType.DIRECTORY})


def _is_directory(value: str) -> bool:
    return is_path(value) and "*" not in value


def is_main_agent(term: Term) -> bool:
    """Whether a term asks for what was said outside of agent runs."""
    return (
        isinstance(term, FieldValue)
        and term.field == "agent"
        and term.value.casefold() == MAIN_AGENT
    )


def _normalize(value: str) -> str:
    return value.casefold().replace("\\", "/")


def asks_for_hidden(query: Query) -> bool:
    """Whether a query asks for texts that are not shown; ``-is:hidden`` does not."""
    return query.root is not None and _IS_HIDDEN in _required_leaves(query.root)


def asks_for_prompts_only(query: Query) -> bool:
    """Whether a query asks for sessions of which only the prompts are known."""
    return query.root is not None and _IS_PROMPTS_ONLY in _required_leaves(query.root)


def _required_leaves(term: Term) -> Iterator[Term]:
    if isinstance(term, And | Or):
        for part in term.terms:
            yield from _required_leaves(part)
    else:
        yield term


def is_session_query(term: Term | None) -> bool:
    """Whether session summaries are enough to answer a query."""
    return term is None or all(
        isinstance(leaf, TimeRange) or term_level(leaf) is FieldLevel.SESSION
        for leaf in iter_leaves(term)
    )


def matches_session(
    query: Query, summary: SessionSummary, analyzer: Analyzer, stemmer: Stemmer = str
) -> bool:
    """Whether a session matches a query that session summaries are enough for.

    A time range matches if the session overlaps it.
    """
    if query.root is None:
        return True
    terms = _TermCache(analyzer, stemmer)
    return _evaluate_session(query.root, summary, terms) is not False


def _evaluate_session(
    term: Term, summary: SessionSummary, terms: _TermCache
) -> bool | None:
    match term:
        case Not(term=inner):
            result = _evaluate_session(inner, summary, terms)
            return None if result is None else not result
        case And(terms=parts):
            return _combine((_evaluate_session(p, summary, terms) for p in parts), all)
        case Or(terms=parts):
            return _combine((_evaluate_session(p, summary, terms) for p in parts), any)
        case TimeRange():
            return overlaps(term, summary)
        case _:
            return _evaluate(term, make_session_text(summary, Part.TITLE), terms)


def overlaps(period: TimeRange, session: SessionSummary | Session) -> bool:
    """Whether a session lasted into a time range; one without times never did."""
    first = session.started_at or session.ended_at
    last = session.ended_at or session.started_at
    return (
        first is not None
        and last is not None
        and (period.start is None or period.start <= last)
        and (period.end is None or first < period.end)
    )


def make_session_text(
    summary: SessionSummary, part: Part = Part.OTHER
) -> SearchableText:
    """Return a text with the session's fields; the text is the title, or empty."""
    return SearchableText(
        session=summary,
        part=part,
        text=summary.title.text if part is Part.TITLE else "",
        sent_at=summary.ended_at,
    )


def is_path(text: str) -> bool:
    """Whether a text is an absolute path on any system, or starts with ~, . or .."""
    return _PATH.match(text) is not None


def is_in_project(summary: SessionSummary, project: str) -> bool:
    """Whether a session belongs to a project.

    ``project`` is a directory, which includes all below it, a project key, or the
    name of a directory. It counts for all clones and worktrees of its repository, and
    for its former names.
    """
    if is_path(project):
        folder = resolve_path(project)
        return any(is_in_folder(path, folder) for path in summary.project_names)
    names = (
        path.replace("\\", "/").rstrip("/").rpartition("/")[2]
        for path in summary.project_names
    )
    return project in summary.project_keys or project in names


def resolve_path(path: str) -> str:
    """Return a path that may start with ``~``, ``.`` or ``..`` as an absolute one."""
    if path.startswith("~"):
        return os.path.expanduser(path)  # noqa: PTH111
    return os.path.abspath(path) if path.startswith(".") else path  # noqa: PTH100


_IS_HIDDEN = FieldValue("is", Flag.HIDDEN)
_IS_PROMPTS_ONLY = FieldValue("is", Flag.PROMPTS_ONLY)
_PATH = re.compile(r"/|(?:~|\.\.?)(?:/|$)|[A-Za-z]:[\\/]|\\\\")
