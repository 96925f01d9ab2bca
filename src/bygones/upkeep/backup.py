"""A second copy of the archive, consistent whoever writes meanwhile."""

from __future__ import annotations

from pathlib import Path

from bygones.errors import ArchiveDamaged, ArchiveError, BackupNewer, BackupRefused
from bygones.render.figures import several
from bygones.store.chunks import ARCHIVE_FILE, UNFINISHED, Chunks
from bygones.store.connect import make_folder, remove_database, sync_folder
from bygones.store.lacking import Lack, lacking
from bygones.store.lock import LOCK_FILE, writing
from bygones.store.rescue import readable
from bygones.store.vault import Vault, remove_indexes
from bygones.upkeep.verified import forget_verified

__all__ = ["backup"]


def backup(vault: Vault, folder: Path) -> int:
    """Write a copy of the archive into a folder and return its size.

    The folder is an archive of its own then, of which ``rebuild`` makes the index. An
    older backup of the same archive is replaced once the new one is whole; anything
    else that stands there is left alone, also what has something that the archive has
    not. A damaged archive never replaces a backup; where there is none yet, what is
    left of it is copied, and the damage is said.
    """
    path = folder / ARCHIVE_FILE
    if folder.resolve() == vault.folder.resolve() or not _may_hold(vault, folder):
        raise BackupRefused(folder)
    make_folder(folder)
    # All of it is of one moment: what is checked is what is copied.
    with writing(folder), vault.at_once():
        damages = _damages(vault)
        if path.exists():
            _check_older(vault, folder, damages)
        _replace(vault, folder)
    if damages:
        told = f"{several(damages, 'chunk')}; the copy in {folder} has the same damage"
        raise ArchiveDamaged(vault.chunks.path, told)
    return path.stat().st_size


def _check_older(vault: Vault, folder: Path, damages: int) -> None:
    """Refuse to replace what would be missed."""
    if damages:
        told = (
            f"{several(damages, 'chunk')}; the older backup in {folder} was left alone"
        )
        raise ArchiveDamaged(vault.chunks.path, told)
    theirs = Chunks(folder)
    try:
        with theirs.at_once():
            more = lacking(vault.chunks, theirs)
            is_parted = bool(more) and bool(lacking(theirs, vault.chunks))
    except ArchiveDamaged as error:
        told = f"{error.detail}; it was left alone: remove it, or name another folder"
        raise ArchiveDamaged(error.path, told) from error
    finally:
        theirs.close()
    if more:
        raise BackupNewer(folder, vault.folder, _told(more), is_parted=is_parted)


def _told(more: Lack) -> str:
    words = (
        (more.files, several(more.files, "file")),
        (more.annotations, several(more.annotations, "annotation")),
        (more.purged, "purges"),
    )
    return ", ".join(told for count, told in words if count)


def _replace(vault: Vault, folder: Path) -> None:
    """Copy the archive beside the older copy, and put it into its place."""
    path = folder / ARCHIVE_FILE
    beside = folder / f"{ARCHIVE_FILE}{UNFINISHED}"
    try:
        remove_database(beside)
        vault.chunks.backup(beside)
        # What was made of the older copy would tell lies about the new one.
        remove_indexes(folder)
        forget_verified(folder)
        remove_database(path, only_logs=True)
        beside.replace(path)
        sync_folder(folder)
    finally:
        remove_database(beside)


def _damages(vault: Vault) -> int:
    """Return how many chunks are not what was stored, or cannot be found at all."""
    sources, lost = readable(vault.chunks)
    found = len(lost)
    for kept in sources:
        for generation in range(kept.generation + 1):
            try:
                checked = vault.chunks.checked(kept.number, generation)
                found += sum(1 for _, damage in checked if damage)
            except ArchiveDamaged:
                found += 1
    return found


def _may_hold(vault: Vault, folder: Path) -> bool:
    if not folder.exists():
        return True
    if not folder.is_dir():
        return False
    if not Vault.exists(folder):
        names = {path.name for path in folder.iterdir()}
        return names <= {f"{ARCHIVE_FILE}{UNFINISHED}", LOCK_FILE}
    try:
        older = Chunks(folder)
    except ArchiveError:
        return False
    try:
        return older.identity == vault.chunks.identity
    finally:
        older.close()
