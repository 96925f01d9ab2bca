"""Pages are joined without being opened, and hold what was put in."""

from __future__ import annotations

from types import SimpleNamespace

import msgspec
import pytest

from bygones.model.ids import Position, RecordId, SourceId, ToolUseId
from bygones.model.nodes import BlockFact, Node
from bygones.store import pages
from bygones.store.pages import (
    join_pages,
    pack_nodes,
    page_of,
    read_frames,
    unpack_nodes,
)
from bygones.store.press import squeeze


def nodes(count: int, start: int = 0) -> list[Node]:
    return [
        Node(
            position=Position(SourceId("/h/a.jsonl"), 0, number, 1),
            kind="user",
            uuid=RecordId(f"r{number}"),
            blocks=(BlockFact(kind="tool_use", id=ToolUseId(f"c{number // 6}")),),
        )
        for number in range(start, start + count)
    ]


@pytest.mark.parametrize("count", [0, 1, 15, 16, 65_535, 65_536])
def test_a_page_holds_its_nodes_whatever_their_number(count: int) -> None:
    page = pack_nodes(nodes(count))

    assert page.count == count
    assert unpack_nodes(page.raw) == nodes(count)
    assert page_of(count, page.raw) == page


@pytest.mark.parametrize("counts", [(), (0, 0), (1, 15), (15, 1, 16), (65_535, 1)])
def test_joined_pages_hold_the_nodes_of_all_in_order(counts: tuple[int, ...]) -> None:
    starts = [sum(counts[:at]) for at in range(len(counts))]
    pages = [pack_nodes(nodes(*two)) for two in zip(counts, starts, strict=True)]

    joined = join_pages(pages)

    assert unpack_nodes(joined.raw) == nodes(sum(counts))


def test_the_decoder_is_made_by_one_thread_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = []

    def make(kind: object) -> msgspec.msgpack.Decoder[object]:
        made.append(pages._making.locked())
        return msgspec.msgpack.Decoder(kind)

    msgpack = SimpleNamespace(Decoder=make)
    monkeypatch.setattr(pages, "msgspec", SimpleNamespace(msgpack=msgpack))
    monkeypatch.setattr(pages, "_known", [])

    for _ in range(2):
        assert unpack_nodes(pack_nodes(nodes(3)).raw) == nodes(3)
    assert made == [True]


def test_nodes_of_a_long_source_share_the_texts_that_they_repeat(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    frames = [squeeze(pack_nodes(nodes(3, start)).raw) for start in (0, 3)]
    apart = list(read_frames(frames))
    monkeypatch.setattr(pages, "_LONG", 1)

    together = list(read_frames(frames))

    assert together == apart == nodes(6)
    assert len({id(node.position.source) for node in apart}) == 6
    assert len({id(node.position.source) for node in together}) == 1
    for name in ("kind", "id"):
        texts = [
            {id(getattr(node.blocks[0], name)) for node in some}
            for some in (apart, together)
        ]
        assert [len(found) for found in texts] == [6, 1]
