"""The archive, brought up to date before it is shown, and what its sessions cost."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from bygones.archive import Archive
from bygones.cli.context import display_path, find_homes, open_without_ingest
from bygones.cli.output import (
    INDEX_INTERRUPTED,
    explain_interrupt,
    ingest_interrupted_message,
    ingest_report_lines,
    print_problems,
)
from bygones.cli.terminal import StagedProgressBar
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
from bygones.render.text.primitives import sanitize_name as plain
from bygones.usage.prices import load_prices

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bygones.cli.context import CommonOptions
    from bygones.model.base import SessionId
    from bygones.model.progress import IngestReport
    from bygones.model.summary import SessionSummary
    from bygones.model.usage import Cost
    from bygones.usage.prices import Prices


def load_user_prices() -> Prices:
    """Return the prices that count for this user."""
    return load_prices(find_prices_file(os.environ, Path.home()))


def load_user_prices_or_warn() -> Prices | None:
    """Return them for whoever shows more than money: a broken file is told of."""
    try:
        return load_user_prices()
    except InvalidPrices as error:
        sys.stderr.write(plain(f"note: costs are left out: {error}") + "\n")
        return None


def load_session_costs(
    archive: Archive, sessions: Sequence[SessionSummary]
) -> dict[SessionId, Cost]:
    """Return what sessions cost; of none where the prices cannot be read."""
    prices = load_user_prices_or_warn() if sessions else None
    return archive.costs(sessions, prices) if prices is not None else {}


def open_current(options: CommonOptions) -> Archive:
    """Return the archive that is asked for, with what is new taken in.

    Where nothing moved, that costs a look at the homes. While another ingests, or
    where the homes are not there, the archive is shown as it is; one that an option or
    the variable names must be there. An archive is made only in front of somebody who
    sees it being made.
    """
    folder = options.folder
    if not Archive.exists(folder):
        return _create(options, folder)
    if options.is_ingest_disabled:
        if options.homes:
            find_homes(options.homes)  # which must be there, though nothing is taken in
        return Archive.open(folder)
    archive = Archive.open(folder)
    try:
        homes = find_homes(options.homes)
    except NoTranscriptsFound as error:
        _print_info(options, f"shown as it was: {error}")
        homes = ()
    except PathNotFound as error:
        if options.has_explicit_homes:
            raise
        # Set once and for all; the disk that it is on may be away for a while.
        _print_warning(options, f"shown as it was: {error}")
        homes = ()
    if homes and not archive.is_current(homes):
        _update(archive, homes, options)
    elif not archive.has_index:
        _announce_indexing(options)
        _build_index(archive)
    return archive


def open_indexed(archive: Path | None) -> Archive:
    """Return the archive that is meant; where it has no index, one is made."""
    found = open_without_ingest(archive)
    if not found.has_index:
        _build_index(found)
    return found


def _build_index(archive: Archive) -> None:
    with explain_interrupt(INDEX_INTERRUPTED), StagedProgressBar() as bar:
        Archive.rebuild(archive.folder, progress=bar)
    archive.refresh()


def _update(archive: Archive, homes: tuple[Path, ...], options: CommonOptions) -> None:
    if not archive.has_index:
        _announce_indexing(options)
    archive.close()
    try:
        with explain_interrupt(ingest_interrupted_message(0)):
            report = _ingest(archive.folder, homes)
    except ArchiveInUse as error:
        archive.refresh()
        if next(archive.sessions(include_empty=True), None) is None:
            _print_warning(
                options, f"the archive is being made, and has nothing yet: {error}"
            )
        else:
            _print_info(options, f"shown as it was: {error}")
    except OSError as error:
        _print_warning(options, f"shown as it was: {error.strerror or error}")
    except SystemFailure as error:
        _print_warning(options, f"shown as it was: {error}")
    else:
        if options.verbose:
            _print_report(report)
    archive.refresh()


def _ingest(folder: Path, homes: tuple[Path, ...]) -> IngestReport:
    with StagedProgressBar() as bar:
        return Archive.ingest(folder, homes, progress=bar, lock_timeout=0)


def _create(options: CommonOptions, folder: Path) -> Archive:
    """Return a new archive, made before the eyes of whoever asked for it."""
    if options.is_ingest_disabled:
        raise ArchiveNotFound(folder)
    try:
        homes = find_homes(options.homes)
    except NoTranscriptsFound as error:
        raise NoArchiveAndNoHome(folder) from error
    if not sys.stderr.isatty():
        raise ArchiveNotFound(folder)
    places = ", ".join(plain(display_path(home)) for home in homes)
    target = plain(display_path(folder))
    sys.stderr.write(f"no archive yet: taking in {places}, once, into {target}\n")
    with explain_interrupt(
        lambda: ingest_interrupted_message(Archive.stored_bytes(folder))
    ):
        report = _ingest(folder, homes)
    _print_report(report)
    return Archive.open(folder)


def _announce_indexing(options: CommonOptions) -> None:
    if not options.quiet:
        sys.stderr.write("there is no index of this version yet: making it\n")


def _print_info(options: CommonOptions, message: str) -> None:
    if options.verbose or (sys.stderr.isatty() and not options.quiet):
        sys.stderr.write(plain(message) + "\n")


def _print_warning(options: CommonOptions, message: str) -> None:
    if not options.quiet:
        sys.stderr.write(plain(f"note: {message}") + "\n")


def _print_report(report: IngestReport) -> None:
    print_problems(report.problems)
    for line in ingest_report_lines(report):
        sys.stderr.write(f"{line}\n")
