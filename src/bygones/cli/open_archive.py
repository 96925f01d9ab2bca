"""Open the archive, brought up to date, and compute the costs of its sessions."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from bygones.archive import Archive
from bygones.cli.context import find_homes, open_without_ingest
from bygones.cli.output import (
    INDEX_INTERRUPTED,
    StagedProgressBar,
    display_path,
    explain_interrupt,
    ingest_interrupted_message,
    ingest_report_lines,
    print_failure,
    print_problems,
)
from bygones.config import find_prices_file
from bygones.errors import (
    ArchiveInUse,
    ArchiveNotFound,
    InvalidPrices,
    NoArchiveAndNoHome,
    NoTranscriptsFound,
    PathNotFound,
    SystemFailure,
)
from bygones.errors.base import UNEXPECTED_ERRORS, describe_error
from bygones.render.text.primitives import sanitize_name
from bygones.usage.prices import load_prices

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bygones.cli.context import CommonOptions
    from bygones.model.base import IngestReport, SessionId
    from bygones.model.summary import SessionSummary
    from bygones.model.usage import Cost
    from bygones.usage.prices import Prices


def load_user_prices() -> Prices:
    return load_prices(find_prices_file(os.environ, Path.home()))


def load_user_prices_or_warn() -> Prices | None:
    """Return the prices, or none with a note if the user's price file is invalid."""
    try:
        return load_user_prices()
    except InvalidPrices as error:
        sys.stderr.write(sanitize_name(f"note: costs are left out: {error}") + "\n")
        return None


def load_session_costs(
    archive: Archive, sessions: Sequence[SessionSummary]
) -> dict[SessionId, Cost]:
    """Return the costs of sessions; none if the price file is invalid."""
    prices = load_user_prices_or_warn() if sessions else None
    return archive.costs(sessions, prices) if prices is not None else {}


def open_current(options: CommonOptions) -> Archive:
    """Open the archive after importing what is new.

    If another process is writing, or a home does not exist, the archive is used
    unchanged. If there is no archive, it is created.
    """
    folder = options.folder
    if not Archive.exists(folder):
        return _create(options, folder)
    archive = Archive.open(folder)
    homes = _find_homes_to_import(options)
    if homes.note:
        tell = _print_warning if homes.is_unexpected else _print_info
        tell(options, homes.note)
    if options.is_ingest_disabled:
        return archive
    if homes.paths and not archive.is_current(homes.paths):
        _update(archive, homes.paths, options)
    elif not archive.has_index:
        _announce_indexing(archive, options)
        _build_index(archive)
    return archive


class OpenedArchive(NamedTuple):
    """An archive that may not be up to date yet."""

    archive: Archive
    unchecked_homes: tuple[Path, ...] = ()
    """Homes that may have new transcripts."""
    note: str = ""
    """Why nothing can be imported."""


def open_before_import(options: CommonOptions) -> OpenedArchive:
    """Open the archive without importing, unless it has nothing to list yet."""
    folder = options.folder
    if Archive.exists(folder):
        archive = Archive.open(folder)
        homes = _find_homes_to_import(options)
        if archive.has_index and next(archive.sessions(), None) is not None:
            return OpenedArchive(archive, homes.paths, homes.note)
        archive.close()
    return OpenedArchive(open_current(options))


class _HomesToImport(NamedTuple):
    paths: tuple[Path, ...] = ()
    note: str = ""
    """Why there are none."""
    is_unexpected: bool = False


def _find_homes_to_import(options: CommonOptions) -> _HomesToImport:
    """Return the homes that are imported before a command."""
    if options.is_ingest_disabled and not options.homes:
        return _HomesToImport()
    try:
        paths = find_homes(options.homes)
        return _HomesToImport(() if options.is_ingest_disabled else paths)
    except NoTranscriptsFound as error:
        place = os.environ.get("CLAUDE_CONFIG_DIR", "").strip()
        missing = f"no Claude Code home found in {place}" if place else str(error)
        note = f"the archive is not up to date: {missing}"
        return _HomesToImport(note=note, is_unexpected=bool(place))
    except PathNotFound as error:
        # Its disk may be unmounted for now, or it was deleted after the import.
        note = f"the archive is not up to date: {error}"
        return _HomesToImport(note=note, is_unexpected=True)


def open_indexed(archive: Path | None) -> Archive:
    """Open the archive without importing, and create its index if it has none."""
    opened = open_without_ingest(archive)
    if not opened.has_index:
        _build_index(opened)
    return opened


def _build_index(archive: Archive) -> None:
    with explain_interrupt(INDEX_INTERRUPTED), StagedProgressBar() as bar:
        report = Archive.rebuild(archive.folder, progress=bar)
    archive.refresh()
    print_failure(report.failure)


_NOT_CURRENT = "the archive is not up to date"


def _update(archive: Archive, homes: tuple[Path, ...], options: CommonOptions) -> None:
    if not archive.has_index:
        _announce_indexing(archive, options)
    archive.close()
    try:
        with explain_interrupt(ingest_interrupted_message(0)):
            report = _ingest(archive.folder, homes)
    except ArchiveInUse as error:
        archive.refresh()
        if next(archive.sessions(include_empty=True), None) is None:
            _print_warning(
                options, f"the archive is still being created and is empty: {error}"
            )
        else:
            _print_info(options, f"the archive is not up to date: {error}")
    except OSError as error:
        print_failure(f"{_NOT_CURRENT}: {error.strerror or error}")
    except SystemFailure as error:
        print_failure(f"{_NOT_CURRENT}: {error}")
    except UNEXPECTED_ERRORS as error:
        archive.refresh()
        if not archive.has_index or os.environ.get("BYGONES_DEBUG"):
            raise
        print_failure(
            f"{_NOT_CURRENT}: unexpected {describe_error(error)} while importing;"
            " BYGONES_DEBUG=1 shows where"
        )
    else:
        print_failure(report.failure)
        if options.verbose:
            _print_report(report)
    archive.refresh()


def _ingest(folder: Path, homes: tuple[Path, ...]) -> IngestReport:
    with StagedProgressBar() as bar:
        return Archive.ingest(folder, homes, progress=bar, lock_timeout=0)


def _create(options: CommonOptions, folder: Path) -> Archive:
    """Create the archive, with progress on stderr."""
    if options.is_ingest_disabled:
        raise ArchiveNotFound(folder)
    try:
        homes = find_homes(options.homes)
    except NoTranscriptsFound as error:
        raise NoArchiveAndNoHome(folder) from error
    places = ", ".join(sanitize_name(display_path(home)) for home in homes)
    target = sanitize_name(display_path(folder))
    if not options.quiet:
        sys.stderr.write(f"no archive yet: importing {places} into {target}\n")
    with explain_interrupt(
        lambda: ingest_interrupted_message(Archive.stored_bytes(folder))
    ):
        report = _ingest(folder, homes)
    print_failure(report.failure)
    if not options.quiet:
        _print_report(report)
    return Archive.open(folder)


def _announce_indexing(archive: Archive, options: CommonOptions) -> None:
    from bygones.maintenance.index_repair import find_index_damage

    if archive.purge_pending:
        _print_warning(
            options, "a purge was interrupted; run it again to erase all bytes"
        )
    if damage := find_index_damage(archive.folder):
        _print_warning(options, f"the search index is damaged: {damage}")
    if not options.quiet:
        sys.stderr.write("building the search index\n")


def _print_info(options: CommonOptions, message: str) -> None:
    if options.verbose or (sys.stderr.isatty() and not options.quiet):
        sys.stderr.write(sanitize_name(message) + "\n")


def _print_warning(options: CommonOptions, message: str) -> None:
    if not options.quiet:
        sys.stderr.write(sanitize_name(f"note: {message}") + "\n")


def _print_report(report: IngestReport) -> None:
    print_problems(report.problems)
    for line in ingest_report_lines(report):
        sys.stderr.write(f"{line}\n")
