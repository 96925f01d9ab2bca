"""What ``recollect show`` shows: a session of the archive, or one of some files."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from recollect.cli.choose import chosen_session
from recollect.cli.naming import session_named
from recollect.errors import ArchiveMissing, NotArchived, PathMissing
from recollect.model.ids import Position
from recollect.reading import read

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recollect.cli.options import Asked
    from recollect.model.finds import FoundRecord
    from recollect.model.sessions import Session

__all__ = ["found_session", "raw_lines"]


@contextmanager
def found_session(
    name: str, session: str | None, asked: Asked
) -> Iterator[tuple[Session, FoundRecord | None]]:
    """Give the session that is meant, and the record by which it was found.

    It can be read while the context lasts.
    """
    path = Path(name)
    if session is not None or os.path.lexists(path) or path.name != name:
        yield chosen_session(read(path.expanduser()), session), None
        return
    try:
        archive = asked.current()
    except ArchiveMissing as error:
        if asked.archive is not None:
            raise
        raise PathMissing(path) from error
    with archive:
        yield session_named(archive, name)


def raw_lines(session: Session, record: str | None) -> Iterator[bytes]:
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
