"""The versions of files that Claude Code kept, to go back to."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from msgspec import Struct

from bygones.model.ids import RecordId
from bygones.model.metadata import Backup, FileDelta, FileSnapshot

__all__ = ["FileVersion", "versions_of"]


class FileVersion(Struct, frozen=True, kw_only=True):
    """A version of a tracked file at one message."""

    path: str
    version: int
    message: RecordId | None
    """The prompt at which the file was like this."""
    time: datetime | None = None
    backup: str | None = None
    """The backup's name in the file history; ``None`` if the file was new."""

    @property
    def is_new(self) -> bool:
        """Whether the file did not exist before."""
        return self.backup is None


def versions_of(
    records: Iterable[FileSnapshot | FileDelta],
) -> dict[str, tuple[FileVersion, ...]]:
    """Return the versions of every tracked file, oldest first, each once."""
    found: dict[str, dict[tuple[int, str | None], FileVersion]] = {}

    def keep(path: str, backup: Backup, message: RecordId | None) -> None:
        version = FileVersion(
            path=path,
            version=backup.version or 0,
            message=message,
            time=backup.backup_time,
            backup=backup.backup_file_name,
        )
        versions = found.setdefault(path, {})
        versions.setdefault((version.version, version.backup), version)

    for record in records:
        if isinstance(record, FileSnapshot):
            snapshot = record.snapshot
            for path, backup in (
                snapshot.tracked_file_backups if snapshot else {}
            ).items():
                keep(path, backup, record.message_id)
        elif record.tracking_path and record.backup:
            keep(record.tracking_path, record.backup, record.message_id)
    return {
        path: tuple(sorted(versions.values(), key=lambda v: v.version))
        for path, versions in found.items()
    }
