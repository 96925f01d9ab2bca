"""Decide which files to check, from the folders and what is stored about them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct, structs

from bygones.model.base import SourceFile, decode_path, encode_path
from bygones.model.machines import is_on_this_machine
from bygones.sources.snapshot import (
    ModifiedFile,
    ModifiedFiles,
    modified_since,
    scan_tree,
)
from bygones.store.archive_db import ArchiveDB, StoredSource
from bygones.store.archive_dir import ArchiveDir


class ScanPlan(Struct, frozen=True):
    """The current tree checksum, and which files to check."""

    checksum: str
    snapshot: bytes
    modified_sources: list[tuple[SourceFile, StoredSource]] | None = None
    """The only files that were modified since the last scan. `None`: scan everything.
    """

    @property
    def stored_sources(self) -> list[StoredSource] | None:
        """The stored state of the modified files."""
        return (
            None
            if self.modified_sources is None
            else [stored for _, stored in self.modified_sources]
        )


def plan_scan(
    archive_dir: ArchiveDir, paths: Sequence[Path], *, is_thorough: bool
) -> ScanPlan:
    """Decide what to check, before any file is read.

    Changes after that are found by the next ingestion. A thorough scan lists all
    folders; if their checksum is that of the last thorough scan without problems, there
    is nothing to check.
    """
    modified = None if is_thorough else _find_modified_files(archive_dir, paths)
    if modified is not None:
        homes = [encode_path(path.absolute()) for path in paths]
        matches = [
            _match_stored(archive_dir.byte_store, homes, file)
            for file in modified.files
        ]
        sources = [pair for pair in matches if pair is not None]
        if len(sources) == len(matches):
            return ScanPlan(modified.checksum, modified.snapshot, sources)
    checksum, snapshot = scan_tree(paths)
    is_known = (
        archive_dir.is_fully_scanned(checksum)
        if is_thorough
        else checksum == archive_dir.saved_checksum
    )
    if not is_known or not _do_other_homes_exist(archive_dir, paths):
        return ScanPlan(checksum, snapshot)
    if not is_thorough:
        archive_dir.save_snapshot(
            snapshot
        )  # so that the next scan need not list all folders
    return ScanPlan(checksum, snapshot, [])


def _do_other_homes_exist(archive_dir: ArchiveDir, paths: Sequence[Path]) -> bool:
    """Whether no other home has disappeared, which only a full scan handles."""
    scanned = {encode_path(path.absolute()) for path in paths}
    others = {*archive_dir.byte_store.homes()} - scanned
    return all(
        Path(decode_path(home)).exists() for home in others if is_on_this_machine(home)
    )


def _find_modified_files(
    archive_dir: ArchiveDir, paths: Sequence[Path]
) -> ModifiedFiles | None:
    checksum, snapshot = archive_dir.saved_checksum, archive_dir.load_snapshot()
    return modified_since(snapshot, checksum, paths) if checksum and snapshot else None


def _match_stored(
    archive_db: ArchiveDB, homes: Sequence[str], modified: ModifiedFile
) -> tuple[SourceFile, StoredSource] | None:
    """Return a file as it is now and as it is stored, if it is a known source."""
    name = encode_path(modified.path)
    for home in homes:
        path = name.removeprefix(f"{home}/")
        stored = archive_db.find_source(home, path) if path != name else None
        if stored is None or stored.gone_ns is not None:
            continue
        current = structs.replace(
            stored.source,
            size=modified.size,
            mtime_ns=modified.mtime_ns,
            ctime_ns=modified.ctime_ns,
            inode=modified.inode,
        )
        return current, stored
    return None
