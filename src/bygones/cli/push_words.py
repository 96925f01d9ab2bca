"""What is said of a push: what went, what was hidden, what stayed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from bygones.cli.rows import PushedRow
from bygones.cli.terminal import plain, table
from bygones.render.figures import several, size

if TYPE_CHECKING:
    from bygones.push import Pushed

__all__ = ["pushed_lines", "pushed_row"]


_ERASED = "{} erased on the hub and not sent again"
_UNNAMED = "{} whose name cannot be sent"


def pushed_lines(done: Pushed, hub: str, *, is_dry: bool) -> Iterator[str]:
    """Yield what a push did, or would do; the calm case is one line."""
    verb = "would send" if is_dry else "sent"
    if not done.named:
        yield f"{verb} nothing: no session was begun in the projects that are named"
    elif not done.files:
        yield f"{verb} nothing{_why(done) if hub else ''}"
    else:
        what = (
            f"{several(len(done.sessions), 'session')}, {several(done.files, 'file')}"
        )
        yield (
            f"{verb} {what}, {several(done.lines, 'line')}: {size(done.bytes)}, "
            f"{size(done.packed)} packed{f', to {hub}' if hub else ''}"
        )
    if is_dry and done.projects:
        yield from _projects(done)
    if done.hidden:
        kinds = sorted(done.hidden.items(), key=lambda pair: (-pair[1], pair[0]))
        yield "hidden: " + ", ".join(f"{number:,} {kind}" for kind, number in kinds)
    stayed = (
        (done.private, "private record", "private records"),
        (done.foreign, "line of other projects", "lines of other projects"),
        (done.shared, "file of other projects too", "files of other projects too"),
        (done.too_long, "line too long to send", "lines too long to send"),
        (done.damaged, "damaged file", "damaged files"),
        (done.unnamed, _UNNAMED.format("file"), _UNNAMED.format("files")),
        (len(done.erased), _ERASED.format("session"), _ERASED.format("sessions")),
    )
    told = [several(number, one, many) for number, one, many in stayed if number]
    if told:
        yield "stayed here: " + ", ".join(told)


def _why(done: Pushed) -> str:
    """Return why nothing was sent."""
    if len(done.erased) == done.named:
        return ": all that was named was erased on the hub"
    return ": the hub has all the rest" if done.erased else ": the hub has it all"


def _projects(done: Pushed) -> Iterator[str]:
    rows = [
        (
            plain(name or "(no session)"),
            several(len(share.sessions), "session"),
            several(share.files, "file"),
            several(share.lines, "line"),
            size(share.bytes),
        )
        for name, share in sorted(done.projects.items())
    ]
    yield from (f"  {line}" for line in table(rows, right=" rrrr"))


def pushed_row(done: Pushed, *, is_dry: bool) -> PushedRow:
    """Return a push as a row."""
    return PushedRow(
        is_dry=is_dry,
        sessions=tuple(sorted(done.sessions)),
        files=done.files,
        lines=done.lines,
        bytes=done.bytes,
        packed=done.packed,
        parcels=done.parcels,
        hidden=dict(done.hidden),
        private=done.private,
        foreign=done.foreign,
        shared=done.shared,
        too_long=done.too_long,
        damaged=done.damaged,
        unnamed=done.unnamed,
        refused=done.refused,
        erased=tuple(sorted(done.erased)),
    )
