"""Inspect transcripts without an archive: classify files, count their contents, report problems."""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from datetime import datetime
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar, get_type_hints

import msgspec
from msgspec import Raw, Struct, structs
from msgspec.structs import fields

from bygones.model.base import (
    DECODE_ERRORS,
    PROBLEM_KINDS,
    AgentId,
    Line,
    Position,
    Problem,
    SourceFile,
    SourceKind,
    wire_name,
)
from bygones.model.metadata import (
    ATTACHMENTS_BY_TYPE,
    METADATA_BY_TYPE,
    RECORDS_BY_TYPE,
)
from bygones.model.nodes import LightBlock, LightMessage, LightRecord, LocatedRecord
from bygones.model.outcomes import find_outcome_type
from bygones.model.problem_runs import is_adjacent, merge_problems, repeat_problem
from bygones.model.records import (
    BLOCKS_BY_TYPE,
    SYSTEM_SUBTYPES,
    CompactionMetadata,
    ProgressData,
    WireMessage,
    is_known_version,
)
from bygones.model.reports import (
    ContentKind,
    ContentRow,
    DriftKind,
    DriftRow,
    FileClass,
    FileClassRow,
    FileFacts,
    ProblemKindRow,
    ProblemRow,
    RecordTypeRow,
    Survey,
    SurveyTotalRow,
    UnreadFilesRow,
    VersionRow,
)
from bygones.model.summary import REPLAY_ID_PREFIXES
from bygones.parse.decode import field_names, has_too_many_values, known_names
from bygones.parse.full import unknown_fields
from bygones.parse.light import parse_line_light
from bygones.parse.metadata import SIDECAR_FIELDS
from bygones.render.numbers import version_order
from bygones.sources.lines import read_at, read_lines
from bygones.sources.walk import discover_sources

_WARMUP_PROMPT = "Warmup"


def classify_transcript(facts: FileFacts) -> FileClass:
    """Return the class of a file, by its records rather than by its name."""
    if not _record_count(facts) + facts.unknown:
        return FileClass.UNKNOWN if facts.problems else FileClass.EMPTY
    if _is_agent(facts):
        return _agent_class(facts)
    if facts.messages:
        return FileClass.MIXED if facts.begins_with_summary else FileClass.CONVERSATION
    return FileClass.UNKNOWN if facts.unknown else _metadata_class(facts)


def _record_count(facts: FileFacts) -> int:
    return facts.summaries + facts.snapshots + facts.metadata + facts.nodes


def _metadata_class(facts: FileFacts) -> FileClass:
    if facts.summaries == _record_count(facts):
        return FileClass.SUMMARY_ONLY
    if facts.snapshots == _record_count(facts):
        return FileClass.HISTORY_ONLY
    return FileClass.METADATA_ONLY


def _is_agent(facts: FileFacts) -> bool:
    if facts.messages:
        # Old versions wrote agent runs into the session's file.
        return facts.sidechains == facts.messages
    return facts.is_named_like_agent


def _agent_class(facts: FileFacts) -> FileClass:
    if (facts.agent_id or "").startswith(REPLAY_ID_PREFIXES):
        return FileClass.AGENT_REPLAY
    if facts.first_prompt is None:
        return FileClass.AGENT_INCOMPLETE
    if facts.first_prompt == _WARMUP_PROMPT:
        return FileClass.AGENT_WARMUP
    return FileClass.AGENT_TASK


def parse_known_line(line: Line) -> LocatedRecord | None:
    """Return the record of a valid line without unknown fields, `None` for all others.

    The result is that of `parse_line_light`, and `unknown_fields` would return nothing.
    Without this decoder `inspect` takes 0.43 s instead of 0.24 s for 49 MB.
    """
    if has_too_many_values(line.raw):
        return None
    try:
        return LocatedRecord(_decode_known(line.raw), line.position, line.raw)
    except DECODE_ERRORS:
        return None


def find_unknown_fields(raw: bytes) -> tuple[str, ...]:
    """Return the names of a record's unknown fields; empty if it cannot be decoded."""
    try:
        return unknown_fields(raw)
    except DECODE_ERRORS:
        return ()


def _known_shape(name: str, kind: type[Struct]) -> type[Struct]:
    known = known_names(kind) - {"type"}
    hints = get_type_hints(LightRecord, include_extras=True)
    if name in {"user", "assistant"}:
        hints["message"] = _closed_struct(LightMessage, field_names(WireMessage)) | None
    return _closed_struct(LightRecord, known, hints, type_name=name)


def _closed_struct(
    open_kind: type[Struct],
    known: Iterable[str],
    hints: dict[str, Any] | None = None,
    *,
    type_name: str | None = None,
) -> type[Struct]:
    """Return a struct like `open_kind` that accepts exactly the known fields.

    Known fields that `open_kind` does not have are decoded as `Raw`. Fields of `open_kind`
    that are not known are constants with their default.
    """
    hints = hints or get_type_hints(open_kind, include_extras=True)
    own = [field for field in fields(open_kind) if field.encode_name in known]
    rest = sorted(set(known) - {field.encode_name for field in own})
    others = {f"other_{number}": name for number, name in enumerate(rest)}
    absent = {
        field.name: field.default
        for field in fields(open_kind)
        if field.encode_name not in known
    }
    return msgspec.defstruct(
        f"Closed{open_kind.__name__}",
        [
            *((field.name, hints[field.name], field.default) for field in own),
            *((other, Raw, Raw()) for other in others),
        ],
        namespace=absent | ({"type": type_name} if type_name else {}),
        rename={field.name: field.encode_name for field in own} | others,
        tag_field="type" if type_name else None,
        tag=type_name,
        forbid_unknown_fields=True,
        frozen=True,
        kw_only=True,
        gc=False,
    )


_SHAPES: Any = reduce(
    or_, (_known_shape(name, kind) for name, kind in RECORDS_BY_TYPE.items())
)

_decode_known: Callable[[bytes], LightRecord] = msgspec.json.Decoder(_SHAPES).decode


ProblemCallback = Callable[[ProblemRow], None]
"""Receives each problem as soon as it is found."""

RecordKey = tuple[str, str | None, str | None]
"""Type and subtype of a record, and the version of Claude Code."""

DriftKey = tuple[DriftKind, str, str | None]
"""Kind and name of something unknown, and the version of Claude Code."""

_MAX_NAMES = 20_000
_MAX_IDS = 200_000
_MAX_NAME_LENGTH = 100
_MAX_DETAIL_LENGTH = 200
_MAX_EXAMPLES = 3

_MESSAGE_TYPES = ("user", "assistant")
_SNAPSHOT_TYPES = ("file-history-snapshot", "file-history-delta")
_TREE_TYPES = RECORDS_BY_TYPE.keys() - METADATA_BY_TYPE.keys()
_UNKNOWN_TYPE = ""
"""Represents all unknown types."""
_PAYLOAD_FIELDS = {"attachment": "attachment", "progress": "data"}
_EMPTY = Raw()
_LIST_START = ord("[")
_OBJECT_START = ord("{")
_MAX_SIDECAR_BYTES = 1 << 20

K = TypeVar("K")


class _PayloadType(Struct, frozen=True, gc=False):
    type: str | None = None


class _InnerBlock(Struct, frozen=True, gc=False):
    """A block inside a tool result."""

    type: str = ""
    source: Raw = Raw()


_decode_object = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_payload_type = msgspec.json.Decoder(_PayloadType).decode
_decode_inner_blocks = msgspec.json.Decoder(list[_InnerBlock]).decode


class BoundedCounter(Generic[K]):
    """Counts and bytes by name, for a limited number of names."""

    def __init__(self, limit: int) -> None:
        self.totals: dict[K, list[int]] = {}
        self.limit = limit
        self.overflow = 0

    def add(self, name: K, size: int = 0, *, count: int = 1) -> None:
        sums = self.totals.get(name)
        if sums is not None:
            sums[0] += count
            sums[1] += size
        elif len(self.totals) < self.limit:
            self.totals[name] = [count, size]
        else:
            self.overflow += count


class ContentSizes(Struct):
    """Bytes by `ContentKind`."""

    text: int = 0
    thinking: int = 0
    input: int = 0
    result: int = 0
    outcome: int = 0
    image: int = 0
    attachment: int = 0
    progress: int = 0
    snapshot: int = 0
    metadata: int = 0
    unknown: int = 0
    envelope: int = 0
    unread: int = 0


class FileStats:
    """Counts of one file while it is read."""

    def __init__(self, source: SourceFile) -> None:
        self.source = source
        self.agent_id: AgentId | None = source.agent_id
        self.types: dict[str, int] = {}
        self.size = 0
        self.sidechains = 0
        self.problem_count = 0
        self.begins_with_summary: bool | None = None
        self.first_prompt: str | None = None

    def add_record(self, record: LightRecord) -> None:
        kind = record.type if record.type in RECORDS_BY_TYPE else _UNKNOWN_TYPE
        if self.begins_with_summary is None and kind in _TREE_TYPES:
            self.begins_with_summary = "summary" in self.types
        self.types[kind] = self.types.get(kind, 0) + 1
        if kind in _MESSAGE_TYPES:
            self.sidechains += record.is_sidechain
            if self.first_prompt is None and kind == "user" and not record.is_meta:
                self.first_prompt = _first_prompt(record)
        if record.agent_id:
            self.agent_id = record.agent_id

    def to_facts(self) -> FileFacts:
        """Return the facts that determine the class of the file."""
        types = self.types
        outside = sum(types[kind] for kind in types if kind in METADATA_BY_TYPE)
        summaries = types.get("summary", 0)
        snapshots = sum(types.get(kind, 0) for kind in _SNAPSHOT_TYPES)
        return FileFacts(
            summaries=summaries,
            snapshots=snapshots,
            metadata=outside - summaries - snapshots,
            nodes=sum(types[kind] for kind in types if kind in _TREE_TYPES),
            messages=sum(types.get(kind, 0) for kind in _MESSAGE_TYPES),
            sidechains=self.sidechains,
            unknown=types.get(_UNKNOWN_TYPE, 0),
            problems=self.problem_count,
            begins_with_summary=bool(self.begins_with_summary),
            first_prompt=self.first_prompt,
            agent_id=self.agent_id,
            is_named_like_agent=self.source.kind is SourceKind.AGENT,
        )


class _ProblemRun(NamedTuple):
    problem: Problem
    line: int | None
    """The number of its first line."""


class TranscriptStats:
    """Counts over all files."""

    def __init__(self, on_problem: ProblemCallback | None) -> None:
        self.on_problem = on_problem
        self.classes: BoundedCounter[FileClass] = BoundedCounter(len(FileClass))
        self.unread_files: BoundedCounter[SourceKind] = BoundedCounter(len(SourceKind))
        self.kinds: BoundedCounter[RecordKey] = BoundedCounter(_MAX_NAMES)
        self.drift: BoundedCounter[DriftKey] = BoundedCounter(_MAX_NAMES)
        self.sessions: BoundedCounter[str] = BoundedCounter(_MAX_IDS)
        self.agents: BoundedCounter[str] = BoundedCounter(_MAX_IDS)
        self.problems: BoundedCounter[str] = BoundedCounter(len(PROBLEM_KINDS))
        self.first_problems: dict[str, list[ProblemRow]] = {}
        self._run: _ProblemRun | None = None
        """Adjacent problems that are not reported yet."""
        self.sizes = ContentSizes()
        self.lines = self.unread_lines = self.records = 0
        self.first_time: datetime | None = None
        self.last_time: datetime | None = None

    def add_other_file(self, source: SourceFile) -> None:
        """Count a file that is not a transcript; look for drift in agents' sidecars."""
        self.unread_files.add(source.kind, source.size)
        for name in _unknown_sidecar_fields(source):
            self.drift.add(
                (DriftKind.FIELD, f"meta.json.{name[:_MAX_NAME_LENGTH]}", None)
            )

    def finish_file(self, file: FileStats) -> None:
        """Count a file after all its lines."""
        self.flush_problems()
        self.classes.add(classify_transcript(file.to_facts()), file.size)
        if file.agent_id:
            self.agents.add(file.agent_id[:_MAX_NAME_LENGTH])

    def add_problem(self, problem: Problem, number: int | None) -> None:
        """Count a problem on a line, or with a whole file."""
        self.problems.add(problem.kind, count=problem.count)
        run = self._run
        if run is not None and is_adjacent(run.problem, problem):
            self._run = _ProblemRun(merge_problems(run.problem, problem), run.line)
            return
        self.flush_problems()
        self._run = _ProblemRun(problem, number)

    def flush_problems(self) -> None:
        """Report the last run of problems."""
        run, self._run = self._run, None
        if run is None:
            return
        problem = structs.replace(
            run.problem, detail=run.problem.detail[:_MAX_DETAIL_LENGTH]
        )
        row = structs.replace(ProblemRow.from_problem(problem), line=run.line)
        first = self.first_problems.setdefault(problem.kind, [])
        if len(first) < _MAX_EXAMPLES:
            first.append(row)
        if self.on_problem:
            self.on_problem(row)

    def add_line(self, line: Line, number: int, file: FileStats) -> None:
        """Count a line: its records and problems."""
        self.lines += line.repeats
        file.size += (len(line.raw) + line.has_newline) * line.repeats
        located = parse_known_line(line)
        if located:
            self._add_record(located)
            file.add_record(located.record)
            self.sizes.envelope += line.has_newline
        else:
            self._add_unusual_line(line, number, file)

    def _add_unusual_line(self, line: Line, number: int, file: FileStats) -> None:
        read = 0
        for part in parse_line_light(line):
            if isinstance(part, Problem):
                if part.kind != "blank":
                    file.problem_count += line.repeats
                for problem in repeat_problem(part, line):
                    self.add_problem(problem, number)
                continue
            self._add_record(part)
            file.add_record(part.record)
            read += part.position.length
            for name in find_unknown_fields(part.raw):
                self._add_drift(
                    DriftKind.FIELD, f"{part.record.type}.{name}", part.record
                )
        if read:
            self.sizes.envelope += line.has_newline
            self.sizes.unread += len(line.raw) - read
        else:
            self.unread_lines += line.repeats
            self.sizes.unread += (len(line.raw) + line.has_newline) * line.repeats

    def _add_record(self, part: LocatedRecord) -> None:
        record, length = part.record, part.position.length
        kind = (record.type or "")[:_MAX_NAME_LENGTH]
        payload = _payload(kind, part.raw)
        self.records += 1
        self.kinds.add((kind, _subtype(record, payload), _version(record)), length)
        if record.session_id:
            self.sessions.add(record.session_id[:_MAX_NAME_LENGTH])
        if record.agent_id:
            self.agents.add(record.agent_id[:_MAX_NAME_LENGTH])
        if record.timestamp:
            self._add_time(record.timestamp)
        for name in _unknown_nested_fields(part, payload):
            self._add_drift(DriftKind.FIELD, f"{kind}.{name}", record)
        # Repaired bytes need not have the length of the original.
        is_original = len(part.raw) == length
        used = self._count_content(record, len(payload), length) if is_original else 0
        self.sizes.envelope += length - used

    def _add_time(self, time: datetime) -> None:
        if self.first_time is None or time < self.first_time:
            self.first_time = time
        if self.last_time is None or time > self.last_time:
            self.last_time = time

    def _add_drift(self, kind: DriftKind, name: str, record: LightRecord) -> None:
        self.drift.add((kind, name[:_MAX_NAME_LENGTH], _version(record)))

    def _count_content(self, record: LightRecord, payload: int, length: int) -> int:
        """Count the bytes of a record that are not envelope, and return how many."""
        kind, sizes = record.type, self.sizes
        if kind in _MESSAGE_TYPES:
            return self._count_message(record)
        if kind == "progress":
            sizes.progress += payload
        elif kind == "attachment":
            sizes.attachment += payload
        elif kind in _SNAPSHOT_TYPES:
            sizes.snapshot += length
            return length
        elif kind in METADATA_BY_TYPE:
            sizes.metadata += length
            return length
        elif kind not in RECORDS_BY_TYPE:
            sizes.unknown += length
            return length
        return payload

    def _count_message(self, record: LightRecord) -> int:
        used = len(record.tool_use_result)
        self.sizes.outcome += used
        content = record.message.content if record.message else None
        if isinstance(content, str):
            size = _utf8_size(content)
            self.sizes.text += size
            return used + size
        for block in content or ():
            used += self._count_block(block, record)
        return used

    def _count_block(self, block: LightBlock, record: LightRecord) -> int:
        sizes = self.sizes
        if block.type not in BLOCKS_BY_TYPE:
            self._add_drift(DriftKind.BLOCK, block.type, record)
        text, thinking = _utf8_size(block.text), _utf8_size(block.thinking)
        source, call, answer = len(block.source), len(block.input), len(block.content)
        inner = self._count_media(block.content, record) if answer else 0
        sizes.text += text
        sizes.thinking += thinking
        sizes.input += call
        sizes.result += answer - inner
        sizes.image += source + inner
        return text + thinking + source + call + answer

    def _count_media(self, content: Raw, record: LightRecord) -> int:
        """Return the bytes of images and documents inside a tool's result."""
        if memoryview(content)[0] != _LIST_START:
            return 0
        try:
            blocks = _decode_inner_blocks(content)
        except DECODE_ERRORS:
            return 0
        for block in blocks:
            if block.type not in BLOCKS_BY_TYPE:
                self._add_drift(DriftKind.BLOCK, block.type, record)
        return sum(len(block.source) for block in blocks)


def _unknown_nested_fields(part: LocatedRecord, payload: Raw) -> Iterator[str]:
    """Yield unknown fields of a tool's result, an attachment or a compaction."""
    record = part.record
    if record.type == "attachment" and payload:
        kind = ATTACHMENTS_BY_TYPE.get(_subtype(record, payload) or "")
        if kind and not kind.is_private:
            yield from _unknown_names(payload, kind, f"attachment.{kind.__name__}")
    elif record.type == "system" and record.subtype == "compact_boundary":
        fields = _decode_object(part.raw)
        metadata = fields.get(wire_name("compaction"), _EMPTY)
        yield from _unknown_names(metadata, CompactionMetadata, "compactMetadata")
    elif record.tool_use_result:
        yield from _unknown_names(record.tool_use_result, None, "toolUseResult")


def _unknown_names(raw: Raw, kind: type[Struct] | None, path: str) -> Iterator[str]:
    """Yield the unknown fields of an object; without `kind` it is a tool's result."""
    if not raw or memoryview(raw)[0] != _OBJECT_START:
        return
    try:
        fields = _decode_object(raw)
    except DECODE_ERRORS:
        return
    kind = kind or find_outcome_type(fields)
    if kind:
        known = known_names(kind)
        yield from (f"{path}.{name}" for name in fields if name not in known)


def _unknown_sidecar_fields(source: SourceFile) -> list[str]:
    if source.kind is not SourceKind.SIDECAR or source.agent_id is None:
        return []
    raw = read_at(Position(source.id, 0, 0, min(source.size, _MAX_SIDECAR_BYTES)))
    if isinstance(raw, Problem):
        return []
    try:
        fields = _decode_object(raw)
    except DECODE_ERRORS:
        return []
    return [name for name in fields if name not in SIDECAR_FIELDS]


def _payload(kind: str, raw: bytes) -> Raw:
    """Return the attachment or the progress data of a record."""
    if kind not in _PAYLOAD_FIELDS:
        return _EMPTY
    try:
        return _decode_object(raw).get(_PAYLOAD_FIELDS[kind], _EMPTY)
    except DECODE_ERRORS:
        return _EMPTY


def _subtype(record: LightRecord, payload: Raw) -> str | None:
    subtype = record.subtype if record.type == "system" else None
    if payload:
        try:
            subtype = _decode_payload_type(payload).type
        except DECODE_ERRORS:
            return None
    return subtype[:_MAX_NAME_LENGTH] if subtype else None


def _version(record: LightRecord) -> str | None:
    return record.version[:_MAX_NAME_LENGTH] if record.version else None


def _first_prompt(record: LightRecord) -> str | None:
    """Return the beginning of a user text; `None` for a tool result."""
    content = record.message.content if record.message else None
    if content is None or isinstance(content, str):
        return content and content[:_MAX_NAME_LENGTH]
    if any(block.tool_use_id for block in content):
        return None
    return next((block.text[:_MAX_NAME_LENGTH] for block in content if block.text), "")


def _utf8_size(text: str | None) -> int:
    if not text:
        return 0
    return len(text) if text.isascii() else len(text.encode())


BytesReadCallback = Callable[[int], None]
"""Receives the number of bytes read since the last call."""

_PROGRESS_STEP = 1 << 22


def inspect_transcripts(
    paths: Iterable[Path],
    *,
    on_problem: ProblemCallback | None = None,
    on_bytes_read: BytesReadCallback | None = None,
) -> Survey:
    """Count what the transcripts in some files and folders contain.

    Lines are decoded by the light decoder, so problems in fields that it does not decode
    are not found. A path inside another one is counted once.
    """
    stats = TranscriptStats(on_problem)
    for path in _outermost(paths):
        for source in discover_sources(path):
            if isinstance(source, Problem):
                stats.add_problem(source, None)
            elif _is_parsed(source):
                _read_file(source, stats, on_bytes_read)
            else:
                stats.add_other_file(source)
    stats.flush_problems()
    return build_survey(stats)


def total_transcript_size(paths: Iterable[Path]) -> int:
    """Return how many bytes `inspect_transcripts` will read."""
    return sum(
        source.size
        for path in _outermost(paths)
        for source in discover_sources(path)
        if isinstance(source, SourceFile) and _is_parsed(source)
    )


def _outermost(paths: Iterable[Path]) -> list[Path]:
    by_real_path = {Path(os.path.realpath(path)): path for path in paths}
    return [
        path
        for real_path, path in by_real_path.items()
        if not any(parent in by_real_path for parent in real_path.parents)
    ]


def _is_parsed(source: SourceFile) -> bool:
    return source.kind.is_transcript or source.kind is SourceKind.JOURNAL


def _read_file(
    source: SourceFile, stats: TranscriptStats, on_bytes_read: BytesReadCallback | None
) -> None:
    file = FileStats(source)
    reported = 0
    number = 1
    for line in read_lines(source, merge_repeats=True):
        if isinstance(line, Problem):
            file.problem_count += 1
            stats.add_problem(line, None)
        else:
            stats.add_line(line, number, file)
            number += line.repeats
        if on_bytes_read and file.size - reported >= _PROGRESS_STEP:
            on_bytes_read(file.size - reported)
            reported = file.size
    if on_bytes_read:
        on_bytes_read(file.size - reported)
    stats.finish_file(file)


_KeyT = TypeVar("_KeyT")

_KNOWN_SUBTYPES: Mapping[str, tuple[DriftKind, Container[str | None]]] = {
    "system": (DriftKind.SUBTYPE, SYSTEM_SUBTYPES),
    "attachment": (DriftKind.ATTACHMENT, ATTACHMENTS_BY_TYPE),
    "progress": (DriftKind.PROGRESS, ProgressData.types),
}


def build_survey(stats: TranscriptStats) -> Survey:
    return Survey(
        files=tuple(
            FileClassRow(kind=kind, files=files, bytes=size)
            for kind, files, size in _iter_in_order(stats.classes, FileClass)
        ),
        unread_files=tuple(
            UnreadFilesRow(kind=kind, files=files, bytes=size)
            for kind, files, size in _iter_in_order(stats.unread_files, SourceKind)
        ),
        records=tuple(_record_rows(stats.kinds)),
        versions=tuple(_version_rows(stats.kinds)),
        content=tuple(
            ContentRow(kind=kind, bytes=getattr(stats.sizes, kind.name.lower()))
            for kind in ContentKind
        ),
        drift=tuple(_drift_rows(stats.kinds, stats.drift)),
        problems=tuple(_problem_rows(stats)),
        total=_total_row(stats),
    )


def _iter_in_order(
    counter: BoundedCounter[_KeyT], order: Iterable[_KeyT]
) -> Iterator[tuple[_KeyT, int, int]]:
    for name in order:
        if name in counter.totals:
            number, size = counter.totals[name]
            yield name, number, size


def _record_rows(kinds: BoundedCounter[RecordKey]) -> Iterator[RecordTypeRow]:
    """Yield records by type and subtype, the most frequent type first."""
    sums: dict[tuple[str, str | None], list[int]] = {}
    types: dict[str, int] = {}
    for (kind, subtype, _), (number, size) in kinds.totals.items():
        total = sums.setdefault((kind, subtype), [0, 0])
        total[0] += number
        total[1] += size
        types[kind] = types.get(kind, 0) + number
    for kind, subtype in sorted(
        sums,
        key=lambda name: (-types[name[0]], name[0], -sums[name][0], name[1] or ""),
    ):
        number, size = sums[kind, subtype]
        yield RecordTypeRow(
            record_type=kind,
            subtype=subtype,
            is_known=_find_unknown(kind, subtype) is None,
            records=number,
            bytes=size,
        )


def _find_unknown(kind: str, subtype: str | None) -> tuple[DriftKind, str] | None:
    """Return the name that this version does not know: the type or the subtype."""
    if kind not in RECORDS_BY_TYPE:
        return DriftKind.RECORD, kind
    if kind not in _KNOWN_SUBTYPES:
        return None
    drift, known = _KNOWN_SUBTYPES[kind]
    return None if subtype in known else (drift, subtype or "")


def _version_rows(kinds: BoundedCounter[RecordKey]) -> Iterator[VersionRow]:
    sums: dict[str, int] = {}
    for (_, _, version), (number, _) in kinds.totals.items():
        if version:
            sums[version] = sums.get(version, 0) + number
    for version in sorted(sums, key=version_order):
        yield VersionRow(version=version, records=sums[version])


def _drift_rows(
    kinds: BoundedCounter[RecordKey], drift: BoundedCounter[DriftKey]
) -> Iterator[DriftRow]:
    """Yield what this version does not know, by kind, name and version."""
    sums = {key: number for key, (number, _) in drift.totals.items()}
    for (kind, subtype, version), (number, _) in kinds.totals.items():
        if version and not is_known_version(version):
            newer: DriftKey = (DriftKind.VERSION, version, version)
            sums[newer] = sums.get(newer, 0) + number
        unknown = _find_unknown(kind, subtype)
        if unknown:
            key = (*unknown, version)
            sums[key] = sums.get(key, 0) + number
    order = {kind: number for number, kind in enumerate(DriftKind)}
    for kind, name, version in sorted(
        sums, key=lambda key: (order[key[0]], key[1], version_order(key[2]))
    ):
        number = sums[kind, name, version]
        yield DriftRow(kind=kind, name=name, version=version, records=number)


def _problem_rows(stats: TranscriptStats) -> Iterator[ProblemKindRow]:
    for kind, number, _ in _iter_in_order(stats.problems, PROBLEM_KINDS):
        yield ProblemKindRow(
            kind=kind,
            meaning=PROBLEM_KINDS[kind].meaning,
            problems=number,
            examples=tuple(stats.first_problems[kind]),
        )


def _total_row(stats: TranscriptStats) -> SurveyTotalRow:
    counters = (stats.kinds, stats.drift, stats.sessions, stats.agents)
    files = stats.classes.totals.values()
    return SurveyTotalRow(
        files=sum(number for number, _ in files),
        bytes=sum(size for _, size in files),
        lines=stats.lines,
        unread_lines=stats.unread_lines,
        records=stats.records,
        problems=sum(number for number, _ in stats.problems.totals.values()),
        sessions=len(stats.sessions.totals),
        agents=len(stats.agents.totals),
        first_at=stats.first_time,
        last_at=stats.last_time,
        overflow=sum(counter.overflow for counter in counters),
    )
