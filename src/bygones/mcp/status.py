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
from bygones.mcp.naming import plain_id
from bygones.mcp.telling import first_line
from bygones.model.listing import Listed
from bygones.model.query import Period, Query
from bygones.model.reports import Grouping, UsageRow
from bygones.prices import load_prices
from bygones.render.figures import money, several

__all__ = ["status_line"]

_FILES = 20
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
            here = _here(archive, asked)
            told = [
                several(len(here), "session") if here else "no session here yet",
                _today(archive, now.astimezone(zone), prices),
                _similar(archive, asked, here),
            ]
    except BygonesError:
        return ""
    return " · ".join(filter(None, told))


def _here(archive: Archive, asked: _About) -> list[Listed]:
    """Return the sessions of the project one is in, or below it, newest first."""
    everything = list(archive.sessions())
    known = {one.project for one in everything}
    for place in (PurePath(asked.cwd), *PurePath(asked.cwd).parents):
        if str(place) in known:
            below = (f"{place}/", f"{place}\\")
            return [
                one
                for one in everything
                if one.project == str(place) or (one.project or "").startswith(below)
            ]
    return []


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


def _similar(archive: Archive, asked: _About, here: Sequence[Listed]) -> str:
    """Return the session of this project that is most like this one, if one is.

    Most like is what changed most of the same files, and of those what shares most
    words of the title; without a file in common it needs more than half of the words.
    The newer of two counts.
    """
    own = next((one for one in here if one.id == asked.session_id), None)
    if own is None:
        return ""
    shared = _shared_files(archive, own)
    words = _words(own)
    kin = {own.id, *(lineage.session for lineage in own.lineage)}
    best, most = None, (0, len(words) // 2)
    for one in here:
        if one.id in kin or own.id in {lineage.session for lineage in one.lineage}:
            continue
        score = (shared.get(one.id, 0), len(words & _words(one)))
        if score > most:
            best, most = one, score
    if best is None:
        return ""
    return f"like {plain_id(best.id)} {first_line(best.title.text, _TITLE)}"


def _shared_files(archive: Archive, own: Listed) -> Mapping[str, int]:
    """Return how many files that a session changed last other sessions changed too."""
    paths = [edit.path for edit in reversed(archive.edits(session=own.id))]
    found: Counter[str] = Counter()
    for path in [*dict.fromkeys(paths)][:_FILES]:
        found.update({edit.session for edit in archive.edits(path=path)})
    return found


def _words(one: Listed) -> frozenset[str]:
    return frozenset(re.findall(r"\w{3,}", one.title.text.casefold())[:_WORDS])
