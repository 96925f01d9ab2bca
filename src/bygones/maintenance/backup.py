"""What one copy of an archive has that another has not."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from bygones.errors import ArchiveDamaged, ArchiveError, BackupNewer, NotABackup
from bygones.maintenance.verify import remove_verification
from bygones.model.base import SessionId
from bygones.render.numbers import pluralize
from bygones.store.archive_db import (
    ARCHIVE_FILE,
    UNFINISHED_SUFFIX,
    ArchiveDB,
    StoredSource,
)
from bygones.store.archive_dir import ArchiveDir, remove_indexes
from bygones.store.archive_tables import (
    annotation_times,
    hash_of_session,
    hashes_of_source,
    load_lasting_hashes,
)
from bygones.store.compression import sha256_digest
from bygones.store.connect import (
    LOCK_FILE,
    fsync_folder,
    make_private_folder,
    remove_database,
    translate_read_errors,
    writer_lock,
)
from bygones.store.local_reader import load_readable_sources


class ArchiveDiff(Struct, frozen=True):
    """How much a copy would lose if another were put into its place."""

    files: int = 0
    annotations: int = 0
    purges: int = 0
    """Signs of what was erased there and would come back."""

    def __bool__(self) -> bool:
        """Whether it is anything."""
        return bool(self.files or self.annotations or self.purges)


def diff_archives(ours: ArchiveDB, theirs: ArchiveDB) -> ArchiveDiff:
    """Return what ``theirs`` has that ``ours`` has not; both are of one archive.

    What was purged from ours is not missed there, nor is an annotation that was
    removed. Their chunks are known by their hashes, so that none of them is opened.
    """
    with translate_read_errors(theirs.path):
        signs = load_lasting_hashes(ours.db)
        files = sum(
            not (
                hashes_of_source(kept.source) & signs or _has_source(ours, theirs, kept)
            )
            for kept in theirs.sources()
        )
        known = annotation_times(ours.db)
        annotations = sum(
            hash_of_session(SessionId(session)) not in signs
            and known.get((session, sign), -1) < added
            for (session, sign), added in annotation_times(theirs.db).items()
        )
        return ArchiveDiff(
            files, annotations, len(load_lasting_hashes(theirs.db) - signs)
        )


def _has_source(
    ours: ArchiveDB, theirs: ArchiveDB, stored_source: StoredSource
) -> bool:
    """Whether we have all bytes of a source, at its place or where it was moved to."""
    found = (
        ours.find_source(stored_source.home, stored_source.path),
        ours.source(stored_source.number),
    )
    return any(
        all(
            _has_bytes(ours, number, theirs, (stored_source.number, generation))
            for generation in range(stored_source.generation + 1)
        )
        for number in {one.number for one in found if one is not None}
    )


def _has_bytes(
    ours: ArchiveDB, number: int, theirs: ArchiveDB, place: tuple[int, int]
) -> bool:
    own = (number, place[1])
    known = set(ours.chunk_hashes(*own))
    for start, stop, sign in theirs.chunk_hashes(*place):
        # The last one may have given way to a longer one, which begins as it did.
        is_known = (start, stop, sign) in known
        if (
            not is_known
            and sha256_digest(ours.read_bytes(*own, start, stop - start)) != sign
        ):
            return False
    rest = b""
    with suppress(ArchiveDamaged):  # nobody can lose what nobody can read
        rest = theirs.fragment(*place)
    start = theirs.generation_stored_bytes(*place)
    beginning = ours.read_bytes(*own, start, len(rest)) + ours.fragment(*own)
    return beginning.startswith(rest)


def backup(archive_dir: ArchiveDir, folder: Path) -> int:
    """Write a copy of the archive into a folder and return its size.

    The folder is an archive of its own then, of which ``rebuild`` makes the index. An
    older backup of the same archive is replaced once the new one is whole; anything
    else that stands there is left alone, also what has something that the archive has
    not. A damaged archive never replaces a backup; where there is none yet, what is
    left of it is copied, and the damage is said.
    """
    path = folder / ARCHIVE_FILE
    if folder.resolve() == archive_dir.folder.resolve() or not _may_hold_backup(
        archive_dir, folder
    ):
        raise NotABackup(folder)
    make_private_folder(folder)
    # All of it is of one moment: what is checked is what is copied.
    with writer_lock(folder), archive_dir.read_transaction():
        damages = _count_damages(archive_dir)
        if path.exists():
            _check_replaceable(archive_dir, folder, damages)
        _replace_backup(archive_dir, folder)
    if damages:
        told = (
            f"{pluralize(damages, 'chunk')}; the copy in {folder} has the same damage"
        )
        raise ArchiveDamaged(archive_dir.byte_store.path, told)
    return path.stat().st_size


def _check_replaceable(
    archive_dir: ArchiveDir, folder: Path, damage_count: int
) -> None:
    """Refuse to replace what would be missed."""
    if damage_count:
        told = f"{pluralize(damage_count, 'chunk')}; the older backup in {folder} was left alone"
        raise ArchiveDamaged(archive_dir.byte_store.path, told)
    theirs = ArchiveDB(folder)
    try:
        with theirs.read_transaction():
            more = diff_archives(archive_dir.byte_store, theirs)
            is_parted = bool(more) and bool(
                diff_archives(theirs, archive_dir.byte_store)
            )
    except ArchiveDamaged as error:
        told = f"{error.detail}; it was left alone: remove it, or name another folder"
        raise ArchiveDamaged(error.path, told) from error
    finally:
        theirs.close()
    if more:
        raise BackupNewer(
            folder, archive_dir.folder, _describe_diff(more), has_diverged=is_parted
        )


def _describe_diff(diff: ArchiveDiff) -> str:
    words = (
        (diff.files, pluralize(diff.files, "file")),
        (diff.annotations, pluralize(diff.annotations, "annotation")),
        (diff.purges, "purges"),
    )
    return ", ".join(told for count, told in words if count)


def _replace_backup(archive_dir: ArchiveDir, folder: Path) -> None:
    """Copy the archive beside the older copy, and put it into its place."""
    path = folder / ARCHIVE_FILE
    beside = folder / f"{ARCHIVE_FILE}{UNFINISHED_SUFFIX}"
    try:
        remove_database(beside)
        archive_dir.byte_store.backup(beside)
        # What was made of the older copy would tell lies about the new one.
        remove_indexes(folder)
        remove_verification(folder)
        remove_database(path, only_journals=True)
        beside.replace(path)
        fsync_folder(folder)
    finally:
        remove_database(beside)


def _count_damages(archive_dir: ArchiveDir) -> int:
    """Return how many chunks are not what was stored, or cannot be found at all."""
    sources, lost = load_readable_sources(archive_dir.byte_store)
    found = len(lost)
    for kept in sources:
        for generation in range(kept.generation + 1):
            try:
                checked = archive_dir.byte_store.verify_chunks(kept.number, generation)
                found += sum(1 for _, damage in checked if damage)
            except ArchiveDamaged:
                found += 1
    return found


def _may_hold_backup(archive_dir: ArchiveDir, folder: Path) -> bool:
    if not folder.exists():
        return True
    if not folder.is_dir():
        return False
    if not ArchiveDir.exists(folder):
        names = {path.name for path in folder.iterdir()}
        return names <= {f"{ARCHIVE_FILE}{UNFINISHED_SUFFIX}", LOCK_FILE}
    try:
        older = ArchiveDB(folder)
    except ArchiveError:
        return False
    try:
        return older.archive_id == archive_dir.byte_store.archive_id
    finally:
        older.close()
