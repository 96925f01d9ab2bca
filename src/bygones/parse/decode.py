"""Looking at JSON that is not decoded, without copying it: most of it is large."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from types import UnionType
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from bygones.model.base import Line, Position, Problem


def raw_size(raw: Raw) -> int:
    """Return how many bytes it has."""
    return memoryview(raw).nbytes


def raw_head(raw: Raw, size: int) -> bytes:
    """Return its first bytes."""
    return bytes(memoryview(raw)[:size])


def raw_tail(raw: Raw, size: int) -> bytes:
    """Return its last bytes."""
    return bytes(memoryview(raw)[-size:])


InvalidFieldCallback = Callable[[str, str], None]
"""Takes the path of an odd field and what is odd about it."""

FieldHook = Callable[[Raw, str, InvalidFieldCallback], Any]
"""Decodes one field that no single type describes; takes value, path and odd."""

T = TypeVar("T", bound=Struct)

_OBJECT_DECODER = msgspec.json.Decoder(dict[str, Raw])
_LIST_DECODER = msgspec.json.Decoder(list[Raw])
_DECODE_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_MISSING: Any = object()


class _DecodeContext(Struct, frozen=True):
    """What is the same all the way down a value."""

    on_invalid: InvalidFieldCallback
    hooks: Mapping[tuple[type, str], FieldHook]


def decode_struct(
    struct_type: type[T],
    raw: bytes | Raw,
    on_invalid: InvalidFieldCallback,
    *,
    path: str = "",
    hooks: Mapping[tuple[type, str], FieldHook] = {},
) -> T:
    """Return the struct that the JSON object ``raw`` describes.

    A field whose value does not fit is left out and told to ``odd``; null means
    missing. Fields that the struct does not have are passed over.
    """
    way = _DecodeContext(on_invalid, hooks)
    sound = _decode_strict(struct_type, raw, path, way)
    if sound is not None:
        return sound
    plan = _wire_fields(struct_type)
    values = {}
    for key, value in _OBJECT_DECODER.decode(raw).items():
        field = plan.get(key)
        if field is None or bytes(value) == b"null":
            continue
        name, wanted = field
        hook = hooks.get((struct_type, name))
        place = f"{path}.{key}" if path else key
        decoded = (
            hook(value, place, on_invalid)
            if hook
            else _decode_value(wanted, value, place, way)
        )
        if decoded is not _MISSING:
            values[name] = decoded
    return struct_type(**values)


def _decode_strict(
    struct_type: type[T], raw: bytes | Raw, path: str, context: _DecodeContext
) -> T | None:
    """Return the struct at once if all of its fields fit, as nearly always they do."""
    quick = _strict_twin(
        struct_type,
        frozenset(name for held, name in context.hooks if held is struct_type),
    )
    try:
        found = quick.decoder.decode(raw)
    except _DECODE_ERRORS:
        return None
    values = {}
    for name, key, is_raw, is_nested in quick.fields:
        value = getattr(found, name)
        if value is UNSET or value is None or (is_raw and bytes(value) == b"null"):
            continue
        if is_nested:
            hook = context.hooks.get((struct_type, name))
            place = f"{path}.{key}" if path else key
            value = (
                hook(value, place, context.on_invalid)
                if hook
                else _decode_value(
                    _wire_fields(struct_type)[key][1], value, place, context
                )
            )
            if value is _MISSING:
                continue
        elif isinstance(value, float) and not math.isfinite(value):
            return None
        values[name] = value
    return struct_type(**values)


class _StrictTwin(Struct, frozen=True):
    """A twin of a struct that is decoded in one go, its hooked fields left raw."""

    decoder: Any
    fields: tuple[tuple[str, str, bool, bool], ...]
    """Of each its name, its name in a transcript, and how its value is taken."""


@cache
def _strict_twin(
    struct_type: type[Struct], hooked_fields: frozenset[str]
) -> _StrictTwin:
    twins: list[tuple[str, Any, Any]] = []
    fields = []
    for key, (name, wanted) in _wire_fields(struct_type).items():
        is_nested = name in hooked_fields or _type_decoder(wanted, strict=True) is None
        is_raw = is_nested or wanted is Raw
        taken = Raw | UnsetType if is_raw else wanted | None | UnsetType
        twins.append((name, taken, msgspec.field(default=UNSET, name=key)))
        fields.append((name, key, is_raw, is_nested))
    twin = msgspec.defstruct(f"Quick{struct_type.__name__}", twins, frozen=True)
    # What is nested tells its oddities: it comes last, when nothing can fail any more.
    fields.sort(key=lambda field: field[3])
    return _StrictTwin(msgspec.json.Decoder(twin), tuple(fields))


def field_names(struct_type: type[Struct]) -> frozenset[str]:
    """Return the names that a struct's fields have in a transcript."""
    return frozenset(_wire_fields(struct_type))


@cache
def _wire_fields(struct_type: type[Struct]) -> dict[str, tuple[str, Any]]:
    hints = get_type_hints(struct_type, include_extras=True)
    return {
        field.encode_name: (field.name, hints[field.name])
        for field in msgspec.structs.fields(struct_type)
    }


@cache
def _type_decoder(
    expected_type: Any, *, strict: bool
) -> msgspec.json.Decoder[Any] | None:
    try:
        return msgspec.json.Decoder(expected_type, strict=strict)
    except TypeError:
        # A struct with a hooked field has no decoder of its own.
        return None


def _decode_value(
    expected_type: Any, raw: Raw, path: str, context: _DecodeContext
) -> Any:
    """Return the value, or ``_MISSING`` after telling ``odd`` what is wrong."""
    reason = "unexpected shape"
    for strict in (True, False):
        decoder = _type_decoder(expected_type, strict=strict)
        if decoder is not None:
            try:
                return _require_finite(decoder.decode(raw))
            except (*_DECODE_ERRORS, OverflowError) as error:
                reason = str(error)
    first = bytes(memoryview(raw)[:1])
    for option in _union_members(expected_type):
        container, inner = get_origin(option), get_args(option)
        if first == b"{" and isinstance(option, type) and issubclass(option, Struct):
            return decode_struct(
                option, raw, context.on_invalid, path=path, hooks=context.hooks
            )
        if first == b"{" and container is dict:
            return _decode_mapping(inner[1], raw, path, context)
        if first == b"[" and container in {tuple, list}:
            return container(_decode_elements(inner[0], raw, path, context))
    whole = _truncate_float(expected_type, raw)
    if whole is None:
        context.on_invalid(path, reason)
        return _MISSING
    return whole


def _decode_elements(
    expected_type: Any, raw: Raw, path: str, context: _DecodeContext
) -> Iterator[Any]:
    for number, element in enumerate(_LIST_DECODER.decode(raw)):
        decoded = _decode_value(expected_type, element, f"{path}[{number}]", context)
        if decoded is not _MISSING:
            yield decoded


def _decode_mapping(
    expected_type: Any, raw: Raw, path: str, context: _DecodeContext
) -> dict[str, Any]:
    decoded = {
        key: _decode_value(expected_type, value, f"{path}.{key}", context)
        for key, value in _OBJECT_DECODER.decode(raw).items()
    }
    return {key: value for key, value in decoded.items() if value is not _MISSING}


def _require_finite(value: Any) -> Any:
    """Refuse the words that are read as numbers without end."""
    if isinstance(value, float) and not math.isfinite(value):
        raise OverflowError(value)
    return value


def _union_members(expected_type: Any) -> tuple[Any, ...]:
    return (
        get_args(expected_type)
        if isinstance(expected_type, UnionType)
        else (expected_type,)
    )


def _truncate_float(expected_type: Any, raw: Raw) -> int | None:
    """Return a count that a gateway wrote as a fraction, rounded down."""
    if int not in _union_members(expected_type):
        return None
    try:
        return int(msgspec.json.decode(raw, type=float))
    except (*_DECODE_ERRORS, ValueError, OverflowError):
        return None


if TYPE_CHECKING:
    import json


_STRICT_OBJECT_DECODER = msgspec.json.Decoder(dict[str, Raw])
_RAW_DECODER = msgspec.json.Decoder(Raw)
_SALVAGE_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError)
_BOM = b"\xef\xbb\xbf"
_BLANK_BYTES = b"\0\t\r\n "
_NONBLANK = re.compile(rb"[^\0\t\r\n ]")
_OBJECT_START = re.compile(r'\{\s*"[^"\\]{0,100}"\s*:')
_INT64_DIGITS = 19
"""Digits of a number that may not fit into 64 bits."""
_MAX_PASSES = 16
"""How often a damaged line is read over, at most; keeps hostile lines linear."""
_SCAN_COST_RATIO = 64
"""How many characters are looked over in the time in which one is read."""


class SalvagedObject(Struct, frozen=True):
    """The bytes of one whole JSON object, and where they stand.

    ``raw`` differs from the bytes at ``position`` only where they had to be mended.
    """

    position: Position
    raw: bytes


def salvage_line(line: Line) -> Iterator[SalvagedObject | Problem]:
    """Yield every whole object on a line, and every problem met on the way."""
    raw = line.raw
    start, end = 0, len(raw.rstrip(_BLANK_BYTES))
    if line.position.offset == 0 and raw.startswith(_BOM):
        start = len(_BOM)
        yield Problem("bom", _position_within(line, 0, start))
    if start >= end:
        kind = "nul-run" if b"\0" in raw else "blank"
        yield Problem(kind, _position_within(line, start, len(raw)))
        return
    first = _first_nonblank(raw, start)
    yield from _gap_problems(line, start, first)
    whole = _parse_whole(_position_within(line, first, end), raw[first:end])
    if isinstance(whole, str):
        yield from _split_spliced(line, first, end, whole)
    else:
        yield from whole
    yield from _gap_problems(line, end, len(raw))


def replace_invalid_utf8(raw: bytes) -> bytes:
    """Return JSON in which bytes that are not UTF-8 are replaced."""
    try:
        return raw if raw.isascii() else raw.decode().encode()
    except UnicodeDecodeError:
        return raw.decode("utf-8", "replace").encode()


def _parse_whole(
    position: Position, raw: bytes
) -> list[SalvagedObject | Problem] | str:
    """Return the object that the bytes are, or why they are not JSON at all."""
    try:
        _STRICT_OBJECT_DECODER.decode(raw)
        if not raw.isascii():
            raw.decode()
    except RecursionError:
        return [Problem("too-deep", position)]
    except _SALVAGE_ERRORS as error:
        reason = str(error)
    else:
        return [SalvagedObject(position, raw)]
    mended = _repair_json(raw)
    if mended is None:
        return reason
    if not mended.startswith(b"{"):
        return [Problem("not-an-object", position, reason)]
    return [Problem("mended", position, reason), SalvagedObject(position, mended)]


def _split_spliced(
    line: Line, start: int, end: int, reason: str
) -> Iterator[SalvagedObject | Problem]:
    """Yield the whole records inside a spliced line, and the torn rest as problems."""
    # Latin-1 maps each byte to one character, so indexes stay byte offsets.
    text = line.raw[:end].decode("latin-1")
    effort = _MAX_PASSES * len(text)
    found: list[SalvagedObject | Problem] = []
    at = done = start
    while effort > 0 and (match := _OBJECT_START.search(text, at)):
        at = match.start()
        fields, stop, cost = _scan_object(text, at)
        effort -= cost
        is_next = _first_nonblank(line.raw, done) == at
        is_record = is_next or _looks_like_record(fields, text, at, stop)
        pieces = _take_object(line, at, stop) if is_record else []
        if pieces:
            found += [*_gap_problems(line, done, at), *pieces]
            at = done = stop
        else:
            at += 1
    if sum(isinstance(piece, SalvagedObject) for piece in found) > 1:
        yield Problem("spliced", line.position, "several records on one line")
    yield from found
    if done < end and (done == start or not line.has_newline):
        kind = "not-json" if line.has_newline else "cut-line"
        yield Problem(kind, _position_within(line, done, end), reason)
    else:
        yield from _gap_problems(line, done, end)


def _scan_object(text: str, at: int) -> tuple[_FieldPairs, int, int]:
    """Return the object at ``at``, its end, and how much was read to know it.

    What is not whole ends where it begins.
    """
    import json

    try:
        fields, stop = _object_scanner().raw_decode(text, at)
    except RecursionError:
        return [], at, len(text)
    except json.JSONDecodeError as error:
        is_open = error.msg.startswith("Unterminated")
        read = (len(text) if is_open else error.pos) - at
        # Making the error counts the newlines before it.
        return [], at, 1 + read + error.pos // _SCAN_COST_RATIO
    return fields, stop, stop - at


def _looks_like_record(fields: _FieldPairs, text: str, at: int, stop: int) -> bool:
    """Whether an object behind torn text is a record, and not a part of the torn one.

    Parts are followed by a comma or a bracket; where those are lost, the part seems to
    go on with the fields of what it was in, which it has itself or should not have.
    """
    # Few lines are torn.
    from bygones.model.base import WireStruct
    from bygones.model.metadata import (
        METADATA_BY_TYPE,
        RECORDS_BY_TYPE,
    )

    named = dict(fields)
    name = named.get("type")
    if not isinstance(name, str) or len(named) < len(fields):
        return False
    is_inside = text[stop : stop + 1] in {",", "]", "}"}
    is_value = text[max(at - 9, 0) : at].rstrip()[-1:] in {":", ",", "["}
    if is_inside or (
        is_value and named.keys() - field_names(RECORDS_BY_TYPE.get(name, WireStruct))
    ):
        return False
    return name in METADATA_BY_TYPE or "uuid" in named or "sessionId" in named


def _take_object(line: Line, at: int, stop: int) -> list[SalvagedObject | Problem]:
    whole = _parse_whole(_position_within(line, at, stop), line.raw[at:stop])
    return [] if isinstance(whole, str) else whole


def _repair_json(raw: bytes) -> bytes | None:
    """Return ``raw`` as strict JSON if a lenient reader understands it.

    Bytes that are not UTF-8, halves of surrogate pairs, control characters, NaN and
    numbers without end are replaced.
    """
    import json

    text = raw.decode("utf-8", "replace")
    try:
        value = _lenient_decoder().decode(text)
        plain = json.dumps(value, ensure_ascii=False)
        whole = plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        mended = whole.encode()
        _RAW_DECODER.decode(mended)
    except (ValueError, RecursionError, msgspec.DecodeError):
        return None
    return mended


def _parse_int(digits: str) -> int | float | None:
    return int(digits) if len(digits) < _INT64_DIGITS else _parse_float(digits)


def _parse_float(digits: str) -> float | None:
    value = float(digits)
    return value if math.isfinite(value) else None


@cache
def _lenient_decoder() -> json.JSONDecoder:
    import json

    return json.JSONDecoder(
        strict=False,
        parse_constant=lambda _: None,
        parse_int=_parse_int,
        parse_float=_parse_float,
    )


@cache
def _object_scanner() -> json.JSONDecoder:
    import json

    return json.JSONDecoder(strict=False, parse_int=_parse_int, object_pairs_hook=list)


_FieldPairs = list[tuple[str, Any]]
"""Names and values as they are written: a name may stand there twice."""


def _gap_problems(line: Line, start: int, end: int) -> Iterator[Problem]:
    """Yield the problem with what stands between records, if it is one."""
    between = line.raw[start:end]
    if between.strip(_BLANK_BYTES):
        detail = f"{end - start} bytes of a torn record"
        yield Problem("spliced", _position_within(line, start, end), detail)
    elif b"\0" in between:
        yield Problem("nul-run", _position_within(line, start, end))


def _first_nonblank(raw: bytes, start: int) -> int:
    """Return where the first byte stands that is not blank."""
    match = _NONBLANK.search(raw, start)
    return match.start() if match else len(raw)


def _position_within(line: Line, start: int, end: int) -> Position:
    place = line.position
    return Position(
        place.source_id, place.generation, place.offset + start, end - start
    )
