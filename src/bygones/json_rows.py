"""The rows that commands and the web API give as JSON; see also model.reports."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from msgspec import Struct

from bygones import __version__
from bygones.config import strip_password
from bygones.model.base import (
    AgentId,
    Position,
    Problem,
    ProjectKey,
    RecordId,
    SessionId,
)
from bygones.model.query import Part, QueryNote
from bygones.model.reports import LastVerification
from bygones.model.summary import (
    CountBound,
    Excerpt,
    Hit,
    IndexedEdit,
    Lineage,
    Project,
    Role,
    SearchResults,
    SessionMatch,
    SessionSummary,
    SpellingCorrection,
    TitleKind,
    WordShare,
)
from bygones.model.usage import Cost
from bygones.render.session_tree import TreeLine, TreeLineKind
from bygones.render.text.primitives import encode_row
from bygones.sources.paths import encode_path

SCHEMA = 1
"""Counts up when a row or a field changes its meaning or goes, not when one comes."""


class OutputRow(Struct, frozen=True, kw_only=True, tag_field="row", omit_defaults=True):
    """One line of JSON."""


class HeaderRow(OutputRow, frozen=True, kw_only=True, tag="begin"):
    """The first line: which command, of which version, about which archive."""

    schema: int
    command: str
    bygones: str
    """The version that printed it."""
    archive: str = ""

    @classmethod
    def of(cls, command: str, archive: Path | None = None) -> HeaderRow:
        """Return the first line of a command."""
        place = strip_password(encode_path(archive)) if archive else ""
        return cls(schema=SCHEMA, command=command, bygones=__version__, archive=place)


class SessionListRow(OutputRow, frozen=True, kw_only=True, tag="session"):
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
    def of(cls, listed: SessionSummary, cost: Cost | None = None) -> SessionListRow:
        """Return the row of a session."""
        usage, cost = listed.usage, cost or Cost()
        return cls(
            id=listed.id,
            title=listed.title.text,
            title_kind=listed.title.kind,
            project=listed.project,
            keys=listed.project_keys,
            started=listed.started_at,
            ended=listed.ended_at,
            prompts=listed.prompt_count,
            messages=listed.message_count,
            agents=listed.agent_count,
            branches=listed.branch_count,
            models=listed.models,
            versions=listed.versions,
            git_branches=listed.git_branches,
            tags=listed.tags,
            tokens=usage.total,
            input_tokens=usage.input,
            output_tokens=usage.output,
            cache_write_tokens=usage.cache_write,
            cache_read_tokens=usage.cache_read,
            cost=cost.nano_usd,
            unpriced_tokens=cost.unpriced_tokens,
            lineage=listed.lineage,
            problems=listed.problem_count,
            bytes=listed.source_bytes,
            is_empty=listed.is_empty,
            note=listed.note,
            is_starred=listed.is_starred,
        )


class ProjectRow(OutputRow, frozen=True, kw_only=True, tag="project"):
    """A project in a list."""

    path: str | None = None
    keys: tuple[ProjectKey, ...] = ()
    sessions: int
    last: datetime | None = None
    """When somebody last worked on it."""
    tokens: int
    bytes: int

    @classmethod
    def of(cls, project: Project, last: datetime | None, tokens: int) -> ProjectRow:
        """Return the row of a project."""
        return cls(
            path=project.path,
            keys=project.project_keys,
            sessions=len(project.session_ids),
            last=last,
            tokens=tokens,
            bytes=project.source_bytes,
        )


class IngestProblemRow(OutputRow, frozen=True, kw_only=True, tag="problem"):
    """A file that could not be taken in as it is, and why."""

    kind: str
    source: str
    detail: str = ""

    @classmethod
    def of(cls, problem: Problem) -> IngestProblemRow:
        """Return the row of a problem."""
        place = problem.position.source_id
        return cls(kind=problem.kind, source=place, detail=problem.detail)


class IngestReportRow(OutputRow, frozen=True, kw_only=True, tag="report"):
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


class SessionChangedRow(OutputRow, frozen=True, kw_only=True, tag="touched"):
    """A session that grew while the homes were watched."""

    time: datetime
    session: SessionListRow


class DamageRow(OutputRow, frozen=True, kw_only=True, tag="damage"):
    """Bytes that are not what was stored."""

    source: str
    generation: int
    start: int
    stop: int
    reason: str


class VerifyRow(OutputRow, frozen=True, kw_only=True, tag="verdict"):
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


class BackupRow(OutputRow, frozen=True, kw_only=True, tag="backup"):
    """A backup that was made."""

    folder: str
    bytes: int


class FileActionRow(OutputRow, frozen=True, kw_only=True, tag="file"):
    """A file that is restored or purged, or would be."""

    path: str
    bytes: int
    state: str | None = None
    """What stands there: ``new`` (nothing), ``same``, ``differs``, ``damaged``, or
    ``taken``: a newer copy goes there."""


class RestoreRow(OutputRow, frozen=True, kw_only=True, tag="restored"):
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


class PurgeRow(OutputRow, frozen=True, kw_only=True, tag="purged"):
    """What a purge erased."""

    sessions: int
    files: int
    bytes: int
    is_dry_run: bool = False


class AnnotationRow(OutputRow, frozen=True, kw_only=True, tag="annotations"):
    """What somebody added to a session."""

    session: SessionId
    tags: tuple[str, ...] = ()
    note: str = ""
    is_starred: bool = False


class TagRow(OutputRow, frozen=True, kw_only=True, tag="tag"):
    """A tag, and how many sessions have it."""

    tag: str
    sessions: int


class FileChangeRow(OutputRow, frozen=True, kw_only=True, tag="changed"):
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


class PromptListRow(OutputRow, frozen=True, kw_only=True, tag="prompt"):
    """A prompt, exactly as it was typed."""

    id: RecordId
    session: SessionId
    project: str | None = None
    time: datetime | None = None
    branch: int
    """0 is the branch that counts; on others it was taken back."""
    text: str


class TreeRow(OutputRow, frozen=True, kw_only=True, tag="mark"):
    """A line of a session's drawing, from the top to the bottom."""

    kind: TreeLineKind
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
    def of(cls, mark: TreeLine) -> TreeRow:
        """Return the row of a mark."""
        return cls(
            kind=mark.kind,
            depth=mark.depth,
            branch=mark.branch,
            number=mark.turn_number,
            record=mark.record,
            agent=mark.agent,
            text=mark.text,
            time=mark.time,
            seconds=mark.duration.total_seconds() if mark.duration else None,
            calls=mark.calls,
            tokens=mark.usage.total,
            cost=mark.cost.nano_usd if mark.cost else None,
            unpriced_tokens=mark.cost.unpriced_tokens if mark.cost else 0,
        )


class ResumeRow(OutputRow, frozen=True, kw_only=True, tag="resume"):
    """How to go on with a session in Claude Code."""

    session: SessionId
    directory: str | None = None
    """Where to run `claude --resume`."""
    home: str | None = None
    """What `CLAUDE_CONFIG_DIR` has to be, if it is not the usual home."""
    is_deleted: bool = False
    """Whether the transcript has to be restored first."""


class DoctorRow(OutputRow, frozen=True, kw_only=True, tag="doctor"):
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
    verified: LastVerification | None = None
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


class PushRow(OutputRow, frozen=True, kw_only=True, tag="pushed"):
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


class RetentionRow(OutputRow, frozen=True, kw_only=True, tag="retention"):
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


class ExpiringSessionRow(OutputRow, frozen=True, kw_only=True, tag="expiring"):
    """A session whose transcript Claude Code will delete, the next one first."""

    session: SessionId
    title: str
    home: str
    days: int
    """How many are left; 0 means the next start of Claude Code."""


ARCHIVE_ROWS = (
    HeaderRow,
    SessionListRow,
    ProjectRow,
    IngestProblemRow,
    IngestReportRow,
    SessionChangedRow,
    DamageRow,
    VerifyRow,
    BackupRow,
    FileActionRow,
    RestoreRow,
    PurgeRow,
    PushRow,
    AnnotationRow,
    TagRow,
    FileChangeRow,
    PromptListRow,
    TreeRow,
    ResumeRow,
    DoctorRow,
    RetentionRow,
    ExpiringSessionRow,
)


def summarize_edits(edits: Sequence[IndexedEdit]) -> list[FileChangeRow]:
    """Return a row for each file and session, the newest change last."""
    groups: dict[tuple[str, str], list[IndexedEdit]] = {}
    for edit in edits:
        groups.setdefault((edit.path, edit.session_id), []).append(edit)
    return [
        FileChangeRow(
            path=path,
            session=some[0].session_id,
            changes=len(some),
            added=sum(edit.added_lines for edit in some),
            removed=sum(edit.removed_lines for edit in some),
            is_new=any(edit.is_new_file for edit in some),
            first=some[0].edited_at,
            last=some[-1].edited_at,
        )
        for (path, _), some in groups.items()
    ]


class ExportRow(OutputRow, frozen=True, kw_only=True, tag="exported"):
    """What an export wrote, and what it hid."""

    path: str
    """What to open: the file of a session, the first page or the folder of several."""
    format: str
    files: tuple[str, ...] = ()
    """The files of one session, all that were written."""
    sessions: int
    """Written now."""
    same: int = 0
    """Sessions that had not changed since the last time."""
    empty: int = 0
    """Sessions in which nothing was said, and of which nothing was written."""
    bytes: int
    is_redacted: bool
    hidden: dict[str, int]
    """How much was hidden, by its kind."""
    private: int = 0
    """Records that were left out whole."""
    report: str | None = None
    """The file with the place of everything that was hidden."""


class LinkRow(OutputRow, frozen=True, kw_only=True, tag="link"):
    """Where a session is to be seen in a browser."""

    url: str
    """With the token that opens the page."""
    session: SessionId
    record: RecordId | None = None
    """At which the page opens."""
    is_served: bool = False
    """Whether the page is there only until this command ends."""


class IntegrationRow(OutputRow, frozen=True, kw_only=True, tag="part"):
    """A part that is added to Claude Code, or taken away."""

    what: str
    path: str
    """The file that it stands in."""
    state: str
    """``missing``, ``there``, or ``taken`` by something else, which stays."""
    is_needed: bool = False
    """Whether adding or taking away changes the file."""
    is_done: bool = False
    """Whether that was done now."""


class DemoRow(OutputRow, frozen=True, kw_only=True, tag="demo"):
    """An invented home, and the archive that it was taken into."""

    folder: str
    home: str
    archive: str


class HelpRow(OutputRow, frozen=True, kw_only=True, tag="help"):
    """A command, or what else there is help about."""

    topic: str
    summary: str = ""
    page: str = ""
    """The whole page, where one topic was asked for."""


COMMAND_ROWS = (ExportRow, LinkRow, IntegrationRow, DemoRow, HelpRow)


class SearchSummaryRow(OutputRow, frozen=True, kw_only=True, tag="answer"):
    """How a query was answered."""

    query: str
    words: tuple[str, ...] = ()
    """The words that counted."""
    total: int
    """Sessions in all, as far as was looked."""
    bound: CountBound = CountBound.EXACT
    """How sure that is: exact, or what is to be said before it."""
    complete: int = 0
    """Sessions that have all of the words."""
    repairs: tuple[SpellingCorrection, ...] = ()
    missing: tuple[str, ...] = ()
    """Words that nobody has written, nor any like them."""
    notes: tuple[QueryNote, ...] = ()
    """How the query was read, where that may not be as it was meant."""
    is_loosened: bool = False
    """Whether quoted words were looked for one by one: nowhere do they stand so."""
    is_partial: bool = False
    """Whether there was too much to look at all of it."""
    is_unasked: bool = False
    """Whether there was nothing to look for: these are the newest sessions."""

    @classmethod
    def of(cls, query: str, found: SearchResults) -> SearchSummaryRow:
        """Return the row of an answer."""
        return cls(
            query=query,
            words=found.query_words,
            total=found.session_count,
            bound=found.session_count_bound,
            complete=found.full_match_count,
            repairs=found.corrections,
            missing=found.missing_words,
            notes=found.notes,
            is_loosened=found.is_phrase_relaxed,
            is_partial=found.is_partial,
            is_unasked=found.is_empty_query,
        )


class HitRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A text that fits."""

    record: RecordId
    position: Position | None = None
    """Where its line stands: file, generation, offset and length."""
    part: Part
    role: Role | None = None
    time: datetime | None = None
    tools: tuple[str, ...] = ()
    """Names of the tools that it calls."""
    agent: AgentId | None = None
    agent_type: str | None = None
    is_rewound: bool = False
    is_error: bool = False
    excerpt: Excerpt

    @classmethod
    def of(cls, hit: Hit) -> HitRow:
        """Return the line of a hit."""
        return cls(
            record=hit.record_id,
            position=hit.position,
            part=hit.part,
            role=hit.role,
            time=hit.sent_at,
            tools=hit.tool_names,
            agent=hit.agent_id,
            agent_type=hit.agent_type,
            is_rewound=hit.is_rewound,
            is_error=hit.is_error,
            excerpt=hit.excerpt,
        )


class SearchMatchRow(OutputRow, frozen=True, kw_only=True, tag="found"):
    """A session that was found."""

    number: int
    """By which ``show`` and ``open`` know it."""
    id: SessionId
    title: str
    project: str | None = None
    started: datetime | None = None
    ended: datetime | None = None
    score: float
    words: tuple[str, ...] = ()
    """The words of the query that it has."""
    total: int
    """How many texts fit."""
    bound: CountBound = CountBound.EXACT
    """How sure that is."""
    hits: tuple[HitRow, ...] = ()
    """The best of them."""
    also: tuple[SessionId, ...] = ()
    """Other sessions that hold copies of the same records."""
    shares: tuple[WordShare, ...] = ()
    """What each word gave to the score, and the records that have it, by part."""

    @classmethod
    def of(cls, number: int, one: SessionMatch) -> SearchMatchRow:
        """Return the row of a session."""
        return cls(
            number=number,
            id=one.summary.id,
            title=one.summary.title.text,
            project=one.summary.project,
            started=one.summary.started_at,
            ended=one.summary.ended_at,
            score=round(one.score, 4),
            words=one.matched_words,
            total=one.hit_count,
            bound=one.hit_count_bound,
            hits=tuple(map(HitRow.of, one.hits)),
            also=one.duplicate_ids,
            shares=one.word_shares,
        )


SEARCH_ROWS = (SearchSummaryRow, SearchMatchRow)


def print_row(row: OutputRow) -> None:
    """Print a row as one line that cannot steer a terminal."""
    sys.stdout.write(f"{encode_row(row)}\n")
