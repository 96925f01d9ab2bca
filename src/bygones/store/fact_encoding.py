"""How facts of messages and tool calls are encoded: flags, ids, and records."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from bygones.store.encoding import id_key

if TYPE_CHECKING:
    from bygones.model.summary import RecordRef

record_key = lru_cache(maxsize=1024)(id_key)
"""A record is named by its message and by the calls in it, one after the other."""
_encode = msgspec.msgpack.Encoder().encode
_MAX_BLOCKS = 60
"""Blocks of a record that fit into a mask."""
_LOWER_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
_UUID_BYTES = 16
_TEXT_ID, _PADDED_TEXT_ID = b"\x02", b"\x03\x03"
"""Prefixes of ids that are not UUIDs; the longer one if 16 bytes would result."""
IS_ERROR, IS_STEERING = 1, 2
"""Flags of messages; `IS_ERROR` also of tool calls."""
IS_INTERRUPTED, IS_STOPPED, HAS_RESULT, HAS_STORED_OUTPUT, MAY_COMMIT = 2, 4, 8, 16, 32
"""Flags of tool calls; a shell command that names git or gh may commit something."""
IS_DENIED = 64
"""Flag of tool calls that a permission rule or a hook refused."""


def encode_id(id_: str) -> bytes:
    """Return the 16 bytes of a UUID; other ids as text with a prefix."""
    if _LOWER_UUID.fullmatch(id_):
        return bytes.fromhex(id_.replace("-", ""))
    text = id_.encode("utf-8", "surrogatepass")
    prefix = _TEXT_ID if len(text) + 1 != _UUID_BYTES else _PADDED_TEXT_ID
    return prefix + text


def decode_id(raw: bytes) -> str:
    """Return an id that `encode_id` encoded."""
    if len(raw) == _UUID_BYTES:
        digits = raw.hex()
        return (
            f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
        )
    prefix = _PADDED_TEXT_ID if raw.startswith(_PADDED_TEXT_ID) else _TEXT_ID
    return raw.removeprefix(prefix).decode("utf-8", "replace")


def encode_refs(refs: Iterable[RecordRef]) -> bytes:
    """Return keys of records, each followed by a mask of its blocks; 0 if too many."""
    numbers: list[int] = []
    for ref in refs:
        mask = 0
        for index in ref.block_indexes:
            if index >= _MAX_BLOCKS:
                return _encode([])
            mask |= 1 << index
        numbers += (record_key(ref.record_id), mask)
    return _encode(numbers)


_decode_numbers = msgspec.msgpack.Decoder(list[int]).decode


def decode_refs(raw: bytes) -> list[tuple[int, tuple[int, ...]]]:
    """Return keys of records, and the indexes of their blocks."""
    numbers = _decode_numbers(raw)
    return [
        (key, tuple(at for at in range(mask.bit_length()) if mask >> at & 1))
        for key, mask in zip(numbers[::2], numbers[1::2], strict=True)
    ]
