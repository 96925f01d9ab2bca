"""How long Claude Code keeps what it writes, and what it will delete next."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from bygones.cli.options import homes_of
from bygones.cli.rows import ExpiringRow, RetentionRow
from bygones.errors import NothingFound, PathMissing
from bygones.model.sources import Source, SourceKind
from bygones.settings import CLEANUP_DAYS, cleanup_days
from bygones.sources import discover

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bygones.archive import Archive

__all__ = ["expiring", "known_homes", "present", "retention"]


def present(archive: Archive | None, homes: Sequence[Path]) -> list[Source]:
    """Return the files of homes: as last looked at, or as a walk finds them now."""
    if archive is not None:
        return [kept.source for kept in archive.sources() if kept.gone_ns is None]
    found = (one for home in homes for one in discover(home))
    return [one for one in found if isinstance(one, Source)]


def retention(files: Sequence[Source], homes: Sequence[Path]) -> list[RetentionRow]:
    """Return how long each home is kept, as far as its own settings say."""
    rows = []
    for home in homes:
        here = [one for one in files if one.home == home.as_posix()]
        days = cleanup_days(home)
        rows.append(
            RetentionRow(
                home=str(home),
                files=len(here),
                bytes=sum(one.size for one in here),
                days=CLEANUP_DAYS if days is None else days,
                is_set=days is not None,
                settings=str(home / "settings.json"),
            )
        )
    return rows


def expiring(
    archive: Archive | None,
    files: Sequence[Source],
    homes: Sequence[RetentionRow],
    now: datetime,
) -> list[ExpiringRow]:
    """Return the sessions that Claude Code will delete, the next one first.

    Without an archive nobody knows what they are called, nor which are empty.
    """
    periods = {Path(row.home).as_posix(): row.days for row in homes}
    titles: dict[str | None, str] = {one.session: "" for one in files}
    if archive is not None:
        lines = archive.sessions() if archive.has_index else ()
        titles = {one.id: one.title.text for one in lines}
    left: dict[str, ExpiringRow] = {}
    for one in files:
        known = one.session in titles and one.home in periods
        if one.kind is not SourceKind.SESSION or one.session is None or not known:
            continue
        written = datetime.fromtimestamp(one.mtime_ns / 1e9, UTC)
        until = written + timedelta(days=periods[one.home]) - now
        left[one.session] = ExpiringRow(
            session=one.session,
            title=titles[one.session],
            home=one.home,
            days=max(until.days, 0),
        )
    return sorted(left.values(), key=lambda row: row.days)


def known_homes(given: Sequence[Path], wrong: list[str]) -> tuple[Path, ...]:
    """Return the homes of this machine; none where there are none.

    One that is set and not there is added to what is ``wrong``.
    """
    try:
        return homes_of(given)
    except NothingFound:
        if given:
            raise
    except PathMissing as error:
        if given:
            raise
        wrong.append(f"{error}: it was set as a home")
    return ()
