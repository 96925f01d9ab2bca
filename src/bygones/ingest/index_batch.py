"""Everything that the index stores about a block of lines.

A pure function of bytes, so it can run in another process.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct, structs

from bygones.assemble.agents import (
    find_hidden_records,
    may_start_hidden_run,
    starts_warm_up,
)
from bygones.assemble.dedupe import get_record_id
from bygones.model.base import Line, MessageId, Problem, SourceId
from bygones.model.metadata import ATTACHMENTS_BY_TYPE, RECORDS_BY_TYPE
from bygones.model.nodes import LocatedRecord, RecordNode, TitleFacts
from bygones.model.problem_runs import ProblemRuns, repeat_problem
from bygones.model.query import pack_text_key
from bygones.model.records import (
    BLOCKS_BY_TYPE,
    SYSTEM_SUBTYPES,
    is_known_version,
)
from bygones.parse.light import (
    RecordLimit,
    build_node,
    is_empty_node,
    max_limited_before,
    parse_line_light,
)
from bygones.parse.texts import (
    build_record_texts,
    extract_text_spans,
    is_over_text_limit,
)
from bygones.sources.lines import split_block
from bygones.store.encoding import TextLengths, id_key
from bygones.store.index_db import NodePage, decode_nodes, encode_nodes
from bygones.store.tokenizer import PreparedText, prepare_with_checksum

__all__ = ["IndexBatch", "IndexDocument", "LineBlock", "decode_lines", "index_block"]

_MAX_NAME_LENGTH = 100
RecordEntry = tuple[int, int | None, int, int]
"""The key of a record, the key of its message, its offset and its length."""


class LineBlock(Struct, frozen=True, array_like=True):
    """Whole lines of a source, or its unfinished last one."""

    source: SourceId
    generation: int
    start: int
    raw: bytes
    is_agent: bool = False
    """Whether the source is the transcript of an agent."""

    @property
    def stop(self) -> int:
        """The offset of the end."""
        return self.start + len(self.raw)


class IndexDocument(Struct, frozen=True, array_like=True, gc=False):
    """One text of a record."""

    row_index: int
    """Its record, as an index into `IndexBatch.rows`."""
    kind: int
    """The kind of text, as in text keys."""
    text: PreparedText


class IndexBatch(Struct, frozen=True, array_like=True):
    """The rows and texts of a block of lines."""

    page: NodePage
    rows: list[RecordEntry]
    documents: list[IndexDocument]
    lengths: bytes
    leaf_titles: list[tuple[int, int, str, str]]
    """Key of a leaf, offset of its title, leaf, title."""
    problems: list[Problem]
    drift: list[tuple[tuple[str, str, str], int]]
    """Unknown types with their number: kind, name, version."""
    is_warm_up: bool | None = None
    """Whether the first prompt is that of a warm-up; `None` if there is no prompt."""
    has_sidechain: bool = False
    """Whether a session's file has records of agent runs inside it."""
    may_start_hidden_run: bool = False
    """Whether one of these runs may be a warm-up or a replay. Their texts are left out
    as far as the block shows what they are."""


def index_block(block: LineBlock) -> IndexBatch:
    """Return the rows and texts of a block of lines."""
    lines = split_block(block.source, block.generation, block.start, block.raw)
    records, nodes, found_problems = decode_lines(lines)
    problems = ProblemRuns(found_problems)
    lengths = TextLengths()
    lengths.include_times(
        [node.timestamp for node in nodes if node.timestamp is not None]
    )
    documents: list[IndexDocument] = []
    inline = [] if block.is_agent else [node for node in nodes if node.is_sidechain]
    hidden = find_hidden_records(inline)
    with_id = [
        (node, record)
        for node, record in zip(nodes, records, strict=True)
        # Messages of very old versions and other programs may have no id.
        if node.uuid or (node.is_conversation and not is_empty_node(node))
    ]
    for row, (node, record) in enumerate(with_id):
        spans = extract_text_spans(record, node)
        if not spans:
            continue
        if is_over_text_limit(spans):
            problems.add(Problem("long-text", node.position))
        is_agent = block.is_agent or node.is_sidechain or node.agent_id is not None
        is_hidden = bool(hidden) and get_record_id(node) in hidden
        for text in build_record_texts(node, spans):
            lengths.add(text)
            if is_hidden:
                continue
            kind = pack_text_key(
                0, text.part, is_error=text.is_error, is_agent=is_agent
            )
            documents.append(IndexDocument(row, kind, prepare_with_checksum(text.text)))
    return IndexBatch(
        page=encode_nodes([node for node in nodes if not is_empty_node(node)]),
        rows=_record_entries([node for node, _ in with_id]),
        documents=documents,
        lengths=lengths.pack(),
        leaf_titles=list(_find_leaf_titles(nodes)),
        problems=list(problems),
        drift=list(Counter(_find_drift(nodes)).items()),
        is_warm_up=starts_warm_up(nodes),
        has_sidechain=bool(inline),
        may_start_hidden_run=may_start_hidden_run(inline),
    )


def leave_out_records(batch: IndexBatch, start: int, known: int) -> IndexBatch:
    """Return a batch without records of which its file has too many.

    The block starts at `start`; `known` records before it count towards the limit.
    """
    if known + batch.page.limited_count <= max_limited_before(start):
        return batch
    nodes: list[RecordNode] = []
    problems = ProblemRuns(batch.problems)
    limit = RecordLimit(known)
    for node in decode_nodes(batch.page.msgpack):
        used = limit.select(node)
        if used is not None:
            nodes.append(used)
        if used is not node:
            problems.add(Problem("too-many-records", node.position))
    offsets = {node.position.offset for node in nodes}
    new_indexes = {
        old: new
        for new, old in enumerate(
            index for index, row in enumerate(batch.rows) if row[2] in offsets
        )
    }
    return structs.replace(
        batch,
        page=encode_nodes(nodes),
        rows=[batch.rows[old] for old in new_indexes],
        documents=[
            structs.replace(document, row_index=new_indexes[document.row_index])
            for document in batch.documents
            if document.row_index in new_indexes
        ],
        leaf_titles=[title for title in batch.leaf_titles if title[1] in offsets],
        problems=list(problems),
    )


def decode_lines(
    lines: Iterable[Line],
) -> tuple[list[LocatedRecord], list[RecordNode], list[Problem]]:
    """Return the records of lines, their nodes, and problems."""
    records: list[LocatedRecord] = []
    problems = ProblemRuns()
    for line in lines:
        for found in parse_line_light(line):
            if isinstance(found, LocatedRecord):
                records.append(found)
            elif line.repeats > 1:
                problems.extend(repeat_problem(found, line))
            else:
                problems.add(found)
    return records, [build_node(found) for found in records], list(problems)


def iter_line_nodes(lines: Iterable[Line]) -> Iterator[RecordNode]:
    """Yield the nodes of lines, which are not kept: they may be junk."""
    for line in lines:
        for found in parse_line_light(line):
            if isinstance(found, LocatedRecord):
                yield build_node(found)


def _record_entries(nodes: Sequence[RecordNode]) -> list[RecordEntry]:
    rows: list[RecordEntry] = []
    last_message: MessageId | None = None
    message_key: int | None = None
    for node in nodes:
        if node.message_id != last_message:
            last_message = node.message_id
            message_key = id_key(last_message) if last_message else None
        position = node.position
        rows.append(
            (id_key(get_record_id(node)), message_key, position.offset, position.length)
        )
    return rows


def _find_leaf_titles(
    nodes: Sequence[RecordNode],
) -> Iterator[tuple[int, int, str, str]]:
    for node in nodes:
        facts = node.extra
        if node.kind == "summary" and isinstance(facts, TitleFacts) and facts.leaf_id:
            yield id_key(facts.leaf_id), node.position.offset, facts.leaf_id, facts.text


def _find_drift(nodes: Sequence[RecordNode]) -> Iterator[tuple[str, str, str]]:
    """Yield unknown types, with the version of Claude Code that wrote them."""
    for node in nodes:
        version = (node.version or "")[:_MAX_NAME_LENGTH]
        subtype = (node.subtype or "")[:_MAX_NAME_LENGTH]
        if version and not is_known_version(version):
            yield "version", version, version
        if node.kind not in RECORDS_BY_TYPE:
            yield "record", node.kind[:_MAX_NAME_LENGTH], version
        if node.kind == "system" and node.subtype not in SYSTEM_SUBTYPES:
            yield "system", subtype, version
        if node.kind == "attachment" and node.subtype not in ATTACHMENTS_BY_TYPE:
            yield "attachment", subtype, version
        for block in node.blocks:
            if block.kind not in BLOCKS_BY_TYPE:
                yield "block", block.kind[:_MAX_NAME_LENGTH], version
