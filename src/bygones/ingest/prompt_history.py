"""Sessions of which only the prompts are known.

Claude Code deletes transcripts after some weeks, but keeps what was typed in
`history.jsonl`. Sessions that were deleted before they were archived are read from there,
when they are asked for, and those that only a hub has from what a push stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from urllib.parse import urlsplit
from uuid import NAMESPACE_URL, uuid5

import msgspec
from msgspec import Struct

from bygones.assemble.sessions import assemble_sessions
from bygones.errors import ArchiveDamaged
from bygones.model.base import (
    DECODE_ERRORS,
    Position,
    RecordId,
    SessionId,
    SourceFile,
    SourceId,
    SourceKind,
)
from bygones.model.nodes import LocatedRecord, Transcript
from bygones.model.query import Flag
from bygones.model.sessions import Session
from bygones.model.summary import (
    IndexedPrompt,
    IndexedRecord,
    SessionSummary,
    Title,
    TitleKind,
)
from bygones.model.usage import Usage
from bygones.parse.light import build_node, parse_line_light
from bygones.parse.loader import RecordLoader
from bygones.sources.lines import split_lines
from bygones.store.archive_db import ArchiveDB, hash_of_session, load_purged_hashes
from bygones.store.hub_sessions import load_hub_sessions
from bygones.store.local_reader import LocalReader

_NOTICE = (
    "Only the prompts of this session are known: Claude Code deleted its transcript"
    " before it was archived."
)
_HUB_NOTICE = (
    "Only the prompts of this session are here, and long ones are cut. The whole session"
    " is on a hub: bygones show {id} --archive {hub}"
)
_LABEL = "(prompts only)"
_TITLE_LENGTH = 200
_MAX_YEAR_MS = 253_402_300_799_000
"""The last millisecond that a datetime can have."""


class _HistoryLine(Struct, frozen=True, rename="camel"):
    display: str = ""
    timestamp: float | None = None
    project: str | None = None
    session_id: str | None = None


class TypedPrompt(Struct, frozen=True, order=True):
    """A prompt in the history."""

    sent_ms: int
    text: str

    @property
    def sent_at(self) -> datetime | None:
        if not 0 < self.sent_ms <= _MAX_YEAR_MS:
            return None
        return datetime.fromtimestamp(self.sent_ms / 1000, UTC)


class PromptsOnlySession(Struct, frozen=True):
    """A session of which only the prompts are known, with its summary."""

    summary: SessionSummary
    prompts: tuple[TypedPrompt, ...]
    hub: str = ""
    """The hub that has the whole session."""

    @property
    def notice(self) -> str:
        """What is said in place of the transcript."""
        notice = _HUB_NOTICE if self.hub else _NOTICE
        return notice.format(id=self.summary.id, hub=self.hub)

    def indexed_prompts(self) -> list[IndexedPrompt]:
        """Return the prompts with the ids that they have in the assembled session."""
        return [
            IndexedPrompt(
                id=_record_id(self.summary.id, number),
                session_id=self.summary.id,
                sent_at=prompt.sent_at,
                branch_number=0,
                text=prompt.text,
            )
            for number, prompt in enumerate(self.prompts, 1)
        ]


def _record_id(session: SessionId, number: int) -> RecordId:
    return RecordId(str(uuid5(NAMESPACE_URL, f"{session} {number}")))


def load_prompts_only(reader: LocalReader) -> list[PromptsOnlySession]:
    """Return the sessions that only the history or a hub knows, the newest first.

    Sessions that were purged are left out.
    """
    prompts: dict[SessionId, dict[TypedPrompt, str | None]] = {}
    for line in _read_history(reader.byte_store):
        if line.session_id and line.display.strip():
            prompt = TypedPrompt(int(line.timestamp or 0), line.display)
            found = prompts.setdefault(SessionId(line.session_id), {})
            found[prompt] = line.project or found.get(prompt)
    hubs: dict[SessionId, str] = {}
    for found_there in load_hub_sessions(reader.archive_dir.folder):
        for one in found_there.sessions:
            hubs[one.id] = found_there.hub
            if one.id not in prompts:
                typed = [TypedPrompt(*prompt) for prompt in one.prompts]
                prompts[one.id] = dict.fromkeys(typed, one.project)
    known = find_known_ids(reader)
    purged = load_purged_hashes(reader.byte_store.db)
    sessions = [
        _make_session(reader, id_, found, hubs.get(id_, ""))
        for id_, found in prompts.items()
        if id_ not in known and hash_of_session(id_) not in purged
    ]
    oldest = datetime.min.replace(tzinfo=UTC)
    return sorted(
        sessions,
        key=lambda one: (one.summary.ended_at or oldest, one.summary.id),
        reverse=True,
    )


def find_known_ids(reader: LocalReader) -> set[str]:
    """Return the ids of all sessions in the archive, also inside of others."""
    known = set(reader.lookup.session_ids())
    for summary in reader.sessions.iter_summaries(include_empty=True):
        known.update(summary.contained_ids)
    return known


def _read_history(archive_db: ArchiveDB) -> Iterator[_HistoryLine]:
    """Yield the lines of all histories, in all generations."""
    decode = msgspec.json.Decoder(_HistoryLine, strict=False).decode
    for source in archive_db.sources():
        if source.kind is not SourceKind.HISTORY:
            continue
        for generation in range(source.generation + 1):
            for raw in _read_chunks(archive_db, source.number, generation):
                for line in raw.splitlines():
                    try:
                        yield decode(line)
                    except DECODE_ERRORS:
                        continue


def _read_chunks(
    archive_db: ArchiveDB, number: int, generation: int
) -> Iterator[bytes]:
    for _, raw in archive_db.try_read_chunks(number, generation):
        if raw is not None:
            yield raw
    try:
        yield archive_db.fragment(number, generation)
    except ArchiveDamaged:
        return


def _make_session(
    reader: LocalReader,
    id_: SessionId,
    found: dict[TypedPrompt, str | None],
    hub: str,
) -> PromptsOnlySession:
    prompts = tuple(sorted(found))
    projects = [project for prompt in prompts if (project := found[prompt])]
    times = [time for prompt in prompts if (time := prompt.sent_at)]
    first = " ".join(prompts[0].text.split())[:_TITLE_LENGTH]
    label = f"(on {urlsplit(hub).netloc})" if hub else _LABEL
    summary = SessionSummary(
        id=id_,
        title=Title(f"{label} {first}", TitleKind.PROMPT),
        project=projects[-1] if projects else None,
        started_at=times[0] if times else None,
        ended_at=times[-1] if times else None,
        prompt_count=len(prompts),
        usage=Usage(),
        flags=(Flag.PROMPTS_ONLY,),
        source_bytes=sum(len(prompt.text.encode()) for prompt in prompts),
    )
    return PromptsOnlySession(reader.directories.apply(summary), prompts, hub)


def find_prompt(
    sessions: Iterable[PromptsOnlySession], id_: str
) -> IndexedRecord | None:
    """Return a prompt by the id that it has in the assembled session."""
    for known in sessions:
        for number, prompt in enumerate(known.indexed_prompts(), 1):
            if prompt.id == id_:
                source = _make_source(known.summary.id, 0)
                return IndexedRecord(
                    id=prompt.id,
                    kind="user",
                    session_id=known.summary.id,
                    branch_number=0,
                    position=Position(source.id, 0, number, 0),
                    raw=msgspec.json.encode(list(_make_records(known))[number]),
                )
    return None


def _make_source(id_: SessionId, size: int) -> SourceFile:
    return SourceFile(
        id=SourceId(f"history.jsonl#{id_}"),
        home="",
        relative_path=f"{id_}.jsonl",
        kind=SourceKind.SESSION,
        size=size,
        mtime_ns=0,
        inode=0,
        ctime_ns=0,
        session_id=id_,
    )


def assemble_prompts_only(known: PromptsOnlySession) -> Session:
    """Return a session with a notice and the prompts."""
    id_ = known.summary.id
    raw = b"".join(msgspec.json.encode(line) + b"\n" for line in _make_records(known))
    source = _make_source(id_, len(raw))
    found = (
        part
        for line in split_lines(source.id, 0, 0, raw)
        for part in parse_line_light(line)
        if isinstance(part, LocatedRecord)
    )
    transcript = Transcript(source=source, nodes=tuple(map(build_node, found)))
    (session,) = assemble_sessions([transcript], _MemoryLoader(raw))
    return session


def _make_records(known: PromptsOnlySession) -> Iterable[dict[str, object]]:
    id_ = known.summary.id
    parent: str | None = None
    texts = [(known.notice, known.summary.started_at)]
    texts += [(prompt.text, prompt.sent_at) for prompt in known.prompts]
    for number, (text, time) in enumerate(texts):
        uuid = _record_id(id_, number)
        record: dict[str, object] = {
            "uuid": uuid,
            "parentUuid": parent,
            "sessionId": id_,
            "isSidechain": False,
        }
        if time is not None:
            record["timestamp"] = time.isoformat().replace("+00:00", "Z")
        if known.summary.project:
            record["cwd"] = known.summary.project
        if number:
            message = {"role": "user", "content": text}
            record |= {"type": "user", "message": message}
        else:
            record |= {"type": "system", "subtype": "informational", "content": text}
        parent = uuid
        yield record


class _MemoryLoader(RecordLoader):
    """Loads records from bytes in memory."""

    def __init__(self, raw: bytes) -> None:
        super().__init__()
        self._raw = raw

    def read_raw(self, position: Position) -> bytes:
        return self._raw[position.offset : position.offset + position.length]

    def load_stored_output(self, position: Position, path: str) -> str | None:  # noqa: ARG002 (there is none)
        return None
