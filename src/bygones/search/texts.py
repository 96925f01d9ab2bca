"""Load the texts that a search found, with the fields that a query can ask about."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from zlib import crc32

from msgspec import Struct
from msgspec.structs import replace

from bygones.errors import ArchiveDamaged
from bygones.model.base import AgentId, Line, Position, RecordId, SessionId
from bygones.model.nodes import IndexField, LocatedRecord, RecordNode, TextSpan
from bygones.model.query import (
    HasValue,
    Part,
    text_key_is_error,
    text_key_part,
    text_key_session,
)
from bygones.model.summary import Annotations, Excerpt, Hit, Role, SessionSummary
from bygones.parse.light import build_node, parse_line_light
from bygones.parse.texts import build_record_texts, extract_text_spans
from bygones.query.fields import SearchableText
from bygones.query.matcher import make_session_text
from bygones.store.annotations import with_annotations
from bygones.store.encoding import STEERING_TITLE, id_key
from bygones.store.protocols import ByteReader, RecordLocation, SearchFacts
from bygones.store.tantivy_engine import TextMatch

ROLE_BY_PART = {
    Part.PROMPT: Role.USER,
    Part.REPLY: Role.ASSISTANT,
    Part.THINKING: Role.ASSISTANT,
    Part.TOOL: Role.ASSISTANT,
    Part.RESULT: Role.USER,
    Part.OTHER: Role.SYSTEM,
}
"""The side that says what is in a part."""
EDIT_TOOLS = frozenset({"Edit", "Write", "MultiEdit", "NotebookEdit"})
"""Tools whose calls change files."""
_CACHE_SIZE = 512
_MAX_PARENTS = 12
"""Parent records in which the call of a result is looked for: parallel calls are one
below the other."""


class LoadedRecord(Struct, frozen=True):
    """A record that was read, and the texts in it that are indexed."""

    location: RecordLocation
    node: RecordNode
    spans: tuple[TextSpan, ...]


AnnotationsBySession = Mapping[SessionId, Annotations]


class TextLoader:
    """Reads texts that were found from the archive."""

    def __init__(
        self,
        byte_reader: ByteReader,
        facts: SearchFacts,
        annotations: AnnotationsBySession,
        *,
        resolve_calls: bool = True,
    ) -> None:
        self._byte_reader = byte_reader
        self._resolves_calls = resolve_calls
        """Whether the call of a result has to be read too."""
        self._annotations = annotations
        self.facts = facts
        self.opened_count = 0
        """How many records were read so far."""
        self.checksums: dict[tuple[int, int], int] = {}
        """The CRC-32 of texts, by record and text key, as far as they are known."""
        self._load_record = lru_cache(_CACHE_SIZE)(self._read_record)
        self._load_source = lru_cache(_CACHE_SIZE)(byte_reader.source)
        self._load_abandoned = lru_cache(64)(facts.abandoned_keys)

    def load(
        self, text: TextMatch, summary: SessionSummary
    ) -> tuple[SearchableText, LoadedRecord] | None:
        """Return a text with its fields, and its record, unless that is gone."""
        key = text.text_key
        kind = (text_key_part(key), text_key_is_error(key))
        checksum = self.checksums.get((text.record, key))
        if checksum is not None:
            loaded = self._load_record(text.record, is_checked=False)
            if loaded is not None:
                found = self.make_text(loaded, text_key_session(key), kind, summary)
                if crc32(found.text.encode("utf-8", "replace")) == checksum:
                    return found, loaded
        record = self._load_record(text.record)
        if record is None:
            return None
        return self.make_text(record, text_key_session(key), kind, summary), record

    def make_text(
        self,
        record: LoadedRecord,
        session: int,
        kind: tuple[Part, bool],
        summary: SessionSummary,
    ) -> SearchableText:
        """Return the text of a part of a record, of its errors or of the others."""
        node = record.node
        part, is_error = kind
        texts = [
            one.text
            for one in build_record_texts(node, record.spans)
            if one.part is part and one.is_error is is_error
        ]
        spans = record.spans if part is Part.TOOL else ()
        is_result = part is Part.RESULT and self._resolves_calls
        call_spans = self._load_calls(record, session) if is_result else ()
        agent = self._agent_id(record)
        return replace(
            make_session_text(with_annotations(summary, self._annotations), part),
            role=ROLE_BY_PART.get(part),
            tool_names=_span_texts(spans, IndexField.TOOL),
            paths=_span_texts(spans, IndexField.PATH),
            commands=_span_texts(spans, IndexField.COMMAND),
            result_tools=_span_texts(call_spans, IndexField.TOOL),
            result_paths=_span_texts(call_spans, IndexField.PATH),
            result_commands=_span_texts(call_spans, IndexField.COMMAND),
            agent_id=agent,
            agent_type=self.facts.agent_type(session, agent) if agent else None,
            is_abandoned=record.location.key in self._load_abandoned(session),
            is_error=is_error,
            sent_at=node.timestamp,
            has=_contents(node, part),
            text="\n".join(texts),
        )

    def make_hit(
        self, loaded: tuple[SearchableText, LoadedRecord], excerpt: Excerpt
    ) -> Hit:
        """Return a loaded text as a hit."""
        text, record = loaded
        return Hit(
            record_id=record.node.uuid or RecordId(""),
            position=record.node.position,
            part=text.part,
            role=text.role,
            sent_at=text.sent_at,
            tool_names=text.tool_names,
            agent_id=text.agent_id,
            agent_type=text.agent_type,
            is_abandoned=text.is_abandoned,
            is_error=text.is_error,
            excerpt=excerpt,
        )

    def _load_calls(self, record: LoadedRecord, session: int) -> tuple[TextSpan, ...]:
        """Return the indexed texts of the calls that a result answers."""
        call_ids = {b.id for b in record.node.blocks if b.id and b.name is None}
        spans: list[TextSpan] = []
        current: LoadedRecord | None = record
        for _ in range(_MAX_PARENTS):
            if current is None or not call_ids:
                break
            parent = current.node.source_record_id or current.node.parent_uuid
            number = self.facts.find_record(session, id_key(parent)) if parent else None
            current = self._load_record(number) if number is not None else None
            blocks = current.node.blocks if current is not None else ()
            found = {b.id for b in blocks if b.id in call_ids and b.name}
            if current is not None and found:
                spans += current.spans
                call_ids -= found
        return tuple(spans)

    def _agent_id(self, record: LoadedRecord) -> AgentId | None:
        if record.node.agent_id is not None:
            return record.node.agent_id
        source = self._load_source(record.location.source)
        if source is not None and source.agent is not None:
            return source.agent
        return AgentId("") if record.node.is_sidechain else None

    def _read_record(
        self, number: int, *, is_checked: bool = True
    ) -> LoadedRecord | None:
        location = self.facts.record_location(number)
        source = self._load_source(location.source) if location else None
        if location is None or source is None:
            return None
        self.opened_count += 1
        position = Position(
            source.id, source.generation, location.offset, location.length
        )
        key = (source.number, source.generation)
        try:
            if location.offset >= source.stored_bytes:
                start = location.offset - source.stored_bytes
                fragment = self._byte_reader.fragment(*key)
                raw = fragment[start : start + location.length]
            else:
                reader = self._byte_reader
                read = reader.read_bytes if is_checked else reader.read_unchecked
                raw = read(*key, location.offset, location.length)
        except ArchiveDamaged:
            return None
        for record in parse_line_light(Line(position, raw)):
            if isinstance(record, LocatedRecord) and record.position == position:
                node = build_node(record)
                return LoadedRecord(location, node, extract_text_spans(record, node))
        return None


def make_title_text(summary: SessionSummary, title: str) -> SearchableText:
    """Return a title, a summary or a queued prompt of a session with its fields."""
    if title.startswith(STEERING_TITLE):
        text = make_session_text(summary, Part.PROMPT)
        title = title.removeprefix(STEERING_TITLE)
        return replace(text, role=Role.USER, text=title)
    return replace(make_session_text(summary, Part.TITLE), text=title)


def _span_texts(spans: tuple[TextSpan, ...], field: IndexField) -> tuple[str, ...]:
    return tuple(span.text for span in spans if span.field is field)


def _contents(node: RecordNode, part: Part) -> frozenset[HasValue]:
    """Return what a part of a record contains; an edit is a call, not its result."""
    has_edit = any(block.name in EDIT_TOOLS for block in node.blocks)
    contents = {
        HasValue.IMAGE: any(block.kind == "image" for block in node.blocks),
        HasValue.THINKING: part is Part.THINKING,
        HasValue.EDIT: part is Part.TOOL and has_edit,
    }
    return frozenset(value for value, is_true in contents.items() if is_true)
