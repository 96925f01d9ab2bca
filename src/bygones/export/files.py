"""Write exported files atomically, and transcripts as JSONL."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from pathlib import Path

from msgspec import Struct

from bygones.model.assembled import as_conversation
from bygones.model.base import Position, SessionId, SourceFile, SourceId, SourceKind
from bygones.model.conversations import Conversation
from bygones.model.sessions import Session
from bygones.redact.engine import Redactor
from bygones.redact.json import redact_line, remove_private
from bygones.redact.personal import login_names_in
from bygones.redact.session import RedactionLog
from bygones.sources.lines import iter_raw_lines

_PRIVATE_MODE = 0o600
_SHARED_MODE = 0o664
_PRIVATE_FOLDER_MODE = 0o700
_SHARED_FOLDER_MODE = 0o775
"""Before the umask is applied; nothing is writable for everyone."""
_CHUNK_CHARS = 128 * 1024
_SIMPLE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,80}\Z")


def write_atomic(path: Path, chunks: Iterable[bytes], *, private: bool = False) -> int:
    """Write a temporary file and rename it; return the size.

    If producing the chunks fails, the old file is unchanged. A pipe or a device is
    written to, not replaced.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        with path.open("wb") as file:
            return sum(file.write(chunk) for chunk in chunks)
    create_folder(path.parent, private=private)
    temporary = path.with_name(f".{path.name}.exporting")
    # A file that was left there, or a link, would keep its mode or lead elsewhere.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    temporary.unlink(missing_ok=True)
    try:
        mode = _PRIVATE_MODE if private else _SHARED_MODE
        with os.fdopen(os.open(temporary, flags, mode), "wb") as file:
            size = sum(file.write(chunk) for chunk in chunks)
        temporary.replace(path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename == os.fspath(temporary):
            error.filename = os.fspath(path)
        raise
    return size


def create_folder(path: Path, *, private: bool = False) -> None:
    """Create a folder and those above it that are missing."""
    mode = _PRIVATE_FOLDER_MODE if private else _SHARED_FOLDER_MODE
    missing = [folder for folder in (path, *path.parents) if not folder.is_dir()]
    for folder in reversed(missing):
        folder.mkdir(mode, exist_ok=True)


def write_if_changed(path: Path, content: bytes, *, private: bool = False) -> bool:
    """Write a file unless its content is the same; return whether it was written."""
    if (
        path.is_file()
        and path.stat().st_size == len(content)
        and path.read_bytes() == content
    ):
        return False
    write_atomic(path, [content], private=private)
    return True


def encode_chunks(texts: Iterable[str]) -> Iterator[bytes]:
    """Encode texts as UTF-8, joining small ones."""
    pending: list[str] = []
    size = 0
    for text in texts:
        pending.append(text)
        size += len(text)
        if size > _CHUNK_CHARS:
            yield "".join(pending).encode("utf-8", "replace")
            pending, size = [], 0
    yield "".join(pending).encode("utf-8", "replace")


def make_file_name(id_: str) -> str:
    """Return a file name for a session: its id, or a hash of an unusual id."""
    if _SIMPLE_NAME.match(id_):
        return id_
    return sha256(id_.encode("utf-8", "surrogatepass")).hexdigest()[:32]


SourceOpener = Callable[[SourceId], Iterator[bytes]]
"""Returns the bytes of a source in chunks of any size."""


def open_nothing(_source: SourceId) -> Iterator[bytes]:
    """Return no bytes, for exports that do not need the original ones."""
    return iter(())


class TranscriptFile(Struct, frozen=True):
    """A transcript of a session, or of one of its agents."""

    name: str
    """Path relative to the folder of the session; empty for its own transcript."""
    chunks: Iterator[bytes]


def iter_transcript_files(
    source: Session | Conversation,
    open_source: SourceOpener,
    redactor: Redactor | None,
    log: RedactionLog,
    *,
    include_private: bool = False,
) -> Iterator[TranscriptFile]:
    """Yield the transcript of a session, then those of its agents.

    Lines without redactions stay byte-identical. Private records are left out, unless
    there is no redactor and ``include_private`` is set.
    """
    used_names: set[str] = set()
    conversation = as_conversation(source)
    header = conversation.facts
    if redactor is not None:
        redactor = redactor.with_accounts(login_names_in(header.directories))
    for file in sorted(conversation.sources, key=lambda one: _sort_key(one, header.id)):
        name = _unique_name(file, used_names) if used_names else ""
        used_names.add(name)
        chunks = open_source(file.id)
        if redactor is not None:
            chunks = _redact_lines(file.id, chunks, redactor, log)
        elif not include_private:
            chunks = _drop_private_lines(chunks, log)
        yield TranscriptFile(name, chunks)


def _sort_key(source: SourceFile, session: SessionId) -> tuple[bool, bool, str]:
    is_not_session = source.kind is not SourceKind.SESSION
    return is_not_session, source.session_id != session, source.relative_path


def _unique_name(source: SourceFile, used_names: set[str]) -> str:
    # Only the last part of the path, so that no file is written outside the folder.
    base = source.relative_path.replace("\\", "/").rpartition("/")[2]
    base = base or "transcript.jsonl"
    folder = "subagents/" if source.kind is SourceKind.AGENT else ""
    name = f"{folder}{base}"
    number = 2
    while name in used_names:
        name = f"{folder}{base.removesuffix('.jsonl')}-{number}.jsonl"
        number += 1
    return name


def _redact_lines(
    source: SourceId, chunks: Iterable[bytes], redactor: Redactor, log: RedactionLog
) -> Iterator[bytes]:
    offset = 0
    for line in iter_raw_lines(chunks):
        record = line.removesuffix(b"\n")
        redacted, redactions = redact_line(record, redactor)
        log.add(Position(source, 0, offset, len(record)), redactions)
        if redacted is None:
            log.private_records += 1
        else:
            yield redacted + line[len(record) :]
        offset += len(line)


def _drop_private_lines(chunks: Iterable[bytes], log: RedactionLog) -> Iterator[bytes]:
    for line in iter_raw_lines(chunks):
        record = line.removesuffix(b"\n")
        public = remove_private(record)
        if public is None:
            log.private_records += 1
        else:
            yield public + line[len(record) :]
