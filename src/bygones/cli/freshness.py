"""Taking in what is new before something is shown, without being in the way."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from bygones.archive import Archive
from bygones.cli.asked import homes_of, opened, shown_path
from bygones.cli.telling import (
    NOT_INDEXED,
    if_stopped,
    kept_bytes,
    report_lines,
    taken_in,
    tell_problems,
)
from bygones.cli.terminal import StageBar, plain
from bygones.errors import (
    ArchiveInUse,
    ArchiveMissing,
    NothingFound,
    NothingToShow,
    PathMissing,
    SystemRefused,
)

if TYPE_CHECKING:
    from pathlib import Path

    from bygones.cli.asked import Asked
    from bygones.ingest import Report

__all__ = ["fresh", "indexed"]


def fresh(asked: Asked) -> Archive:
    """Return the archive that is asked for, with what is new taken in.

    Where nothing moved, that costs a look at the homes. While another ingests, or
    where the homes are not there, the archive is shown as it is; one that an option or
    the variable names must be there. An archive is made only in front of somebody who
    sees it being made.
    """
    folder = asked.folder
    if not Archive.exists(folder):
        return _made(asked, folder)
    if asked.is_fixed:
        if asked.homes:
            homes_of(asked.homes)  # which must be there, though nothing is taken in
        return Archive.open(folder)
    archive = Archive.open(folder)
    try:
        homes = homes_of(asked.homes)
    except NothingFound as error:
        _tell(asked, f"shown as it was: {error}")
        homes = ()
    except PathMissing as error:
        if asked.names_homes:
            raise
        # Set once and for all; the disk that it is on may be away for a while.
        _warn(asked, f"shown as it was: {error}")
        homes = ()
    if homes and not archive.is_current(homes):
        _bring_up(archive, homes, asked)
    elif not archive.has_index:
        _announce_index(asked)
        _index(archive)
    return archive


def indexed(archive: Path | None) -> Archive:
    """Return the archive that is meant; where it has no index, one is made."""
    found = opened(archive)
    if not found.has_index:
        _index(found)
    return found


def _index(archive: Archive) -> None:
    with if_stopped(NOT_INDEXED), StageBar() as bar:
        Archive.rebuild(archive.folder, progress=bar)
    archive.refresh()


def _bring_up(archive: Archive, homes: tuple[Path, ...], asked: Asked) -> None:
    if not archive.has_index:
        _announce_index(asked)
    archive.close()
    try:
        with if_stopped(taken_in(0)):
            report = _ingest(archive.folder, homes)
    except ArchiveInUse as error:
        archive.refresh()
        if next(archive.sessions(empty=True), None) is None:
            _warn(asked, f"the archive is being made, and has nothing yet: {error}")
        else:
            _tell(asked, f"shown as it was: {error}")
    except OSError as error:
        _warn(asked, f"shown as it was: {error.strerror or error}")
    except SystemRefused as error:
        _warn(asked, f"shown as it was: {error}")
    else:
        if asked.verbose:
            _tell_report(report)
    archive.refresh()


def _ingest(folder: Path, homes: tuple[Path, ...]) -> Report:
    with StageBar() as bar:
        return Archive.ingest(folder, homes, progress=bar, wait=0)


def _made(asked: Asked, folder: Path) -> Archive:
    """Return a new archive, made before the eyes of whoever asked for it."""
    if asked.is_fixed:
        raise ArchiveMissing(folder)
    try:
        homes = homes_of(asked.homes)
    except NothingFound as error:
        raise NothingToShow(folder) from error
    if not sys.stderr.isatty():
        raise ArchiveMissing(folder)
    places = ", ".join(plain(shown_path(home)) for home in homes)
    sys.stderr.write(
        f"no archive yet: taking in {places}, once, into {plain(shown_path(folder))}\n"
    )
    with if_stopped(lambda: taken_in(kept_bytes(folder))):
        report = _ingest(folder, homes)
    _tell_report(report)
    return Archive.open(folder)


def _announce_index(asked: Asked) -> None:
    if not asked.quiet:
        sys.stderr.write("there is no index of this version yet: making it\n")


def _tell(asked: Asked, words: str) -> None:
    if asked.verbose or (sys.stderr.isatty() and not asked.quiet):
        sys.stderr.write(plain(words) + "\n")


def _warn(asked: Asked, words: str) -> None:
    if not asked.quiet:
        sys.stderr.write(plain(f"note: {words}") + "\n")


def _tell_report(report: Report) -> None:
    tell_problems(report.problems)
    for line in report_lines(report):
        sys.stderr.write(f"{line}\n")
