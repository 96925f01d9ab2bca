"""Fuzz targets, one function each: they may raise only our errors.

In every test run, hypothesis tries some inputs; :mod:`tests.faults.fuzzer` tries millions.
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

__all__ = ["TARGETS", "mutate", "seed_inputs"]

_NOW = datetime(2026, 11, 15, tzinfo=UTC)
_CONTROL_CHARACTERS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"
)
"""Control characters except tab and newline, and bidirectional marks."""
_TESTS = Path(__file__).parent.parent
_MAX_INPUT = 1_000
"""The maximum length of an input."""


def _line(raw: bytes) -> Line:
    raw = raw.replace(b"\n", b" ")
    return Line(Position(SourceId("a.jsonl"), 0, 0, len(raw)), raw)


def lines(raw: bytes) -> None:
    """Parse a line lightly, and extract its text for the index."""
    for found in parse_line_light(_line(raw)):
        if isinstance(found, LocatedRecord):
            extract_text_spans(found, build_node(found))


def reader(raw: bytes) -> None:
    """Read a file by lines and by blocks: all bytes appear once, in order."""
    path = SourceId(str(_file()))
    _file().write_bytes(raw)
    size = 1 + crc32(raw) % 64
    lines = [one for one in read_lines(path, buffer_size=size) if isinstance(one, Line)]
    joined = b"".join(line.raw + b"\n" * line.has_newline for line in lines)
    assert joined == raw
    assert all(line.has_newline for line in lines[:-1])
    for line in lines[-3:]:
        assert read_at(line.position) == line.raw
    blocks = [
        one
        for one in read_line_blocks(path, target_size=3 * size, buffer_size=size)
        if not isinstance(one, Problem)
    ]
    assert b"".join(part for _, part in blocks) == raw
    assert all(part.endswith(b"\n") for _, part in blocks[:-1])
    assert all(
        at + len(part) == next_offset
        for (at, part), (next_offset, _) in pairwise(blocks)
    )
    assert not blocks or blocks[-1][1].count(b"\n") == 0 or raw[-1:] == b"\n"


@cache
def _file() -> Path:
    memory = "/dev/shm"  # noqa: S108 (if it exists; a disk is ten times slower)
    folder = memory if os.access(memory, os.W_OK) else None
    handle, name = mkstemp(prefix="bygones-fuzz-", dir=folder)
    os.close(handle)
    atexit.register(Path(name).unlink, missing_ok=True)
    return Path(name)


def records(raw: bytes) -> None:
    """Parse a line in full."""
    parse_line(_line(_damaged(raw)))


def recovery(raw: bytes) -> None:
    """Salvage a damaged line: the results are JSON, in order, without overlaps."""
    line = _line(_damaged(raw))
    parts = [one for one in salvage_line(line) if isinstance(one, SalvagedObject)]
    places = [part.position for part in parts]
    assert all(one.offset + one.length <= len(line.raw) for one in places)
    for one, other in pairwise(places):
        assert one.offset + one.length <= other.offset
    for part in parts:
        msgspec.json.decode(part.raw, type=dict[str, msgspec.Raw])


def _damaged(raw: bytes) -> bytes:
    """Return a line unchanged, cut, spliced or with null bytes as after a crash."""
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


class _MarkupChecker(HTMLParser):
    """Parses markup, and asserts that it has only allowed tags and attributes."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in {"script", "iframe", "img", "style", "object", "form"}, tag
        for name, value in attrs:
            assert name in {"class", "href", "rel", "start"}, name
            is_link = (value or "").lower().startswith(("http:", "https:", "mailto:"))
            assert name != "href" or is_link or not value, value


def markdown(raw: bytes) -> None:
    """Render Markdown: no script, no event handler, no remote image."""
    page = _MarkupChecker()
    page.feed(render_markdown(raw.decode("utf-8", "replace")))
    page.close()


def terminal(raw: bytes) -> None:
    """Sanitize text for a terminal: no control characters remain."""
    text = raw.decode("utf-8", "surrogateescape")
    for safe in (
        sanitize(text),
        sanitize(text, newlines="space"),
        sanitize_name(text),
        sanitize_json(text),
    ):
        assert not _CONTROL_CHARACTERS.search(safe), safe


def queries(raw: bytes) -> None:
    """Parse and format a query: the result parses to the same query."""
    text = raw.decode("utf-8", "replace")
    try:
        query = parse_query(text, now=_NOW, zone=UTC)
        again = parse_query(format_query(query.root), now=_NOW, zone=UTC)
    except QueryError:
        return
    assert again.root == query.root


def chunks(raw: bytes) -> None:
    """Decompress a corrupted chunk: an error or a result, and never a crash."""
    digest, frame = compress_and_hash(raw)
    assert decompress(frame) == raw
    at = crc32(raw) % len(frame)
    corrupted = (
        frame[:at] + bytes([frame[at] ^ 1 << crc32(frame) % 8]) + frame[at + 1 :]
    )
    for data in (corrupted, raw):
        try:
            decompress(data, expected_size=1 << 20)
        except Exception as error:  # noqa: BLE001 (only ZstdError is allowed)
            assert type(error).__name__ == "ZstdError"  # noqa: PT017
    assert len(digest) == 32


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
def seed_inputs(name: str) -> list[bytes]:
    """Return typical inputs of a target, which are mutated."""
    pages = [
        path.read_bytes() for path in sorted(_TESTS.parent.glob("docs/guide/*.md"))
    ]
    texts = [
        one for raw in pages for one in raw.split(b"\n\n") if len(one) < _MAX_INPUT
    ]
    match name:
        case "reader":
            return texts
        case "markdown":
            return [*texts, *_MARKDOWN]
        case "terminal":
            return [*texts[::4], *_TERMINAL_SEQUENCES]
        case "queries":
            return [hint.example.encode() for hint in list_hints()]
        case _:
            files = sorted((_TESTS / "cases").rglob("*.jsonl"))
            found = b"\n".join(path.read_bytes() for path in files).split(b"\n")
            return [one for one in dict.fromkeys(found) if 0 < len(one) < _MAX_INPUT]


def mutate(random: Random, raw: bytes, other: bytes) -> bytes:
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
                raw = raw[:at] + random.choice(_TOKENS) + raw[at:]
            case 4:
                raw = raw[:at] + other[: stop - at] + raw[at:]
            case _:
                raw = raw[:at] + bytes(b ^ 0x20 for b in raw[at:stop]) + raw[stop:]
    return raw[:_MAX_INPUT]


_MARKDOWN = (
    b"[a](http://x) ![b](https://x/y.png) <https://x> <a@b.c>\n\n[c]: http://x",
    b"[a](javascript:alert(1)) <script>alert(1)</script> <img src=x onerror=y>",
    b"```html\n<iframe srcdoc='x'>\n```\n\n| a | b |\n|---|--:|\n| `c` | *d* |",
    b"&lt;script&gt; &#x6a;avascript: [x](<data:text/html,y>) [z]( \\java\tscript:a)",
)
_TERMINAL_SEQUENCES = (
    b"\x1b[31mred\x1b[0m \x1b]0;title\x07 \x1bP+q544e\x1b\\\\ \x9b2J \xc2\x9b2J",
    b"\xe2\x80\xaegnp.exe \xe2\x81\xa6a\xe2\x81\xa9 \x08\x7f\r\nb\rc",
    b"\x1b]8;;http://x\x07y \x1b[6n \x1b]52;c;eA==\x07",
    b"\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x92\xbb \xed\xa0\x80 \xef\xb8\x8f",
)
_TOKENS = tuple(
    b'" \\ { } [ ] : , \x1b[ \x9b <script> ](http://x) ![ ``` NOT ( ) before: \xff'
    b" \xed\xa0\x80 \xe2\x80\xae \0 1e999 \\ud800 \x28\xb5\x2f\xfd \n - * / OR".split(
        b" "
    )
)
