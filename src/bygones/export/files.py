"""Writing files whole or not at all."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from pathlib import Path

from msgspec import Struct

from bygones.model.base import Position, SourceFile, SourceId, SourceKind
from bygones.model.sessions import Session
from bygones.redact.engine import Redactor
from bygones.redact.json import is_private_line, redact_line
from bygones.redact.personal import login_names_in
from bygones.redact.session import RedactionLog

_PRIVATE_MODE = 0o600
_SHARED_MODE = 0o666
"""As far as the user's umask lets it."""
_CHUNK_CHARS = 128 * 1024
"""Signs that are written at once."""
_SIMPLE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,80}\Z")


def write_atomic(path: Path, chunks: Iterable[bytes], *, private: bool = False) -> int:
    """Write a file beside its place and move it there; return its size.

    Whoever reads the old one goes on with it. If making the pieces fails, nothing
    has changed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.exporting")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0)
    try:
        mode = _PRIVATE_MODE if private else _SHARED_MODE
        with os.fdopen(os.open(beside, flags, mode), "wb") as file:
            size = sum(file.write(piece) for piece in chunks)
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    return size


def write_if_changed(path: Path, content: bytes, *, private: bool = False) -> bool:
    """Write a file unless it holds the same already; return whether it was written."""
    if (
        path.is_file()
        and path.stat().st_size == len(content)
        and path.read_bytes() == content
    ):
        return False
    write_atomic(path, [content], private=private)
    return True


def encode_chunks(texts: Iterable[str]) -> Iterator[bytes]:
    """Yield texts as bytes, many small ones at once."""
    waiting: list[str] = []
    size = 0
    for text in texts:
        waiting.append(text)
        size += len(text)
        if size > _CHUNK_CHARS:
            yield "".join(waiting).encode("utf-8", "replace")
            waiting, size = [], 0
    yield "".join(waiting).encode("utf-8", "replace")


def make_file_name(id_: str) -> str:
    """Return a name for a session's file; an odd id gives way to its hash."""
    if _SIMPLE_NAME.match(id_):
        return id_
    return sha256(id_.encode("utf-8", "surrogatepass")).hexdigest()[:32]


SourceOpener = Callable[[SourceId], Iterator[bytes]]
"""Gives the bytes of a source, in pieces of any size."""


def open_nothing(_source: SourceId) -> Iterator[bytes]:
    """Give nothing, for whoever needs no original bytes."""
    return iter(())


class TranscriptFile(Struct, frozen=True):
    """One file of a session, to be written."""

    name: str
    """Below the folder that is named for the session; empty for its own file."""
    chunks: Iterator[bytes]


def iter_transcript_files(
    session: Session,
    open_source: SourceOpener,
    redactor: Redactor | None,
    log: RedactionLog,
    *,
    include_private: bool = False,
) -> Iterator[TranscriptFile]:
    """Yield the files of a session, its own first, then its agents'.

    Without a redactor every line is what was written, byte for byte; with one, lines
    in which something is hidden are written anew. Private records are left out either
    way, unless they are asked for by themselves.
    """
    taken: set[str] = set()
    if redactor is not None:
        redactor = redactor.with_names(login_names_in(session.directories))
    for source in sorted(session.sources, key=lambda one: _sort_key(one, session)):
        name = "" if not taken else _unique_name(source, taken)
        taken.add(name)
        pieces = open_source(source.id)
        if redactor is not None:
            pieces = _redact_lines(source.id, pieces, redactor, log)
        elif not include_private:
            pieces = _drop_private_lines(pieces, log)
        yield TranscriptFile(name, pieces)


def _sort_key(source: SourceFile, session: Session) -> tuple[bool, bool, str]:
    is_other = source.kind is not SourceKind.SESSION
    return is_other, source.session_id != session.id, source.relative_path


def _unique_name(source: SourceFile, taken: set[str]) -> str:
    """Return a name below the session's folder that no other file has."""
    # Only the last part of the path is taken: a name leads nowhere else.
    own = (
        source.relative_path.replace("\\", "/").rpartition("/")[2] or "transcript.jsonl"
    )
    folder = "subagents/" if source.kind is SourceKind.AGENT else ""
    name = f"{folder}{own}"
    number = 2
    while name in taken:
        name = f"{folder}{own.removesuffix('.jsonl')}-{number}.jsonl"
        number += 1
    return name


def _redact_lines(
    source: SourceId, chunks: Iterable[bytes], redactor: Redactor, log: RedactionLog
) -> Iterator[bytes]:
    offset = 0
    for line in _split_lines(chunks):
        bare = line.removesuffix(b"\n")
        told, found = redact_line(bare, redactor)
        log.add(Position(source, 0, offset, len(bare)), found)
        if told is None:
            log.private_records += 1
        else:
            yield told + line[len(bare) :]
        offset += len(line)


def _drop_private_lines(chunks: Iterable[bytes], log: RedactionLog) -> Iterator[bytes]:
    for line in _split_lines(chunks):
        if is_private_line(line):
            log.private_records += 1
        else:
            yield line


def _split_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield lines with their ends, however the bytes come."""
    rest = b""
    for raw in chunks:
        lines = (rest + raw).split(b"\n")
        rest = lines.pop()
        yield from (line + b"\n" for line in lines)
    if rest:
        yield rest
