"""The text of the status line: sessions of the project, today's cost, similar work."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from pathlib import Path

import msgspec
from msgspec import Struct

from bygones.archive import Archive
from bygones.errors import BygonesError
from bygones.model.query import Query, TimeRange
from bygones.model.reports import Grouping, UsageRow
from bygones.model.summary import SessionSummary
from bygones.render.numbers import format_usd, pluralize
from bygones.render.text.primitives import sanitize_line, truncate_line
from bygones.usage.prices import load_prices

_MAX_FILES = 20
_MAX_TITLE_WORDS = 12
_MAX_TITLE_CHARS = 40
_ID_CHARS = 8


class _StatusContext(Struct, frozen=True):
    """What Claude Code passes to the command."""

    cwd: str = ""
    session_id: str = ""


def build_status_line(
    folder: Path, context_json: bytes, *, now: datetime, zone: tzinfo, prices_path: Path
) -> str:
    """Return the status line; it is empty if the archive or the input is not usable."""
    try:
        context = msgspec.json.decode(context_json, type=_StatusContext)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return ""
    try:
        with Archive.open(folder) as archive:
            sessions = _project_sessions(archive, context.cwd)
            parts = [
                pluralize(len(sessions), "session")
                if sessions
                else "no sessions here yet",
                _cost_today(archive, now.astimezone(zone), prices_path),
                _most_similar(archive, context.session_id, sessions),
            ]
    except BygonesError:
        return ""
    return " · ".join(filter(None, parts))


def _project_sessions(archive: Archive, directory: str) -> list[SessionSummary]:
    """Return the sessions of the project of a directory, newest first."""
    project = archive.project_at(directory) if directory else None
    if project is None or project.path is None:
        return []
    return list(archive.sessions(project=project.path))


def _cost_today(archive: Archive, now: datetime, prices_path: Path) -> str:
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    report = archive.usage(
        Grouping.DAY,
        query=Query(TimeRange(start=midnight)),
        timezone=now.tzinfo or UTC,
        now=now,
        prices=load_prices(prices_path),
    )
    rows = [row for row in report.rows if isinstance(row, UsageRow)]
    return f"{format_usd(sum(row.cost or 0 for row in rows))} today"


def _most_similar(
    archive: Archive, session_id: str, project_sessions: Sequence[SessionSummary]
) -> str:
    """Describe the session of this project that is most similar to the current one.

    Sessions are ranked by the number of files that both changed, then by the number of
    title words in common. Without a common file, more than half of the title words have
    to match. The newer of two equal sessions wins.
    """
    current = next((one for one in project_sessions if one.id == session_id), None)
    if current is None:
        return ""
    shared_files = _shared_file_counts(archive, current)
    words = _title_words(current)
    ancestors = {current.id, *(lineage.session_id for lineage in current.lineage)}
    best, best_score = None, (0, len(words) // 2)
    for session in project_sessions:
        is_descendant = current.id in {one.session_id for one in session.lineage}
        if session.id in ancestors or is_descendant:
            continue
        score = (shared_files.get(session.id, 0), len(words & _title_words(session)))
        if score > best_score:
            best, best_score = session, score
    if best is None:
        return ""
    title = truncate_line(best.title.text, _MAX_TITLE_CHARS)
    return f"similar: {sanitize_line(best.id[:_ID_CHARS])} {title}"


def _shared_file_counts(archive: Archive, session: SessionSummary) -> Mapping[str, int]:
    """Count the last files that a session changed in the sessions that changed them."""
    paths = [edit.path for edit in reversed(archive.edits(session=session.id))]
    counts: Counter[str] = Counter()
    for path in [*dict.fromkeys(paths)][:_MAX_FILES]:
        counts.update({edit.session_id for edit in archive.edits(path=path)})
    return counts


def _title_words(summary: SessionSummary) -> frozenset[str]:
    words = re.findall(r"\w{3,}", summary.title.text.casefold())
    return frozenset(words[:_MAX_TITLE_WORDS])
