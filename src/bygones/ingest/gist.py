"""The gist of a stretch of lines: all that the index writes down of it.

Pure: bytes in, rows and words out. So it can be made in this process or in another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from bygones.ingest.pieces import lines_of
from bygones.model.attachments import ATTACHMENTS
from bygones.model.blocks import BLOCKS
from bygones.model.buckets import bucket_of
from bygones.model.ids import Line, MessageId, SourceId
from bygones.model.nodes import Node, TitleFacts
from bygones.model.problems import Problem
from bygones.model.records import SystemRecord
from bygones.model.sketches import Sketched
from bygones.parse import (
    RECORDS,
    is_beyond_limit,
    node_of,
    said_in,
    sketch_line,
    texts_of,
)
from bygones.store.lengths import Lengths
from bygones.store.numbers import id_number
from bygones.store.pages import Page, pack_nodes
from bygones.store.words import Words, words_of

__all__ = ["Document", "Gist", "Stretch", "decode", "gist_of"]

Row = tuple[int, int | None, int, int]
"""Of a record: its number, its message's, where it begins, and how long it is."""


class Stretch(Struct, frozen=True, array_like=True):
    """Whole lines of a source, or its unfinished last one."""

    source: SourceId
    generation: int
    start: int
    raw: bytes
    is_agent: bool = False
    """Whether the source is the file of an agent."""

    @property
    def stop(self) -> int:
        """Where the lines end."""
        return self.start + len(self.raw)


class Document(Struct, frozen=True, array_like=True, gc=False):
    """What a record says in one of its parts."""

    row: int
    """Which of the rows."""
    kind: int
    """Of text, as buckets have it."""
    words: Words


class Gist(Struct, frozen=True, array_like=True):
    """What the index writes down of a stretch."""

    page: Page
    rows: list[Row]
    documents: list[Document]
    lengths: bytes
    summaries: list[tuple[int, int, str, str]]
    """The number of a leaf, where it is named, the leaf, and what it is called."""
    problems: list[Problem]
    drift: list[tuple[str, str, str]]


def gist_of(stretch: Stretch) -> Gist:
    """Return the gist of a stretch."""
    lines = lines_of(stretch.source, stretch.generation, stretch.start, stretch.raw)
    sketched, nodes, problems = decode(lines)
    lengths = Lengths()
    lengths.reach(node.time for node in nodes if node.time is not None)
    documents: list[Document] = []
    named = [pair for pair in zip(nodes, sketched, strict=True) if pair[0].uuid]
    for row, (node, found) in enumerate(named):
        passages = texts_of(found)
        if not passages:
            continue
        if is_beyond_limit(passages):
            problems.append(Problem("long-text", node.position))
        is_aside = stretch.is_agent or node.is_sidechain or node.agent is not None
        for said in said_in(node, passages):
            lengths.add(said)
            kind = bucket_of(0, said.part, is_error=said.is_error, is_agent=is_aside)
            documents.append(Document(row, kind, words_of(said.text)))
    return Gist(
        page=pack_nodes(nodes),
        rows=_rows([node for node, _ in named]),
        documents=documents,
        lengths=lengths.packed(),
        summaries=list(_summaries(nodes)),
        problems=problems,
        drift=list(_drift(nodes)),
    )


def decode(
    lines: Sequence[Line],
) -> tuple[list[Sketched], list[Node], list[Problem]]:
    """Return what lines hold: sketches, their nodes, and what is odd."""
    sketched: list[Sketched] = []
    problems: list[Problem] = []
    for line in lines:
        for found in sketch_line(line):
            if isinstance(found, Sketched):
                sketched.append(found)
            else:
                problems.append(found)
    return sketched, [node_of(found) for found in sketched], problems


def _rows(nodes: Sequence[Node]) -> list[Row]:
    rows: list[Row] = []
    last: MessageId | None = None
    message: int | None = None
    for node in nodes:
        if node.message != last:
            last = node.message
            message = id_number(last) if last else None
        place = node.position
        rows.append((id_number(node.uuid or ""), message, place.offset, place.length))
    return rows


def _summaries(nodes: Sequence[Node]) -> Iterator[tuple[int, int, str, str]]:
    """Yield what leaves are called."""
    for node in nodes:
        facts = node.extra
        if node.kind == "summary" and isinstance(facts, TitleFacts) and facts.leaf:
            yield id_number(facts.leaf), node.position.offset, facts.leaf, facts.text


def _drift(nodes: Sequence[Node]) -> Iterator[tuple[str, str, str]]:
    """Yield the types that are not known, with the version that wrote them."""
    for node in nodes:
        version = node.version or ""
        if node.kind not in RECORDS:
            yield "record", node.kind, version
        if node.kind == "system" and node.subtype not in SystemRecord.subtypes:
            yield "system", node.subtype or "", version
        if node.kind == "attachment" and node.subtype not in ATTACHMENTS:
            yield "attachment", node.subtype or "", version
        for block in node.blocks:
            if block.kind not in BLOCKS:
                yield "block", block.kind, version
