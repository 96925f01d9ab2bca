"""How long Claude Code keeps what it writes, and what it will delete next."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from recollect.cli.options import homes_of
from recollect.cli.rows import ExpiringRow, RetentionRow
from recollect.errors import NothingFound, PathMissing
from recollect.model.sources import SourceKind
from recollect.settings import CLEANUP_DAYS, cleanup_days

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recollect.archive import Archive

__all__ = ["expiring", "known_homes", "retention"]


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
