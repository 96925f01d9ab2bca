"""Search sessions of which only the prompts are known.

Only a query with ``is:prompts-only`` asks for them, so their prompts are compared one by
one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from bygones.model.base import RecordId
from bygones.model.query import Part, Query, Words
from bygones.model.summary import (
    Hit,
    IndexedPrompt,
    Role,
    SearchResults,
    SessionMatch,
    SessionSummary,
)
from bygones.query.fields import SearchableText
from bygones.query.matcher import make_session_text, matches_text
from bygones.query.tokens import drop_stop_words, expand_words
from bygones.search.plan import relax_query
from bygones.search.results import cut_excerpt, make_highlighter
from bygones.store.tokenizer import tokenize
from bygones.store.word_forms import stem_word


class KnownPrompts(Struct, frozen=True):
    """A session and its prompts, each with the id of its record."""

    summary: SessionSummary
    texts: tuple[SearchableText, ...]
    ids: tuple[RecordId, ...]

    @classmethod
    def make(
        cls, summary: SessionSummary, prompts: Iterable[IndexedPrompt]
    ) -> KnownPrompts:
        """Return the prompts as texts that can be searched."""
        base = replace(make_session_text(summary, Part.PROMPT), role=Role.USER)
        listed = list(prompts)
        texts = (replace(base, sent_at=one.sent_at, text=one.text) for one in listed)
        return cls(summary, tuple(texts), tuple(one.id for one in listed))


def select_known(
    sessions: Iterable[KnownPrompts], query: Query
) -> list[SessionSummary]:
    """Return the sessions that a query selects: together their prompts match it."""
    return [one.summary for one in sessions if _is_selected(one, query)]


def _is_selected(session: KnownPrompts, query: Query) -> bool:
    joined = "\n".join(text.text for text in session.texts)
    return any(_matches(query, replace(text, text=joined)) for text in session.texts)


def search_known(  # noqa: PLR0913 (all but two by name)
    sessions: Iterable[KnownPrompts],
    query: Query,
    *,
    limit: int,
    offset: int,
    hits: int,
    redact: Callable[[str], str],
) -> SearchResults:
    """Return the sessions with most of the words first, then in the given order."""
    words = tuple(drop_stop_words(query.plain_words))
    hit_query = relax_query(query, words)
    found: list[tuple[KnownPrompts, list[tuple[RecordId, SearchableText]], set[str]]]
    found = []
    for session in sessions:
        pairs = zip(session.ids, session.texts, strict=True)
        texts = [pair for pair in pairs if _matches(hit_query, pair[1])]
        if texts:
            own = {word for word in words if any(_has(one, word) for _, one in texts)}
            found.append((session, texts, own))
    found.sort(key=lambda one: -len(one[2]))
    runs = [
        run
        for variants in expand_words(words, tokenize)
        if variants
        for run in variants.runs
    ]
    highlighter = make_highlighter(runs)
    matches = []
    for session, texts, own in islice(found, offset, offset + limit):
        title = cut_excerpt(redact(session.summary.title.text), highlighter)
        best = sorted(texts, key=lambda pair: -sum(_has(pair[1], w) for w in words))
        matches.append(
            SessionMatch(
                summary=session.summary,
                highlighted_title=title,
                matched_words=tuple(word for word in words if word in own),
                hit_count=len(texts),
                hits=tuple(
                    Hit(
                        record_id=id_,
                        position=None,
                        part=text.part,
                        role=text.role,
                        sent_at=text.sent_at,
                        excerpt=cut_excerpt(redact(text.text), highlighter),
                    )
                    for id_, text in best[:hits]
                ),
            )
        )
    return SearchResults(
        sessions=tuple(matches),
        session_count=len(found),
        query_words=words,
        full_match_count=sum(len(own) == len(words) for _, _, own in found),
        notes=query.notes,
    )


def _has(text: SearchableText, word: str) -> bool:
    return _matches(Query(Words((word,))), text)


def _matches(query: Query, text: SearchableText) -> bool:
    return matches_text(query, text, tokenize, stem_word)
