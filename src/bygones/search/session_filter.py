"""Select sessions with a query: the one implementation for every interface.

A query selects a session by what is in it as a whole:

- plain words: the session has all of them, in any of its texts or in its title;
- a phrase, a regular expression or a field of texts, such as ``tool:``: one of its
  texts matches, and matches all such conditions that are joined by AND;
- a field of sessions, such as ``project:`` or ``tag:``: the session has the value;
- a time: the session overlaps it, or the matching text was written in it;
- ``-x``: the session is not selected by ``x``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from bygones.model.base import SessionId
from bygones.model.query import And, FieldValue, Flag, Not, Or, Part, Query, Term, Words
from bygones.model.summary import (
    IndexedPrompt,
    Role,
    SessionSelection,
    SessionSummary,
    SpellingCorrection,
)
from bygones.query.fields import FIELDS_BY_NAME, FieldLevel, iter_leaves, term_level
from bygones.query.matcher import (
    asks_for_hidden,
    is_session_query,
    make_session_text,
    matches_session,
    matches_text,
    value_matches,
)
from bygones.query.parser import and_terms
from bygones.store.tokenizer import tokenize

if TYPE_CHECKING:  # a query about sessions alone needs no search engine
    from bygones.search.service import Searcher

SessionsByTool = Mapping[str, frozenset[SessionId]]
_IS_EMPTY = FieldValue("is", Flag.EMPTY)


def select_sessions(
    summaries: Iterable[SessionSummary],
    query: Query,
    *,
    searcher: Callable[[], Searcher],
    sessions_by_tool: Callable[[], SessionsByTool],
    include_empty: bool = False,
) -> SessionSelection:
    """Return the sessions that a query selects, out of annotated summaries.

    Sessions without a message are left out, unless they are included or the query asks
    about them with ``is:empty`` or ``is:hidden``. ``searcher`` and ``sessions_by_tool``
    are called only if the query needs more than the summaries.
    """
    root = query.root
    if root is not None and (_IS_EMPTY in iter_leaves(root) or asks_for_hidden(query)):
        include_empty = True
    candidates = [one for one in summaries if include_empty or not one.is_empty]
    if root is None:
        return SessionSelection(tuple(candidates), notes=query.notes)
    evaluator = _Evaluator(candidates, searcher, sessions_by_tool)
    selected = evaluator.evaluate(root)
    # On a hub several people may have pushed copies of a session, with the same id.
    parts = root.terms if isinstance(root, And) else (root,)
    on_sessions = [Query(part) for part in parts if is_session_query(part)]
    return SessionSelection(
        tuple(
            one
            for one in candidates
            if one.id in selected
            and all(matches_session(part, one, tokenize, _stem) for part in on_sessions)
        ),
        corrections=tuple(dict.fromkeys(evaluator.corrections)),
        notes=query.notes,
        is_phrase_relaxed=evaluator.is_phrase_relaxed,
        is_partial=evaluator.is_partial,
    )


def _stem(term: str) -> str:
    # Late: most queries about sessions have no words, and the engine takes 15 ms.
    from bygones.store.word_forms import stem_word

    return stem_word(term)


class _Evaluator:
    """Evaluates a query to a set of session ids."""

    def __init__(
        self,
        summaries: Sequence[SessionSummary],
        searcher: Callable[[], Searcher],
        sessions_by_tool: Callable[[], SessionsByTool],
    ) -> None:
        self._summaries = summaries
        self._searcher = searcher
        self._sessions_by_tool = sessions_by_tool
        self.corrections: list[SpellingCorrection] = []
        self.is_phrase_relaxed = False
        self.is_partial = False

    def evaluate(self, term: Term, *, is_exact: bool = False) -> set[SessionId]:
        """Return the sessions that a term selects.

        ``is_exact`` corrects no typos: what is excluded has to be there as typed.
        """
        if is_session_query(term):
            return self._filter_summaries(term)
        if isinstance(term, Not):
            excluded = self.evaluate(term.term, is_exact=True)
            return {one.id for one in self._summaries} - excluded
        if isinstance(term, Or):
            parts = (self.evaluate(part, is_exact=is_exact) for part in term.terms)
            return set().union(*parts)
        if isinstance(term, And):
            return set.intersection(
                *(self._evaluate_part(p, is_exact) for p in _split_conjunction(term))
            )
        return self._evaluate_part(term, is_exact)

    def _evaluate_part(self, term: Term, is_exact: bool) -> set[SessionId]:
        if is_session_query(term) or _has_exclusion(term) or isinstance(term, Or):
            return self.evaluate(term, is_exact=is_exact)
        if isinstance(term, FieldValue) and term.field == "tool":
            return self._sessions_using(term.value)
        found = self._searcher().matching_sessions(Query(term), is_exact=is_exact)
        self.corrections += found.corrections
        self.is_phrase_relaxed |= found.is_phrase_relaxed
        self.is_partial |= found.is_partial
        return set(found.ids)

    def _filter_summaries(self, term: Term) -> set[SessionId]:
        query = Query(term)
        return {
            one.id
            for one in self._summaries
            if matches_session(query, one, tokenize, _stem)
        }

    def _sessions_using(self, tool: str) -> set[SessionId]:
        """Return the sessions that called a tool, without opening their texts."""
        field = FIELDS_BY_NAME["tool"]
        return set().union(
            *(
                sessions
                for name, sessions in self._sessions_by_tool().items()
                if value_matches(field, tool, name)
            )
        )


def _split_conjunction(term: And) -> Iterator[Term]:
    """Yield the parts of a conjunction that can be evaluated by themselves.

    What excludes something is evaluated alone. All conditions on texts have to be met
    by the same text, so they stay together; times are among them. Conditions on
    sessions go with them, because a search is faster if it has fewer sessions.
    """
    on_sessions: list[Term] = []
    on_texts: list[Term] = []
    for part in term.terms:
        if _has_exclusion(part):
            yield part
        elif term_level(part) is FieldLevel.SESSION:
            on_sessions.append(part)
        else:
            on_texts.append(part)
    if not on_texts or (len(on_texts) == 1 and _is_tool_query(on_texts[0])):
        yield from (*on_sessions, *on_texts)
    elif (together := and_terms([*on_sessions, *on_texts])) is not None:
        yield together


def _is_tool_query(term: Term) -> bool:
    """Whether a term asks for nothing but tools that were called."""
    return all(
        isinstance(leaf, FieldValue) and leaf.field == "tool"
        for leaf in iter_leaves(term)
    )


def _has_exclusion(term: Term) -> bool:
    """Whether a term says of texts what must not be."""
    if is_session_query(term) or isinstance(term, Words):
        return False
    if isinstance(term, And | Or):
        return any(map(_has_exclusion, term.terms))
    return isinstance(term, Not)


def filter_prompts(
    prompts: Iterable[IndexedPrompt],
    summaries: Mapping[SessionId, SessionSummary],
    query: Query,
) -> Iterator[IndexedPrompt]:
    """Yield the prompts of the given sessions that match a query, in their order.

    All words have to be in the prompt, and a time is that of the prompt.
    """
    for prompt in prompts:
        summary = summaries.get(prompt.session_id)
        if summary is None:
            continue
        text = replace(
            make_session_text(summary, Part.PROMPT),
            role=Role.USER,
            is_abandoned=prompt.is_abandoned,
            sent_at=prompt.sent_at,
            text=prompt.text,
        )
        if matches_text(query, text, tokenize, _stem):
            yield prompt
