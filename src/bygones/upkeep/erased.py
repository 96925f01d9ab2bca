"""Knowing a session again that was purged before."""

from __future__ import annotations

import re
from collections.abc import Iterator

from bygones.errors import Ambiguous
from bygones.model.ids import SessionId
from bygones.store.chunks import Chunks
from bygones.store.purged import erased_signs, session_sign, unfinished
from bygones.upkeep.belongings import shared_raws

__all__ = ["erased"]

_LONGEST = 100
"""Signs of an id; longer than any that Claude Code gives."""


def erased(chunks: Chunks, name: str) -> SessionId | None:
    """Return the session that was purged under this id, or under one that begins so.

    Of what was purged only hashes are kept, so that a beginning is enough only while
    the purge is not done, or where a file of no session still names it.
    """
    signs = erased_signs(chunks.db)
    if not name or session_sign(SessionId(name)) in signs:
        return SessionId(name) or None
    found = {id_ for id_ in unfinished(chunks.db) if id_.startswith(name)}
    found |= {id_ for id_ in _mentioned(chunks, name) if session_sign(id_) in signs}
    if len(found) > 1:
        raise Ambiguous("session", name, sorted(found))
    return next(iter(found), None)


def _mentioned(chunks: Chunks, beginning: str) -> Iterator[SessionId]:
    """Yield all strings that begin so in files of no session, such as the history."""
    start = re.escape(beginning.encode())
    pattern = re.compile(rb'"(' + start + rb'[^"\\]{0,%d})"' % _LONGEST)
    for _, raw in shared_raws(chunks):
        for match in pattern.finditer(raw):
            yield SessionId(match[1].decode("utf-8", "replace"))
