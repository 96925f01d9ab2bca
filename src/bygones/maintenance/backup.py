"""Copy an archive, without losing anything that the target has."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from bygones.errors import (
    ArchiveDamaged,
    ArchiveError,
    BackupNewer,
    BytesLost,
    NotABackup,
)
from bygones.maintenance.verify import remove_verification
from bygones.model.base import SessionId
from bygones.render.numbers import pluralize
from bygones.store.annotations import annotation_times
from bygones.store.archive_db import (
    ARCHIVE_FILE,
    UNFINISHED_SUFFIX,
    ArchiveDB,
    StoredSource,
    hash_of_session,
    hashes_of_source,
    load_lasting_hashes,
)
from bygones.store.archive_dir import ArchiveDir, remove_indexes
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
    """How much would be lost if one archive were replaced by another."""

    files: int = 0
    annotations: int = 0
    purges: int = 0
    """Hashes of purged data that would come back."""

    def __bool__(self) -> bool:
        return bool(self.files or self.annotations or self.purges)


def diff_archives(ours: ArchiveDB, theirs: ArchiveDB) -> ArchiveDiff:
    """Return what `theirs` has and `ours` lacks; both are copies of one archive.

    Data purged from ours and annotations removed there are not missing. Chunks are
    compared by hash, without decompressing them.
    """
    with translate_read_errors(theirs.path):
        purged = load_lasting_hashes(ours.db)
        files = sum(
            not (
                hashes_of_source(source.source) & purged
                or _has_source(ours, theirs, source)
            )
            for source in theirs.sources()
        )
        known_times = annotation_times(ours.db)
        annotations = sum(
            hash_of_session(SessionId(session)) not in purged
            and known_times.get((session, digest), -1) < added
            for (session, digest), added in annotation_times(theirs.db).items()
        )
        return ArchiveDiff(
            files, annotations, len(load_lasting_hashes(theirs.db) - purged)
        )


def _has_source(
    ours: ArchiveDB, theirs: ArchiveDB, stored_source: StoredSource
) -> bool:
    """Whether we have all bytes of a source, at its path or where it was moved to."""
    candidates = (
        ours.find_source(stored_source.home, stored_source.path),
        ours.source(stored_source.number),
    )
    return any(
        all(
            _has_bytes(ours, number, theirs, (stored_source.number, generation))
            for generation in range(stored_source.generation + 1)
        )
        for number in {
            candidate.number for candidate in candidates if candidate is not None
        }
    )


def _has_bytes(
    ours: ArchiveDB, number: int, theirs: ArchiveDB, place: tuple[int, int]
) -> bool:
    our_place = (number, place[1])
    our_losses = ours.accepted_losses(*our_place)
    known = {one for one in ours.chunk_hashes(*our_place) if one[0] not in our_losses}
    missing = [one for one in theirs.chunk_hashes(*place) if one not in known]
    their_losses = theirs.accepted_losses(*place) if missing else set()
    for start, stop, digest in missing:
        if start in their_losses:
            continue  # what is lost there too can't be lost
        try:
            # The last chunk may have been replaced by a longer one that starts with it.
            raw = ours.read_bytes(*our_place, start, stop - start)
        except BytesLost:
            return False
        if sha256_digest(raw) != digest:
            return False
    fragment = b""
    with suppress(ArchiveDamaged):  # what can't be read can't be lost
        fragment = theirs.fragment(*place)
    start = theirs.generation_stored_bytes(*place)
    try:
        our_bytes = ours.read_bytes(*our_place, start, len(fragment)) + ours.fragment(
            *our_place
        )
    except BytesLost:
        return not fragment
    return our_bytes.startswith(fragment)


def backup(archive_dir: ArchiveDir, folder: Path) -> int:
    """Write a copy of the archive into a folder; return its size.

    The folder becomes an archive of its own, without an index. An older backup of the
    same archive is replaced when the new one is complete. Anything else is left alone,
    and so is a backup that has something the archive lacks. A damaged archive never
    replaces a backup; if there is none yet, it is copied and the damage is reported.
    """
    path = folder / ARCHIVE_FILE
    if folder.resolve() == archive_dir.folder.resolve() or not _may_hold_backup(
        archive_dir, folder
    ):
        raise NotABackup(folder)
    make_private_folder(folder)
    # One transaction: what is checked is what is copied.
    with writer_lock(folder), archive_dir.read_transaction():
        damages = _count_damages(archive_dir)
        if path.exists():
            _check_replaceable(archive_dir, folder, damages)
        _replace_backup(archive_dir, folder)
    if damages:
        detail = (
            f"{pluralize(damages, 'chunk')}; the copy in {folder} has the same damage"
        )
        raise ArchiveDamaged(archive_dir.byte_store.path, detail)
    return path.stat().st_size


def _check_replaceable(
    archive_dir: ArchiveDir, folder: Path, damage_count: int
) -> None:
    """Raise an error if the backup has something that the archive lacks."""
    if damage_count:
        detail = f"{pluralize(damage_count, 'chunk')}; the older backup in {folder} was left alone"
        raise ArchiveDamaged(archive_dir.byte_store.path, detail)
    theirs = ArchiveDB(folder)
    try:
        with theirs.read_transaction():
            more = diff_archives(archive_dir.byte_store, theirs)
            has_diverged = bool(more) and bool(
                diff_archives(theirs, archive_dir.byte_store)
            )
    except ArchiveDamaged as error:
        detail = f"{error.detail}; it was left alone: remove it, or name another folder"
        raise ArchiveDamaged(error.path, detail) from error
    finally:
        theirs.close()
    if more:
        raise BackupNewer(
            folder, archive_dir.folder, _describe_diff(more), has_diverged=has_diverged
        )


def _describe_diff(diff: ArchiveDiff) -> str:
    parts = (
        (diff.files, pluralize(diff.files, "file")),
        (diff.annotations, pluralize(diff.annotations, "annotation")),
        (diff.purges, "purges"),
    )
    return ", ".join(text for count, text in parts if count)


def _replace_backup(archive_dir: ArchiveDir, folder: Path) -> None:
    """Copy the archive next to the older copy, and rename it."""
    path = folder / ARCHIVE_FILE
    temp_path = folder / f"{ARCHIVE_FILE}{UNFINISHED_SUFFIX}"
    try:
        remove_database(temp_path)
        archive_dir.byte_store.backup(temp_path)
        # Both describe the older copy.
        remove_indexes(folder)
        remove_verification(folder)
        remove_database(path, only_journals=True)
        temp_path.replace(path)
        fsync_folder(folder)
    finally:
        remove_database(temp_path)


def _count_damages(archive_dir: ArchiveDir) -> int:
    """Return how many chunks are damaged, besides those that are accepted as lost."""
    sources, lost = load_readable_sources(archive_dir.byte_store)
    count = len(lost)
    for source in sources:
        for generation in range(source.generation + 1):
            try:
                chunks = archive_dir.byte_store.verify_chunks(source.number, generation)
                count += sum(
                    1 for chunk, damage in chunks if damage and not chunk.lost_ns
                )
            except ArchiveDamaged:
                count += 1
    return count


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
