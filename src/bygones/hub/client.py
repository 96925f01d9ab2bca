"""Push to a hub: the HTTP client with its retries, one push, and the push loop."""

from __future__ import annotations

import ssl
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from ipaddress import ip_address
from itertools import chain
from pathlib import Path
from threading import Event, Thread
from typing import Protocol, Self
from urllib.parse import SplitResult, urlsplit

from msgspec import MsgspecError, Struct, field
from msgspec.structs import replace

from bygones import __version__
from bygones.archive import Archive
from bygones.errors import ArchiveDamaged, BygonesError, HubRejected, HubUnreachable
from bygones.hub.chunks import (
    ChunkBuilder,
    LineRedactor,
    PreparedChunk,
    build_requests,
    machine_id,
)
from bygones.hub.selection import PushSelection, select_sources
from bygones.model.base import SessionId, SourceId
from bygones.model.progress import NullProgress, ProgressReporter
from bygones.redact.engine import Redactor
from bygones.redact.personal import login_names_in
from bygones.store.archive_db import StoredSource
from bygones.store.archive_dir import ArchiveDir
from bygones.store.derived_tables import DerivedTables
from bygones.team.contract import RemoteSource, tombstone_hashes
from bygones.team.protocol import (
    PROGRESS_PATH,
    PUSH_PATH,
    SourceState,
    UploadChunk,
    UploadRequest,
    UploadResponse,
    decode_response,
    encode_message,
    has_valid_names,
)

_TIMEOUT = 120.0
"""Seconds for an answer."""
_MAX_ATTEMPTS = 6
_FIRST_DELAY = 0.5
"""Seconds before the second try; each further one waits twice as long."""
_MAX_DELAY = 30.0
_RETRY_STATUSES = frozenset({429, 500, 502, 503, 504})
_MAX_RESPONSE_BYTES = 256 * 1024 * 1024
"""Bytes of an answer."""


class Transport(Protocol):
    """Sends requests to a hub."""

    address: str

    def fetch_state(self, machine: str) -> UploadResponse:
        """Return up to where the hub has each source of a machine."""
        ...

    def send(self, request: UploadRequest) -> UploadResponse:
        """Send a request, and return up to where the hub has its sources now."""
        ...


class HubClient:
    """Talks to one hub with one token.

    A request that nobody answered is made again: whatever came of it, twice is once.
    """

    def __init__(
        self,
        address: str,
        token: str,
        *,
        max_attempts: int = _MAX_ATTEMPTS,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.address = address.rstrip("/")
        self._token = token
        self._max_attempts = max_attempts
        self._sleep = sleep
        self._url = _parse_url(self.address)
        self._connection: HTTPConnection | None = None

    def fetch_state(self, machine: str) -> UploadResponse:
        """Return up to where the hub has each source of a machine."""
        return self._request("GET", f"{PROGRESS_PATH}?machine={machine}")

    def send(self, request: UploadRequest) -> UploadResponse:
        """Send a request, and return up to where the hub has its sources now."""
        return self._request("POST", PUSH_PATH, encode_message(request))

    def __enter__(self) -> Self:
        """Use it as a context."""
        return self

    def __exit__(self, *_: object) -> None:
        """Hang up."""
        self.close()

    def close(self) -> None:
        """Hang up; the next request dials again."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _request(self, method: str, path: str, body: bytes = b"") -> UploadResponse:
        reason = ""
        for number in range(self._max_attempts):
            if number:
                self._sleep(min(_FIRST_DELAY * 2 ** (number - 1), _MAX_DELAY))
            try:
                status, told = self._send_once(method, path, body)
            except (OSError, HTTPException) as error:
                self.close()
                reason = str(error) or type(error).__name__
                continue
            if status == 200:  # noqa: PLR2004 (as everybody knows it)
                try:
                    return decode_response(told)
                except MsgspecError as error:
                    raise HubRejected(self.address, "it is no hub") from error
            reason = _error_message(told) or f"it answered {status}"
            if status not in _RETRY_STATUSES:
                raise HubRejected(self.address, reason)
        raise HubUnreachable(self.address, reason)

    def _send_once(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        line = self._connection = self._connection or self._connect()
        headers = {
            "Authorization": f"Bearer {self._token}",
            "Content-Type": "application/octet-stream",
            "User-Agent": f"bygones/{__version__}",
        }
        line.request(method, f"{self._url.path}{path}", body or None, headers)
        answer = line.getresponse()
        told = answer.read(_MAX_RESPONSE_BYTES)
        if answer.will_close:
            self.close()
        return answer.status, told

    def _connect(self) -> HTTPConnection:
        host, port = self._url.hostname or "", self._url.port
        if self._url.scheme == "https":
            safe = ssl.create_default_context()
            return HTTPSConnection(host, port, timeout=_TIMEOUT, context=safe)
        return HTTPConnection(host, port, timeout=_TIMEOUT)


def _parse_url(url: str) -> SplitResult:
    """Return an address in parts; raise if others on the way could read along."""
    no_address = HubRejected(url, "no address; https://hub.example.com is one")
    try:
        parts = urlsplit(url)
        is_whole = parts.port != 0 and parts.hostname
    except ValueError:
        raise no_address from None
    if not is_whole or parts.scheme not in {"http", "https"}:
        raise no_address
    if parts.scheme == "http" and not _is_loopback_host(parts.hostname or ""):
        raise HubRejected(url, "over http everybody on the way can read; use https")
    return parts


def _is_loopback_host(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _error_message(body: bytes) -> str:
    """Return what a hub says of a failure: a short line of text, or nothing."""
    text = body[:300].decode("utf-8", "replace").strip()
    return text if text.isprintable() else ""


_RemotePath = tuple[str, str]
_MAX_PASSES = 5
"""How often a push begins anew when the hub is not where it was thought to be."""
_PROBE_BATCH = 2000
"""Files that are asked for at once."""


class ProjectPush(Struct):
    """What goes of one project."""

    sessions: set[SessionId] = field(default_factory=set)
    files: int = 0
    lines: int = 0
    bytes: int = 0


class PushReport(Struct, kw_only=True):
    """What was sent, or would be."""

    selected_sessions: int = 0
    """Sessions of the projects that were named, sent or not."""
    sessions: set[SessionId] = field(default_factory=set)
    files: int = 0
    lines: int = 0
    bytes: int = 0
    """Redacted, as the hub will show them."""
    sent_bytes: int = 0
    """As they travel."""
    requests: int = 0
    projects: dict[str, ProjectPush] = field(default_factory=dict)
    redactions: Counter[str] = field(default_factory=Counter)
    private_records: int = 0
    foreign_lines: int = 0
    """Lines that stay, as they are of sessions in projects that were not named."""
    long_lines: int = 0
    erased_files: int = 0
    """Files that were erased on the hub, and are not sent again."""
    erased_sessions: set[SessionId] = field(default_factory=set)
    """The sessions that these are of."""
    shared_files: int = 0
    """Files that stay, as they hold sessions of projects that were not named."""
    damaged_files: int = 0
    unnameable_files: int = 0
    """Files that stay, as no hub takes what they are called."""


class _PushRun:
    def __init__(
        self,
        vault: ArchiveDir,
        selection: PushSelection,
        redactor: LineRedactor,
        transport: Transport | None,
        *,
        host: str,
    ) -> None:
        self._transport = transport
        self._machine = machine_id(vault.byte_store.archive_id, host)
        self._builder = ChunkBuilder(vault.byte_store, redactor, selection.is_foreign)
        named = [k for k in selection.sources if self._builder.is_valid_name(k)]
        self._selection = replace(selection, sources=tuple(named))
        self._counted_sources: set[SourceId] = set()
        self._erased_paths: set[_RemotePath] = set()
        self.report = PushReport(
            selected_sessions=len(selection.sessions),
            shared_files=len(selection.shared_sources),
            unnameable_files=len(selection.sources) - len(named),
        )

    def run(self, *, dry: bool, progress: ProgressReporter) -> PushReport:
        for _ in range(_MAX_PASSES):
            if self._send_missing(dry=dry, progress=progress):
                break
        else:
            address = self._transport.address if self._transport else "the hub"
            raise HubUnreachable(address, "somebody else sends the same files")
        self.report.erased_files = len(self._erased_paths)
        self.report.erased_sessions = {
            self._session_of(kept)
            for kept in self._selection.sources
            if self._builder.remote_path(kept) in self._erased_paths
        }
        mask = self._builder.redactor
        self.report.redactions, self.report.private_records = (
            mask.redaction_counts,
            mask.private_records,
        )
        self.report.long_lines = self._builder.long_lines
        self.report.foreign_lines = self._builder.foreign_lines
        return self.report

    def _send_missing(self, *, dry: bool, progress: ProgressReporter) -> bool:
        """Send all that is missing; return whether the hub has it as we do."""
        known = self._fetch_states(dry=dry)
        progress.begin(
            "sending", sum(kept.stored_bytes for kept in self._selection.sources)
        )
        pieces = self._iter_chunks(known, progress)
        for parcel, lines in build_requests(self._machine, pieces):
            if self._transport is not None and not dry:
                answer = self._transport.send(parcel)
                if not self._is_acknowledged(parcel, answer):
                    return False
            self._count_request(parcel.chunks, lines)
        progress.end()
        return True

    def _fetch_states(self, *, dry: bool) -> dict[_RemotePath, SourceState]:
        """Return what the hub has of what was chosen, and what it does not want.

        Of a file that it has not, it is asked first: what was erased there must not
        even travel. A dry run asks by hashes: the hub is told of no file.
        """
        if self._transport is None:
            return {}
        answered = self._transport.fetch_state(self._machine)
        known = {(one.home, one.path): one for one in answered.sources}
        new = [
            self._builder.probe(kept)
            for kept in self._selection.sources
            if self._builder.remote_path(kept) not in known
        ]
        for start in range(0, len(new), _PROBE_BATCH):
            some = new[start : start + _PROBE_BATCH]
            if dry:
                known |= self._find_erased(some, answered.person, self._transport)
                continue
            parcel = UploadRequest(machine=self._machine, chunks=tuple(some))
            answer = self._transport.send(parcel)
            known |= {(o.home, o.path): o for o in answer.sources if o.is_erased}
        self._erased_paths = {place for place, one in known.items() if one.is_erased}
        return known

    def _find_erased(
        self, some: Sequence[UploadChunk], person: str, transport: Transport
    ) -> dict[_RemotePath, SourceState]:
        """Return what of some files was erased, asked for without telling of them."""
        if not person:
            return {}
        signs = {
            (one.home, one.path): self._tombstone_hashes(one, person) for one in some
        }
        every = tuple({sign for own in signs.values() for sign in own})
        told = transport.send(
            UploadRequest(machine=self._machine, chunks=(), hashes=every)
        )
        there = set(told.erased_hashes)
        return {
            place: SourceState(home=place[0], path=place[1], is_erased=True)
            for place, own in signs.items()
            if not there.isdisjoint(own)
        }

    def _tombstone_hashes(self, one: UploadChunk, person: str) -> tuple[bytes, ...]:
        return tombstone_hashes(
            RemoteSource(
                person=person,
                machine=self._machine,
                home=one.home,
                path=one.path,
                kind=one.kind,
                session=SessionId(one.session) if one.session else None,
            )
        )

    def _is_acknowledged(
        self, request: UploadRequest, response: UploadResponse
    ) -> bool:
        """Whether all of a request arrived, but for what is not wanted."""
        there = {(one.home, one.path): one for one in response.sources}
        for piece in request.chunks:
            place = (piece.home, piece.path)
            one = there.get(place)
            if one is None or not _is_stored(piece, one):
                if one is None or not one.is_erased:
                    return False
                self._erased_paths.add(place)
        return True

    def _iter_chunks(
        self, known: dict[_RemotePath, SourceState], progress: ProgressReporter
    ) -> Iterator[PreparedChunk]:
        for kept in self._selection.sources:
            place = self._builder.remote_path(kept)
            pieces = self._builder.iter_chunks(kept, known.get(place))
            pieces = chain(pieces, self._iter_titles_chunks(kept, known))
            try:
                # What is refused is not even redacted; that may be said between two.
                while place not in self._erased_paths and (piece := next(pieces, None)):
                    self._count_chunk(kept, piece)
                    yield piece
            except ArchiveDamaged:
                self.report.damaged_files += 1
            progress.advance(kept.stored_bytes)

    def _iter_titles_chunks(
        self, kept: StoredSource, known: dict[_RemotePath, SourceState]
    ) -> Iterator[PreparedChunk]:
        """Yield titles of a session that files give it which stay."""
        for titled in self._selection.titles.get(kept.number, ()):
            place = self._builder.titles_path(kept, titled)
            piece = self._builder.titles_chunk(kept, titled, known.get(place))
            if piece is not None and has_valid_names(piece.chunk):
                yield piece

    def _count_chunk(self, kept: StoredSource, chunk: PreparedChunk) -> None:
        """Count a file with its session and project, once."""
        is_first = chunk.source not in self._counted_sources
        self._counted_sources.add(chunk.source)
        session = self._session_of(kept)
        directory = self._selection.sessions.get(session, "")
        told = self._builder.redactor.redact_directory(directory)
        share = self.report.projects.setdefault(told, ProjectPush())
        share.files += is_first
        share.lines += chunk.line_count
        share.bytes += chunk.chunk.length
        self.report.files += is_first
        if session in self._selection.sessions:
            share.sessions.add(session)
            self.report.sessions.add(session)

    def _session_of(self, kept: StoredSource) -> SessionId:
        return self._selection.owners.get(kept.number, kept.session or SessionId(""))

    def _count_request(self, chunks: Sequence[UploadChunk], lines: int) -> None:
        self.report.requests += 1
        self.report.lines += lines
        self.report.bytes += sum(one.length for one in chunks)
        self.report.sent_bytes += sum(len(one.frame) for one in chunks)


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
    """Send what a hub lacks of projects; return what that was.

    With ``dry_run`` nothing is sent; without a transport there is no hub to ask, and it
    is taken to have nothing. ``progress`` is told how many bytes were read. ``host``
    tells copies of an archive apart; the hub learns no more than that they differ.
    """
    with Archive.open(folder) as archive, ArchiveDir(folder) as vault:
        if vault.index is None:
            raise vault.index_missing_error()
        chosen = select_sources(archive, DerivedTables(vault.index), projects)
        names = login_names_in(chosen.sessions.values())
        mask = LineRedactor(redactor.with_names(names))
        return _PushRun(vault, chosen, mask, transport, host=host).run(
            dry=dry_run, progress=progress or NullProgress()
        )


_RETRY_DELAY = 60.0
"""Seconds after which a hub that could not be reached is tried again."""


class PushLoop:
    """Calls ``push`` in a thread of its own, whenever it was notified.

    ``on_error`` is called when the hub could not be reached, which is tried again, and
    for any other error, which ends the loop.
    """

    interval = 60.0
    """Seconds between two pushes: each of them makes an object of every file that grew,
    and has the hub derive its session anew."""

    def __init__(
        self, push: Callable[[], object], on_error: Callable[[BygonesError], None]
    ) -> None:
        self._push = push
        self._on_error = on_error
        self._due = Event()
        self.stop_event = Event()
        self._thread = Thread(target=self._run, name="push", daemon=True)

    def start(self) -> None:
        """Begin; the first push is due."""
        self._due.set()
        self._thread.start()

    def notify(self) -> None:
        """Say that there is something to send."""
        self._due.set()

    def stop(self) -> None:
        """Stop, and wait for the push that is under way."""
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
            except BygonesError as error:
                self._on_error(error)
                self.stop_event.set()
            self.stop_event.wait(self.interval)
