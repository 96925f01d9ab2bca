"""Node pages are joined without decoding them."""

from __future__ import annotations

from types import SimpleNamespace

import msgspec
import pytest

from bygones.model.base import Position, RecordId, SourceId, ToolUseId
from bygones.model.nodes import NodeBlock, RecordNode
from bygones.store import index_db
from bygones.store.compression import compress
from bygones.store.index_db import (
    decode_frames,
    decode_nodes,
    encode_nodes,
    join_pages,
    node_page_from_bytes,
)


def nodes(count: int, start: int = 0) -> list[RecordNode]:
    return [
        RecordNode(
            position=Position(SourceId("/h/a.jsonl"), 0, number, 1),
            kind="user",
            uuid=RecordId(f"r{number}"),
            blocks=(NodeBlock(kind="tool_use", id=ToolUseId(f"c{number // 6}")),),
        )
        for number in range(start, start + count)
    ]


@pytest.mark.parametrize("count", [0, 1, 15, 16, 65_535, 65_536])
def test_page_round_trips_any_number_of_nodes(count: int) -> None:
    page = encode_nodes(nodes(count))

    assert page.count == count
    assert decode_nodes(page.msgpack) == nodes(count)
    assert node_page_from_bytes(count, count, page.msgpack) == page


@pytest.mark.parametrize("counts", [(), (0, 0), (1, 15), (15, 1, 16), (65_535, 1)])
def test_joined_pages_keep_all_nodes_in_order(counts: tuple[int, ...]) -> None:
    starts = [sum(counts[:at]) for at in range(len(counts))]
    pages = [encode_nodes(nodes(*two)) for two in zip(counts, starts, strict=True)]

    joined = join_pages(pages)

    assert decode_nodes(joined.msgpack) == nodes(sum(counts))


def test_decoder_is_created_by_one_thread_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    created = []

    def make(kind: object) -> msgspec.msgpack.Decoder[object]:
        created.append(index_db._decoder_lock.locked())
        return msgspec.msgpack.Decoder(kind)

    msgpack = SimpleNamespace(Decoder=make)
    monkeypatch.setattr(index_db, "msgspec", SimpleNamespace(msgpack=msgpack))
    monkeypatch.setattr(index_db, "_decoder_cache", [])

    for _ in range(2):
        assert decode_nodes(encode_nodes(nodes(3)).msgpack) == nodes(3)
    assert created == [True]


def test_nodes_of_a_long_source_share_repeated_strings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    frames = [compress(encode_nodes(nodes(3, start)).msgpack) for start in (0, 3)]
    apart = list(decode_frames(frames))
    monkeypatch.setattr(index_db, "_INTERN_MIN_BYTES", 1)

    together = list(decode_frames(frames))

    assert together == apart == nodes(6)
    assert len({id(node.position.source_id) for node in apart}) == 6
    assert len({id(node.position.source_id) for node in together}) == 1
    for name in ("kind", "id"):
        texts = [
            {id(getattr(node.blocks[0], name)) for node in some}
            for some in (apart, together)
        ]
        assert [len(found) for found in texts] == [6, 1]
