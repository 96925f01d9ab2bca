"""The rows that commands print as JSON, and how they are printed."""

from __future__ import annotations

import sys

from bygones.render.encode import encoded
from bygones.rows.archive import (
    ROWS,
    SCHEMA,
    AnnotationRow,
    BackupRow,
    BeginRow,
    ChangedRow,
    DamageRow,
    DoctorRow,
    ExpiringRow,
    FileRow,
    MarkRow,
    OddRow,
    ProjectLine,
    PurgedRow,
    PushedRow,
    ReportRow,
    RestoredRow,
    ResumeRow,
    RetentionRow,
    Row,
    SessionRow,
    TagRow,
    TouchedRow,
    TypedRow,
    VerdictRow,
)

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
    "print_row",
]


def print_row(row: Row) -> None:
    """Print a row as one line that cannot steer a terminal."""
    sys.stdout.write(f"{encoded(row)}\n")
