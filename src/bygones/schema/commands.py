"""What commands report about their work."""

from __future__ import annotations

from datetime import datetime

from bygones.model.base import RecordId, SessionId
from bygones.model.reports import LastVerification
from bygones.schema.encoding import JsonObject


class IngestReportObject(JsonObject, frozen=True, kw_only=True, tag="ingest_report"):
    """What an ingest or a rebuild did; files are counted by what happened to them."""

    file_count: int
    new_count: int
    grown_count: int
    rewritten_count: int
    """Shrunk or rewritten, and stored as a new generation."""
    moved_count: int
    gone_count: int
    returned_count: int
    unchanged_count: int
    refused_count: int
    """Purged before, and not imported again."""
    problem_count: int
    stored_bytes: int
    record_count: int
    session_count: int
    """Sessions that were derived again."""


class DamageObject(JsonObject, frozen=True, kw_only=True, tag="damage"):
    """Bytes of a source that are not what was stored."""

    source: str
    generation: int
    start: int
    end: int
    reason: str
    is_gap: bool
    """Whether the bytes are missing."""


class VerificationObject(JsonObject, frozen=True, kw_only=True, tag="verification"):
    """The result of a verification, after its damages."""

    is_sound: bool
    source_count: int
    intact_source_count: int
    chunk_count: int
    verified_bytes: int
    damage_count: int
    database: str
    """What SQLite reports about the file: `ok`, or what is wrong."""
    has_index: bool
    is_index_current: bool
    is_index_compared: bool
    """Whether the index was compared with a rebuild; with `--deep`."""
    differences: tuple[str, ...]
    """Tables in which the index differs from a rebuild."""


class BackupObject(JsonObject, frozen=True, kw_only=True, tag="backup"):
    """A backup that was written."""

    folder: str
    written_bytes: int


class FileObject(JsonObject, frozen=True, kw_only=True, tag="file"):
    """A file that is restored or purged, or would be."""

    path: str
    size_bytes: int
    state: str | None
    """What is at its place: `new` (nothing), `same`, `differs`, `damaged`, `taken` (a
    newer copy goes there) or `outside` (the path leads out of the home); null for
    `purge`."""


class RestoreObject(JsonObject, frozen=True, kw_only=True, tag="restore"):
    """The result of a restore, after its files."""

    written_count: int
    same_count: int
    skipped_count: int
    """Files that differ and were not overwritten."""
    written_bytes: int
    damaged_paths: tuple[str, ...]
    """Not written, because their bytes in the archive are damaged."""
    refused_paths: tuple[str, ...]
    """Not written, because the system refused it or a newer copy goes there."""
    copy_paths: tuple[str, ...]
    """Where files that were overwritten were kept."""
    is_dry_run: bool


class PurgeObject(JsonObject, frozen=True, kw_only=True, tag="purge"):
    """The result of a purge, after its files."""

    session_count: int
    file_count: int
    erased_bytes: int
    is_dry_run: bool


class ResumeObject(JsonObject, frozen=True, kw_only=True, tag="resume"):
    """How to continue a session in Claude Code."""

    session_id: SessionId
    directory: str | None
    """Where to run `claude --resume`."""
    home: str | None
    """The value that `CLAUDE_CONFIG_DIR` needs; null for the default home."""
    is_deleted: bool
    """Whether the transcript has to be restored first."""


class DoctorObject(JsonObject, frozen=True, kw_only=True, tag="doctor"):
    """The state of the installation and the archive."""

    python: str
    library_versions: dict[str, str]
    settings_path: str | None = None
    """The settings file, if there is one."""
    settings_errors: tuple[str, ...] = ()
    """Settings that are wrong, and ignored here."""
    has_archive: bool = False
    archive_bytes: int = 0
    index_bytes: int = 0
    is_private: bool = True
    """Whether only its owner can read the archive."""
    has_index: bool = False
    is_current: bool = False
    """Whether the homes have nothing new."""
    is_purge_pending: bool = False
    """Whether a purge was interrupted, so that erased bytes may still be there."""
    last_verification: LastVerification | None = None
    session_count: int = 0
    project_count: int = 0
    file_count: int = 0
    gone_file_count: int = 0
    """Files that were deleted from the homes since."""
    versions: tuple[str, ...] = ()
    """Versions of Claude Code."""
    drift_count: int = 0
    """Types and fields that this version does not know."""
    problem_count: int = 0
    problem_session_count: int = 0


class RetentionObject(JsonObject, frozen=True, kw_only=True, tag="retention"):
    """How long Claude Code keeps the files of a home."""

    home: str
    file_count: int
    size_bytes: int
    days: int
    is_configured: bool
    """Whether `cleanupPeriodDays` is set; otherwise this is Claude Code's default."""
    settings_path: str
    """The file in which it can be set."""


class ExpiringSessionObject(
    JsonObject, frozen=True, kw_only=True, tag="expiring_session"
):
    """A session whose transcript Claude Code will delete, the next one first."""

    session_id: SessionId
    title: str
    home: str
    days_left: int
    """0 means the next start of Claude Code."""


class PushObject(JsonObject, frozen=True, kw_only=True, tag="push"):
    """What was sent to a hub, or would be."""

    is_dry_run: bool
    session_ids: tuple[SessionId, ...]
    file_count: int
    line_count: int
    redacted_bytes: int
    """After redaction, as the hub shows them."""
    sent_bytes: int
    """After compression."""
    request_count: int
    redactions: dict[str, int]
    """Redacted values by kind."""
    private_record_count: int
    """Records that are never sent."""
    foreign_line_count: int
    """Lines of sessions in projects that are not selected."""
    shared_file_count: int
    """Files that also contain such sessions."""
    long_line_count: int
    damaged_file_count: int
    unnameable_file_count: int
    """Files whose name cannot be sent."""
    erased_file_count: int
    """Files that were erased on the hub, and are not sent again."""
    erased_session_ids: tuple[SessionId, ...]


class ExportObject(JsonObject, frozen=True, kw_only=True, tag="export"):
    """What an export wrote and redacted."""

    path: str
    """What to open: the file of a session, the first page or the folder of several."""
    format: str
    files: tuple[str, ...]
    """The files of a single session."""
    session_count: int
    """Sessions that were written."""
    unchanged_count: int
    """Sessions that had not changed since the last export."""
    empty_count: int
    """Sessions without a message, which were skipped."""
    written_bytes: int
    is_redacted: bool
    redactions: dict[str, int]
    """Redacted values by kind."""
    private_record_count: int
    """Records that were left out."""
    report_path: str | None
    """The file that lists every redaction."""


class LinkObject(JsonObject, frozen=True, kw_only=True, tag="link"):
    """Where a session is shown in a browser."""

    url: str
    """With the token that opens the page."""
    session_id: SessionId
    record_id: RecordId | None
    """At which the page opens."""
    is_temporary: bool
    """Whether the page is served only until this command ends."""


class IntegrationObject(JsonObject, frozen=True, kw_only=True, tag="integration"):
    """A part that is added to Claude Code or removed from it."""

    description: str
    path: str
    """The file that it belongs in."""
    state: str
    """`missing`, `there`, or `taken` by something else, which is not changed."""
    is_needed: bool
    """Whether adding or removing it changes the file."""
    is_done: bool
    """Whether that was done now."""


class DemoObject(JsonObject, frozen=True, kw_only=True, tag="demo"):
    """A home with invented sessions and its archive."""

    folder: str
    home: str
    archive: str


class HelpObject(JsonObject, frozen=True, kw_only=True, tag="help"):
    """A command or another help topic."""

    topic: str
    summary: str
    page: str
    """The whole page, if one topic was requested."""


class TokenObject(JsonObject, frozen=True, kw_only=True, tag="token"):
    """A token of a hub, without its secret."""

    token_id: str
    person: str
    teams: tuple[str, ...]
    role: str
    label: str
    created_at: datetime
    revoked_at: datetime | None


class ErasureObject(JsonObject, frozen=True, kw_only=True, tag="erasure"):
    """What was erased from a hub."""

    erased_at: datetime
    person: str | None
    """The selector; sessions had to match all of it."""
    session_id: SessionId | None
    project: str | None
    before_at: datetime | None
    session_ids: tuple[SessionId, ...]
    file_count: int
    row_count: int
    blob_count: int
    """In the raw store."""
    held_session_ids: tuple[SessionId, ...]
    """Sessions on hold, which were not erased."""
