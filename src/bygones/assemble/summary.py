"""Title, project and summary of a session."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime

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
from bygones.model.problem_runs import count_problems
from bygones.model.query import Flag
from bygones.model.sessions import AgentRun, Session
from bygones.model.summary import (
    AgentKind,
    EmptyReason,
    Project,
    SessionSummary,
    Title,
    TitleKind,
)
from bygones.model.usage import Usage

_TITLE_LIMIT = 200
"""Characters of a prompt that is used as title."""
_EXPLICIT_TITLE_LIMIT = 2_000
"""Characters of a title that the user or Claude gave; longer than any real one."""

_SPACE = re.compile(r"\s+")
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")


SummariesByLeaf = Mapping[RecordId, str]
"""The summary of each leaf, from all files of a project."""


def collect_summaries(transcripts: Iterable[Transcript]) -> SummariesByLeaf:
    """Return the summary of each leaf; the newest file wins."""
    oldest_first = sorted(transcripts, key=lambda t: (t.source.mtime_ns, t.source.id))
    texts: dict[RecordId, str] = {}
    for transcript in oldest_first:
        texts.update(iter_leaf_titles(transcript))
    return texts


def iter_leaf_titles(transcript: Transcript) -> Iterator[tuple[RecordId, str]]:
    """Yield the leaf and the text of each summary in a file."""
    for node in transcript.nodes:
        facts = node.extra
        if node.kind == "summary" and isinstance(facts, TitleFacts) and facts.leaf_id:
            yield facts.leaf_id, facts.text


class SessionNames(Struct, frozen=True, kw_only=True, array_like=True):
    """What the title of a session is chosen from, "" if there is none."""

    custom: str = ""
    generated: str = ""
    agent_name: str = ""
    has_team: bool = False
    live_summary: str = ""
    summary: str = ""
    live_prompt: str = ""
    prompt: str = ""
    command: str = ""
    last_prompt: str = ""
    slug: str = ""

    def __add__(self, later: SessionNames) -> SessionNames:
        """Return the names of records and of those that follow them."""
        return SessionNames(
            custom=later.custom or self.custom,
            generated=later.generated or self.generated,
            agent_name=later.agent_name or self.agent_name,
            has_team=self.has_team or later.has_team,
            live_summary=later.live_summary or self.live_summary,
            summary=later.summary or self.summary,
            live_prompt=self.live_prompt or later.live_prompt,
            prompt=self.prompt or later.prompt,
            command=self.command or later.command,
            last_prompt=later.last_prompt or self.last_prompt,
            slug=later.slug or self.slug,
        )

    def iter_titles(self) -> Iterator[tuple[TitleKind, str]]:
        """Yield the candidates, the best one first."""
        yield TitleKind.CUSTOM, self.custom
        yield TitleKind.GENERATED, self.generated
        if not self.has_team:
            yield TitleKind.AGENT_NAME, self.agent_name
        yield TitleKind.SUMMARY, self.live_summary
        yield TitleKind.SUMMARY, self.summary
        yield TitleKind.PROMPT, self.live_prompt
        yield TitleKind.PROMPT, self.prompt
        yield TitleKind.COMMAND, self.command
        yield TitleKind.LAST_PROMPT, self.last_prompt
        yield TitleKind.SLUG, self.slug


def choose_title(session: SessionId, names: SessionNames) -> Title:
    """Return the title of a session: the first candidate that is not blank."""
    for kind, text in names.iter_titles():
        cleaned = _clean_title(
            text, _EXPLICIT_TITLE_LIMIT if kind.is_explicit else _TITLE_LIMIT
        )
        if cleaned:
            return Title(cleaned, kind)
    return Title(session, TitleKind.ID)


def collect_names(
    nodes: Sequence[RecordNode],
    summaries: SummariesByLeaf,
    abandoned: AbstractSet[RecordId] = frozenset(),
) -> SessionNames:
    """Return what a session may be called.

    Prompts and summaries of the live branch come before those that were abandoned.
    """
    live = [n for n in nodes if n.uuid not in abandoned] if abandoned else nodes
    metadata = [node for node in nodes if node.extra is not None]
    return SessionNames(
        custom=_last_title(metadata, "custom-title"),
        generated=_last_title(metadata, "ai-title"),
        agent_name=_last_title(metadata, "agent-name"),
        has_team=any(node.team_name for node in nodes),
        live_summary=_latest_summary(live, summaries),
        summary=_latest_summary(nodes, summaries),
        live_prompt=_first_preview(live, {Origin.PERSON, Origin.CALLER}),
        prompt=_first_preview(nodes, {Origin.PERSON, Origin.CALLER}),
        command=_first_preview(nodes, {Origin.COMMAND}),
        last_prompt=_last_title(metadata, "last-prompt"),
        slug=next((n.slug for n in reversed(nodes) if n.slug), ""),
    )


def _latest_summary(nodes: Sequence[RecordNode], summaries: SummariesByLeaf) -> str:
    """Return the summary of the latest leaf that is not the text of an error."""
    if not summaries:
        return ""
    texts = (summaries.get(n.uuid, "") for n in reversed(nodes) if n.uuid)
    return next((text for text in texts if text and not is_error_summary(text)), "")


def is_error_summary(text: str) -> bool:
    """Whether a summary is the text of an API error, which says nothing."""
    return text.startswith(_ERROR_PREFIXES)


_ERROR_PREFIXES = (
    "API Error",
    "Invalid API key",
    "Request timed out",
    "Credit balance is too low",
    "Claude AI usage limit reached",
    "Claude usage limit reached",
)


def _first_preview(nodes: Iterable[RecordNode], origins: set[Origin]) -> str:
    kinds = {"user", "system", "attachment"}
    previews = (n.preview for n in nodes if n.origin in origins and n.kind in kinds)
    return next((preview for preview in previews if preview.strip()), "")


def _last_title(nodes: Sequence[RecordNode], kind: str) -> str:
    for node in reversed(nodes):
        if node.kind == kind and isinstance(node.extra, TitleFacts) and node.extra.text:
            return node.extra.text
    return ""


def _clean_title(text: str, limit: int) -> str:
    """Return a title as one line without control characters, shortened if long."""
    line = _SPACE.sub(" ", _CONTROL.sub("", text)).strip()
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def session_tags(nodes: Sequence[RecordNode]) -> tuple[str, ...]:
    """Return the last tag of a session; an empty one removes the tag before."""
    tag = find_last_tag(nodes)
    return (tag,) if tag else ()


def find_last_tag(nodes: Sequence[RecordNode]) -> str | None:
    for node in reversed(nodes):
        if node.kind == "tag" and isinstance(node.extra, TitleFacts):
            return node.extra.text
    return None


_MAX_SUGGESTIONS = 5
"""Names that an error suggests."""

_DRIVE = re.compile(r"^[a-z]:(?=[\\/])")
_WORKTREE = re.compile(r"[\\/]\.claude[\\/]worktrees[\\/].*$")


def detect_project(nodes: Sequence[RecordNode]) -> str | None:
    """Return the directory in which a session started, for a worktree its repository.

    It is not derived from the project key: two directories may have the same key.
    """
    repository, directory = find_directories(nodes)
    return directory if repository is None else repository


def find_directories(nodes: Sequence[RecordNode]) -> tuple[str | None, str | None]:
    """Return the repository of a session's worktree, and its first directory."""
    paths = (
        node.extra.path
        for node in nodes
        if node.kind == "worktree-state" and isinstance(node.extra, DirectoryFacts)
    )
    repository = next(paths, None)
    first = next((node.cwd for node in nodes if node.cwd), None)
    return (
        _normalize_drive(repository) if repository is not None else None,
        _normalize_drive(_WORKTREE.sub("", first)) if first else None,
    )


def _normalize_drive(path: str) -> str:
    """Return a Windows path with the drive letter in upper case."""
    return _DRIVE.sub(lambda drive: drive[0].upper(), path)


def group_into_projects(
    sessions: Iterable[Session | SessionSummary],
) -> tuple[Project, ...]:
    """Group sessions by project; two paths with the same key are two projects."""
    builders: dict[str | None, _ProjectBuilder] = {}
    for session in sessions:
        path = session.project
        if isinstance(session, SessionSummary):
            path = session.project_path
        key = path or (f"?{session.project_keys[0]}" if session.project_keys else None)
        if key not in builders:
            builders[key] = _ProjectBuilder(path)
        builders[key].add(session)
    projects = [builder.project for builder in builders.values()]
    return tuple(sorted(projects, key=lambda p: (p.path or "", p.project_keys)))


class _ProjectBuilder:
    def __init__(self, path: str | None) -> None:
        self._path = path
        self._keys: dict[ProjectKey, None] = {}
        self._others: dict[str, None] = {}
        self._sessions: list[SessionId] = []
        self._size = 0
        self._last_active_at: datetime | None = None
        self._usage = Usage()

    def add(self, session: Session | SessionSummary) -> None:
        self._keys.update(dict.fromkeys(session.project_keys))
        self._sessions.append(session.id)
        self._size += _session_size(session)
        if isinstance(session, SessionSummary):
            self._others.update(dict.fromkeys(session.project_names[1:]))
            self._usage += session.usage
        else:
            self._usage += session.total_usage
        if session.ended_at is not None:
            last = self._last_active_at or session.ended_at
            self._last_active_at = max(last, session.ended_at)

    @property
    def project(self) -> Project:
        return Project(
            path=self._path,
            other_paths=tuple(self._others),
            project_keys=tuple(self._keys),
            session_ids=tuple(self._sessions),
            source_bytes=self._size,
            last_active_at=self._last_active_at,
            usage=self._usage,
        )


def _session_size(session: Session | SessionSummary) -> int:
    if isinstance(session, SessionSummary):
        return session.source_bytes
    return sum(source.size for source in session.sources)


def find_project(projects: Sequence[Project], name: str) -> Project:
    """Return a project by its path, its key or the last part of its path."""
    for matches in (
        [p for p in projects if p.path is not None and p.path == name],
        [p for p in projects if name in p.other_paths],
        [p for p in projects if name in p.project_keys and p.path is not None],
        [p for p in projects if name in p.project_keys],
        [p for p in projects if p.name == name],
        [p for p in projects if name in p.other_names],
    ):
        if len(matches) > 1:
            candidates = [p.path or p.name for p in matches]
            raise AmbiguousSelector("project", name, candidates)
        if matches:
            return matches[0]
    raise NotInArchive("project", name, _similar_projects(projects, name))


def _similar_projects(projects: Sequence[Project], name: str) -> list[str]:
    from difflib import get_close_matches

    labels = {
        key: p.path or p.name for p in projects for key in (p.path, p.name) if key
    }
    similar = get_close_matches(name, labels, n=_MAX_SUGGESTIONS)
    similar += [key for key in labels if name and name.casefold() in key.casefold()]
    return list(dict.fromkeys(labels[key] for key in similar))[:_MAX_SUGGESTIONS]


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


def explain_empty(
    nodes: Sequence[RecordNode],
    runs: Sequence[AgentRun],
    transcripts: Sequence[Transcript],
) -> EmptyReason:
    """Return what a session without prompts and answers consists of.

    ``nodes`` are its own, without those of agents.
    """
    kinds = {node.kind for node in nodes}
    has_commands = any(node.origin is Origin.COMMAND for node in nodes)
    is_history = all(kind.startswith("file-history") for kind in kinds)
    has_problems = any(transcript.problems for transcript in transcripts)
    reasons = (
        ("user" in kinds or has_commands, EmptyReason.COMMANDS),
        (not kinds.isdisjoint(_NOTICE_KINDS), EmptyReason.NOTICES),
        (kinds == {"summary"}, EmptyReason.SUMMARIES),
        (any(run.kind is AgentKind.WARM_UP for run in runs), EmptyReason.WARM_UPS),
        (bool(runs), EmptyReason.REPLAYS),
        (bool(kinds) and is_history, EmptyReason.FILE_HISTORY),
        (bool(kinds), EmptyReason.METADATA),
        (has_problems, EmptyReason.UNREADABLE),
    )
    found = (reason for is_true, reason in reasons if is_true)
    return next(found, EmptyReason.EMPTY_FILE)


_NOTICE_KINDS = {"system", "attachment", "progress"}


def summarize_session(session: Session) -> SessionSummary:
    """Return the summary that lists show."""
    all_agents = list(session.all_agents)
    agents = [agent for agent in all_agents if agent.kind.is_shown]
    models = (usage.model for usage in session.message_usages if usage.model)
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
        problem_count=count_problems(session.problems),
        flags=tuple(_session_flags(session)),
        source_bytes=sum(source.size for source in session.sources),
        is_empty=session.is_empty,
        contained_ids=session.contained_ids,
        hidden_agent_count=len(all_agents) - len(agents),
        empty_reason=session.empty_reason,
        person=session.person,
    )
