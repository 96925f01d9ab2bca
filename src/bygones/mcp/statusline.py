"""What the status line says: sessions here, today's cost, the session most like it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from pathlib import Path, PurePath

import msgspec
from msgspec import Struct

from bygones.archive import Archive
from bygones.errors import BygonesError
from bygones.mcp.quoting import short_record_id
from bygones.mcp.rows import truncate_line
from bygones.model.query import Query, TimeRange
from bygones.model.reports import Grouping, UsageRow
from bygones.model.summary import SessionSummary
from bygones.render.numbers import format_usd, pluralize
from bygones.usage.prices import load_prices

__all__ = ["build_status_line"]

_MAX_FILES = 20
_MAX_TITLE_WORDS = 12
_MAX_TITLE_CHARS = 40


class _StatusContext(Struct, frozen=True):
    """Where Claude Code is, and in which session."""

    cwd: str = ""
    session_id: str = ""


def build_status_line(
    folder: Path, context_json: bytes, *, now: datetime, zone: tzinfo, prices_path: Path
) -> str:
    """Return the line; an empty one where there is nothing to say."""
    try:
        asked = msgspec.json.decode(context_json, type=_StatusContext)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return ""
    try:
        with Archive.open(folder) as archive:
            here = _project_sessions(archive, asked)
            told = [
                pluralize(len(here), "session") if here else "no session here yet",
                _cost_today(archive, now.astimezone(zone), prices_path),
                _most_similar(archive, asked, here),
            ]
    except BygonesError:
        return ""
    return " · ".join(filter(None, told))


def _project_sessions(
    archive: Archive, status_context: _StatusContext
) -> list[SessionSummary]:
    """Return the sessions of the project one is in, or below it, newest first."""
    everything = list(archive.sessions())
    known = {one.project for one in everything}
    for place in (PurePath(status_context.cwd), *PurePath(status_context.cwd).parents):
        if str(place) in known:
            below = (f"{place}/", f"{place}\\")
            return [
                one
                for one in everything
                if one.project == str(place) or (one.project or "").startswith(below)
            ]
    return []


def _cost_today(archive: Archive, now: datetime, prices_path: Path) -> str:
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    report = archive.usage(
        Grouping.DAY,
        query=Query(TimeRange(start=midnight)),
        zone=now.tzinfo or UTC,
        now=now,
        prices=load_prices(prices_path),
    )
    rows = [row for row in report.rows if isinstance(row, UsageRow)]
    return f"{format_usd(sum(row.cost or 0 for row in rows))} today"


def _most_similar(
    archive: Archive,
    status_context: _StatusContext,
    project_sessions: Sequence[SessionSummary],
) -> str:
    """Return the session of this project that is most like this one, if one is.

    Most like is what changed most of the same files, and of those what shares most
    words of the title; without a file in common it needs more than half of the words.
    The newer of two counts.
    """
    own = next(
        (one for one in project_sessions if one.id == status_context.session_id), None
    )
    if own is None:
        return ""
    shared = _shared_file_counts(archive, own)
    words = _title_words(own)
    kin = {own.id, *(lineage.session_id for lineage in own.lineage)}
    best, most = None, (0, len(words) // 2)
    for one in project_sessions:
        if one.id in kin or own.id in {lineage.session_id for lineage in one.lineage}:
            continue
        score = (shared.get(one.id, 0), len(words & _title_words(one)))
        if score > most:
            best, most = one, score
    if best is None:
        return ""
    return f"like {short_record_id(best.id)} {truncate_line(best.title.text, _MAX_TITLE_CHARS)}"


def _shared_file_counts(archive: Archive, own: SessionSummary) -> Mapping[str, int]:
    """Return how many files that a session changed last other sessions changed too."""
    paths = [edit.path for edit in reversed(archive.edits(session=own.id))]
    found: Counter[str] = Counter()
    for path in [*dict.fromkeys(paths)][:_MAX_FILES]:
        found.update({edit.session_id for edit in archive.edits(path=path)})
    return found


def _title_words(summary: SessionSummary) -> frozenset[str]:
    return frozenset(
        re.findall(r"\w{3,}", summary.title.text.casefold())[:_MAX_TITLE_WORDS]
    )
