"""What a search found, set for a terminal or a pipe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import PurePosixPath

from msgspec import Struct

from bygones.cli.screen import iso_time as iso
from bygones.cli.telling import since
from bygones.cli.terminal import Paint, width
from bygones.model.hits import Excerpt, Found, FoundSession, Hit
from bygones.model.query import Part
from bygones.render.figures import several
from bygones.render.safe import safe, safe_line

__all__ = ["SearchPage"]

_SHORT_ID = 8
_MARGIN = 4
_NAMES = {
    Part.PROMPT: "you",
    Part.REPLY: "Claude",
    Part.THINKING: "thinking",
    Part.TOOL: "call",
    Part.RESULT: "result",
    Part.TITLE: "title",
    Part.OTHER: "Claude Code",
}
_Word = list[tuple[str, bool]]
"""Pieces of a word, and whether each is marked."""


class SearchPage(Struct, frozen=True, kw_only=True):
    """How to set what was found."""

    now: datetime
    is_iso: bool
    room: int | None
    """Columns of the terminal; ``None``: lines are not broken."""
    paint: Paint
    first: int = 1
    """The number of the first session."""
    explains: bool = False
    """Whether to say how the order came about."""

    def lines(self, found: Found) -> Iterator[str]:
        """Yield the lines of each session, with a blank one between them."""
        for number, one in enumerate(found.sessions, self.first):
            if number > self.first:
                yield ""
            yield from self._session(number, one)

    def _session(self, number: int, one: FoundSession) -> Iterator[str]:
        mark = self.paint.place(f"{number:>2}")
        title = self._wrapped(_words(one.title), is_title=True)
        for at, line in enumerate(title):
            yield f"{mark}  {line}" if at == 0 else " " * _MARGIN + line
        yield " " * _MARGIN + self.paint.faint(self._facts(one))
        for share in one.shares if self.explains else ():
            counts = ", ".join(f"{_NAMES[part]} {n:,}" for part, n in share.records)
            told = safe_line(f"{share.word} {share.share:.0%}: {counts}")
            yield " " * _MARGIN + self.paint.faint(told)
        for hit in one.hits:
            label, said = self._label(hit), _words(hit.excerpt)
            if said and said[0] == [(safe(" ".join(hit.tools)), False)]:
                # The text of a call begins with its name, which the label says.
                said = said[1:]
            words = [[(label, False)], *said]
            for at, line in enumerate(self._wrapped(words, label=label)):
                yield " " * (_MARGIN + 2 * (at > 0)) + line

    def _facts(self, one: FoundSession) -> str:
        listed = one.listed
        path = (listed.project or "").replace("\\", "/")
        facts = [
            listed.id[:_SHORT_ID],
            PurePosixPath(path).name or path,
            iso(listed.ended) if self.is_iso else since(listed.ended, self.now),
            one.bound.before(several(one.total, "hit")) if one.total else "",
            f"also in {', '.join(id_[:_SHORT_ID] for id_ in one.also)}"
            if one.also
            else "",
        ]
        return safe_line(" · ".join(fact for fact in facts if fact))

    def _label(self, hit: Hit) -> str:
        name = "error" if hit.is_error else _NAMES[hit.part]
        told = [" ".join(hit.tools) or name]
        if hit.agent is not None:
            told.append(f"agent {hit.agent_type or hit.agent}".strip())
        if hit.is_rewound:
            told.append("rewound")
        return safe_line(", ".join(told)) + ":"

    def _wrapped(
        self, words: Sequence[_Word], *, label: str = "", is_title: bool = False
    ) -> Iterator[str]:
        room = None if self.room is None else max(self.room - _MARGIN - 2, 20)
        line: list[str] = []
        taken = 0
        for word in words:
            # Without colours a mark stands between signs.
            signs = 0 if self.paint.coloured else 2
            columns = sum(width(piece) + signs * marked for piece, marked in word)
            if line and room is not None and taken + 1 + columns > room:
                yield " ".join(line)
                line, taken = [], 0
            is_label = bool(label) and word == [(label, False)]
            line.append(self._painted(word, is_label=is_label, is_title=is_title))
            taken += columns + 1
        if line:
            yield " ".join(line)

    def _painted(self, word: _Word, *, is_label: bool, is_title: bool) -> str:
        paint = self.paint
        plain = paint.faint if is_label else paint.heading if is_title else str
        return "".join(
            paint.mark(piece) if marked else plain(piece) for piece, marked in word
        )


def _words(excerpt: Excerpt) -> list[_Word]:
    """Return the words of an excerpt, harmless, in pieces where marks begin or end."""
    pieces: list[tuple[str, bool]] = []
    at = 0
    for start, stop in excerpt.marks:
        pieces += [(excerpt.text[at:start], False), (excerpt.text[start:stop], True)]
        at = stop
    pieces.append((excerpt.text[at:], False))
    words: list[_Word] = [[]]
    if excerpt.is_begun:
        words[-1].append(("…", False))
    for text, marked in pieces:
        for number, part in enumerate(text.split(" ")):
            if number:
                words.append([])
            if part:
                words[-1].append((safe(part), marked))
    if excerpt.is_cut:
        words[-1].append(("…", False))
    return [word for word in words if word]
