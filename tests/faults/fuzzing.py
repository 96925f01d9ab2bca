"""What takes hostile bytes, one function each: nothing may be raised but our errors.

With every test run hypothesis tries some; :mod:`tests.faults.fuzzer` tries millions.
"""

from __future__ import annotations

import atexit
import os
import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from random import Random
from tempfile import mkstemp
from zlib import crc32

import msgspec

from bygones.errors import QueryError
from bygones.model.base import Line, Position, Problem, SourceId
from bygones.model.nodes import LocatedRecord
from bygones.parse.decode import SalvagedObject, salvage_line
from bygones.parse.full import parse_line
from bygones.parse.light import build_node, parse_line_light
from bygones.parse.texts import extract_text_spans
from bygones.query.fields import list_hints
from bygones.query.parser import format_query, parse_query
from bygones.render.html.markdown_html import render_markdown
from bygones.render.text.primitives import sanitize, sanitize_json, sanitize_name
from bygones.sources.lines import read_at, read_line_blocks, read_lines
from bygones.store.compression import compress_and_hash, decompress

__all__ = ["TARGETS", "beginnings", "tampered"]

_NOW = datetime(2026, 11, 15, tzinfo=UTC)
_STEERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Controls but for the tab and the newline, and marks that turn the direction."""
_TESTS = Path(__file__).parent.parent
_LONGEST = 1_000
"""Bytes that are tried at once."""


def _line(raw: bytes) -> Line:
    raw = raw.replace(b"\n", b" ")
    return Line(Position(SourceId("a.jsonl"), 0, 0, len(raw)), raw)


def lines(raw: bytes) -> None:
    """Read a line in the light way, down to the words for the index."""
    for found in parse_line_light(_line(raw)):
        if isinstance(found, LocatedRecord):
            build_node(found)
            extract_text_spans(found)


def reader(raw: bytes) -> None:
    """Read a file by lines and by stretches: all bytes come, each once, in order."""
    path = SourceId(str(_file()))
    _file().write_bytes(raw)
    size = 1 + crc32(raw) % 64
    lines = [one for one in read_lines(path, buffer_size=size) if isinstance(one, Line)]
    told = b"".join(line.raw + b"\n" * line.has_newline for line in lines)
    assert told == raw
    assert all(line.has_newline for line in lines[:-1])
    for line in lines[-3:]:
        assert read_at(line.position) == line.raw
    stretches = [
        one
        for one in read_line_blocks(path, target_size=3 * size, buffer_size=size)
        if not isinstance(one, Problem)
    ]
    assert b"".join(part for _, part in stretches) == raw
    assert all(part.endswith(b"\n") for _, part in stretches[:-1])
    assert all(at + len(part) == on for (at, part), (on, _) in pairwise(stretches))
    assert not stretches or stretches[-1][1].count(b"\n") == 0 or raw[-1:] == b"\n"


@cache
def _file() -> Path:
    memory = "/dev/shm"  # noqa: S108 (where there is one; a disk takes ten times as long)
    place = memory if os.access(memory, os.W_OK) else None
    handle, name = mkstemp(prefix="bygones-fuzz-", dir=place)
    os.close(handle)
    atexit.register(Path(name).unlink, missing_ok=True)
    return Path(name)


def records(raw: bytes) -> None:
    """Read a line in full."""
    parse_line(_line(_damaged(raw)))


def recovery(raw: bytes) -> None:
    """Find what is whole on a damaged line: all of it JSON, each once, in order."""
    line = _line(_damaged(raw))
    parts = [one for one in salvage_line(line) if isinstance(one, SalvagedObject)]
    places = [part.position for part in parts]
    assert all(one.offset + one.length <= len(line.raw) for one in places)
    for one, other in pairwise(places):
        assert one.offset + one.length <= other.offset
    for part in parts:
        msgspec.json.decode(part.raw, type=dict[str, msgspec.Raw])


def _damaged(raw: bytes) -> bytes:
    """Return a line as it is, cut, spliced or with what a crash leaves in it."""
    half = len(raw) // 2
    match crc32(raw) % 4:
        case 0:
            return raw
        case 1:
            return raw[:half]
        case 2:
            return raw[:half] + raw
        case _:
            return raw + b"\0" * 9 + raw[half:]


class _Page(HTMLParser):
    """Looks at markup as a browser would: what it may hold, and nothing else."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in {"script", "iframe", "img", "style", "object", "form"}, tag
        for name, value in attrs:
            assert name in {"class", "href", "rel", "start"}, name
            is_link = (value or "").lower().startswith(("http:", "https:", "mailto:"))
            assert name != "href" or is_link or not value, value


def markdown(raw: bytes) -> None:
    """Render Markdown: no script, no handler of an event, no picture from afar."""
    page = _Page()
    page.feed(render_markdown(raw.decode("utf-8", "replace")))
    page.close()


def terminal(raw: bytes) -> None:
    """Make text safe for a terminal: nothing steers it, in any of the ways."""
    text = raw.decode("utf-8", "surrogateescape")
    for made in (
        sanitize(text),
        sanitize(text, newlines="space"),
        sanitize_name(text),
        sanitize_json(text),
    ):
        assert not _STEERS.search(made), made


def queries(raw: bytes) -> None:
    """Parse a query, and write it so that it parses to the same."""
    text = raw.decode("utf-8", "replace")
    try:
        query = parse_query(text, now=_NOW, zone=UTC)
        again = parse_query(format_query(query.root), now=_NOW, zone=UTC)
    except QueryError:
        return
    assert again.root == query.root


def chunks(raw: bytes) -> None:
    """Open a chunk that rotted: refused, or what was pressed, and never a crash."""
    sign, frame = compress_and_hash(raw)
    assert decompress(frame) == raw
    at = crc32(raw) % len(frame)
    rotten = frame[:at] + bytes([frame[at] ^ 1 << crc32(frame) % 8]) + frame[at + 1 :]
    for bytes_ in (rotten, raw):
        try:
            decompress(bytes_, expected_size=1 << 20)
        except Exception as error:  # noqa: BLE001 (one class of the engine's is allowed)
            assert type(error).__name__ == "ZstdError"  # noqa: PT017
    assert len(sign) == 32


TARGETS: dict[str, Callable[[bytes], None]] = {
    one.__name__: one
    for one in (
        reader,
        lines,
        records,
        recovery,
        markdown,
        terminal,
        queries,
        chunks,
    )
}


@cache
def beginnings(name: str) -> list[bytes]:
    """Return what a target is usually given: it is tampered with, or built upon."""
    told = [path.read_bytes() for path in sorted(_TESTS.parent.glob("docs/guide/*.md"))]
    texts = [one for raw in told for one in raw.split(b"\n\n") if len(one) < _LONGEST]
    match name:
        case "reader":
            return texts
        case "markdown":
            return [*texts, *_LINKS]
        case "terminal":
            return [*texts[::4], *_STEERING]
        case "queries":
            return [hint.example.encode() for hint in list_hints()]
        case _:
            files = sorted((_TESTS / "cases").rglob("*.jsonl"))
            found = b"\n".join(path.read_bytes() for path in files).split(b"\n")
            return [one for one in dict.fromkeys(found) if 0 < len(one) < _LONGEST]


def tampered(random: Random, raw: bytes, other: bytes) -> bytes:
    """Return bytes that were cut, doubled, joined or changed in some places."""
    for _ in range(random.randrange(1, 4)):
        at, stop = sorted(random.choices(range(len(raw) + 1), k=2))
        match random.randrange(6):
            case 0:
                raw = raw[:at] + random.randbytes(random.randrange(1, 5)) + raw[at:]
            case 1:
                raw = raw[:at] + raw[stop:]
            case 2:
                raw = raw[:stop] + raw[at:]
            case 3:
                raw = raw[:at] + random.choice(_SIGNS) + raw[at:]
            case 4:
                raw = raw[:at] + other[: stop - at] + raw[at:]
            case _:
                raw = raw[:at] + bytes(b ^ 0x20 for b in raw[at:stop]) + raw[stop:]
    return raw[:_LONGEST]


_LINKS = (
    b"[a](http://x) ![b](https://x/y.png) <https://x> <a@b.c>\n\n[c]: http://x",
    b"[a](javascript:alert(1)) <script>alert(1)</script> <img src=x onerror=y>",
    b"```html\n<iframe srcdoc='x'>\n```\n\n| a | b |\n|---|--:|\n| `c` | *d* |",
    b"&lt;script&gt; &#x6a;avascript: [x](<data:text/html,y>) [z]( \\java\tscript:a)",
)
_STEERING = (
    b"\x1b[31mred\x1b[0m \x1b]0;title\x07 \x1bP+q544e\x1b\\\\ \x9b2J \xc2\x9b2J",
    b"\xe2\x80\xaegnp.exe \xe2\x81\xa6a\xe2\x81\xa9 \x08\x7f\r\nb\rc",
    b"\x1b]8;;http://x\x07y \x1b[6n \x1b]52;c;eA==\x07",
    b"\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x92\xbb \xed\xa0\x80 \xef\xb8\x8f",
)
_SIGNS = tuple(
    b'" \\ { } [ ] : , \x1b[ \x9b <script> ](http://x) ![ ``` NOT ( ) before: \xff'
    b" \xed\xa0\x80 \xe2\x80\xae \0 1e999 \\ud800 \x28\xb5\x2f\xfd \n - * / OR".split(
        b" "
    )
)
