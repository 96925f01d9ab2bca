"""What was hidden, told so that a person can check it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import msgspec
from msgspec import Struct

from bygones.model.ids import SessionId
from bygones.render.figures import several
from bygones.render.redact import Finds

__all__ = ["HiddenRow", "Tally"]

_PERSONS = {
    "home": ("home folder", ""),
    "user": ("user name", ""),
    "email": ("mail address", "mail addresses"),
}


class HiddenRow(Struct, frozen=True, kw_only=True):
    """One replacement: what kind of thing it was, and where it stood."""

    session: SessionId
    source: str
    """The file of the home."""
    offset: int
    """Where the line begins."""
    text: str
    """The text of the record that held it, such as ``content[0].input.command``."""
    kind: str
    start: int
    """Where it stood in that text, in signs."""
    end: int


class Tally:
    """Adds up what was hidden in one session after the other."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.private = 0
        self.rows: list[HiddenRow] = []

    def add(self, session: SessionId, finds: Finds, *, keep: bool = False) -> None:
        """Take in what was found in a session; ``keep`` the places for a report."""
        self.counts.update(finds.counts())
        self.private += finds.private
        if keep:
            self.rows.extend(_rows(session, finds))

    def report(self) -> bytes:
        """Return the report: a line of JSON for each replacement."""
        return b"".join(msgspec.json.encode(row) + b"\n" for row in self.rows)

    def sentence(self) -> str:
        """Return what was hidden in words; nothing if nothing was."""
        parts = [
            several(count, *_PERSONS.get(kind, (kind, "")))
            for kind, count in self.counts.most_common()
        ]
        if self.private:
            parts.append(several(self.private, "private record"))
        return f"hidden: {', '.join(parts)}" if parts else ""


def _rows(session: SessionId, finds: Finds) -> Iterator[HiddenRow]:
    for position, found in finds.records.items():
        for one in found:
            yield HiddenRow(
                session=session,
                source=position.source,
                offset=position.offset,
                text=one.within.removeprefix("."),
                kind=one.kind,
                start=one.start,
                end=one.end,
            )
