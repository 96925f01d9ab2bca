"""The rows that all faces give as JSON, but for sessions, searches and usage."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from msgspec import Struct

from bygones import __version__
from bygones.model.addresses import without_password
from bygones.model.ids import AgentId, ProjectKey, RecordId, SessionId
from bygones.model.listing import Listed
from bygones.model.parts import Lineage, Project, TitleKind
from bygones.model.problems import Problem
from bygones.model.usage import Cost
from bygones.model.verified import Verified
from bygones.render.drawing import Mark, MarkKind
from bygones.sources.names import path_text

__all__ = [
    "ROWS",
    "SCHEMA",
    "AnnotationRow",
    "BackupRow",
    "BeginRow",
    "ChangedRow",
    "DamageRow",
    "DoctorRow",
    "ExpiringRow",
    "FileRow",
    "MarkRow",
    "OddRow",
    "ProjectLine",
    "PurgedRow",
    "PushedRow",
    "ReportRow",
    "RestoredRow",
    "ResumeRow",
    "RetentionRow",
    "Row",
    "SessionRow",
    "TagRow",
    "TouchedRow",
    "TypedRow",
    "VerdictRow",
]

SCHEMA = 1
"""Counts up when a row or a field changes its meaning or goes, not when one comes."""


class Row(Struct, frozen=True, kw_only=True, tag_field="row", omit_defaults=True):
    """One line of JSON."""


class BeginRow(Row, frozen=True, kw_only=True, tag="begin"):
    """The first line: which command, of which version, about which archive."""

    schema: int
    command: str
    bygones: str
    """The version that printed it."""
    archive: str = ""

    @classmethod
    def of(cls, command: str, archive: Path | None = None) -> BeginRow:
        """Return the first line of a command."""
        place = without_password(path_text(archive)) if archive else ""
        return cls(schema=SCHEMA, command=command, bygones=__version__, archive=place)


class SessionRow(Row, frozen=True, kw_only=True, tag="session"):
    """A session in a list."""

    id: SessionId
    title: str
    title_kind: TitleKind
    """Where the title comes from."""
    project: str | None = None
    """The directory in which it was begun."""
    keys: tuple[ProjectKey, ...] = ()
    """The folders below ``projects`` that hold it."""
    started: datetime | None = None
    ended: datetime | None = None
    prompts: int
    messages: int
    """Prompts and answers on the live branch."""
    agents: int
    branches: int
    models: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()
    git_branches: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    tokens: int
    """All of them, with those of agents."""
    input_tokens: int
    output_tokens: int
    cache_write_tokens: int
    cache_read_tokens: int
    cost: int | None = None
    """In billionths of a dollar, with that of agents; absent where it is unknown."""
    unpriced_tokens: int = 0
    """Those for which no price is known; not in the cost."""
    lineage: tuple[Lineage, ...] = ()
    problems: int = 0
    bytes: int
    """Of its sources."""
    is_empty: bool = False
    note: str = ""
    """What somebody wrote beside it with `bygones note`."""
    is_starred: bool = False

    @classmethod
    def of(cls, listed: Listed, cost: Cost | None = None) -> SessionRow:
        """Return the row of a session."""
        usage, cost = listed.usage, cost or Cost()
        return cls(
            id=listed.id,
            title=listed.title.text,
            title_kind=listed.title.kind,
            project=listed.project,
            keys=listed.keys,
            started=listed.started,
            ended=listed.ended,
            prompts=listed.prompts,
            messages=listed.messages,
            agents=listed.agents,
            branches=listed.branches,
            models=listed.models,
            versions=listed.versions,
            git_branches=listed.git_branches,
            tags=listed.tags,
            tokens=usage.total,
            input_tokens=usage.input,
            output_tokens=usage.output,
            cache_write_tokens=usage.cache_write,
            cache_read_tokens=usage.cache_read,
            cost=cost.nanos,
            unpriced_tokens=cost.unpriced_tokens,
            lineage=listed.lineage,
            problems=listed.problems,
            bytes=listed.size,
            is_empty=listed.is_empty,
            note=listed.note,
            is_starred=listed.is_starred,
        )


class ProjectLine(Row, frozen=True, kw_only=True, tag="project"):
    """A project in a list."""

    path: str | None = None
    keys: tuple[ProjectKey, ...] = ()
    sessions: int
    last: datetime | None = None
    """When somebody last worked on it."""
    tokens: int
    bytes: int

    @classmethod
    def of(cls, project: Project, last: datetime | None, tokens: int) -> ProjectLine:
        """Return the row of a project."""
        return cls(
            path=project.path,
            keys=project.keys,
            sessions=len(project.sessions),
            last=last,
            tokens=tokens,
            bytes=project.size,
        )


class OddRow(Row, frozen=True, kw_only=True, tag="problem"):
    """A file that could not be taken in as it is, and why."""

    kind: str
    source: str
    detail: str = ""

    @classmethod
    def of(cls, problem: Problem) -> OddRow:
        """Return the row of a problem."""
        place = problem.position.source
        return cls(kind=problem.kind, source=place, detail=problem.detail)


class ReportRow(Row, frozen=True, kw_only=True, tag="report"):
    """What an ingestion or a rebuild did; files by what became of them."""

    files: int
    new: int
    grown: int
    anew: int
    """Shrunk or rewritten: taken as a new generation."""
    moved: int
    gone: int
    back: int
    unchanged: int
    refused: int
    """Purged before, and not taken in again."""
    problems: int
    bytes: int
    """Read and kept."""
    records: int
    sessions: int
    """Derived anew."""


class TouchedRow(Row, frozen=True, kw_only=True, tag="touched"):
    """A session that grew while the homes were watched."""

    time: datetime
    session: SessionRow


class DamageRow(Row, frozen=True, kw_only=True, tag="damage"):
    """Bytes that are not what was stored."""

    source: str
    generation: int
    start: int
    stop: int
    reason: str


class VerdictRow(Row, frozen=True, kw_only=True, tag="verdict"):
    """What a verification found."""

    is_sound: bool
    sources: int
    whole_sources: int
    chunks: int
    bytes: int
    damages: int
    database: str
    """What SQLite says of the file: ``ok``, or what is wrong."""
    is_compared: bool = False
    """Whether the index was compared with a rebuild of it."""
    differences: tuple[str, ...] = ()
    """Tables in which the index is not what a rebuild gives."""


class BackupRow(Row, frozen=True, kw_only=True, tag="backup"):
    """A backup that was made."""

    folder: str
    bytes: int


class FileRow(Row, frozen=True, kw_only=True, tag="file"):
    """A file that is restored or purged, or would be."""

    path: str
    bytes: int
    state: str | None = None
    """What stands there: ``new`` (nothing), ``same``, ``differs``, ``damaged``, or
    ``taken``: a newer copy goes there."""


class RestoredRow(Row, frozen=True, kw_only=True, tag="restored"):
    """What a restore did."""

    written: int
    same: int
    skipped: int
    """Files that differ and were left alone."""
    bytes: int
    damaged: tuple[str, ...] = ()
    """Files that could not be written: their bytes in the archive are damaged."""
    refused: tuple[str, ...] = ()
    """Files that the system would not let us write, or a newer copy goes there."""
    copies: tuple[str, ...] = ()
    """Where files that stood in the way were put."""
    is_dry_run: bool = False


class PurgedRow(Row, frozen=True, kw_only=True, tag="purged"):
    """What a purge erased."""

    sessions: int
    files: int
    bytes: int
    is_dry_run: bool = False


class AnnotationRow(Row, frozen=True, kw_only=True, tag="annotations"):
    """What somebody added to a session."""

    session: SessionId
    tags: tuple[str, ...] = ()
    note: str = ""
    is_starred: bool = False


class TagRow(Row, frozen=True, kw_only=True, tag="tag"):
    """A tag, and how many sessions have it."""

    tag: str
    sessions: int


class ChangedRow(Row, frozen=True, kw_only=True, tag="changed"):
    """A file that a session changed."""

    path: str
    session: SessionId
    changes: int
    """How often, on all branches and by all agents."""
    added: int
    removed: int
    """Lines."""
    is_new: bool = False
    """Whether the session made it."""
    first: datetime | None = None
    last: datetime | None = None


class TypedRow(Row, frozen=True, kw_only=True, tag="prompt"):
    """A prompt, exactly as it was typed."""

    id: RecordId
    session: SessionId
    project: str | None = None
    time: datetime | None = None
    branch: int
    """0 is the branch that counts; on others it was taken back."""
    text: str


class MarkRow(Row, frozen=True, kw_only=True, tag="mark"):
    """A line of a session's drawing, from the top to the bottom."""

    kind: MarkKind
    depth: int
    """How many branches and agents it stands inside of."""
    branch: int
    """0 is the branch that counts."""
    number: int | None = None
    """Of the turn on its branch."""
    record: RecordId | None = None
    """The turn's first record, the leaf of the branch, the compaction's boundary."""
    agent: AgentId | None = None
    text: str = ""
    """How the prompt begins, what the agent was to do, what was compacted."""
    time: datetime | None = None
    seconds: float | None = None
    calls: int = 0
    tokens: int = 0
    cost: int | None = None
    """In billionths of a dollar, of the same; absent where it is unknown."""
    unpriced_tokens: int = 0

    @classmethod
    def of(cls, mark: Mark) -> MarkRow:
        """Return the row of a mark."""
        return cls(
            kind=mark.kind,
            depth=mark.depth,
            branch=mark.branch,
            number=mark.number,
            record=mark.record,
            agent=mark.agent,
            text=mark.text,
            time=mark.time,
            seconds=mark.duration.total_seconds() if mark.duration else None,
            calls=mark.calls,
            tokens=mark.usage.total,
            cost=mark.cost.nanos if mark.cost else None,
            unpriced_tokens=mark.cost.unpriced_tokens if mark.cost else 0,
        )


class ResumeRow(Row, frozen=True, kw_only=True, tag="resume"):
    """How to go on with a session in Claude Code."""

    session: SessionId
    directory: str | None = None
    """Where to run `claude --resume`."""
    home: str | None = None
    """What `CLAUDE_CONFIG_DIR` has to be, if it is not the usual home."""
    is_deleted: bool = False
    """Whether the transcript has to be restored first."""


class DoctorRow(Row, frozen=True, kw_only=True, tag="doctor"):
    """What is where, and how it is."""

    python: str
    engines: dict[str, str]
    """SQLite and what else is under the archive, by name and version."""
    settings: str | None = None
    """The settings file, if there is one."""
    wrong: tuple[str, ...] = ()
    """What is wrong with what was set; none of that counts here."""
    has_archive: bool = False
    archive_bytes: int = 0
    index_bytes: int = 0
    is_private: bool = True
    """Whether only its owner can read the archive."""
    has_index: bool = False
    is_current: bool = False
    """Whether the homes have nothing that is new."""
    is_erasing: bool = False
    """Whether a purge was stopped, so that bytes of it may be left."""
    verified: Verified | None = None
    """What the last verification found, if there was one."""
    sessions: int = 0
    projects: int = 0
    files: int = 0
    gone: int = 0
    """Files that Claude Code, or somebody, has deleted since."""
    claude_versions: tuple[str, ...] = ()
    drift: int = 0
    """Types and fields that this version knows nothing of."""
    problems: int = 0
    odd_sessions: int = 0
    """Sessions that have problems."""


class PushedRow(Row, frozen=True, kw_only=True, tag="pushed"):
    """What was sent to a hub, or would be."""

    is_dry: bool = False
    """Whether nothing was sent."""
    sessions: tuple[SessionId, ...]
    files: int
    lines: int
    bytes: int
    """Masked, as the hub shows them."""
    packed: int
    """As they travel."""
    parcels: int
    hidden: dict[str, int]
    """How much was hidden, by its kind."""
    private: int
    """Records that never leave."""
    foreign: int
    """Lines of sessions in projects that were not named."""
    shared: int
    """Files that belong to such sessions as well."""
    too_long: int
    damaged: int
    unnamed: int
    """Files whose name cannot be sent."""
    refused: int
    """Files that were erased on the hub, and are not sent again."""
    erased: tuple[SessionId, ...] = ()
    """The sessions that these are of."""


class RetentionRow(Row, frozen=True, kw_only=True, tag="retention"):
    """How long Claude Code keeps what is in a home."""

    home: str
    files: int
    bytes: int
    days: int
    """After which it deletes."""
    is_set: bool
    """Whether `cleanupPeriodDays` says so; else it is Claude Code's own choice."""
    settings: str
    """The file in which that can be set."""


class ExpiringRow(Row, frozen=True, kw_only=True, tag="expiring"):
    """A session whose transcript Claude Code will delete, the next one first."""

    session: SessionId
    title: str
    home: str
    days: int
    """How many are left; 0 means the next start of Claude Code."""


ROWS = (
    BeginRow,
    SessionRow,
    ProjectLine,
    OddRow,
    ReportRow,
    TouchedRow,
    DamageRow,
    VerdictRow,
    BackupRow,
    FileRow,
    RestoredRow,
    PurgedRow,
    PushedRow,
    AnnotationRow,
    TagRow,
    ChangedRow,
    TypedRow,
    MarkRow,
    ResumeRow,
    DoctorRow,
    RetentionRow,
    ExpiringRow,
)
