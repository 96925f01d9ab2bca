"""What ``recollect doctor`` looks at."""

from __future__ import annotations

import os
import platform
import stat
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from recollect.cli.options import homes_of
from recollect.cli.rows import DoctorRow, ExpiringRow, RetentionRow
from recollect.errors import NothingFound, PathMissing
from recollect.model.sources import SourceKind
from recollect.settings import CLEANUP_DAYS, cleanup_days, settings_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recollect.archive import Archive

__all__ = ["expiring", "known_homes", "retention", "state"]

_ENGINES = ("apsw", "tantivy", "zstandard", "msgspec")
_OTHERS = 0o077


def state(archive: Archive, homes: Sequence[Path]) -> DoctorRow:
    """Return what is where, and how the archive is."""
    kept = archive.sources()
    listed = list(archive.sessions(empty=True)) if archive.has_index else []
    told = settings_file(os.environ, Path.home())
    return DoctorRow(
        python=platform.python_version(),
        engines={name: version(name) for name in _ENGINES},
        settings=str(told) if told.exists() else None,
        archive_bytes=_weight(archive.folder, "archive.db*"),
        index_bytes=_weight(archive.folder / "index", "**/*"),
        is_private=_is_private(archive.folder),
        has_index=archive.has_index,
        is_current=archive.is_current(homes),
        sessions=sum(not one.is_empty for one in listed),
        projects=len({one.project for one in listed if not one.is_empty}),
        files=len(kept),
        gone=sum(k.gone_ns is not None for k in kept),
        claude_versions=_ordered({v for one in listed for v in one.versions}),
        drift=len(archive.drift()) if archive.has_index else 0,
        problems=sum(one.problems for one in listed),
        odd_sessions=sum(one.problems > 0 for one in listed),
    )


def retention(archive: Archive, homes: Sequence[Path]) -> list[RetentionRow]:
    """Return how long each home is kept, as far as its own settings say."""
    rows = []
    for home in homes:
        here = [k for k in archive.sources() if k.home == home.as_posix()]
        days = cleanup_days(home)
        rows.append(
            RetentionRow(
                home=str(home),
                files=sum(k.gone_ns is None for k in here),
                bytes=sum(k.size for k in here if k.gone_ns is None),
                days=CLEANUP_DAYS if days is None else days,
                is_set=days is not None,
                settings=str(home / "settings.json"),
            )
        )
    return rows


def expiring(
    archive: Archive, homes: Sequence[RetentionRow], now: datetime
) -> list[ExpiringRow]:
    """Return the sessions that Claude Code will delete, the next one first."""
    if not archive.has_index:
        return []
    periods = {Path(row.home).as_posix(): row.days for row in homes}
    titles = {one.id: one.title.text for one in archive.sessions()}
    left: dict[str, ExpiringRow] = {}
    for kept in archive.sources():
        known = kept.session in titles and kept.home in periods
        if kept.kind is not SourceKind.SESSION or kept.gone_ns is not None or not known:
            continue
        written = datetime.fromtimestamp(kept.mtime_ns / 1e9, UTC)
        until = written + timedelta(days=periods[kept.home]) - now
        if kept.session is not None:
            left[kept.session] = ExpiringRow(
                session=kept.session,
                title=titles[kept.session],
                home=kept.home,
                days=max(until.days, 0),
            )
    return sorted(left.values(), key=lambda row: row.days)


def known_homes(given: Sequence[Path]) -> tuple[Path, ...]:
    """Return the homes of this machine; none where there are none."""
    try:
        return homes_of(given)
    except (NothingFound, PathMissing):
        if given:
            raise
        return ()


def _weight(folder: Path, pattern: str) -> int:
    return sum(path.stat().st_size for path in folder.glob(pattern) if path.is_file())


def _is_private(folder: Path) -> bool:
    if os.name == "nt":
        return True  # who may read is not said by bits there
    return not any(
        stat.S_IMODE(path.stat().st_mode) & _OTHERS
        for path in (folder, *folder.glob("archive.db*"))
    )


def _ordered(versions: set[str]) -> tuple[str, ...]:
    def parts(one: str) -> list[tuple[bool, int, str]]:
        return [
            (p.isdecimal(), int(p) if p.isdecimal() else 0, p) for p in one.split(".")
        ]

    return tuple(sorted(versions, key=parts))
