"""Push to a hub: the HTTP client with its retries, one push, and the push loop."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from threading import Event, Thread
from typing import Protocol, Self

from msgspec import MsgspecError, Struct, field
from msgspec.structs import replace

from bygones.archive import Archive
from bygones.archive.remote import OwnPrompt, fetch_prompts_of
from bygones.errors import (
    ArchiveDamaged,
    BygonesError,
    HubRejected,
    HubUnreachable,
    PushIncomplete,
)
from bygones.hub.chunks import (
    ChunkBuilder,
    LineRedactor,
    PreparedChunk,
    build_requests,
    identify_sources,
    machine_id,
)
from bygones.hub.push_selection import PushSelection, select_sources
from bygones.model.base import NullProgress, ProgressReporter, SessionId, SourceId
from bygones.redact.accounts import homes_of_sources
from bygones.redact.engine import Redactor
from bygones.redact.personal import login_names_in
from bygones.store.annotations import load_directories
from bygones.store.archive_db import StoredSource
from bygones.store.archive_dir import ArchiveDir
from bygones.store.derived_tables import DerivedTables
from bygones.team.connection import MAX_ATTEMPTS, HubConnection
from bygones.team.contract import (
    PROGRESS_PATH,
    PUSH_PATH,
    RemoteSource,
    SourceState,
    UploadChunk,
    UploadRequest,
    UploadResponse,
    decode_response,
    encode_message,
    has_valid_names,
    tombstone_hashes,
)


class Transport(Protocol):
    """Sends requests to a hub."""

    address: str

    def fetch_state(self, machine: str) -> UploadResponse:
        """Return how much the hub has of each source of a machine."""
        ...

    def send(self, request: UploadRequest) -> UploadResponse:
        """Send a request; return how much the hub has of its sources now."""
        ...


class HubClient:
    """Uploads to one hub with one token."""

    def __init__(
        self,
        address: str,
        token: str,
        *,
        max_attempts: int = MAX_ATTEMPTS,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._connection = HubConnection(
            address, token, max_attempts=max_attempts, sleep=sleep
        )
        self.address = self._connection.address

    def fetch_state(self, machine: str) -> UploadResponse:
        return self._request("GET", f"{PROGRESS_PATH}?machine={machine}")

    def send(self, request: UploadRequest) -> UploadResponse:
        return self._request("POST", PUSH_PATH, encode_message(request))

    def fetch_own_prompts(self, machine: str) -> list[OwnPrompt]:
        """Return the prompts in all sessions that the owner of the token pushed."""
        person = self.fetch_state(machine).person
        return fetch_prompts_of(self._connection, person) if person else []

    def _request(self, method: str, path: str, body: bytes = b"") -> UploadResponse:
        content = self._connection.request(method, path, body)
        try:
            return decode_response(content)
        except MsgspecError as error:
            raise HubRejected(self.address, "it is not a Bygones hub") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; the next request opens a new one."""
        self._connection.close()


_RemotePath = tuple[str, str]
_MAX_PASSES = 5
"""How often a push starts again if the hub has something else than expected."""
_PROBE_BATCH = 2000
"""Files per request that asks whether they were erased."""


class ProjectPush(Struct):
    """What is pushed of one project."""

    sessions: set[SessionId] = field(default_factory=set)
    files: int = 0
    lines: int = 0
    bytes: int = 0


class PushReport(Struct, kw_only=True):
    """What was pushed, or would be in a dry run."""

    selected_sessions: int = 0
    """Sessions of the selected projects, pushed or not."""
    sessions: set[SessionId] = field(default_factory=set)
    files: int = 0
    lines: int = 0
    bytes: int = 0
    """After redaction."""
    sent_bytes: int = 0
    """After compression."""
    requests: int = 0
    projects: dict[str, ProjectPush] = field(default_factory=dict)
    redactions: Counter[str] = field(default_factory=Counter)
    private_records: int = 0
    foreign_lines: int = 0
    """Lines that are not pushed: they belong to sessions of other projects."""
    long_lines: int = 0
    erased_files: int = 0
    """Files that are not pushed: they were erased on the hub."""
    erased_sessions: set[SessionId] = field(default_factory=set)
    """The sessions of these files."""
    shared_files: int = 0
    """Files that are not pushed: they also contain sessions of other projects."""
    damaged_files: int = 0
    failures: dict[SourceId, Exception] = field(default_factory=dict)
    """Files that could not be redacted, of which the rest is not pushed."""
    unnameable_files: int = 0
    """Files that are not pushed: no hub accepts their names."""


class _PushRun:
    def __init__(
        self,
        archive_dir: ArchiveDir,
        selection: PushSelection,
        redactor: LineRedactor,
        transport: Transport | None,
        *,
        host: str,
    ) -> None:
        self._transport = transport
        self._machine = machine_id(archive_dir.byte_store.archive_id, host)
        chunks = archive_dir.byte_store
        identities = identify_sources(
            selection, load_directories(chunks.db), redactor, chunks.archive_id
        )
        self._builder = ChunkBuilder(chunks, redactor, selection.is_foreign, identities)
        self._has_identities = False
        sources = [k for k in selection.sources if self._builder.is_valid_name(k)]
        self._selection = replace(selection, sources=tuple(sources))
        self._counted_sources: set[SourceId] = set()
        self._erased_paths: set[_RemotePath] = set()
        self.report = PushReport(
            selected_sessions=len(selection.sessions),
            shared_files=len(selection.shared_sources),
            unnameable_files=len(selection.sources) - len(sources),
        )

    def run(self, *, dry: bool, progress: ProgressReporter) -> PushReport:
        for _ in range(_MAX_PASSES):
            if self._send_missing(dry=dry, progress=progress):
                break
        else:
            address = self._transport.address if self._transport else "the hub"
            raise HubUnreachable(address, "another client is sending the same files")
        self.report.erased_files = len(self._erased_paths)
        self.report.erased_sessions = {
            self._session_of(kept)
            for kept in self._selection.sources
            if self._builder.remote_path(kept) in self._erased_paths
        }
        redactor = self._builder.redactor
        self.report.redactions = redactor.redaction_counts
        self.report.private_records = redactor.private_records
        self.report.long_lines = self._builder.long_lines
        self.report.foreign_lines = self._builder.foreign_lines
        return self.report

    def _send_missing(self, *, dry: bool, progress: ProgressReporter) -> bool:
        """Send what the hub lacks; return whether it acknowledged everything."""
        known = self._fetch_states(dry=dry)
        progress.begin(
            "sending", sum(kept.stored_bytes for kept in self._selection.sources)
        )
        chunks = self._iter_chunks(known, progress)
        for request, lines in build_requests(self._machine, chunks):
            if self._transport is not None and not dry:
                response = self._transport.send(request)
                if not self._is_acknowledged(request, response):
                    return False
            self._count_request(request.chunks, lines)
        progress.end()
        return True

    def _fetch_states(self, *, dry: bool) -> dict[_RemotePath, SourceState]:
        """Return what the hub has of the selected files, and which were erased there.

        For files that the hub lacks, it is asked first whether they were erased: their
        bytes must not even be sent. A dry run asks by hashes, which name no file.
        """
        if self._transport is None:
            return {}
        response = self._transport.fetch_state(self._machine)
        self._has_identities = response.has_identities
        known = {(state.home, state.path): state for state in response.sources}
        new = [
            self._builder.probe(kept)
            for kept in self._selection.sources
            if self._builder.remote_path(kept) not in known
        ]
        for start in range(0, len(new), _PROBE_BATCH):
            batch = new[start : start + _PROBE_BATCH]
            if dry:
                known |= self._find_erased(batch, response.person, self._transport)
                continue
            request = UploadRequest(machine=self._machine, chunks=tuple(batch))
            states = self._transport.send(request).sources
            known |= {(one.home, one.path): one for one in states if one.is_erased}
        self._erased_paths = {path for path, state in known.items() if state.is_erased}
        return known

    def _find_erased(
        self, chunks: Sequence[UploadChunk], person: str, transport: Transport
    ) -> dict[_RemotePath, SourceState]:
        """Return which files were erased, without naming them to the hub."""
        if not person:
            return {}
        hashes = {
            (chunk.home, chunk.path): self._tombstone_hashes(chunk, person)
            for chunk in chunks
        }
        wanted = tuple({one for own in hashes.values() for one in own})
        request = UploadRequest(machine=self._machine, chunks=(), hashes=wanted)
        erased = set(transport.send(request).erased_hashes)
        return {
            (home, path): SourceState(home=home, path=path, is_erased=True)
            for (home, path), own in hashes.items()
            if not erased.isdisjoint(own)
        }

    def _tombstone_hashes(self, chunk: UploadChunk, person: str) -> tuple[bytes, ...]:
        return tombstone_hashes(
            RemoteSource(
                person=person,
                machine=self._machine,
                home=chunk.home,
                path=chunk.path,
                kind=chunk.kind,
                session=SessionId(chunk.session) if chunk.session else None,
            )
        )

    def _is_acknowledged(
        self, request: UploadRequest, response: UploadResponse
    ) -> bool:
        """Whether the hub has everything of a request, except erased sources."""
        states = {(state.home, state.path): state for state in response.sources}
        for chunk in request.chunks:
            path = (chunk.home, chunk.path)
            state = states.get(path)
            if state is None:
                return False
            if not _is_stored(chunk, state):
                if not state.is_erased:
                    return False
                self._erased_paths.add(path)
        return True

    def _iter_chunks(
        self, known: dict[_RemotePath, SourceState], progress: ProgressReporter
    ) -> Iterator[PreparedChunk]:
        for source in self._selection.sources:
            path = self._builder.remote_path(source)
            chunks = chain(
                self._builder.iter_chunks(source, known.get(path)),
                self._iter_titles_chunks(source, known),
            )
            is_sent = False
            try:
                # The hub may reject a source between two of its chunks.
                while path not in self._erased_paths and (chunk := next(chunks, None)):
                    self._count_chunk(source, chunk)
                    is_sent = True
                    yield chunk
                if self._has_identities and not is_sent and path in known:
                    identity = self._builder.identity_chunk(source, known[path])
                    if identity is not None and path not in self._erased_paths:
                        yield identity
            except ArchiveDamaged:
                self.report.damaged_files += 1
            except (BygonesError, OSError, MemoryError):
                raise
            except Exception as error:  # noqa: BLE001 (the other files are sent)
                self.report.failures[source.id] = error
            progress.advance(source.stored_bytes)

    def _iter_titles_chunks(
        self, source: StoredSource, known: dict[_RemotePath, SourceState]
    ) -> Iterator[PreparedChunk]:
        """Yield titles of a session from files that are not pushed."""
        for titled in self._selection.titles.get(source.number, ()):
            path = self._builder.titles_path(source, titled)
            chunk = self._builder.titles_chunk(source, titled, known.get(path))
            if chunk is not None and has_valid_names(chunk.chunk):
                yield chunk

    def _count_chunk(self, source: StoredSource, chunk: PreparedChunk) -> None:
        is_first = chunk.source not in self._counted_sources
        self._counted_sources.add(chunk.source)
        session = self._session_of(source)
        directory = self._selection.sessions.get(session, "")
        name = self._builder.redactor.redact_directory(directory)
        project = self.report.projects.setdefault(name, ProjectPush())
        project.files += is_first
        project.lines += chunk.line_count
        project.bytes += chunk.chunk.length
        self.report.files += is_first
        if session in self._selection.sessions:
            project.sessions.add(session)
            self.report.sessions.add(session)

    def _session_of(self, source: StoredSource) -> SessionId:
        owners = self._selection.owners
        return owners.get(source.number, source.session or SessionId(""))

    def _count_request(self, chunks: Sequence[UploadChunk], lines: int) -> None:
        self.report.requests += 1
        self.report.lines += lines
        self.report.bytes += sum(chunk.length for chunk in chunks)
        self.report.sent_bytes += sum(len(chunk.frame) for chunk in chunks)


def _is_stored(chunk: UploadChunk, state: SourceState) -> bool:
    if chunk.fingerprint:
        return (
            state.fingerprint == chunk.fingerprint or state.stored_bytes > chunk.offset
        )
    return state.stored_bytes >= chunk.offset + chunk.length


def push(  # noqa: PLR0913 (all but two by name)
    folder: Path,
    projects: Sequence[str],
    *,
    redactor: Redactor,
    transport: Transport | None,
    dry_run: bool = False,
    progress: ProgressReporter | None = None,
    host: str = "",
) -> PushReport:
    """Push what a hub lacks of some projects; return a report.

    With ``dry_run`` nothing is sent. Without a transport, the hub is assumed to have
    nothing. ``progress`` counts the bytes that were read. ``host`` distinguishes copies
    of an archive on several machines; the hub only learns that they differ.
    """
    with Archive.open(folder) as archive, ArchiveDir(folder) as archive_dir:
        if archive_dir.index is None:
            raise archive_dir.index_missing_error()
        selection = select_sources(archive, DerivedTables(archive_dir.index), projects)
        names = login_names_in(selection.sessions.values())
        homes = homes_of_sources(source.home for source in selection.sources)
        line_redactor = LineRedactor(redactor.with_accounts(names, homes))
        return _PushRun(
            archive_dir, selection, line_redactor, transport, host=host
        ).run(dry=dry_run, progress=progress or NullProgress())


_RETRY_DELAY = 60.0
"""Seconds before the next attempt to reach a hub."""


class PushLoop:
    """A thread that calls ``push`` after each notification.

    ``on_error`` is called for all errors. If the hub could not be reached, the push is
    repeated; if files failed, it waits for the next notification. Any other error ends the loop.
    """

    interval = 60.0
    """Seconds between two pushes: each writes a blob per file that grew, and makes the
    hub derive its session again."""

    def __init__(
        self, push: Callable[[], object], on_error: Callable[[BygonesError], None]
    ) -> None:
        self._push = push
        self._on_error = on_error
        self._due = Event()
        self.stop_event = Event()
        self._thread = Thread(target=self._run, name="push", daemon=True)

    def start(self) -> None:
        """Start the thread, with a first push."""
        self._due.set()
        self._thread.start()

    def notify(self) -> None:
        """Push soon: the archive has changed."""
        self._due.set()

    def stop(self) -> None:
        """Stop the thread, after the current push."""
        self.stop_event.set()
        self._due.set()
        self._thread.join()

    def _run(self) -> None:
        while not self.stop_event.is_set():
            self._due.wait()
            if self.stop_event.is_set():
                return
            self._due.clear()
            try:
                self._push()
            except HubUnreachable as error:
                self._on_error(error)
                self._due.set()
                self.stop_event.wait(_RETRY_DELAY)
            except PushIncomplete as error:
                self._on_error(error)
            except BygonesError as error:
                self._on_error(error)
                self.stop_event.set()
            self.stop_event.wait(self.interval)
