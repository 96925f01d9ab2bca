"""What a query can ask about a text, from its record and its session."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

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
from bygones.query.matcher import SearchableText, make_session_text
from bygones.store.archive_tables import with_annotations
from bygones.store.encoding import id_key
from bygones.store.local_reader import RecordLocation
from bygones.store.text_index import TextMatch

if TYPE_CHECKING:  # protocols take long to make
    from bygones.store.protocols import ByteReader, SearchFacts

__all__ = [
    "EDIT_TOOLS",
    "ROLE_BY_PART",
    "AnnotationsBySession",
    "LoadedRecord",
    "TextLoader",
]

ROLE_BY_PART = {
    Part.PROMPT: Role.USER,
    Part.REPLY: Role.ASSISTANT,
    Part.THINKING: Role.ASSISTANT,
    Part.TOOL: Role.ASSISTANT,
    Part.RESULT: Role.USER,
    Part.OTHER: Role.SYSTEM,
}
"""Whose side says what stands in a part."""
EDIT_TOOLS = frozenset({"Edit", "Write", "MultiEdit", "NotebookEdit"})
"""Tools whose calls change files."""
_CACHE_SIZE = 512
_MAX_PARENTS = 12
"""Records above a result in which its call is looked for: calls made at once stand
one below the other."""


class LoadedRecord(Struct, frozen=True):
    """A record that was opened: what it is, and what of it is indexed."""

    location: RecordLocation
    node: RecordNode
    passages: tuple[TextSpan, ...]


AnnotationsBySession = Mapping[SessionId, Annotations]


class TextLoader:
    """Opens texts that were found, from the archive's chunks."""

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
        """Whether it matters what a result answers: its call must be opened too."""
        self._annotations = annotations
        self.facts = facts
        self.opened_count = 0
        """How many records were opened so far."""
        self._load_record = lru_cache(_CACHE_SIZE)(self._read_record)
        self._load_source = lru_cache(_CACHE_SIZE)(byte_reader.source)
        self._load_rewound = lru_cache(64)(facts.abandoned_keys)

    def load(
        self, text: TextMatch, summary: SessionSummary
    ) -> tuple[SearchableText, LoadedRecord] | None:
        """Return what can be asked about a text, and its record, if it is there."""
        record = self._load_record(text.record)
        if record is None:
            return None
        node, session = record.node, text_key_session(text.text_key)
        part, failed = text_key_part(text.text_key), text_key_is_error(text.text_key)
        said = [
            one.text
            for one in build_record_texts(node, record.passages)
            if one.part is part and one.is_error is failed
        ]
        passages = record.passages if part is Part.TOOL else ()
        is_result = part is Part.RESULT and self._resolves_calls
        answered = self._load_calls(record, session) if is_result else ()
        agent = self._agent_id(record)
        subject = replace(
            make_session_text(with_annotations(summary, self._annotations), part),
            role=ROLE_BY_PART.get(part),
            tool_names=_passage_texts(passages, IndexField.TOOL),
            paths=_passage_texts(passages, IndexField.PATH),
            commands=_passage_texts(passages, IndexField.COMMAND),
            result_tools=_passage_texts(answered, IndexField.TOOL),
            result_paths=_passage_texts(answered, IndexField.PATH),
            result_commands=_passage_texts(answered, IndexField.COMMAND),
            agent_id=agent,
            agent_type=self.facts.agent_type(session, agent) if agent else None,
            is_rewound=record.location.key in self._load_rewound(session),
            is_error=failed,
            sent_at=node.timestamp,
            has=_contents(node, part),
            text="\n".join(said),
        )
        return subject, record

    def make_hit(
        self, loaded: tuple[SearchableText, LoadedRecord], excerpt: Excerpt
    ) -> Hit:
        """Return a text as a hit."""
        subject, record = loaded
        return Hit(
            record_id=record.node.uuid or RecordId(""),
            position=record.node.position,
            part=subject.part,
            role=subject.role,
            sent_at=subject.sent_at,
            tool_names=subject.tool_names,
            agent_id=subject.agent_id,
            agent_type=subject.agent_type,
            is_rewound=subject.is_rewound,
            is_error=subject.is_error,
            excerpt=excerpt,
        )

    def _load_calls(self, record: LoadedRecord, session: int) -> tuple[TextSpan, ...]:
        """Return what the calls say that a record answers, from the records above."""
        wanted = {b.id for b in record.node.blocks if b.id and b.name is None}
        found: list[TextSpan] = []
        opened: LoadedRecord | None = record
        for _ in range(_MAX_PARENTS):
            if opened is None or not wanted:
                break
            above = opened.node.source_record_id or opened.node.parent_uuid
            number = self.facts.find_record(session, id_key(above)) if above else None
            opened = self._load_record(number) if number is not None else None
            blocks = opened.node.blocks if opened is not None else ()
            called = {b.id for b in blocks if b.id in wanted and b.name}
            if opened is not None and called:
                found += opened.passages
                wanted -= called
        return tuple(found)

    def _agent_id(self, record: LoadedRecord) -> AgentId | None:
        if record.node.agent_id is not None:
            return record.node.agent_id
        kept = self._load_source(record.location.source)
        if kept is not None and kept.agent is not None:
            return kept.agent
        return AgentId("") if record.node.is_sidechain else None

    def _read_record(self, number: int) -> LoadedRecord | None:
        place = self.facts.record_location(number)
        kept = self._load_source(place.source) if place else None
        if place is None or kept is None:
            return None
        self.opened_count += 1
        position = Position(kept.id, kept.generation, place.offset, place.length)
        try:
            raw = self._byte_reader.read_bytes(
                kept.number, kept.generation, place.offset, place.length
            )
        except ArchiveDamaged:
            return None
        for sketched in parse_line_light(Line(position, raw)):
            if isinstance(sketched, LocatedRecord) and sketched.position == position:
                return LoadedRecord(
                    place, build_node(sketched), extract_text_spans(sketched)
                )
        return None


def _passage_texts(
    passages: tuple[TextSpan, ...], field: IndexField
) -> tuple[str, ...]:
    return tuple(one.text for one in passages if one.field is field)


def _contents(node: RecordNode, part: Part) -> frozenset[HasValue]:
    """Return what a record holds in a part of it: an edit is a call, and no answer."""
    edits = any(block.name in EDIT_TOOLS for block in node.blocks)
    found = {
        HasValue.IMAGE: any(block.kind == "image" for block in node.blocks),
        HasValue.THINKING: part is Part.THINKING,
        HasValue.EDIT: part is Part.TOOL and edits,
    }
    return frozenset(has for has, is_so in found.items() if is_so)
