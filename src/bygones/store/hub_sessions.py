"""Prompts of sessions that a hub has and the archive has not, in a folder of the archive.

One file for each hub, replaced by each push that asks the hub.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from hashlib import sha256
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from bygones.model.base import DECODE_ERRORS, SessionId

HUB_SESSIONS_FOLDER = "hub-sessions"


class HubSession(Struct, frozen=True, kw_only=True):
    """A session on a hub, with the start of each prompt and when it was sent."""

    id: SessionId
    project: str | None = None
    prompts: tuple[tuple[int, str], ...] = ()
    """Milliseconds since 1970, 0 if unknown, and the text."""


class HubSessions(Struct, frozen=True, kw_only=True):
    """The sessions that only one hub has."""

    hub: str
    sessions: tuple[HubSession, ...] = ()


def hub_sessions_path(archive_folder: Path, hub: str) -> Path:
    """Return the file with the sessions of a hub."""
    name = sha256(hub.encode()).hexdigest()[:16]
    return archive_folder / HUB_SESSIONS_FOLDER / f"{name}.json"


def store_hub_sessions(archive_folder: Path, found: HubSessions) -> None:
    """Replace what is known of a hub."""
    path = hub_sessions_path(archive_folder, found.hub)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    draft = path.with_suffix(f".{os.getpid()}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    with open(os.open(draft, flags, 0o600), "wb") as file:  # noqa: PTH123 (a descriptor)
        file.write(msgspec.json.encode(found))
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def load_hub_sessions(archive_folder: Path) -> Iterator[HubSessions]:
    """Yield what is known of each hub; a damaged file is left out."""
    for path in sorted((archive_folder / HUB_SESSIONS_FOLDER).glob("*.json")):
        try:
            yield msgspec.json.decode(path.read_bytes(), type=HubSessions)
        except (OSError, *DECODE_ERRORS):
            continue


def erase_hub_sessions(archive_folder: Path, sessions: Collection[SessionId]) -> None:
    """Forget the prompts of some sessions; the former file is overwritten."""
    for found in load_hub_sessions(archive_folder):
        rest = tuple(one for one in found.sessions if one.id not in sessions)
        if len(rest) < len(found.sessions):
            path = hub_sessions_path(archive_folder, found.hub)
            with path.open("r+b") as former:
                store_hub_sessions(archive_folder, replace(found, sessions=rest))
                former.write(b"\0" * os.fstat(former.fileno()).st_size)
                former.flush()
                os.fsync(former.fileno())
