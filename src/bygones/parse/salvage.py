"""Finding the records on a line that is not simply one record.

Transcripts are damaged in ordinary use: a crash leaves zero bytes, two writers leave
two records on a line, an editor leaves a byte order mark. What is whole is read, and
what is not is said, without repeating it: a torn record may be a private one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw, Struct

from bygones.model.ids import Line, Position
from bygones.model.problems import Problem
from bygones.parse.decode import field_names

if TYPE_CHECKING:
    import json

__all__ = ["Part", "salvage", "sound_text"]

_OBJECT = msgspec.json.Decoder(dict[str, Raw])
_ANY = msgspec.json.Decoder(Raw)
_FAILURES = (msgspec.MsgspecError, UnicodeDecodeError)
_BOM = b"\xef\xbb\xbf"
_BLANK = b"\0\t\r\n "
_SOLID = re.compile(rb"[^\0\t\r\n ]")
_START = re.compile(r'\{\s*"[^"\\]{0,100}"\s*:')
_LONG = 19
"""Digits of a number that may not fit into 64 bits."""
_READINGS = 16
"""How often a damaged line is read over, at most; keeps hostile lines linear."""
_GLANCES = 64
"""How many characters are looked over in the time in which one is read."""


class Part(Struct, frozen=True):
    """The bytes of one whole JSON object, and where they stand.

    ``raw`` differs from the bytes at ``position`` only where they had to be mended.
    """

    position: Position
    raw: bytes


def salvage(line: Line) -> Iterator[Part | Problem]:
    """Yield every whole object on a line, and every problem met on the way."""
    raw = line.raw
    start, end = 0, len(raw.rstrip(_BLANK))
    if line.position.offset == 0 and raw.startswith(_BOM):
        start = len(_BOM)
        yield Problem("bom", _within(line, 0, start))
    if start >= end:
        kind = "nul-run" if b"\0" in raw else "blank"
        yield Problem(kind, _within(line, start, len(raw)))
        return
    first = _solid(raw, start)
    yield from _gap(line, start, first)
    whole = _whole(_within(line, first, end), raw[first:end])
    if isinstance(whole, str):
        yield from _pieces(line, first, end, whole)
    else:
        yield from whole
    yield from _gap(line, end, len(raw))


def sound_text(raw: bytes) -> bytes:
    """Return JSON in which bytes that are not UTF-8 are replaced."""
    try:
        return raw if raw.isascii() else raw.decode().encode()
    except UnicodeDecodeError:
        return raw.decode("utf-8", "replace").encode()


def _whole(place: Position, raw: bytes) -> list[Part | Problem] | str:
    """Return the object that the bytes are, or why they are not JSON at all."""
    try:
        _OBJECT.decode(raw)
        if not raw.isascii():
            raw.decode()
    except RecursionError:
        return [Problem("too-deep", place)]
    except _FAILURES as error:
        reason = str(error)
    else:
        return [Part(place, raw)]
    mended = _mend(raw)
    if mended is None:
        return reason
    if not mended.startswith(b"{"):
        return [Problem("not-an-object", place, reason)]
    return [Problem("mended", place, reason), Part(place, mended)]


def _pieces(line: Line, start: int, end: int, reason: str) -> Iterator[Part | Problem]:
    """Yield the whole records inside a spliced line, and the torn rest as problems."""
    # Latin-1 maps each byte to one character, so indexes stay byte offsets.
    text = line.raw[:end].decode("latin-1")
    effort = _READINGS * len(text)
    found: list[Part | Problem] = []
    at = done = start
    while effort > 0 and (match := _START.search(text, at)):
        at = match.start()
        fields, stop, cost = _extent(text, at)
        effort -= cost
        is_next = _solid(line.raw, done) == at
        is_record = is_next or _is_record(fields, text, at, stop)
        pieces = _taken(line, at, stop) if is_record else []
        if pieces:
            found += [*_gap(line, done, at), *pieces]
            at = done = stop
        else:
            at += 1
    if sum(isinstance(piece, Part) for piece in found) > 1:
        yield Problem("spliced", line.position, "several records on one line")
    yield from found
    if done < end and (done == start or not line.ended):
        kind = "not-json" if line.ended else "cut-line"
        yield Problem(kind, _within(line, done, end), reason)
    else:
        yield from _gap(line, done, end)


def _extent(text: str, at: int) -> tuple[_Fields, int, int]:
    """Return the object at ``at``, its end, and how much was read to know it.

    What is not whole ends where it begins.
    """
    import json  # noqa: PLC0415 (only for a line that is torn)

    try:
        fields, stop = _scanner().raw_decode(text, at)
    except RecursionError:
        return [], at, len(text)
    except json.JSONDecodeError as error:
        is_open = error.msg.startswith("Unterminated")
        read = (len(text) if is_open else error.pos) - at
        # Making the error counts the newlines before it.
        return [], at, 1 + read + error.pos // _GLANCES
    return fields, stop, stop - at


def _is_record(fields: _Fields, text: str, at: int, stop: int) -> bool:
    """Whether an object behind torn text is a record, and not a part of the torn one.

    Parts are followed by a comma or a bracket; where those are lost, the part seems to
    go on with the fields of what it was in, which it has itself or should not have.
    """
    # Few lines are torn.
    from bygones.model.metadata import METADATA  # noqa: PLC0415
    from bygones.model.wire import Wire  # noqa: PLC0415
    from bygones.parse.kinds import RECORDS  # noqa: PLC0415

    named = dict(fields)
    name = named.get("type")
    if not isinstance(name, str) or len(named) < len(fields):
        return False
    is_inside = text[stop : stop + 1] in {",", "]", "}"}
    is_value = text[max(at - 9, 0) : at].rstrip()[-1:] in {":", ",", "["}
    if is_inside or (is_value and named.keys() - field_names(RECORDS.get(name, Wire))):
        return False
    return name in METADATA or "uuid" in named or "sessionId" in named


def _taken(line: Line, at: int, stop: int) -> list[Part | Problem]:
    whole = _whole(_within(line, at, stop), line.raw[at:stop])
    return [] if isinstance(whole, str) else whole


def _mend(raw: bytes) -> bytes | None:
    """Return ``raw`` as strict JSON if a lenient reader understands it.

    Bytes that are not UTF-8, halves of surrogate pairs, control characters, NaN and
    numbers without end are replaced.
    """
    import json  # noqa: PLC0415 (see above)

    text = raw.decode("utf-8", "replace")
    try:
        value = _lenient().decode(text)
        plain = json.dumps(value, ensure_ascii=False)
        whole = plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        mended = whole.encode()
        _ANY.decode(mended)
    except (ValueError, RecursionError, msgspec.DecodeError):
        return None
    return mended


def _integer(digits: str) -> int | float | None:
    return int(digits) if len(digits) < _LONG else _number(digits)


def _number(digits: str) -> float | None:
    value = float(digits)
    return value if math.isfinite(value) else None


@cache
def _lenient() -> json.JSONDecoder:
    import json  # noqa: PLC0415 (see above)

    return json.JSONDecoder(
        strict=False,
        parse_constant=lambda _: None,
        parse_int=_integer,
        parse_float=_number,
    )


@cache
def _scanner() -> json.JSONDecoder:
    import json  # noqa: PLC0415 (see above)

    return json.JSONDecoder(strict=False, parse_int=_integer, object_pairs_hook=list)


_Fields = list[tuple[str, Any]]
"""Names and values as they are written: a name may stand there twice."""


def _gap(line: Line, start: int, end: int) -> Iterator[Problem]:
    """Yield the problem with what stands between records, if it is one."""
    between = line.raw[start:end]
    if between.strip(_BLANK):
        detail = f"{end - start} bytes of a torn record"
        yield Problem("spliced", _within(line, start, end), detail)
    elif b"\0" in between:
        yield Problem("nul-run", _within(line, start, end))


def _solid(raw: bytes, start: int) -> int:
    """Return where the first byte stands that is not blank."""
    match = _SOLID.search(raw, start)
    return match.start() if match else len(raw)


def _within(line: Line, start: int, end: int) -> Position:
    place = line.position
    return Position(place.source, place.generation, place.offset + start, end - start)
