"""Which files sessions changed: what transcripts say, and what only our hooks know."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import cached_property

from bygones.errors import ArchiveDamaged
from bygones.model.base import AgentId, SessionId, SourceKind
from bygones.model.checkpoints import CHECKPOINT_LOG, parse_checkpoints
from bygones.model.path_case import path_ends_with
from bygones.model.summary import IndexedEdit, Lineage, find_ancestors
from bygones.store.archive_db import ArchiveDB
from bygones.store.connect import fetch_all
from bygones.store.index_db import IndexDB
from bygones.store.protocols import StoreReader

_MAX_SECONDS = 32_503_680_000  # the year 3000


class FileEdits:
    """The edits of an archive, with those that only checkpoints contain.

    Checkpoints are read when they are needed: few sessions have any, and deriving
    sessions would have to wait for their logs.
    """

    def __init__(self, reader: StoreReader) -> None:
        self._reader = reader

    def edits_in_session(self, session: SessionId) -> list[IndexedEdit]:
        """Return the edits of a session, oldest first."""
        found = self._reader.edits.edits_in_session(session)
        return self._merge(found, lambda edit: edit.session_id == session)

    def edits_under(self, path: str) -> list[IndexedEdit]:
        """Return the edits of a file, or of all files below a folder, oldest first."""
        found = self._reader.edits.edits_under(path)
        folder = path.rstrip("/\\") + ("\\" if "\\" in path else "/")
        return self._merge(
            found, lambda edit: edit.path == path or edit.path.startswith(folder)
        )

    def edits_with_suffix(self, suffix: str) -> list[IndexedEdit]:
        """Return the edits of files whose path ends with a suffix, oldest first."""
        found = self._reader.edits.edits_with_suffix(suffix)
        return self._merge(found, lambda edit: path_ends_with(edit.path, suffix))

    def _merge(
        self, found: list[IndexedEdit], selects: Callable[[IndexedEdit], bool]
    ) -> list[IndexedEdit]:
        known = {(edit.session_id, edit.path) for edit in found}
        missing = [
            edit
            for edit in self._recorded_edits
            if (edit.session_id, edit.path) not in known and selects(edit)
        ]
        return sorted([*found, *missing], key=_order) if missing else found

    @cached_property
    def _recorded_edits(self) -> list[IndexedEdit]:
        archive_db, index = self._reader.byte_store, self._reader.index
        if not isinstance(archive_db, ArchiveDB) or not isinstance(index, IndexDB):
            return []
        found: list[IndexedEdit] = []
        for source in archive_db.sources_of_kind(SourceKind.CHECKPOINT):
            if not source.path.endswith(f"/{CHECKPOINT_LOG}") or not source.session:
                continue
            place = (source.number, source.generation)
            try:
                raw = archive_db.read_bytes(*place, 0, source.stored_bytes)
            except ArchiveDamaged:
                continue
            found += _parse_edits(raw, source.session, index)
        return found


def without_copied_edits(
    edits: Sequence[IndexedEdit], lineage_of: Callable[[SessionId], Iterable[Lineage]]
) -> list[IndexedEdit]:
    """Leave out edits that a session copied from one that it continues or was forked from.

    A copy has the same time, which no two other edits of one file share.
    """
    sessions: dict[tuple[object, ...], set[SessionId]] = {}
    for edit in edits:
        sessions.setdefault(_identity(edit), set()).add(edit.session_id)
    shared = set().union(*(ids for ids in sessions.values() if len(ids) > 1))
    if not shared:
        return list(edits)
    ancestors = {id_: find_ancestors(id_, lineage_of) for id_ in shared}
    return [
        edit
        for edit in edits
        if edit.edited_at is None
        or not any(
            other in ancestors[edit.session_id]
            and edit.session_id not in ancestors[other]
            for other in sessions[_identity(edit)] - {edit.session_id}
        )
    ]


def _identity(edit: IndexedEdit) -> tuple[object, ...]:
    counts = (edit.added_lines, edit.removed_lines)
    return edit.path, edit.edited_at, edit.tool_name, edit.agent_id, counts


def _order(edit: IndexedEdit) -> float:
    return edit.edited_at.timestamp() if edit.edited_at else 0.0


def _parse_edits(raw: bytes, session: SessionId, index: IndexDB) -> list[IndexedEdit]:
    """Return what the commands of a session changed; others are not in the archive."""
    sql = (
        "SELECT c.id, c.branch, c.agent FROM tool_call AS c"
        " JOIN session_id AS s ON s.number = c.session WHERE s.id = ? AND c.name = 'Bash'"
    )
    # The same call may be on several branches; the live one comes first.
    calls = {
        call: (branch, AgentId(agent) if agent else None)
        for call, branch, agent in reversed(fetch_all(index.db, sql, (session,)))
    }
    return [
        IndexedEdit(
            path=file.path,
            session_id=session,
            branch_number=calls[call][0],
            agent_id=calls[call][1],
            edited_at=_to_time(checkpoint.at),
            is_new_file=file.before == "",
            is_deleted=file.hash == "",
            has_diff=False,
            tool_name="Bash",
        )
        for call, checkpoints in parse_checkpoints(raw).items()
        if call in calls
        for checkpoint in checkpoints
        for file in checkpoint.changed_files
    ]


def _to_time(seconds: float) -> datetime | None:
    is_plausible = 0 <= seconds < _MAX_SECONDS
    return datetime.fromtimestamp(seconds, UTC) if is_plausible else None
