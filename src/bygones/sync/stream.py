"""The protocol of a sync over two pipes, as with `ssh HOST bygones sync --stdio`.

Both sides send a line with the version, then messages: four bytes with the length, and a
message in MessagePack. One side asks, the other answers; `PullNow` exchanges the roles.
`docs/concepts/sync-protocol.md` describes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import IO

import msgspec
from msgspec import Struct

from bygones.errors import BygonesError, SyncFailed
from bygones.model.base import DECODE_ERRORS, NullProgress, ProgressReporter
from bygones.model.machines import Machine
from bygones.store.annotations import AnnotationRow
from bygones.store.compression import compress, decompress
from bygones.store.exchange import SourceEntry, StoredFrame
from bygones.sync.peers import ArchivePeer, ChunkPlace
from bygones.sync.pull import Puller, PullReport

PROTOCOL_VERSION = 1
_MAGIC = b"bygones-sync "
_MAX_GREETING = 64 * 1024
"""Bytes that a shell may print before the protocol starts."""
_MAX_MESSAGE = 256 * 1024 * 1024
_ENTRIES_PER_MESSAGE = 500


class Hello(Struct, frozen=True, tag=True):
    name: str
    machine_id: str


class ListEntries(Struct, frozen=True, tag=True):
    pass


class Entries(Struct, frozen=True, tag=True):
    data: bytes
    """A compressed list of entries; an empty list is the end."""


class ReadPlaces(Struct, frozen=True, tag=True):
    places: list[ChunkPlace]


class Found(Struct, frozen=True, tag=True):
    stored: StoredFrame | None


class ListAnnotations(Struct, frozen=True, tag=True):
    pass


class AnnotationList(Struct, frozen=True, tag=True):
    rows: list[AnnotationRow]


class Announce(Struct, frozen=True, tag=True):
    total: int


class PullNow(Struct, frozen=True, tag=True):
    is_dry_run: bool


class Pulled(Struct, frozen=True, tag=True):
    report: PullReport


class Failed(Struct, frozen=True, tag=True):
    message: str


class Bye(Struct, frozen=True, tag=True):
    pass


_Message = (
    Hello
    | ListEntries
    | Entries
    | ReadPlaces
    | Found
    | ListAnnotations
    | AnnotationList
    | Announce
    | PullNow
    | Pulled
    | Failed
    | Bye
)
_decoder = msgspec.msgpack.Decoder(_Message)
_entries_decoder = msgspec.msgpack.Decoder(list[SourceEntry])
_encode = msgspec.msgpack.encode


class MessageStream:
    """Messages over two pipes."""

    def __init__(self, reader: IO[bytes], writer: IO[bytes], name: str) -> None:
        self._reader = reader
        self._writer = writer
        self.name = name
        """The other side, for messages."""

    def greet(self, machine: Machine) -> Machine:
        """Exchange versions and names; return the other machine."""
        self._writer.write(_MAGIC + b"%d\n" % PROTOCOL_VERSION)
        with suppress(SyncFailed):  # What it printed, or did not, says more.
            self.send(Hello(machine.name, machine.id))
        skipped = 0
        while True:
            line = self._reader.readline(_MAX_GREETING)
            skipped += len(line)
            if not line or skipped > _MAX_GREETING:
                raise SyncFailed(
                    self.name,
                    "Bygones did not respond there; check the host name and --remote-command",
                )
            if line.startswith(_MAGIC):
                break
        if line != _MAGIC + b"%d\n" % PROTOCOL_VERSION:
            raise SyncFailed(self.name, "it runs another version of Bygones")
        hello = self.receive()
        if not isinstance(hello, Hello):
            raise SyncFailed(self.name, "it sent an unexpected message")
        return Machine(hello.name, hello.machine_id)

    def send(self, message: _Message) -> None:
        raw = _encode(message)
        try:
            self._writer.write(len(raw).to_bytes(4, "big") + raw)
            self._writer.flush()
        except (BrokenPipeError, ValueError) as error:
            raise self._lost_connection() from error

    def receive(self) -> _Message:
        head = self._reader.read(4)
        size = int.from_bytes(head, "big")
        raw = self._reader.read(size) if size <= _MAX_MESSAGE else b""
        if len(head) < 4 or len(raw) < size:  # noqa: PLR2004 (the length)
            raise self._lost_connection()
        try:
            message: _Message = _decoder.decode(raw)
        except DECODE_ERRORS as error:
            raise SyncFailed(self.name, "it sent an invalid message") from error
        if isinstance(message, Failed):
            raise SyncFailed(self.name, message.message)
        return message

    def _lost_connection(self) -> SyncFailed:
        return SyncFailed(self.name, "the connection was lost")


class StreamPeer:
    """The archive on the other side of a stream."""

    def __init__(self, stream: MessageStream, machine: Machine) -> None:
        self.machine = machine
        self._stream = stream

    def entries(self) -> Iterator[SourceEntry]:
        self._stream.send(ListEntries())
        while True:
            answer = self._stream.receive()
            try:
                raw = answer.data if isinstance(answer, Entries) else b""
                data = decompress(raw, expected_size=_MAX_MESSAGE)
                batch = _entries_decoder.decode(data)
            except Exception as error:
                name = self._stream.name
                raise SyncFailed(name, "it sent an invalid list") from error
            if not batch:
                return
            yield from batch

    def read(self, places: Sequence[ChunkPlace]) -> Iterator[StoredFrame | None]:
        self._stream.send(ReadPlaces(list(places)))
        for _ in places:
            answer = self._stream.receive()
            yield answer.stored if isinstance(answer, Found) else None

    def annotations(self) -> list[AnnotationRow]:
        self._stream.send(ListAnnotations())
        answer = self._stream.receive()
        return answer.rows if isinstance(answer, AnnotationList) else []

    def announce(self, total: int) -> None:
        self._stream.send(Announce(total))


def pull_there(
    stream: MessageStream,
    source: ArchivePeer,
    progress: ProgressReporter,
    *,
    is_dry_run: bool,
) -> PullReport:
    """Let the other side read from an archive here; return what it added."""
    stream.send(PullNow(is_dry_run))
    return serve(stream, source, progress)


def serve(
    stream: MessageStream, source: ArchivePeer, progress: ProgressReporter | None = None
) -> PullReport:
    """Answer until the other side has read everything; return its report."""
    progress = progress or NullProgress()
    while True:
        message = stream.receive()
        if isinstance(message, Pulled):
            progress.end()
            return message.report
        _answer(stream, source, message, progress)


def _answer(
    stream: MessageStream,
    source: ArchivePeer,
    message: _Message,
    progress: ProgressReporter,
) -> None:
    match message:
        case ListEntries():
            entries = source.entries()
            while batch := list(islice(entries, _ENTRIES_PER_MESSAGE)):
                stream.send(Entries(compress(_encode(batch))))
            stream.send(Entries(compress(_encode([]))))
        case ReadPlaces():
            for stored in source.read(message.places):
                stream.send(Found(stored))
                if stored:
                    progress.advance(stored.chunk.stop - stored.chunk.start)
        case ListAnnotations():
            stream.send(AnnotationList(source.annotations()))
        case Announce():
            progress.begin("sending", message.total)
        case _:
            raise SyncFailed(stream.name, "it sent an unexpected message")


def serve_stdio(
    folder: Path, machine: Machine, reader: IO[bytes], writer: IO[bytes]
) -> None:
    """Answer a sync that another machine started, until it ends."""
    stream = MessageStream(reader, writer, "the other machine")
    other = stream.greet(machine)
    source = ArchivePeer(folder, machine)
    try:
        while not isinstance(message := stream.receive(), Bye):
            if isinstance(message, PullNow):
                puller = Puller(folder, machine, StreamPeer(stream, other))
                stream.send(Pulled(puller.run(is_dry_run=message.is_dry_run)))
            else:
                _answer(stream, source, message, NullProgress())
    except BygonesError as error:
        if not isinstance(error, SyncFailed):
            stream.send(Failed(str(error)))
        raise
    finally:
        source.close()
