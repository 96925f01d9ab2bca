"""Finding the records on a line that is not simply one record.

Transcripts are damaged in ordinary use: a crash leaves zero bytes, two writers leave
two records on a line, an editor leaves a byte order mark. What is whole is read, and
what is not is said.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator

import msgspec
from msgspec import Raw, Struct

from recollect.model.ids import Line, Position
from recollect.model.problems import Problem

__all__ = ["Part", "salvage"]

_OBJECT = msgspec.json.Decoder(dict[str, Raw])
_ANY = msgspec.json.Decoder(Raw)
_BOM = b"\xef\xbb\xbf"
_START = re.compile(rb'\{\s*"(?:type|parentUuid|uuid|sessionId|isSidechain)"\s*:')
_STARTS_TRIED = 1000
"""More candidates than any real damage has; keeps hostile lines linear."""
_DETAIL = 80


class Part(Struct, frozen=True):
    """The bytes of one whole JSON object, and where they stand.

    ``raw`` differs from the bytes at ``position`` only where they had to be mended.
    """

    position: Position
    raw: bytes


def salvage(line: Line) -> Iterator[Part | Problem]:
    """Yield every whole object on a line, and every problem met on the way."""
    raw, offset = line.raw, line.position.offset
    body = raw.rstrip(b"\r\n\t \0") if raw[-1:] in b"\r\n\t \0" else raw
    if not body:
        kind = "nul-run" if b"\0" in raw else "blank"
        yield Problem(kind, line.position)
        return
    start = 0
    if offset == 0 and body.startswith(_BOM):
        yield Problem("bom", _within(line.position, 0, len(_BOM)))
        start = len(_BOM)
    stripped = body[start:].lstrip(b"\0\t ")
    skipped = len(body) - start - len(stripped)
    if b"\0" in body[start : start + skipped]:
        yield Problem("nul-run", _within(line.position, start, skipped))
    yield from _objects(line, start + skipped, len(body))


def _objects(line: Line, start: int, end: int) -> Iterator[Part | Problem]:
    body = line.raw[start:end]
    place = _within(line.position, start, end - start)
    try:
        _OBJECT.decode(body)
    except RecursionError:
        yield Problem("too-deep", place)
    except msgspec.ValidationError:
        yield Problem("not-an-object", place, _head(body))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        mended = _mend(body)
        if mended is not None:
            yield from _mended(place, mended, str(error))
        else:
            yield from _pieces(line, start, end, str(error))
    else:
        yield Part(place, body)


def _mended(place: Position, mended: bytes, reason: str) -> Iterator[Part | Problem]:
    try:
        _OBJECT.decode(mended)
    except RecursionError:
        yield Problem("too-deep", place)
    except msgspec.ValidationError:
        yield Problem("not-an-object", place, _head(mended))
    else:
        yield Problem("mended", place, reason)
        yield Part(place, mended)


def _pieces(line: Line, start: int, end: int, reason: str) -> Iterator[Part | Problem]:
    """Yield the whole records inside a spliced line, and the torn rest as problems."""
    # Latin-1 maps each byte to one character, so indexes stay byte offsets.
    text = line.raw[start:end].decode("latin-1")
    scanner = json.JSONDecoder(strict=False)
    done = 0
    found: list[Part | Problem] = []
    for tried, match in enumerate(_START.finditer(line.raw, start, end)):
        if tried == _STARTS_TRIED:
            break
        at = match.start() - start
        if at < done:
            continue
        stop = _extent(scanner, text, at)
        if stop is None:
            continue
        if text[done:at].strip("\0 \t\r"):
            torn = _within(line.position, start + done, at - done)
            found.append(Problem("spliced", torn, _head(line.raw[start + done :])))
        place = _within(line.position, start + at, stop - at)
        piece = line.raw[start + at : start + stop]
        found.append(Part(place, _mend(piece) or piece))
        done = stop
    if not any(isinstance(piece, Part) for piece in found):
        kind = "not-json" if line.ended else "cut-line"
        yield Problem(kind, _within(line.position, start, end - start), reason)
        return
    if len([piece for piece in found if isinstance(piece, Part)]) > 1:
        yield Problem("spliced", line.position, "several records on one line")
    yield from found
    if text[done:].strip("\0 \t\r"):
        rest = _within(line.position, start + done, end - start - done)
        yield Problem("spliced", rest, _head(line.raw[start + done : end]))


def _extent(scanner: json.JSONDecoder, text: str, at: int) -> int | None:
    """Return where the object beginning at ``at`` ends, if it is whole.

    What follows must be nothing, or another object: a block inside a torn record
    is followed by a comma or a bracket and is not taken for a record.
    """
    try:
        _, stop = scanner.raw_decode(text, at)
    except (ValueError, RecursionError):
        return None
    rest = text[stop : stop + 4096].lstrip("\0 \t\r")
    return stop if not rest or rest[0] == "{" else None


def _mend(raw: bytes) -> bytes | None:
    """Return ``raw`` as strict JSON if a lenient reader understands it.

    Bytes that are not UTF-8, halves of surrogate pairs, control characters, NaN and
    numbers without end are replaced.
    """
    text = raw.decode("utf-8", "replace")
    try:
        value = _LENIENT.decode(text)
        plain = json.dumps(value, ensure_ascii=False)
        whole = plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        mended = whole.encode()
        _ANY.decode(mended)
    except (ValueError, RecursionError, msgspec.DecodeError):
        return None
    return mended


def _integer(digits: str) -> int | float | None:
    return int(digits) if len(digits) < 19 else _number(digits)  # noqa: PLR2004 (64 bits)


def _number(digits: str) -> float | None:
    value = float(digits)
    return value if math.isfinite(value) else None


_LENIENT = json.JSONDecoder(
    strict=False,
    parse_constant=lambda _: None,
    parse_int=_integer,
    parse_float=_number,
)


def _within(position: Position, start: int, length: int) -> Position:
    return Position(
        position.source, position.generation, position.offset + start, length
    )


def _head(raw: bytes) -> str:
    return raw[:_DETAIL].decode("utf-8", "replace")
