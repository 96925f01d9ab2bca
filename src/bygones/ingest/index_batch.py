"""The gist of a stretch of lines: all that the index writes down of it.

Pure: bytes in, rows and words out. So it can be made in this process or in another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from bygones.model.base import Line, MessageId, Problem, SourceId
from bygones.model.metadata import ATTACHMENTS_BY_TYPE, RECORDS_BY_TYPE
from bygones.model.nodes import LocatedRecord, RecordNode, TitleFacts
from bygones.model.query import pack_text_key
from bygones.model.records import BLOCKS_BY_TYPE, SystemRecord
from bygones.parse.light import build_node, parse_line_light
from bygones.parse.texts import (
    build_record_texts,
    extract_text_spans,
    is_over_text_limit,
)
from bygones.sources.lines import split_lines
from bygones.store.encoding import TextLengths, id_key
from bygones.store.index_db import NodePage, encode_nodes
from bygones.store.tokenizer import PreparedText, prepare_with_checksum

__all__ = ["IndexBatch", "IndexDocument", "LineBlock", "decode_lines", "index_block"]

RecordEntry = tuple[int, int | None, int, int]
"""Of a record: its number, its message's, where it begins, and how long it is."""


class LineBlock(Struct, frozen=True, array_like=True):
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


class IndexDocument(Struct, frozen=True, array_like=True, gc=False):
    """What a record says in one of its parts."""

    row_index: int
    """Which of the rows."""
    kind: int
    """Of text, as buckets have it."""
    text: PreparedText


class IndexBatch(Struct, frozen=True, array_like=True):
    """What the index writes down of a stretch."""

    page: NodePage
    rows: list[RecordEntry]
    documents: list[IndexDocument]
    lengths: bytes
    leaf_titles: list[tuple[int, int, str, str]]
    """The number of a leaf, where it is named, the leaf, and what it is called."""
    problems: list[Problem]
    drift: list[tuple[str, str, str]]


def index_block(block: LineBlock) -> IndexBatch:
    """Return the gist of a stretch."""
    lines = split_lines(block.source, block.generation, block.start, block.raw)
    sketched, nodes, problems = decode_lines(lines)
    lengths = TextLengths()
    lengths.include_times(
        node.timestamp for node in nodes if node.timestamp is not None
    )
    documents: list[IndexDocument] = []
    named = [pair for pair in zip(nodes, sketched, strict=True) if pair[0].uuid]
    for row, (node, found) in enumerate(named):
        passages = extract_text_spans(found)
        if not passages:
            continue
        if is_over_text_limit(passages):
            problems.append(Problem("long-text", node.position))
        is_aside = block.is_agent or node.is_sidechain or node.agent_id is not None
        for said in build_record_texts(node, passages):
            lengths.add(said)
            kind = pack_text_key(
                0, said.part, is_error=said.is_error, is_agent=is_aside
            )
            documents.append(IndexDocument(row, kind, prepare_with_checksum(said.text)))
    return IndexBatch(
        page=encode_nodes(nodes),
        rows=_record_entries([node for node, _ in named]),
        documents=documents,
        lengths=lengths.pack(),
        leaf_titles=list(_find_leaf_titles(nodes)),
        problems=problems,
        drift=list(_find_drift(nodes)),
    )


def decode_lines(
    lines: Sequence[Line],
) -> tuple[list[LocatedRecord], list[RecordNode], list[Problem]]:
    """Return what lines hold: sketches, their nodes, and what is odd."""
    sketched: list[LocatedRecord] = []
    problems: list[Problem] = []
    for line in lines:
        for found in parse_line_light(line):
            if isinstance(found, LocatedRecord):
                sketched.append(found)
            else:
                problems.append(found)
    return sketched, [build_node(found) for found in sketched], problems


def _record_entries(nodes: Sequence[RecordNode]) -> list[RecordEntry]:
    rows: list[RecordEntry] = []
    last: MessageId | None = None
    message: int | None = None
    for node in nodes:
        if node.message_id != last:
            last = node.message_id
            message = id_key(last) if last else None
        place = node.position
        rows.append((id_key(node.uuid or ""), message, place.offset, place.length))
    return rows


def _find_leaf_titles(
    nodes: Sequence[RecordNode],
) -> Iterator[tuple[int, int, str, str]]:
    """Yield what leaves are called."""
    for node in nodes:
        facts = node.extra
        if node.kind == "summary" and isinstance(facts, TitleFacts) and facts.leaf_id:
            yield id_key(facts.leaf_id), node.position.offset, facts.leaf_id, facts.text


def _find_drift(nodes: Sequence[RecordNode]) -> Iterator[tuple[str, str, str]]:
    """Yield the types that are not known, with the version that wrote them."""
    for node in nodes:
        version = node.version or ""
        if node.kind not in RECORDS_BY_TYPE:
            yield "record", node.kind, version
        if node.kind == "system" and node.subtype not in SystemRecord.subtypes:
            yield "system", node.subtype or "", version
        if node.kind == "attachment" and node.subtype not in ATTACHMENTS_BY_TYPE:
            yield "attachment", node.subtype or "", version
        for block in node.blocks:
            if block.kind not in BLOCKS_BY_TYPE:
                yield "block", block.kind, version
