"""The page about the archive itself: where it is, what it holds, how it is."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from starlette.responses import Response

from bygones import __version__
from bygones.archive import Archive
from bygones.model.listing import Listed
from bygones.model.sources import SourceKind
from bygones.render.figures import several, size
from bygones.render.html.markup import Html, joined, tag, text, words
from bygones.render.verdicts import verified_words
from bygones.settings import CLEANUP_DAYS, cleanup_days
from bygones.sources import path_text
from bygones.web.frame import Frame, address, framed, link, since, table
from bygones.web.pages.home import everything
from bygones.web.visit import Visit

__all__ = ["about"]

_NEXT = 10
"""Sessions that are told of, those that go next."""


def about(visit: Visit) -> Response:
    """Answer with what there is to know of the archive."""
    readers = visit.readers
    sessions = readers.told("sessions", everything)
    files, gone, kept = readers.told("files", _files)
    shown = sum(not one.is_empty for one in sessions)
    rows = [
        ("Bygones", __version__),
        *(_place(visit, readers.folder) if readers.folder else ()),
        ("Keeps", f"{several(files, 'file')}, {size(kept)} as they were"),
        ("Deleted since", several(gone, "file") + " that only the archive has"),
        ("Sessions", f"{shown:,}, and {len(sessions) - shown:,} without a message"),
    ]
    if readers.folder:
        homes = ", ".join(map(path_text, visit.house.homes))
        rows.append(("Watches", homes or "nothing"))
    lines = joined(
        joined((tag("dt", words(name)), tag("dd", text(told)))) for name, told in rows
    )
    main = (
        tag("h1", words("About this archive")),
        tag("dl", lines, kind="facts-list"),
        *_expiring(visit),
        _ALONE if readers.folder else _SHARED,
    )
    return framed(Frame(title="About", way="/about"), main)


_ALONE = Html(
    '<p class="note">Nothing here leaves this machine: the page loads nothing '
    "from elsewhere, and only whoever has opened the link that "
    "<code>bygones serve</code> printed can read it.</p>"
)
_SHARED = Html(
    '<p class="note">This is a hub: it shows what people have pushed to it, masked, '
    "as far as your token lets you see it.</p>"
)


def _place(visit: Visit, folder: Path) -> tuple[tuple[str, str], ...]:
    with visit.readers.archive() as archive:
        found = archive.verified
    when = since(found.time, visit.now) if found else ""
    return (
        ("Archive", path_text(folder)),
        ("On disk", size(_on_disk(folder))),
        ("Verified", verified_words(found, when)),
    )


def _expiring(visit: Visit) -> Iterator[Html]:
    """Yield what Claude Code will delete next from the homes that are watched."""
    for home in visit.house.homes:
        days = cleanup_days(home)
        period = timedelta(days=CLEANUP_DAYS if days is None else days)
        name = home.as_posix()
        rows = visit.readers.told(f"oldest {name}", partial(_oldest, home=name))
        lines = [
            (
                link(address("session", one.id), words(one.title.text)),
                words(several(max((time + period - visit.now).days, 0), "day")),
            )
            for time, one in rows
        ]
        told = f"What Claude Code deletes next from {path_text(home)}"
        yield tag("h2", words(told))
        note = f"It deletes after {period.days} days"
        end = ", unless it is told otherwise." if days is None else ", as it was told."
        yield tag("p", words(note + end), kind="note")
        yield table(("Session", "Days left"), lines)


def _oldest(archive: Archive, home: str) -> list[tuple[datetime, Listed]]:
    known = {str(one.id): one for one in archive.sessions()}
    found = []
    for kept in archive.sources():
        one = known.get(str(kept.session))
        is_own = kept.kind is SourceKind.SESSION and kept.home == home
        if one is not None and is_own and kept.gone_ns is None:
            found.append((datetime.fromtimestamp(kept.mtime_ns / 1e9, UTC), one))
    found.sort(key=lambda pair: pair[0])
    return found[:_NEXT]


def _files(archive: Archive) -> tuple[int, int, int]:
    kept = archive.sources()
    return (
        len(kept),
        sum(one.gone_ns is not None for one in kept),
        sum(one.kept for one in kept),
    )


def _on_disk(folder: Path) -> int:
    return sum(_sizes(folder))


def _sizes(folder: Path) -> Iterator[int]:
    for path in folder.rglob("*"):
        try:
            yield path.stat().st_size if path.is_file() else 0
        except OSError:
            continue
