"""What a session changed: one edit a call, and the versions that were kept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from msgspec import Struct

from recollect.model.ids import AgentId, RecordId
from recollect.model.metadata import Backup, FileDelta, FileSnapshot
from recollect.model.sessions import Branch, FileEdit

__all__ = ["EDITING_TOOLS", "FileVersion", "edits_of", "versions_of"]

EDITING_TOOLS = frozenset({"Edit", "Write", "MultiEdit", "NotebookEdit"})


def edits_of(
    branches: Iterable[Branch], agent: AgentId | None = None
) -> tuple[FileEdit, ...]:
    """Return the changes that calls made, each branch's own, in order.

    A call that failed, was refused or has no answer yet changed nothing.
    """
    found = []
    for branch in branches:
        for turn in branch.own:
            for message in turn.messages:
                for call in message.calls:
                    path = call.facts.path if call.facts else None
                    path = path or call.path
                    if call.name not in EDITING_TOOLS or not path:
                        continue
                    if call.is_error or not call.is_answered:
                        continue
                    facts = call.facts
                    found.append(
                        FileEdit(
                            path=path,
                            call=call,
                            message=message.id,
                            turn=turn.number,
                            branch=branch.number,
                            agent=agent,
                            time=call.answer_time or call.time,
                            added=facts.added if facts else 0,
                            removed=facts.removed if facts else 0,
                            is_new=bool(facts and facts.is_new),
                            has_patch=bool(facts and facts.has_patch),
                        )
                    )
    return tuple(found)


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
    records: Sequence[FileSnapshot | FileDelta],
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
