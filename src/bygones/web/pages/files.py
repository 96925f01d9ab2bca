"""The page of files: what sessions changed, and what became of a file over time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from html import escape

from msgspec import Struct
from starlette.responses import Response

from bygones.archive import Archive
from bygones.model.changes import hunks_of
from bygones.model.finds import FoundEdit
from bygones.model.listing import Listed
from bygones.model.sessions import ToolCall
from bygones.render.figures import several
from bygones.render.html.diff import diff
from bygones.render.html.markup import (
    NOTHING,
    Html,
    anchor,
    facts,
    joined,
    tag,
    words,
)
from bygones.web.frame import Frame, address, empty, framed, link, stamp, table
from bygones.web.pages.home import everything
from bygones.web.readers import OpenSession
from bygones.web.reading import reading_of
from bygones.web.visit import Visit

__all__ = ["files"]

_MOST = 300
_DIFFS = 60


class _Changed(Struct, kw_only=True):
    """A file, or a session, and how much was changed there."""

    name: str
    changes: int = 0
    added: int = 0
    removed: int = 0
    last: datetime | None = None
    others: set[str]
    """The sessions that changed the file, or the files that the session changed."""

    def add(self, edit: FoundEdit, other: str) -> None:
        """Count one more change."""
        self.changes += 1
        self.added += edit.added
        self.removed += edit.removed
        self.last = edit.time or self.last
        self.others.add(other)


def files(visit: Visit) -> Response:
    """Answer with the files of a session, the sessions of a file, or the newest."""
    session, path = visit.text("session", 200), visit.text("path")
    if session and path:
        return _over_time(visit, session, path)
    if session:
        return _of_session(visit, session)
    return _of_path(visit, path)


def _framed(title: str, *main: Html, path: str = "") -> Response:
    form = Html(
        '<form class="filters" action="/files"><input type="search" name="path" '
        'placeholder="A file, a folder, or how its path ends" '
        f'aria-label="Path" value="{escape(path)}"><button>Show</button></form>'
    )
    frame = Frame(title=title, way="/files", kind="wide")
    return framed(frame, (tag("h1", words(title)), form, *main))


def _of_path(visit: Visit, path: str) -> Response:
    """Show which sessions changed a file; for a folder, which files changed."""
    with visit.readers.archive() as archive:
        edits = archive.edits(path=path)
    paths = {edit.path for edit in edits}
    if len(paths) == 1:
        return _of_file(visit, next(iter(paths)), edits)
    changed: dict[str, _Changed] = {}
    for edit in edits:
        one = changed.setdefault(edit.path, _Changed(name=edit.path, others=set()))
        one.add(edit, edit.session)
    title = f"Files in {path}" if path else "Files"
    if not changed:
        return _framed(title, empty("No session changed such a file."), path=path)
    rows = sorted(changed.values(), key=_newest, reverse=True)
    lines = [
        (
            link(address("files", path=one.name), words(one.name)),
            words(f"{len(one.others):,}"),
            *_counts(one, visit.now),
        )
        for one in rows[:_MOST]
    ]
    newest = f", the newest {len(lines):,} shown" if len(lines) < len(rows) else ""
    count = words(f"{several(len(rows), 'file')}{newest}")
    heads = ("File", "Sessions", *_HEADS)
    return _framed(title, tag("p", count, kind="note"), table(heads, lines), path=path)


_HEADS = ("Changes", "Lines", "Last")


def _newest(one: _Changed) -> float:
    return one.last.timestamp() if one.last else 0.0


def _counts(one: _Changed, now: datetime) -> tuple[Html, Html, Html]:
    lines = joined(
        (
            tag("span", words(f"+{one.added:,}"), kind="added"),
            tag("span", words(f"\N{MINUS SIGN}{one.removed:,}"), kind="removed"),
        ),
        " ",
    )
    return words(f"{one.changes:,}"), lines, stamp(one.last, now)


def _of_file(visit: Visit, path: str, edits: Sequence[FoundEdit]) -> Response:
    known = {str(one.id): one for one in visit.readers.told("sessions", everything)}
    changed: dict[str, _Changed] = {}
    for edit in edits:
        one = changed.setdefault(
            edit.session, _Changed(name=edit.session, others=set())
        )
        one.add(edit, edit.path)
    rows = sorted(changed.values(), key=_newest, reverse=True)
    lines = [
        (
            link(
                address("files", session=one.name, path=path),
                words(_title(known.get(one.name), one.name)),
            ),
            *_counts(one, visit.now),
        )
        for one in rows[:_MOST]
    ]
    return _framed(path, table(("Session", *_HEADS), lines), path=path)


def _title(one: Listed | None, name: str) -> str:
    return one.title.text if one and one.title.text else name


def _of_session(visit: Visit, name: str) -> Response:
    with visit.readers.archive() as archive:
        listed, edits = _edits(archive, name)
    changed: dict[str, _Changed] = {}
    for edit in edits:
        one = changed.setdefault(edit.path, _Changed(name=edit.path, others=set()))
        one.add(edit, edit.session)
    lines = [
        (
            link(address("files", session=listed.id, path=one.name), words(one.name)),
            *_counts(one, visit.now),
        )
        for one in changed.values()
    ]
    back = tag("p", link(address("session", listed.id), words(listed.title.text)))
    shown = table(("File", *_HEADS), lines) if lines else empty("It changed no file.")
    return _framed("What a session changed", back, shown)


def _edits(archive: Archive, name: str) -> tuple[Listed, list[FoundEdit]]:
    listed = archive.listed(name)
    return listed, archive.edits(session=listed.id)


def _over_time(visit: Visit, name: str, path: str) -> Response:
    with visit.readers.session(name) as held:
        listed = held.listed
        edits = _edits_over_time(held, path)
        shown = joined(_diffs(listed, edits[:_DIFFS]))
    back = tag(
        "p",
        joined(
            (
                link(address("session", listed.id), words(listed.title.text)),
                link(address("files", path=path), words("all sessions of this file")),
            ),
            " · ",
        ),
    )
    rest = len(edits) - _DIFFS
    more = tag("p", words(f"{rest:,} more"), kind="note") if rest > 0 else NOTHING
    return _framed(path, back, shown or empty("No change is known."), more, path=path)


class _Edit(Struct, frozen=True):
    """A change of a file, and where it was made."""

    call: ToolCall
    agent: str
    branch: int

    @property
    def time(self) -> datetime | None:
        """When it was answered that it was made."""
        return self.call.answer_time or self.call.time


def _edits_over_time(held: OpenSession, path: str) -> list[_Edit]:
    """Return the changes of a file, oldest first, without opening all of a session."""
    found = held.archive.edits(session=held.listed.id)
    ways = dict.fromkeys((e.agent or "", e.branch) for e in found if e.path == path)
    edits = [
        _Edit(call, *way) for way in ways for call in reading_of(held, *way).edits(path)
    ]
    return sorted(edits, key=lambda one: one.time.timestamp() if one.time else 0.0)


def _diffs(listed: Listed, edits: Sequence[_Edit]) -> Iterator[Html]:
    for edit in edits:
        call, facts_of = edit.call, edit.call.facts
        place: dict[str, object] = {"at": anchor("c", call.id)}
        parts = ["session", listed.id]
        if edit.agent:
            parts += ["agent", anchor("a", edit.agent)]
        elif edit.branch:
            place["branch"] = edit.branch
        when = (
            f"{edit.time.astimezone():%Y-%m-%d %H:%M}" if edit.time else "at some time"
        )
        added, removed = (facts_of.added, facts_of.removed) if facts_of else (0, 0)
        told = [
            "made it" if facts_of and facts_of.is_new else "",
            f"+{added} \N{MINUS SIGN}{removed}",
            f"by agent {edit.agent}" if edit.agent else "",
            "left behind by a rewind" if edit.branch else "",
        ]
        heading = joined(
            (link(address(*parts, **place), words(when)), facts(told)), " · "
        )
        yield tag("h2", heading, kind="turn")
        yield diff(hunks_of(call.outcome, call.input))
