"""What Claude Code will delete from its homes, and when."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
from msgspec import Struct, field

from bygones.model.base import (
    SessionId,
    SourceFile,
    SourceKind,
)
from bygones.schema.commands import ExpiringSessionObject, RetentionObject
from bygones.sources.walk import discover_sources

DEFAULT_DAYS = 30
"""Days that Claude Code keeps sessions by default."""


class _ClaudeSettings(Struct):
    days: int | None = field(name="cleanupPeriodDays", default=None)


def read_retention_days(home: Path) -> tuple[int, bool]:
    """Return how long Claude Code keeps sessions, and whether that is configured."""
    try:
        path = home / "settings.json"
        # Opening a pipe would wait for a writer.
        raw = path.read_bytes() if path.is_file() else b""
        days = msgspec.json.decode(raw, type=_ClaudeSettings).days
    except (OSError, msgspec.MsgspecError):
        days = None
    return (DEFAULT_DAYS, False) if days is None else (days, True)


def find_source_files(homes: Iterable[Path]) -> list[SourceFile]:
    """Return the files that are in some homes now."""
    found = (source for home in homes for source in discover_sources(home))
    return [source for source in found if isinstance(source, SourceFile)]


def read_retention_periods(
    files: Sequence[SourceFile], homes: Sequence[Path]
) -> list[RetentionObject]:
    """Return the retention period of each home, as its settings say."""
    periods = []
    for home in homes:
        own = [source for source in files if source.home == home.as_posix()]
        days, is_configured = read_retention_days(home)
        periods.append(
            RetentionObject(
                home=str(home),
                file_count=len(own),
                size_bytes=sum(source.size for source in own),
                days=days,
                is_configured=is_configured,
                settings_path=str(home / "settings.json"),
            )
        )
    return periods


def find_expiring_sessions(
    files: Sequence[SourceFile],
    periods: Sequence[RetentionObject],
    titles: Mapping[SessionId, str] | None,
    now: datetime,
) -> list[ExpiringSessionObject]:
    """Return the sessions that Claude Code will delete, the next one first.

    With `titles` only the sessions in it are returned.
    """
    days_by_home = {Path(period.home).as_posix(): period.days for period in periods}
    expiring: dict[str, ExpiringSessionObject] = {}
    for source in files:
        session_id = source.session_id
        if (
            source.kind is not SourceKind.SESSION
            or session_id is None
            or source.home not in days_by_home
            or (titles is not None and session_id not in titles)
        ):
            continue
        written_at = datetime.fromtimestamp(source.mtime_ns / 1e9, UTC)
        left = written_at + timedelta(days=days_by_home[source.home]) - now
        expiring[session_id] = ExpiringSessionObject(
            session_id=session_id,
            title=titles[session_id] if titles is not None else "",
            home=source.home,
            days_left=max(left.days, 0),
        )
    return sorted(expiring.values(), key=lambda session: session.days_left)
