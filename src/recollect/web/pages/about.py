"""The page about the archive itself: where it is, what it holds, how it is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from starlette.responses import Response

from recollect import __version__
from recollect.archive import Archive
from recollect.render.figures import several, size
from recollect.render.html.markup import Html, joined, tag, text, words
from recollect.sources import path_text
from recollect.web.frame import Frame, framed
from recollect.web.pages.home import everything
from recollect.web.visit import Visit

__all__ = ["about"]


def about(visit: Visit) -> Response:
    """Answer with what there is to know of the archive."""
    readers = visit.readers
    sessions = readers.told("sessions", everything)
    files, gone, kept = readers.told("files", _files)
    shown = sum(not one.is_empty for one in sessions)
    rows = [
        ("Recollect", __version__),
        ("Archive", path_text(readers.folder)),
        ("On disk", size(_on_disk(readers.folder))),
        ("Keeps", f"{several(files, 'file')}, {size(kept)} as they were"),
        ("Deleted since", several(gone, "file") + " that only the archive has"),
        ("Sessions", f"{shown:,}, and {len(sessions) - shown:,} without a message"),
        ("Watches", ", ".join(map(path_text, visit.house.homes)) or "nothing"),
    ]
    lines = joined(
        joined((tag("dt", words(name)), tag("dd", text(told)))) for name, told in rows
    )
    main = (
        tag("h1", words("About this archive")),
        tag("dl", lines, kind="facts-list"),
        Html(
            '<p class="note">Nothing here leaves this machine: the page loads nothing '
            "from elsewhere, and only whoever has opened the link that "
            "<code>recollect serve</code> printed can read it.</p>"
        ),
    )
    return framed(Frame(title="About", way="/about"), main)


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
