"""Copies of files that undo replaced, in a folder of the archive.

The name of a copy starts with a hash of its session, so that a purge finds it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from bygones.model.base import SessionId
from bygones.store.archive_db import hash_of_session

UNDO_FOLDER = "undo"


def undo_file_name(session_id: SessionId, undo_id: str) -> str:
    """Return the name of the file with the copies of one undo."""
    return f"{hash_of_session(session_id).hex()[:32]}.{undo_id}"


def erase_undo_files(archive_folder: Path, sessions: Iterable[SessionId]) -> None:
    """Overwrite and delete all copies of some sessions."""
    prefixes = tuple(undo_file_name(session, "") for session in sessions)
    folder = archive_folder / UNDO_FOLDER
    for path in folder.iterdir() if folder.is_dir() else ():
        if prefixes and path.name.startswith(prefixes):
            with path.open("r+b") as file:
                file.write(b"\0" * path.stat().st_size)
                file.flush()
                os.fsync(file.fileno())
            path.unlink()
