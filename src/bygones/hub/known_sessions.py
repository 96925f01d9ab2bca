"""Remember which sessions only a hub has: of another machine, or deleted here."""

from __future__ import annotations

import time
from pathlib import Path

from bygones.errors import HubRejected, HubUnreachable
from bygones.hub.chunks import machine_id
from bygones.hub.client import HubClient
from bygones.ingest.prompt_history import find_known_ids
from bygones.model.base import SessionId
from bygones.store.archive_db import hash_of_session, load_purged_hashes
from bygones.store.archive_dir import ArchiveDir
from bygones.store.hub_sessions import (
    HubSession,
    HubSessions,
    hub_sessions_path,
    store_hub_sessions,
)
from bygones.store.local_reader import LocalReader

_MAX_AGE = 3600.0
"""Seconds before a hub is asked again, while pushes are repeated."""


def remember_sessions(
    folder: Path, client: HubClient, *, host: str = "", is_repeated: bool = False
) -> int | None:
    """Store the prompts of your sessions that only a hub has; return their number.

    None if nothing was stored: the hub did not say, or it was asked lately and
    ``is_repeated``.
    """
    path = hub_sessions_path(folder, client.address)
    if is_repeated and path.exists() and time.time() - path.stat().st_mtime < _MAX_AGE:
        return None
    with ArchiveDir(folder) as archive_dir:
        machine = machine_id(archive_dir.byte_store.archive_id, host)
        try:
            rows = client.fetch_own_prompts(machine)
        except (HubRejected, HubUnreachable):
            return None  # what was pushed is more important
        known = find_known_ids(LocalReader(archive_dir))
        purged = load_purged_hashes(archive_dir.byte_store.db)
    projects: dict[SessionId, str | None] = {}
    prompts: dict[SessionId, list[tuple[int, str]]] = {}
    for id_, project, sent_at, text in rows:
        if id_ not in known and hash_of_session(id_) not in purged:
            sent_ms = int(sent_at.timestamp() * 1000) if sent_at else 0
            prompts.setdefault(id_, []).append((sent_ms, text))
            projects[id_] = project
    sessions = tuple(
        HubSession(id=id_, project=projects[id_], prompts=tuple(found))
        for id_, found in sorted(prompts.items())
    )
    store_hub_sessions(folder, HubSessions(hub=client.address, sessions=sessions))
    return len(sessions)
