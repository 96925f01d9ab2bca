"""JSON objects of lists and searches: sessions, projects, matches, hits."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import UNSET, Struct, UnsetType

from bygones.model.base import AgentId, ProjectKey, RecordId, SessionId
from bygones.model.query import Flag, Part, QueryNote
from bygones.model.summary import (
    Annotations,
    CountBound,
    EmptyReason,
    Excerpt,
    Hit,
    IndexedEdit,
    IndexedPrompt,
    LeafSummary,
    Lineage,
    Project,
    Role,
    ScorePartKind,
    SearchResults,
    SessionMatch,
    SessionSummary,
    SpellingCorrection,
    TitleKind,
    WordShare,
)
from bygones.model.usage import Cost
from bygones.schema.encoding import (
    JsonObject,
    SourcePosition,
    TokenCounts,
    portable_id,
    to_usd,
)

if TYPE_CHECKING:
    from bygones.model.sessions import Session


class SessionObject(JsonObject, frozen=True, kw_only=True, tag="session"):
    """A session."""

    session_id: SessionId
    title: str
    title_kind: TitleKind
    """Where the title comes from."""
    project: str | None
    """The directory in which it was started."""
    project_keys: tuple[ProjectKey, ...]
    """The folders below `projects` of a home that contain it."""
    person: str | None
    """Who pushed it to a hub; null in a local archive."""
    started_at: datetime | None
    ended_at: datetime | None
    prompt_count: int
    message_count: int
    """Prompts and replies on the live branch."""
    agent_count: int
    branch_count: int
    models: tuple[str, ...]
    versions: tuple[str, ...]
    """Versions of Claude Code."""
    git_branches: tuple[str, ...]
    entrypoints: tuple[str, ...]
    flags: tuple[Flag, ...]
    tags: tuple[str, ...]
    note: str
    is_starred: bool
    is_empty: bool
    """Whether it has neither a prompt nor a reply."""
    empty_reason: EmptyReason | None
    """What it consists of, if it is empty."""
    tokens: TokenCounts
    """Includes all branches and agents."""
    web_search_count: int
    cost_usd: float | None
    """Includes agents."""
    unpriced_tokens: int
    """Tokens without a known price, which the cost does not include."""
    lineage: tuple[Lineage, ...]
    """Sessions with which it shares records."""
    problem_count: int
    source_bytes: int
    directories: tuple[str, ...] | UnsetType = UNSET
    """All working directories; from `show` only."""
    summaries: tuple[LeafSummary, ...] | UnsetType = UNSET
    """Summaries of its records, or in its file if it is empty; from `show` only."""
    sources: tuple[str, ...] | UnsetType = UNSET
    """Its files, relative to their home; from `show` only."""

    @classmethod
    def from_summary(
        cls, summary: SessionSummary, cost: Cost | None = None
    ) -> SessionObject:
        cost = cost or Cost()
        return cls(
            session_id=summary.id,
            title=summary.title.text,
            title_kind=summary.title.kind,
            project=summary.project,
            project_keys=summary.project_keys,
            person=summary.person or None,
            started_at=summary.started_at,
            ended_at=summary.ended_at,
            prompt_count=summary.prompt_count,
            message_count=summary.message_count,
            agent_count=summary.agent_count,
            branch_count=summary.branch_count,
            models=summary.models,
            versions=summary.versions,
            git_branches=summary.git_branches,
            entrypoints=summary.entrypoints,
            flags=summary.flags,
            tags=summary.tags,
            note=summary.note,
            is_starred=summary.is_starred,
            is_empty=summary.is_empty,
            empty_reason=summary.empty_reason,
            tokens=TokenCounts.from_usage(summary.usage),
            web_search_count=summary.usage.web_searches,
            cost_usd=to_usd(cost.nano_usd),
            unpriced_tokens=cost.unpriced_tokens,
            lineage=summary.lineage,
            problem_count=summary.problem_count,
            source_bytes=summary.source_bytes,
        )


class SessionChangeObject(JsonObject, frozen=True, kw_only=True, tag="session_change"):
    """A session that `watch` saw grow."""

    changed_at: datetime
    session: SessionObject


class ProjectObject(JsonObject, frozen=True, kw_only=True, tag="project"):
    """A project: the directory in which sessions were started."""

    path: str | None
    other_paths: tuple[str, ...]
    """Clones and worktrees of the same repository, and former names."""
    project_keys: tuple[ProjectKey, ...]
    session_count: int
    last_active_at: datetime | None
    tokens: TokenCounts
    source_bytes: int

    @classmethod
    def from_project(cls, project: Project) -> ProjectObject:
        return cls(
            path=project.path,
            other_paths=project.other_paths,
            project_keys=project.project_keys,
            session_count=len(project.session_ids),
            last_active_at=project.last_active_at,
            tokens=TokenCounts.from_usage(project.usage),
            source_bytes=project.source_bytes,
        )


class PromptObject(JsonObject, frozen=True, kw_only=True, tag="prompt"):
    """A prompt, exactly as it was typed."""

    record_id: RecordId
    session_id: SessionId
    project: str | None
    sent_at: datetime | None
    branch: int
    """1 is the live branch."""
    is_abandoned: bool
    """Whether it is only on an abandoned branch."""
    other_session_id: SessionId | None
    """The session that it is of, if `session_id` only contains that in its file."""
    text: str
    is_text_cut: bool
    """Whether only the start of the text could be loaded."""

    @classmethod
    def from_prompt(cls, prompt: IndexedPrompt, project: str | None) -> PromptObject:
        return cls(
            record_id=portable_id(prompt.id),
            session_id=prompt.session_id,
            project=project,
            sent_at=prompt.sent_at,
            branch=prompt.branch_number + 1,
            is_abandoned=prompt.is_abandoned,
            other_session_id=prompt.other_session_id,
            text=prompt.text,
            is_text_cut=prompt.is_text_cut,
        )


class FileChangeObject(JsonObject, frozen=True, kw_only=True, tag="file_change"):
    """A file that a session changed."""

    path: str
    session_id: SessionId
    is_abandoned: bool
    """Whether the changes are on abandoned branches; a file may have both objects."""
    change_count: int
    """Changes on these branches, and by all agents."""
    added_lines: int
    removed_lines: int
    is_new_file: bool
    is_deleted: bool
    """Whether the last change deleted it."""
    has_diff: bool
    """`false` if the lines of a change are not recorded, and so not counted."""
    tools: tuple[str, ...]
    """The tools that changed it; `Bash` for a shell command."""
    first_changed_at: datetime | None
    last_changed_at: datetime | None


class FileReadObject(JsonObject, frozen=True, kw_only=True, tag="file_read"):
    """A file that a session read, on any branch and in any agent run."""

    path: str
    session_id: SessionId
    read_count: int
    last_read_at: datetime | None


_READ_TOOLS = frozenset({"Read", "NotebookRead"})


def list_file_reads(session: Session) -> list[FileReadObject]:
    """Return the files that a session read successfully, the last one first."""
    branches = [*session.branches]
    branches += [branch for run in session.all_agents for branch in run.branches]
    calls = {
        call.id: call
        for branch in branches
        for turn in branch.own_turns
        for call in turn.tool_calls
        if call.name in _READ_TOOLS and call.path and not call.is_error
    }
    by_path: dict[str, list[datetime | None]] = {}
    for call in calls.values():
        by_path.setdefault(call.path or "", []).append(call.called_at)
    objects = [
        FileReadObject(
            path=path,
            session_id=session.id,
            read_count=len(times),
            last_read_at=max((one for one in times if one), default=None),
        )
        for path, times in by_path.items()
    ]
    objects.sort(key=lambda one: one.path)
    objects.sort(
        key=lambda one: one.last_read_at.timestamp() if one.last_read_at else 0,
        reverse=True,
    )
    return objects


def summarize_edits(
    edits: Iterable[IndexedEdit], abandoned_agents: Collection[str] = ()
) -> list[FileChangeObject]:
    """Return one object per file and session, in order of the first change.

    Changes on abandoned branches, and by agents that were started there, have an object
    of their own.
    """
    groups: dict[tuple[str, SessionId, bool], list[IndexedEdit]] = {}
    for edit in edits:
        is_abandoned = edit.branch_number > 0 or edit.agent_id in abandoned_agents
        key = (edit.path, edit.session_id, is_abandoned)
        groups.setdefault(key, []).append(edit)
    return [
        FileChangeObject(
            path=path,
            session_id=session_id,
            is_abandoned=is_abandoned,
            change_count=len(group),
            added_lines=sum(edit.added_lines for edit in group),
            removed_lines=sum(edit.removed_lines for edit in group),
            is_new_file=any(edit.is_new_file for edit in group),
            is_deleted=group[-1].is_deleted,
            has_diff=all(edit.has_diff for edit in group),
            tools=tuple(dict.fromkeys(edit.tool_name for edit in group)),
            first_changed_at=group[0].edited_at,
            last_changed_at=group[-1].edited_at,
        )
        for (path, session_id, is_abandoned), group in groups.items()
    ]


def newest_changes_first(changes: Iterable[FileChangeObject]) -> list[FileChangeObject]:
    """Return changes of several sessions, the last one first."""
    oldest_first = sorted(
        changes,
        key=lambda change: (
            change.last_changed_at is not None,
            change.last_changed_at,
        ),
    )
    return oldest_first[::-1]


class AnnotationsObject(JsonObject, frozen=True, kw_only=True, tag="annotations"):
    """The tags, the note and the star of a session."""

    session_id: SessionId
    tags: tuple[str, ...]
    note: str
    is_starred: bool

    @classmethod
    def from_annotations(
        cls, session_id: SessionId, annotations: Annotations
    ) -> AnnotationsObject:
        return cls(
            session_id=session_id,
            tags=annotations.tags,
            note=annotations.note,
            is_starred=annotations.is_starred,
        )


class TagObject(JsonObject, frozen=True, kw_only=True, tag="tag"):
    """A tag and the number of sessions that have it."""

    tag: str
    session_count: int


class SearchObject(JsonObject, frozen=True, kw_only=True, tag="search"):
    """How a query was interpreted; the matches follow."""

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
    """Parts of the query that may have been interpreted differently than you meant."""
    is_phrase_relaxed: bool
    """Whether a quoted phrase had no match and its words were searched for instead."""
    is_partial: bool
    """Whether the search stopped before it had looked at everything."""
    is_empty_query: bool
    """Whether the query was empty, so that the newest sessions are returned."""
    named_id: str
    """The query, if it is the id of a session or a record; ids are not searched."""

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
            named_id=results.named_id,
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
    is_abandoned: bool
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
            is_abandoned=hit.is_abandoned,
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
    """The best hits."""
    duplicate_session_ids: tuple[SessionId, ...]
    """Sessions that contain copies of the same records and nothing else."""
    lineage_session_ids: tuple[SessionId, ...]
    """Other sessions that match and share records with it; they are next to it."""
    similar_session_ids: tuple[SessionId, ...]
    """Other sessions that match and are nearly the same, best first."""
    score_parts: dict[ScorePartKind, float]
    """The parts of the score."""
    word_shares: tuple[WordContribution, ...]
    """How the part for words is composed."""

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
            lineage_session_ids=tuple(one.id for one in match.lineage),
            similar_session_ids=tuple(one.id for one in match.similar),
            score_parts={part.kind: round(part.value, 4) for part in match.score_parts},
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
