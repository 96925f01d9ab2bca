"""What takes hostile bytes, one function each: nothing may be raised but our errors.

With every test run hypothesis tries some; :mod:`tests.faults.fuzzer` tries millions.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from zlib import crc32

from recollect.errors import QueryError
from recollect.model.ids import Line, Position, SourceId
from recollect.model.sketches import Sketched
from recollect.parse import node_of, parse_line, sketch_line, texts_of
from recollect.query import parse, write
from recollect.render.html.prose import prose
from recollect.render.safe import safe, safe_json, safe_line, safe_name
from recollect.store.press import press, unpress

__all__ = ["SEEDS", "TARGETS", "tampered"]

_NOW = datetime(2026, 11, 15, tzinfo=UTC)
_ALLOWED = {"\n", "\t"}
SEEDS = Path(__file__).parent.parent / "cases"


def _line(raw: bytes) -> Line:
    raw = raw.replace(b"\n", b" ")
    return Line(Position(SourceId("a.jsonl"), 0, 0, len(raw)), raw)


def lines(raw: bytes) -> None:
    """Read a line in the light way, down to the words for the index."""
    for found in sketch_line(_line(raw)):
        if isinstance(found, Sketched):
            node_of(found)
            texts_of(found)


def records(raw: bytes) -> None:
    """Read a line in full; what is cut off or doubled is recovered."""
    half = len(raw) // 2
    for bytes_ in (raw, raw[:half], raw[:half] + raw, raw + b"\0" * 9 + raw[half:]):
        parse_line(_line(bytes_))


def markdown(raw: bytes) -> None:
    """Render Markdown: no script, no handler of an event, no picture from afar."""
    page = prose(raw.decode("utf-8", "replace")).lower()
    assert "<script" not in page
    assert "<iframe" not in page
    assert 'src="http' not in page


def terminal(raw: bytes) -> None:
    """Make text safe for a terminal: nothing steers it, in any of the ways."""
    text = raw.decode("utf-8", "surrogateescape")
    for made in (safe(text), safe_line(text), safe_name(text), safe_json(text)):
        assert not [c for c in made if _steers(c)]


def _steers(sign: str) -> bool:
    code = ord(sign)
    is_control = code < 0x20 or 0x7F <= code < 0xA0
    return is_control and sign not in _ALLOWED


def queries(raw: bytes) -> None:
    """Parse a query, and write it so that it parses to the same."""
    text = raw.decode("utf-8", "replace")
    try:
        asked = parse(text, now=_NOW, zone=UTC)
        again = parse(write(asked.root), now=_NOW, zone=UTC)
    except QueryError:
        return
    assert again.root == asked.root


def chunks(raw: bytes) -> None:
    """Open a chunk that rotted: refused, or what was pressed, and never a crash."""
    sign, frame = press(raw)
    assert unpress(frame) == raw
    at = crc32(raw) % len(frame)
    rotten = frame[:at] + bytes([frame[at] ^ 1 << crc32(frame) % 8]) + frame[at + 1 :]
    for bytes_ in (rotten, raw):
        try:
            unpress(bytes_, size=1 << 20)
        except Exception as error:  # noqa: BLE001 (one class of the engine's is allowed)
            assert type(error).__name__ == "ZstdError"  # noqa: PT017
    assert len(sign) == 32


TARGETS: dict[str, Callable[[bytes], None]] = {
    one.__name__: one for one in (lines, records, markdown, terminal, queries, chunks)
}


def tampered(random: Random, raw: bytes) -> bytes:
    """Return bytes that were cut, doubled, swapped or changed in some places."""
    for _ in range(random.randrange(1, 4)):
        at, stop = sorted((random.randrange(len(raw) + 1), random.randrange(300)))
        match random.randrange(5):
            case 0:
                raw = raw[:at] + random.randbytes(random.randrange(1, 5)) + raw[at:]
            case 1:
                raw = raw[:at] + raw[stop:]
            case 2:
                raw = raw[:stop] + raw[at:]
            case 3:
                raw = raw[:at] + random.choice(_SIGNS) + raw[stop:]
            case _:
                raw = raw[:at] + bytes(b ^ 0x20 for b in raw[at : at + 2]) + raw[stop:]
    return raw[:400]


_SIGNS = tuple(
    b'" \\ { } [ ] : , \x1b[ \x9b <script> ](http://x) ![ ``` NOT ( ) before: \xff'
    b" \xed\xa0\x80 \xe2\x80\xae \0 1e999 \\ud800 \x28\xb5\x2f\xfd".split(b" ")
)
