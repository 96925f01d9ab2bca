"""The original lines of a session: byte for byte, but for what must not leave."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct

from bygones.model.ids import Position, SourceId
from bygones.model.sessions import Session
from bygones.model.sources import Source, SourceKind
from bygones.render.redact import Finds, Redactor, is_private_line, redacted_line
from bygones.render.redact.personal import names_in

__all__ = ["Raws", "Transcript", "no_bytes", "transcripts"]

Raws = Callable[[SourceId], Iterator[bytes]]
"""Gives the bytes of a source, in pieces of any size."""


def no_bytes(_source: SourceId) -> Iterator[bytes]:
    """Give nothing, for whoever needs no original bytes."""
    return iter(())


class Transcript(Struct, frozen=True):
    """One file of a session, to be written."""

    name: str
    """Below the folder that is named for the session; empty for its own file."""
    raws: Iterator[bytes]


def transcripts(
    session: Session,
    raws: Raws,
    redactor: Redactor | None,
    finds: Finds,
    *,
    private: bool = False,
) -> Iterator[Transcript]:
    """Yield the files of a session, its own first, then its agents'.

    Without a redactor every line is what was written, byte for byte; with one, lines
    in which something is hidden are written anew. Private records are left out either
    way, unless they are asked for by themselves.
    """
    taken: set[str] = set()
    if redactor is not None:
        redactor = redactor.with_names(names_in(session.directories))
    for source in sorted(session.sources, key=lambda one: _rank(one, session)):
        name = "" if not taken else _name(source, taken)
        taken.add(name)
        pieces = raws(source.id)
        if redactor is not None:
            pieces = _told(source.id, pieces, redactor, finds)
        elif not private:
            pieces = _public(pieces, finds)
        yield Transcript(name, pieces)


def _rank(source: Source, session: Session) -> tuple[bool, bool, str]:
    is_other = source.kind is not SourceKind.SESSION
    return is_other, source.session != session.id, source.path


def _name(source: Source, taken: set[str]) -> str:
    """Return a name below the session's folder that no other file has."""
    # Only the last part of the path is taken: a name leads nowhere else.
    own = source.path.replace("\\", "/").rpartition("/")[2] or "transcript.jsonl"
    folder = "subagents/" if source.kind is SourceKind.AGENT else ""
    name = f"{folder}{own}"
    number = 2
    while name in taken:
        name = f"{folder}{own.removesuffix('.jsonl')}-{number}.jsonl"
        number += 1
    return name


def _told(
    source: SourceId, raws: Iterable[bytes], redactor: Redactor, finds: Finds
) -> Iterator[bytes]:
    offset = 0
    for line in _lines(raws):
        bare = line.removesuffix(b"\n")
        told, found = redacted_line(bare, redactor)
        finds.note(Position(source, 0, offset, len(bare)), found)
        if told is None:
            finds.private += 1
        else:
            yield told + line[len(bare) :]
        offset += len(line)


def _public(raws: Iterable[bytes], finds: Finds) -> Iterator[bytes]:
    for line in _lines(raws):
        if is_private_line(line):
            finds.private += 1
        else:
            yield line


def _lines(raws: Iterable[bytes]) -> Iterator[bytes]:
    """Yield lines with their ends, however the bytes come."""
    rest = b""
    for raw in raws:
        lines = (rest + raw).split(b"\n")
        rest = lines.pop()
        yield from (line + b"\n" for line in lines)
    if rest:
        yield rest
