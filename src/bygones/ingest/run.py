"""Import new data: look for changes, and import them if there are any.

What imports is loaded only then, so that looking is fast.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from bygones.errors import IndexDamaged
from bygones.ingest.scan_plan import plan_scan
from bygones.model.base import (
    IngestReport,
    NullProgress,
    ProgressReporter,
    encode_path,
)
from bygones.runtime import gc_paused
from bygones.sources.repositories import read_directory
from bygones.store.annotations import has_directories, store_directories
from bygones.store.archive_dir import ArchiveDir
from bygones.store.connect import make_private_folder, writer_lock

__all__ = ["index_stored", "ingest"]

_PERSISTENT_PROBLEMS = frozenset({"link-out", "not-a-file"})
"""Problems that stay until the file is changed."""


def ingest(
    folder: Path,
    paths: Sequence[Path],
    *,
    progress: ProgressReporter | None = None,
    lock_timeout: float = 5.0,
    is_thorough: bool = False,
) -> IngestReport:
    """Bring the archive in `folder` up to date with homes or other paths.

    It can be stopped at any time: committed data stays, and the next ingestion
    continues from there. A thorough one compares files that grew completely, even long
    ones. Sessions that fail are in the report, and the next ingestion tries them again.
    """
    make_private_folder(folder)
    report = IngestReport(problems=[])
    run = partial(
        _run_once, folder, paths, progress or NullProgress(), is_thorough=is_thorough
    )
    with writer_lock(folder, timeout=lock_timeout), gc_paused():
        try:
            run(report=report)
        except IndexDamaged:
            # The index can be rebuilt from the archive. Try that once.
            second_report = IngestReport(problems=[])
            run(report=second_report, rebuild=True)
            return second_report.merge_interrupted(report)
    return report


def index_stored(
    folder: Path,
    progress: ProgressReporter | None = None,
    *,
    lock_timeout: float = 5.0,
) -> IngestReport:
    """Bring the index up to date with bytes that were added to the archive itself."""
    report = IngestReport(problems=[])
    with (
        writer_lock(folder, timeout=lock_timeout),
        gc_paused(),
        ArchiveDir(folder, write=True) as archive_dir,
    ):
        from bygones.ingest.indexer import fill_index, rebuild_index

        progress = progress or NullProgress()
        if archive_dir.index is None:
            return rebuild_index(archive_dir, progress)
        try:
            fill_index(archive_dir, report, progress)
        except IndexDamaged:
            return rebuild_index(archive_dir, progress)
    return report


def _run_once(  # noqa: PLR0913 (private, all by keyword)
    folder: Path,
    paths: Sequence[Path],
    progress: ProgressReporter,
    *,
    is_thorough: bool,
    report: IngestReport,
    rebuild: bool = False,
) -> None:
    with ArchiveDir(folder, write=True) as archive_dir:
        if rebuild or (
            archive_dir.index is None and not archive_dir.byte_store.is_empty
        ):
            from bygones.ingest.indexer import rebuild_index

            rebuild_index(archive_dir, progress)  # what fails is tried again below
        scan_plan = plan_scan(archive_dir, paths, is_thorough=is_thorough)
        if scan_plan.stored_sources == []:
            archive_dir.check_text_index()
            homes = [encode_path(path.absolute()) for path in paths]
            report.files = archive_dir.byte_store.count_present(homes)
            report.unchanged = report.files
        else:
            from bygones.ingest.importer import import_changes

            import_changes(
                archive_dir,
                paths,
                scan_plan,
                report=report,
                progress=progress,
                is_thorough=is_thorough,
            )
        if archive_dir.index is not None:
            observe_directories(archive_dir, report)
            report.session_count, report.empty_count = (
                archive_dir.index.count_sessions()
            )
        # What couldn't be read may be readable next time without looking different.
        is_complete = report.failure is None and all(
            problem.kind in _PERSISTENT_PROBLEMS for problem in report.problems
        )
        archive_dir.save_checksum(
            scan_plan.checksum if is_complete else "", scan_plan.snapshot
        )
        is_clean = is_complete and not (report.problems or report.refused)
        if is_thorough and is_clean:
            archive_dir.mark_fully_scanned(scan_plan.checksum)


_MAX_LOOKED_UP = 500
"""Updated sessions whose directories are looked up one by one."""


def observe_directories(archive_dir: ArchiveDir, report: IngestReport) -> None:
    """Store which repositories the directories of updated sessions belong to.

    Directories disappear, so this is stored in the archive and not derived.
    """
    updated = report.updated_sessions
    is_first = not has_directories(archive_dir.byte_store.db)
    if archive_dir.index is None or not (updated or is_first):
        return
    from bygones.store.derived_tables import DerivedTables

    tables = DerivedTables(archive_dir.index)
    is_few = len(updated) <= _MAX_LOOKED_UP and not is_first
    projects = tables.projects_of(updated) if is_few else tables.projects()
    store_directories(archive_dir.byte_store.db, projects, read_directory)
