"""What is counted while lines go by; nothing here grows with the files' size."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Generic, TypeVar

import msgspec
from msgspec import Raw, Struct

from bygones.assemble.classify import classify
from bygones.model.blocks import BLOCKS
from bygones.model.ids import AgentId, Line
from bygones.model.metadata import METADATA
from bygones.model.problems import PROBLEM_KINDS, Problem
from bygones.model.sketches import Sketch, SketchBlock, Sketched
from bygones.model.sources import Source, SourceKind
from bygones.model.surveys import DriftKind, FileClass, FileFacts, ProblemRow
from bygones.parse import sketch_line
from bygones.parse.full import RECORDS
from bygones.survey.fit import FAILURES, fit_line, strange_fields

__all__ = ["Counts", "Drift", "FileCounts", "Kind", "Notice", "Sizes", "Tally"]

Notice = Callable[[ProblemRow], None]
"""Takes a problem as soon as it is met."""

Kind = tuple[str, str | None, str | None]
"""Type and subtype of a record, and the version that wrote it."""

Drift = tuple[DriftKind, str, str | None]
"""What has not been met before, its name, and the version that wrote it."""

_NAMES = 20_000
_IDS = 200_000
_LENGTH = 100
_DETAIL = 200
_FIRST = 3

_MESSAGES = ("user", "assistant")
_SNAPSHOTS = ("file-history-snapshot", "file-history-delta")
_TREE = RECORDS.keys() - METADATA.keys()
_UNKNOWN = ""
"""Stands for all unknown types where they need not be told apart."""
_PAYLOADS = {"attachment": "attachment", "progress": "data"}
_NOTHING = Raw()
_LIST = ord("[")

K = TypeVar("K")


class _Typed(Struct, frozen=True, gc=False):
    type: str | None = None


class _Inner(Struct, frozen=True, gc=False):
    """A block inside a tool's result."""

    type: str = ""
    source: Raw = Raw()


_keys = msgspec.json.Decoder(dict[str, Raw]).decode
_typed = msgspec.json.Decoder(_Typed).decode
_inners = msgspec.json.Decoder(list[_Inner]).decode


class Tally(Generic[K]):
    """Numbers and bytes by name, for a limited number of names."""

    def __init__(self, limit: int) -> None:
        self.sums: dict[K, list[int]] = {}
        self.limit = limit
        self.overflow = 0

    def add(self, name: K, size: int = 0) -> None:
        """Count one more of this name."""
        sums = self.sums.get(name)
        if sums is not None:
            sums[0] += 1
            sums[1] += size
        elif len(self.sums) < self.limit:
            self.sums[name] = [1, size]
        else:
            self.overflow += 1


class Sizes(Struct):
    """Bytes by content kind, under the names of the kinds."""

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


class FileCounts:
    """What is known of a file while it is read."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.agent: AgentId | None = source.agent
        self.types: dict[str, int] = {}
        self.size = 0
        self.sidechains = 0
        self.oddities = 0
        self.begins_with_summary: bool | None = None
        self.first_prompt: str | None = None

    def note(self, sketch: Sketch) -> None:
        """Take in the next record of the file."""
        kind = sketch.type if sketch.type in RECORDS else _UNKNOWN
        if self.begins_with_summary is None and kind in _TREE:
            self.begins_with_summary = "summary" in self.types
        self.types[kind] = self.types.get(kind, 0) + 1
        if kind in _MESSAGES:
            self.sidechains += sketch.is_sidechain
            if self.first_prompt is None and kind == "user" and not sketch.is_meta:
                self.first_prompt = _prompt(sketch)
        if sketch.agent_id:
            self.agent = sketch.agent_id

    def facts(self) -> FileFacts:
        """Return what the class of the file depends on."""
        types = self.types
        outside = sum(types[kind] for kind in types if kind in METADATA)
        summaries = types.get("summary", 0)
        snapshots = sum(types.get(kind, 0) for kind in _SNAPSHOTS)
        return FileFacts(
            summaries=summaries,
            snapshots=snapshots,
            metadata=outside - summaries - snapshots,
            nodes=sum(types[kind] for kind in types if kind in _TREE),
            messages=sum(types.get(kind, 0) for kind in _MESSAGES),
            sidechains=self.sidechains,
            unknown=types.get(_UNKNOWN, 0),
            oddities=self.oddities,
            begins_with_summary=bool(self.begins_with_summary),
            first_prompt=self.first_prompt,
            agent=self.agent,
            is_agent_by_name=self.source.kind is SourceKind.AGENT,
        )


class Counts:
    """Everything that is counted, over all files."""

    def __init__(self, notice: Notice | None) -> None:
        self.notice = notice
        self.classes: Tally[FileClass] = Tally(len(FileClass))
        self.kept: Tally[SourceKind] = Tally(len(SourceKind))
        self.kinds: Tally[Kind] = Tally(_NAMES)
        self.drift: Tally[Drift] = Tally(_NAMES)
        self.sessions: Tally[str] = Tally(_IDS)
        self.agents: Tally[str] = Tally(_IDS)
        self.problems: Tally[str] = Tally(len(PROBLEM_KINDS))
        self.first_problems: dict[str, list[ProblemRow]] = {}
        self.sizes = Sizes()
        self.lines = self.unread_lines = self.records = 0
        self.first: datetime | None = None
        self.last: datetime | None = None

    def keep(self, source: Source) -> None:
        """Count a file that is not read."""
        self.kept.add(source.kind, source.size)

    def close(self, file: FileCounts) -> None:
        """Count a file whose lines have all been counted."""
        self.classes.add(classify(file.facts()), file.size)
        if file.agent:
            self.agents.add(file.agent[:_LENGTH])

    def problem(self, problem: Problem, number: int | None) -> None:
        """Count a problem on the line of this number, or with a whole file."""
        position = problem.position
        row = ProblemRow(
            kind=problem.kind,
            source=position.source,
            line=number,
            offset=position.offset,
            length=position.length,
            detail=problem.detail[:_DETAIL],
        )
        self.problems.add(problem.kind)
        first = self.first_problems.setdefault(problem.kind, [])
        if len(first) < _FIRST:
            first.append(row)
        if self.notice:
            self.notice(row)

    def line(self, line: Line, number: int, file: FileCounts) -> None:
        """Count a line: its records, or why it has none."""
        self.lines += 1
        file.size += len(line.raw) + line.ended
        fitting = fit_line(line)
        if fitting:
            self._record(fitting)
            file.note(fitting.sketch)
            self.sizes.envelope += line.ended
        else:
            self._odd_line(line, number, file)

    def _odd_line(self, line: Line, number: int, file: FileCounts) -> None:
        read = 0
        for part in sketch_line(line):
            if isinstance(part, Problem):
                file.oddities += part.kind != "blank"
                self.problem(part, number)
                continue
            self._record(part)
            file.note(part.sketch)
            read += part.position.length
            for name in strange_fields(part.raw):
                self._drift(DriftKind.FIELD, f"{part.sketch.type}.{name}", part.sketch)
        if read:
            self.sizes.envelope += line.ended
            self.sizes.unread += len(line.raw) - read
        else:
            self.unread_lines += 1
            self.sizes.unread += len(line.raw) + line.ended

    def _record(self, part: Sketched) -> None:
        sketch, length = part.sketch, part.position.length
        kind = (sketch.type or "")[:_LENGTH]
        payload = _payload(kind, part.raw)
        self.records += 1
        self.kinds.add((kind, _subtype(sketch, payload), _version(sketch)), length)
        if sketch.session_id:
            self.sessions.add(sketch.session_id[:_LENGTH])
        if sketch.agent_id:
            self.agents.add(sketch.agent_id[:_LENGTH])
        if sketch.timestamp:
            self._time(sketch.timestamp)
        # Where bytes had to be mended, what is decoded need not fit into them.
        is_whole = len(part.raw) == length
        used = self._content(sketch, len(payload), length) if is_whole else 0
        self.sizes.envelope += length - used

    def _time(self, time: datetime) -> None:
        if self.first is None or time < self.first:
            self.first = time
        if self.last is None or time > self.last:
            self.last = time

    def _drift(self, kind: DriftKind, name: str, sketch: Sketch) -> None:
        self.drift.add((kind, name[:_LENGTH], _version(sketch)))

    def _content(self, sketch: Sketch, payload: int, length: int) -> int:
        """Count the bytes of a record that are not envelope, and return how many."""
        kind, sizes = sketch.type, self.sizes
        if kind in _MESSAGES:
            return self._message(sketch)
        if kind == "progress":
            sizes.progress += payload
        elif kind == "attachment":
            sizes.attachment += payload
        elif kind in _SNAPSHOTS:
            sizes.snapshot += length
            return length
        elif kind in METADATA:
            sizes.metadata += length
            return length
        elif kind not in RECORDS:
            sizes.unknown += length
            return length
        return payload

    def _message(self, sketch: Sketch) -> int:
        used = len(sketch.tool_use_result)
        self.sizes.outcome += used
        content = sketch.message.content if sketch.message else None
        if isinstance(content, str):
            size = _utf8(content)
            self.sizes.text += size
            return used + size
        for block in content or ():
            used += self._block(block, sketch)
        return used

    def _block(self, block: SketchBlock, sketch: Sketch) -> int:
        sizes = self.sizes
        if block.type not in BLOCKS:
            self._drift(DriftKind.BLOCK, block.type, sketch)
        text, thinking = _utf8(block.text), _utf8(block.thinking)
        source, call, answer = len(block.source), len(block.input), len(block.content)
        inner = self._inner(block.content, sketch) if answer else 0
        sizes.text += text
        sizes.thinking += thinking
        sizes.input += call
        sizes.result += answer - inner
        sizes.image += source + inner
        return text + thinking + source + call + answer

    def _inner(self, content: Raw, sketch: Sketch) -> int:
        """Return the bytes of images and documents inside a tool's result."""
        if memoryview(content)[0] != _LIST:
            return 0
        try:
            blocks = _inners(content)
        except FAILURES:
            return 0
        for block in blocks:
            if block.type not in BLOCKS:
                self._drift(DriftKind.BLOCK, block.type, sketch)
        return sum(len(block.source) for block in blocks)


def _payload(kind: str, raw: bytes) -> Raw:
    """Return the part of a record that is an attachment or tells of progress."""
    if kind not in _PAYLOADS:
        return _NOTHING
    try:
        return _keys(raw).get(_PAYLOADS[kind], _NOTHING)
    except FAILURES:
        return _NOTHING


def _subtype(sketch: Sketch, payload: Raw) -> str | None:
    subtype = sketch.subtype if sketch.type == "system" else None
    if payload:
        try:
            subtype = _typed(payload).type
        except FAILURES:
            return None
    return subtype[:_LENGTH] if subtype else None


def _version(sketch: Sketch) -> str | None:
    return sketch.version[:_LENGTH] if sketch.version else None


def _prompt(sketch: Sketch) -> str | None:
    """Return how the text of a user record begins; ``None`` where a tool answers."""
    content = sketch.message.content if sketch.message else None
    if content is None or isinstance(content, str):
        return content and content[:_LENGTH]
    if any(block.tool_use_id for block in content):
        return None
    return next((block.text[:_LENGTH] for block in content if block.text), "")


def _utf8(text: str | None) -> int:
    if not text:
        return 0
    return len(text) if text.isascii() else len(text.encode())
