"""The rows that commands about the archive print as JSON."""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path

from msgspec import Struct

from recollect import __version__
from recollect.model.ids import ProjectKey, SessionId
from recollect.model.listing import Listed
from recollect.model.parts import Lineage, Project, TitleKind
from recollect.model.problems import Problem
from recollect.render.encode import encoded
from recollect.sources.names import path_text

__all__ = [
    "ROWS",
    "SCHEMA",
    "BackupRow",
    "BeginRow",
    "DamageRow",
    "FileRow",
    "OddRow",
    "ProjectLine",
    "PurgedRow",
    "ReportRow",
    "RestoredRow",
    "Row",
    "SessionRow",
    "TouchedRow",
    "VerdictRow",
    "print_row",
]

SCHEMA = 1
"""Counts up when a row or a field changes its meaning or goes, not when one comes."""


class Row(Struct, frozen=True, kw_only=True, tag_field="row", omit_defaults=True):
    """One line of JSON."""


class BeginRow(Row, frozen=True, kw_only=True, tag="begin"):
    """The first line: which command, of which version, about which archive."""

    schema: int
    command: str
    recollect: str
    """The version that printed it."""
    archive: str

    @classmethod
    def of(cls, command: str, archive: Path) -> BeginRow:
        """Return the first line of a command."""
        place = path_text(archive)
        return cls(schema=SCHEMA, command=command, recollect=__version__, archive=place)


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
    lineage: tuple[Lineage, ...] = ()
    problems: int = 0
    bytes: int
    """Of its sources."""
    is_empty: bool = False

    @classmethod
    def of(cls, listed: Listed) -> SessionRow:
        """Return the row of a session."""
        usage = listed.usage
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
            lineage=listed.lineage,
            problems=listed.problems,
            bytes=listed.size,
            is_empty=listed.is_empty,
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
    """What stands there: ``new`` (nothing), ``same``, ``differs``, ``damaged``."""


class RestoredRow(Row, frozen=True, kw_only=True, tag="restored"):
    """What a restore did."""

    written: int
    same: int
    skipped: int
    """Files that differ and were left alone."""
    bytes: int
    damaged: tuple[str, ...] = ()
    """Files that could not be written: their bytes in the archive are damaged."""
    copies: tuple[str, ...] = ()
    """Where files that stood in the way were put."""
    is_dry_run: bool = False


class PurgedRow(Row, frozen=True, kw_only=True, tag="purged"):
    """What a purge erased."""

    sessions: int
    files: int
    bytes: int
    is_dry_run: bool = False


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
)


def print_row(row: Row) -> None:
    """Print a row as one line that cannot steer a terminal."""
    sys.stdout.write(f"{encoded(row)}\n")
