"""What ``bygones show`` shows: a session of the archive, or one of some files."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click
from msgspec.structs import replace

from bygones.cli.choose import chosen_session
from bygones.cli.naming import recalled, session_named
from bygones.cli.paths import NO_PATH
from bygones.errors import ArchiveMissing, NotArchived, PathMissing
from bygones.model.ids import Position
from bygones.model.query import Part
from bygones.reading import read
from bygones.render.safe import safe_json
from bygones.render.window import place_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bygones.cli.options import Asked
    from bygones.model.finds import FoundRecord
    from bygones.model.sessions import Session
    from bygones.render.walk import View

__all__ = ["Shown", "at_hit", "found_session", "print_raw"]

_BEFORE = 2
_BEHIND = 10
"""Messages that are shown before a hit, and from it on."""


class Shown(NamedTuple):
    """A session, and what of it was named."""

    session: Session
    record: FoundRecord | None = None
    hit: Part | None = None
    """What the record is, if it was named as a hit of the last search."""


def at_hit(shown: Shown, view: View) -> View:
    """Return a view of the messages around a hit in which the hit is to be seen."""
    record, hit = shown.record, shown.hit
    if record is None or hit is None:
        return view
    names = {str(record.id), *([str(record.agent)] if record.agent else [])}
    at = place_of(shown.session, view.branch, names)
    if at is None:
        return view
    return replace(
        view,
        start=max(at - _BEFORE, 0),
        stop=at + _BEHIND,
        agents=view.agents or bool(record.agent),
        thinking=view.thinking or hit is Part.THINKING,
        tools=view.tools or hit in {Part.TOOL, Part.RESULT},
    )


@contextmanager
def found_session(name: str, session: str | None, asked: Asked) -> Iterator[Shown]:
    """Give the session that is meant, and the record by which it was found.

    It can be read while the context lasts.
    """
    if not name.strip():
        raise click.UsageError(NO_PATH)
    path = Path(name)
    if session is not None or os.path.lexists(path) or path.name != name:
        yield Shown(chosen_session(read(path.expanduser()), session))
        return
    try:
        archive = asked.current()
    except ArchiveMissing as error:
        if asked.archive is not None or not path.suffix:
            raise
        raise PathMissing(path) from error
    with archive:
        lately = recalled(name, archive)
        yield Shown(*session_named(archive, name), lately.part if lately else None)


def print_raw(shown: Shown, around: str | None, *, on_terminal: bool) -> None:
    """Print lines as Claude Code wrote them; a terminal gets none that steer it."""
    record = shown.record if around is None else None
    lines = [record.raw] if record else _raw_lines(shown.session, around)
    for line in lines:
        if on_terminal or not hasattr(sys.stdout, "buffer"):
            sys.stdout.write(safe_json(line.decode("utf-8", "replace")) + "\n")
        else:
            sys.stdout.buffer.write(line + b"\n")


def _raw_lines(session: Session, record: str | None) -> Iterator[bytes]:
    """Yield the lines of a session as Claude Code wrote them, or that of a record."""
    places = _places(session)
    if record is not None:
        places = {place: id_ for place, id_ in places.items() if id_ == record}
        if not places:
            raise NotArchived("record", record)
    for place in sorted(places):
        yield session.loader.raw(place)


def _places(session: Session) -> dict[Position, str | None]:
    """Return where the session's records stand, shown or hidden, with their ids."""
    places: dict[Position, str | None] = {}
    for hidden in session.hidden:
        places[hidden.position] = hidden.record
    branches = (*session.branches, *(b for a in session.all_agents for b in a.branches))
    for branch in branches:
        for turn in branch.own:
            for message in turn.messages:
                pieces = (*message.pieces, *message.attached)
                for piece in pieces:
                    places[piece.position] = piece.record
                for call in message.calls:
                    if call.answered_at is not None:
                        places[call.answered_at] = call.answer_record
    return places
