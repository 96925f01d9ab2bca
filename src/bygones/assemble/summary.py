"""What a session is called, by precedence."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from bygones.errors import AmbiguousSelector, NotInArchive
from bygones.model.base import ProjectKey, RecordId, SessionId
from bygones.model.nodes import (
    DirectoryFacts,
    Origin,
    RecordNode,
    TitleFacts,
    Transcript,
)
from bygones.model.query import Flag
from bygones.model.sessions import Session
from bygones.model.summary import Project, SessionSummary, Title, TitleKind

TITLE_LIMIT = 200
"""Signs of a prompt that name a session."""
_EXPLICIT_TITLE_LIMIT = 2_000
"""Signs of a title that somebody gave: more than anybody gives."""

_SPACE = re.compile(r"\s+")
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class LeafSummaries(Struct, frozen=True):
    """The text that names each leaf, gathered from all files of a project."""

    text_by_leaf: Mapping[RecordId, str]


def collect_summaries(transcripts: Iterable[Transcript]) -> LeafSummaries:
    """Return what summaries call their leaves; the newest file has the last word."""
    newest = sorted(transcripts, key=lambda t: (t.source.mtime_ns, t.source.id))
    texts: dict[RecordId, str] = {}
    for transcript in newest:
        for node in transcript.nodes:
            facts = node.extra
            if (
                node.kind == "summary"
                and isinstance(facts, TitleFacts)
                and facts.leaf_id
            ):
                texts[facts.leaf_id] = facts.text
    return LeafSummaries(texts)


def choose_title(
    session: SessionId, nodes: Sequence[RecordNode], summaries: LeafSummaries
) -> Title:
    """Return a session's title, and where it comes from."""
    for kind, text in _title_candidates(nodes, summaries):
        cleaned = _clean_title(
            text, _EXPLICIT_TITLE_LIMIT if kind.is_explicit else TITLE_LIMIT
        )
        if cleaned:
            return Title(cleaned, kind)
    return Title(session, TitleKind.ID)


def _title_candidates(
    nodes: Sequence[RecordNode], summaries: LeafSummaries
) -> Iterable[tuple[TitleKind, str]]:
    told = [node for node in nodes if node.extra is not None]
    yield TitleKind.CUSTOM, _last_title(told, "custom-title")
    yield TitleKind.GENERATED, _last_title(told, "ai-title")
    if not any(node.team_name for node in nodes):
        yield TitleKind.AGENT_NAME, _last_title(told, "agent-name")
    yield TitleKind.SUMMARY, _latest_summary(nodes, summaries)
    yield TitleKind.PROMPT, _first_head(nodes, {Origin.PERSON, Origin.CALLER})
    yield TitleKind.COMMAND, _first_head(nodes, {Origin.COMMAND})
    yield TitleKind.LAST_PROMPT, _last_title(told, "last-prompt")
    yield TitleKind.SLUG, next((n.slug for n in reversed(nodes) if n.slug), "")


def _latest_summary(nodes: Sequence[RecordNode], summaries: LeafSummaries) -> str:
    """Return the summary of the latest leaf, unless that is an error, no answer."""
    if not summaries.text_by_leaf:
        return ""
    told = (summaries.text_by_leaf.get(n.uuid, "") for n in reversed(nodes) if n.uuid)
    return next(
        (text for text in told if text and not text.startswith(_ERROR_PREFIXES)), ""
    )


_ERROR_PREFIXES = (
    "API Error",
    "Invalid API key",
    "Request timed out",
    "Credit balance is too low",
    "Claude AI usage limit reached",
    "Claude usage limit reached",
)


def _first_head(nodes: Iterable[RecordNode], origins: set[Origin]) -> str:
    kinds = {"user", "system", "attachment"}
    heads = (n.preview for n in nodes if n.origin in origins and n.kind in kinds)
    return next((head for head in heads if head.strip()), "")


def _last_title(nodes: Sequence[RecordNode], kind: str) -> str:
    for node in reversed(nodes):
        if node.kind == kind and isinstance(node.extra, TitleFacts) and node.extra.text:
            return node.extra.text
    return ""


def _clean_title(text: str, limit: int) -> str:
    """Return a title on one line, without control characters, cut if long."""
    line = _SPACE.sub(" ", _CONTROL.sub("", text)).strip()
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def session_tags(nodes: Sequence[RecordNode]) -> tuple[str, ...]:
    """Return the session's label; an empty one takes the earlier away."""
    tags = [
        n.extra.text
        for n in nodes
        if n.kind == "tag" and isinstance(n.extra, TitleFacts)
    ]
    return (tags[-1],) if tags and tags[-1] else ()


_MAX_SUGGESTIONS = 5
"""Names that an error mentions."""

_DRIVE = re.compile(r"^[a-z]:(?=[\\/])")
_WORKTREE = re.compile(r"[\\/]\.claude[\\/]worktrees[\\/].*$")


def detect_project(nodes: Sequence[RecordNode]) -> str | None:
    """Return the directory in which a session began.

    A worktree counts as the repository that it was made from. Folder names are not
    decoded: two directories may share one.
    """
    for node in nodes:
        if node.kind == "worktree-state" and isinstance(node.extra, DirectoryFacts):
            return _normalize_drive(node.extra.path)
    first = next((node.cwd for node in nodes if node.cwd), None)
    return _normalize_drive(_WORKTREE.sub("", first)) if first else None


def _normalize_drive(path: str) -> str:
    """Return a Windows path with the drive's letter as the command line writes it."""
    return _DRIVE.sub(lambda drive: drive[0].upper(), path)


def group_into_projects(
    sessions: Iterable[Session | SessionSummary],
) -> tuple[Project, ...]:
    """Return projects by path; two paths that share a key are two projects."""
    found: dict[str | None, _ProjectBuilder] = {}
    for session in sessions:
        key = session.project or (
            f"?{session.project_keys[0]}" if session.project_keys else None
        )
        if key not in found:
            found[key] = _ProjectBuilder(session.project)
        found[key].add(session)
    projects = [some.project for some in found.values()]
    return tuple(sorted(projects, key=lambda p: (p.path or "", p.project_keys)))


class _ProjectBuilder:
    """What is known of a project so far; its sessions may be very many."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._keys: dict[ProjectKey, None] = {}
        self._sessions: list[SessionId] = []
        self._size = 0

    def add(self, session: Session | SessionSummary) -> None:
        self._keys.update(dict.fromkeys(session.project_keys))
        self._sessions.append(session.id)
        self._size += _session_size(session)

    @property
    def project(self) -> Project:
        return Project(
            path=self._path,
            project_keys=tuple(self._keys),
            session_ids=tuple(self._sessions),
            source_bytes=self._size,
        )


def _session_size(session: Session | SessionSummary) -> int:
    if isinstance(session, SessionSummary):
        return session.source_bytes
    return sum(source.size for source in session.sources)


def find_project(projects: Sequence[Project], name: str) -> Project:
    """Return a project by its path, its key or the last part of its path."""
    for fits in (
        [p for p in projects if p.path is not None and p.path == name],
        [p for p in projects if name in p.project_keys and p.path is not None],
        [p for p in projects if name in p.project_keys],
        [p for p in projects if p.name == name],
    ):
        if len(fits) > 1:
            raise AmbiguousSelector("project", name, [p.path or p.name for p in fits])
        if fits:
            return fits[0]
    from difflib import get_close_matches

    names = {one: p.path or p.name for p in projects for one in (p.path, p.name) if one}
    close = get_close_matches(name, names, n=_MAX_SUGGESTIONS)
    # Who remembers a part of a name means what has it.
    close += [one for one in names if name and name.casefold() in one.casefold()]
    told = list(dict.fromkeys(names[one] for one in close))[:_MAX_SUGGESTIONS]
    raise NotInArchive("project", name, told)


def _session_flags(session: Session) -> Iterator[Flag]:
    messages = session.live_branch.messages
    if any(
        message.origin is Origin.INTERRUPT
        or any(call.is_interrupted for call in message.tool_calls)
        for message in messages
    ):
        yield Flag.INTERRUPTED
    if any(message.compaction for message in messages):
        yield Flag.COMPACTED


def summarize_session(session: Session) -> SessionSummary:
    """Return what lists show of a session."""
    agents = [agent for agent in session.all_agents if agent.kind.is_shown]
    models = (spend.model for spend in session.message_usages if spend.model)
    return SessionSummary(
        id=session.id,
        title=session.title,
        project=session.project,
        project_keys=session.project_keys,
        started_at=session.started_at,
        ended_at=session.ended_at,
        prompt_count=len(session.prompts),
        message_count=session.message_count,
        agent_count=len(agents),
        branch_count=len(session.branches),
        models=tuple(dict.fromkeys(models)),
        versions=session.versions,
        git_branches=session.git_branches,
        entrypoints=session.entrypoints,
        tags=session.tags,
        usage=session.total_usage,
        lineage=session.lineage,
        problem_count=len(session.problems),
        flags=tuple(_session_flags(session)),
        source_bytes=sum(source.size for source in session.sources),
        is_empty=session.is_empty,
    )
