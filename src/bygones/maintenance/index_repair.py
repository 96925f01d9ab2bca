"""Build an index again that is damaged."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from bygones.errors import ArchiveError
from bygones.maintenance.verify import rebuild
from bygones.store.archive_dir import ArchiveDir


def find_index_damage(folder: Path) -> str:
    """Return what is wrong with the index of an archive, if it cannot be used."""
    with ArchiveDir(folder) as archive_dir:
        return archive_dir.index_damage


def rebuild_damaged_index(folder: Path) -> bool:
    """Build the index again if it is damaged; return whether that was done.

    Nothing is done while another process writes, or if the folder is read-only.
    """
    if not find_index_damage(folder):
        return False
    with suppress(ArchiveError, OSError):
        rebuild(folder, lock_timeout=0.0)
        return True
    return False
