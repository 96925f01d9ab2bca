"""Pages: nodes packed one after another, joined without being opened."""

from __future__ import annotations

from _thread import allocate_lock
from collections.abc import Iterable, Iterator, Sequence
from struct import pack
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from msgspec.structs import force_setattr

from bygones.store.press import unpress

if TYPE_CHECKING:
    from bygones.model.nodes import Node

__all__ = ["Page", "join_pages", "pack_nodes", "page_of", "read_frames", "unpack_nodes"]

_encode = msgspec.msgpack.Encoder().encode
_SHORT = 16
_MEDIUM = 1 << 16
_LONG = 1 << 20
"""Bytes of frames from which on it pays to have each text only once."""
_REPEATED = (
    "kind",
    "subtype",
    "uuid",
    "parent",
    "session",
    "cwd",
    "git_branch",
    "version",
    "slug",
    "entrypoint",
    "message",
    "request",
    "model",
    "source_call",
    "source_record",
)
"""What one node has and others as well."""
_REPEATED_IN_BLOCKS = ("kind", "id", "name")
_making = allocate_lock()
_known: list[msgspec.msgpack.Decoder[list[Node]]] = []
"""The one decoder, once it is made."""


class Page(Struct, frozen=True, array_like=True, gc=False):
    """Nodes as they are written down, and how many there are."""

    count: int
    body: bytes

    @property
    def raw(self) -> bytes:
        """The page as a list of nodes in MessagePack."""
        return _header(self.count) + self.body


def pack_nodes(nodes: Sequence[Node]) -> Page:
    """Return nodes as a page."""
    return page_of(len(nodes), _encode(nodes))


def page_of(count: int, raw: bytes) -> Page:
    """Return a list of ``count`` nodes in MessagePack as a page."""
    return Page(count, raw[len(_header(count)) :])


def join_pages(pages: Iterable[Page]) -> Page:
    """Return pages as one."""
    found = list(pages)
    return Page(sum(one.count for one in found), b"".join(one.body for one in found))


def unpack_nodes(raw: bytes) -> list[Node]:
    """Return the nodes of a page's raw bytes."""
    decoder = _known[0] if _known else _decoder()
    return decoder.decode(raw)


def read_frames(frames: Sequence[bytes]) -> Iterator[Node]:
    """Yield the nodes of pages that were compressed.

    Of many nodes two fifths are texts that others have too: those are shared, which
    takes a tenth more time.
    """
    is_long = sum(map(len, frames)) >= _LONG
    known: dict[str, str] = {}
    for frame in frames:
        nodes = unpack_nodes(unpress(frame))
        if is_long:
            for node in nodes:
                _share(node, known)
        yield from nodes


def _share(node: Node, known: dict[str, str]) -> None:
    place = node.position
    force_setattr(place, "source", known.setdefault(place.source, place.source))
    for one, names in (
        (node, _REPEATED),
        *((block, _REPEATED_IN_BLOCKS) for block in node.blocks),
    ):
        for name in names:
            text = getattr(one, name)
            if text is not None:
                force_setattr(one, name, known.setdefault(text, text))


def _header(count: int) -> bytes:
    """Return what stands before a list of so many values."""
    if count < _SHORT:
        return pack("B", 0x90 | count)
    return pack(">BH", 0xDC, count) if count < _MEDIUM else pack(">BI", 0xDD, count)


def _decoder() -> msgspec.msgpack.Decoder[list[Node]]:
    # Made when the first page is opened: a list opens none.
    from bygones.model.nodes import Node  # noqa: PLC0415 (see above)

    with _making:  # of two that are made at once, one crashes
        if not _known:
            _known.append(msgspec.msgpack.Decoder(list[Node]))
        return _known[0]
