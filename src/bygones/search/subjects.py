"""What a query can ask about a text, from its record and its session."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from bygones.errors import ArchiveDamaged
from bygones.model.buckets import is_error, part_of, session_of
from bygones.model.hits import Excerpt, Hit
from bygones.model.ids import AgentId, Line, Position, RecordId, SessionId
from bygones.model.listing import Listed
from bygones.model.nodes import Node
from bygones.model.parts import Role
from bygones.model.query import Has, Part
from bygones.model.sketches import Sketched
from bygones.model.texts import IndexField, Passage
from bygones.parse import node_of, said_in, sketch_line, texts_of
from bygones.query import Subject
from bygones.store.numbers import id_number
from bygones.store.places import Place
from bygones.store.search import Text

if TYPE_CHECKING:  # protocols take long to make
    from bygones.store.shelf import Keeping, Placing

__all__ = ["EDITING", "ROLES", "Record", "Subjects", "Tags", "of_session"]

ROLES = {
    Part.PROMPT: Role.USER,
    Part.REPLY: Role.ASSISTANT,
    Part.THINKING: Role.ASSISTANT,
    Part.TOOL: Role.ASSISTANT,
    Part.RESULT: Role.USER,
    Part.OTHER: Role.SYSTEM,
}
"""Whose side says what stands in a part."""
EDITING = frozenset({"Edit", "Write", "MultiEdit", "NotebookEdit"})
"""Tools whose calls change files."""
_OPEN = 512
_ABOVE = 12
"""Records above a result in which its call is looked for: calls made at once stand
one below the other."""


class Record(Struct, frozen=True):
    """A record that was opened: what it is, and what of it is indexed."""

    place: Place
    node: Node
    passages: tuple[Passage, ...]


Tags = Mapping[SessionId, tuple[str, ...]]
"""What readers have tagged sessions with."""


def of_session(
    listed: Listed, part: Part = Part.OTHER, tags: Tags | None = None
) -> Subject:
    """Return what can be asked about a session, in the shape of a text."""
    added = tags.get(listed.id, ()) if tags else ()
    return Subject(
        session=listed.id,
        project=listed.project,
        title=listed.title.text,
        models=listed.models,
        git_branches=listed.git_branches,
        entrypoints=listed.entrypoints,
        tags=(*listed.tags, *added),
        started=listed.started,
        flags=frozenset(listed.flags),
        part=part,
        text=listed.title.text if part is Part.TITLE else "",
        time=listed.ended,
    )


class Subjects:
    """Opens texts that were found, from the archive's chunks."""

    def __init__(
        self,
        chunks: Keeping,
        places: Placing,
        tags: Tags | None = None,
        *,
        answers: bool = True,
    ) -> None:
        self._chunks = chunks
        self._has_answers = answers
        """Whether it matters what a result answers: its call must be opened too."""
        self._tags = tags
        self.places = places
        self.opened = 0
        """How many records were opened so far."""
        self._record = lru_cache(_OPEN)(self._opened)
        self._source = lru_cache(_OPEN)(chunks.source)
        self._rewound = lru_cache(64)(places.rewound)

    def subject(self, text: Text, listed: Listed) -> tuple[Subject, Record] | None:
        """Return what can be asked about a text, and its record, if it is there."""
        record = self._record(text.record)
        if record is None:
            return None
        node, session = record.node, session_of(text.bucket)
        part, failed = part_of(text.bucket), is_error(text.bucket)
        said = [
            one.text
            for one in said_in(node, record.passages)
            if one.part is part and one.is_error is failed
        ]
        passages = record.passages if part is Part.TOOL else ()
        is_result = part is Part.RESULT and self._has_answers
        answered = self._answered(record, session) if is_result else ()
        agent = self._agent(record)
        subject = replace(
            of_session(listed, part, self._tags),
            role=ROLES.get(part),
            tools=_texts(passages, IndexField.TOOL),
            paths=_texts(passages, IndexField.PATH),
            commands=_texts(passages, IndexField.COMMAND),
            answers=_texts(answered, IndexField.TOOL),
            answered_paths=_texts(answered, IndexField.PATH),
            answered_commands=_texts(answered, IndexField.COMMAND),
            agent=agent,
            agent_type=self.places.agent_type(session, agent) if agent else None,
            is_rewound=record.place.uuid in self._rewound(session),
            is_error=failed,
            time=node.time,
            has=_has(node, part),
            text="\n".join(said),
        )
        return subject, record

    def hit(self, found: tuple[Subject, Record], excerpt: Excerpt) -> Hit:
        """Return a text as a hit."""
        subject, record = found
        return Hit(
            record=record.node.uuid or RecordId(""),
            position=record.node.position,
            part=subject.part,
            role=subject.role,
            time=subject.time,
            tools=subject.tools,
            agent=subject.agent,
            agent_type=subject.agent_type,
            is_rewound=subject.is_rewound,
            is_error=subject.is_error,
            excerpt=excerpt,
        )

    def _answered(self, record: Record, session: int) -> tuple[Passage, ...]:
        """Return what the calls say that a record answers, from the records above."""
        wanted = {b.id for b in record.node.blocks if b.id and b.name is None}
        found: list[Passage] = []
        opened: Record | None = record
        for _ in range(_ABOVE):
            if opened is None or not wanted:
                break
            above = opened.node.source_record or opened.node.parent
            number = self.places.record(session, id_number(above)) if above else None
            opened = self._record(number) if number is not None else None
            blocks = opened.node.blocks if opened is not None else ()
            called = {b.id for b in blocks if b.id in wanted and b.name}
            if opened is not None and called:
                found += opened.passages
                wanted -= called
        return tuple(found)

    def _agent(self, record: Record) -> AgentId | None:
        if record.node.agent is not None:
            return record.node.agent
        kept = self._source(record.place.source)
        if kept is not None and kept.agent is not None:
            return kept.agent
        return AgentId("") if record.node.is_sidechain else None

    def _opened(self, number: int) -> Record | None:
        place = self.places.place(number)
        kept = self._source(place.source) if place else None
        if place is None or kept is None:
            return None
        self.opened += 1
        position = Position(kept.id, kept.generation, place.offset, place.length)
        try:
            raw = self._chunks.read(
                kept.number, kept.generation, place.offset, place.length
            )
        except ArchiveDamaged:
            return None
        for sketched in sketch_line(Line(position, raw)):
            if isinstance(sketched, Sketched) and sketched.position == position:
                return Record(place, node_of(sketched), texts_of(sketched))
        return None


def _texts(passages: tuple[Passage, ...], field: IndexField) -> tuple[str, ...]:
    return tuple(one.text for one in passages if one.field is field)


def _has(node: Node, part: Part) -> frozenset[Has]:
    """Return what a record holds in a part of it: an edit is a call, and no answer."""
    edits = any(block.name in EDITING for block in node.blocks)
    found = {
        Has.IMAGE: any(block.kind == "image" for block in node.blocks),
        Has.THINKING: part is Part.THINKING,
        Has.EDIT: part is Part.TOOL and edits,
    }
    return frozenset(has for has, is_so in found.items() if is_so)
