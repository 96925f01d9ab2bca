"""What a search found."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from bygones.model.base import AgentId, RecordId, SessionId
from bygones.model.query import Part, QueryNote
from bygones.model.summary import (
    CountBound,
    Excerpt,
    Hit,
    Role,
    SearchResults,
    SessionMatch,
    SpellingCorrection,
    WordShare,
)
from bygones.schema.encoding import JsonObject, SourcePosition, portable_id


class SearchObject(JsonObject, frozen=True, kw_only=True, tag="search"):
    """How a query was answered; the matches follow."""

    query: str
    words: tuple[str, ...]
    """The words that were searched for."""
    session_count: int
    session_count_bound: CountBound
    """How exact the count is; empty if it is exact."""
    full_match_count: int
    """Sessions that contain all words."""
    corrections: tuple[SpellingCorrection, ...]
    missing_words: tuple[str, ...]
    """Words that appear in no session."""
    notes: tuple[QueryNote, ...]
    """What was read otherwise than it may have been meant."""
    is_phrase_relaxed: bool
    """Whether a quoted phrase had no match and its words were searched for instead."""
    is_partial: bool
    """Whether the search stopped before it had looked at everything."""
    is_empty_query: bool
    """Whether the query was empty, so that the newest sessions are returned."""

    @classmethod
    def from_results(cls, query: str, results: SearchResults) -> SearchObject:
        return cls(
            query=query,
            words=results.query_words,
            session_count=results.session_count,
            session_count_bound=results.session_count_bound,
            full_match_count=results.full_match_count,
            corrections=results.corrections,
            missing_words=results.missing_words,
            notes=results.notes,
            is_phrase_relaxed=results.is_phrase_relaxed,
            is_partial=results.is_partial,
            is_empty_query=results.is_empty_query,
        )


class HighlightRange(Struct, frozen=True, kw_only=True):
    """Characters of an excerpt that match, from `start` up to `end`."""

    start: int
    end: int


class HitExcerpt(Struct, frozen=True, kw_only=True):
    """The part of a text that matches."""

    text: str
    highlights: tuple[HighlightRange, ...]
    is_cut_before: bool
    is_cut_after: bool

    @classmethod
    def from_excerpt(cls, excerpt: Excerpt) -> HitExcerpt:
        return cls(
            text=excerpt.text,
            highlights=tuple(
                HighlightRange(start=start, end=end)
                for start, end in excerpt.highlights
            ),
            is_cut_before=excerpt.is_cut_before,
            is_cut_after=excerpt.is_cut_after,
        )


class HitObject(JsonObject, frozen=True, kw_only=True, tag="hit"):
    """A text that matches."""

    number: int
    """As in `bygones show MATCH.HIT`."""
    record_id: RecordId
    position: SourcePosition | None
    part: Part
    role: Role | None
    sent_at: datetime | None
    tool_names: tuple[str, ...]
    agent_id: AgentId | None
    agent_type: str | None
    is_rewound: bool
    is_error: bool
    excerpt: HitExcerpt

    @classmethod
    def from_hit(cls, number: int, hit: Hit) -> HitObject:
        return cls(
            number=number,
            record_id=portable_id(hit.record_id),
            position=SourcePosition.from_position(hit.position)
            if hit.position
            else None,
            part=hit.part,
            role=hit.role,
            sent_at=hit.sent_at,
            tool_names=hit.tool_names,
            agent_id=hit.agent_id,
            agent_type=hit.agent_type,
            is_rewound=hit.is_rewound,
            is_error=hit.is_error,
            excerpt=HitExcerpt.from_excerpt(hit.excerpt),
        )


class WordContribution(Struct, frozen=True, kw_only=True):
    """What one word of the query contributed to a score."""

    word: str
    share: float
    record_counts: dict[Part, int]
    """Records that contain it, by part."""

    @classmethod
    def from_share(cls, share: WordShare) -> WordContribution:
        return cls(
            word=share.word,
            share=share.share,
            record_counts=dict(share.record_counts),
        )


class MatchObject(JsonObject, frozen=True, kw_only=True, tag="match"):
    """A session that matches a query."""

    number: int
    """As in `bygones show MATCH`."""
    session_id: SessionId
    title: str
    project: str | None
    started_at: datetime | None
    ended_at: datetime | None
    score: float
    matched_words: tuple[str, ...]
    hit_count: int
    hit_count_bound: CountBound
    """How exact the count is; empty if it is exact."""
    hits: tuple[HitObject, ...]
    """The best ones."""
    duplicate_session_ids: tuple[SessionId, ...]
    """Sessions that contain copies of the same records and nothing else."""
    word_shares: tuple[WordContribution, ...]

    @classmethod
    def from_match(cls, number: int, match: SessionMatch) -> MatchObject:
        summary = match.summary
        return cls(
            number=number,
            session_id=summary.id,
            title=summary.title.text,
            project=summary.project,
            started_at=summary.started_at,
            ended_at=summary.ended_at,
            score=round(match.score, 4),
            matched_words=match.matched_words,
            hit_count=match.hit_count,
            hit_count_bound=match.hit_count_bound,
            hits=tuple(
                HitObject.from_hit(number, hit)
                for number, hit in enumerate(match.hits, 1)
            ),
            duplicate_session_ids=match.duplicate_ids,
            word_shares=tuple(map(WordContribution.from_share, match.word_shares)),
        )


def search_objects(
    query: str, results: SearchResults, offset: int
) -> tuple[SearchObject | MatchObject, ...]:
    """Return the results of a page that starts after `offset` matches."""
    return (
        SearchObject.from_results(query, results),
        *(
            MatchObject.from_match(number, match)
            for number, match in enumerate(results.sessions, offset + 1)
        ),
    )
