"""What the status line says: sessions here, today's cost, the session most like it."""

from __future__ import annotations

import re
from datetime import UTC, datetime, tzinfo
from pathlib import Path

import msgspec
from msgspec import Struct

from recollect.archive import Archive
from recollect.errors import Ambiguous, NotArchived, RecollectError
from recollect.mcp.naming import plain_id, project_of
from recollect.mcp.telling import first_line
from recollect.model.query import And, Fact, Not, Period, Query, Words
from recollect.model.reports import Grouping, UsageRow
from recollect.prices import load_prices
from recollect.render.figures import money, several

__all__ = ["status_line"]

_WORDS = 12
_TITLE = 40


class _About(Struct, frozen=True):
    """Where Claude Code is, and in which session."""

    cwd: str = ""
    session_id: str = ""


def status_line(
    folder: Path, about: bytes, *, now: datetime, zone: tzinfo, prices: Path
) -> str:
    """Return the line; an empty one where there is nothing to say."""
    try:
        asked = msgspec.json.decode(about, type=_About)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return ""
    try:
        with Archive.open(folder) as archive:
            told = [
                _here(archive, asked),
                _today(archive, now.astimezone(zone), prices),
                _similar(archive, asked),
            ]
    except RecollectError:
        return ""
    return " · ".join(filter(None, told))


def _here(archive: Archive, asked: _About) -> str:
    project = project_of(archive, Path(asked.cwd)) if asked.cwd else None
    if project is None:
        return "no session here yet"
    return several(sum(1 for _ in archive.sessions(project=project)), "session")


def _today(archive: Archive, now: datetime, prices: Path) -> str:
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    report = archive.usage(
        Grouping.DAY,
        query=Query(Period(start=midnight)),
        zone=now.tzinfo or UTC,
        now=now,
        prices=load_prices(prices),
    )
    rows = [row for row in report.rows if isinstance(row, UsageRow)]
    return f"{money(sum(row.cost or 0 for row in rows))} today"


def _similar(archive: Archive, asked: _About) -> str:
    """Return the earlier session that has most of what this one is about."""
    if not asked.session_id:
        return ""
    try:
        title = archive.listed(asked.session_id).title.text
    except (NotArchived, Ambiguous):
        return ""
    words = Words(tuple(re.findall(r"\w{3,}", title)[:_WORDS]))
    if not words.words:
        return ""
    query = Query(And((words, Not(Fact("session", asked.session_id)))))
    for found in archive.search(query, limit=1, hits=1).sessions:
        if len(found.words) * 2 > len(words.words):
            name = first_line(found.listed.title.text, _TITLE)
            return f"like {plain_id(found.listed.id)} {name}"
    return ""
