"""Tolerant JSON decoding: structs with invalid fields, and damaged lines.

`decode_struct` decodes a JSON object into a struct and reports fields that do not match
instead of failing. `salvage_line` finds the whole JSON objects in a line of a transcript,
however damaged the line is.
"""

from __future__ import annotations

import math
import re
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from hashlib import sha256
from types import UnionType
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from bygones.model.base import DECODE_ERRORS, ID_LENGTH, Line, Position, Problem

if TYPE_CHECKING:
    import json

InvalidFieldCallback = Callable[[str, str], None]
"""Receives the path of an invalid field and the reason."""

FieldHook = Callable[[Raw, str, InvalidFieldCallback], Any]
"""Decodes one field that no single type describes: value, path, callback."""

T = TypeVar("T", bound=Struct)

_decode_object = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_list = msgspec.json.Decoder(list[Raw]).decode
_INVALID: Any = object()
"""Returned for a value that matches no expected type."""


# Raw JSON is often megabytes long; these look at it without copying it.


def raw_size(raw: Raw) -> int:
    return memoryview(raw).nbytes


def raw_head(raw: Raw, size: int) -> bytes:
    return bytes(memoryview(raw)[:size])


def raw_tail(raw: Raw, size: int) -> bytes:
    return bytes(memoryview(raw)[-size:])


def _is_null(raw: Raw) -> bool:
    return raw_size(raw) == len(b"null") and bytes(raw) == b"null"


def replace_invalid_utf8(raw: bytes) -> bytes:
    """Return JSON in which invalid UTF-8 is replaced by U+FFFD."""
    try:
        return raw if raw.isascii() else raw.decode().encode()
    except UnicodeDecodeError:
        return raw.decode("utf-8", "replace").encode()


def ignore_invalid_field(_path: str, _reason: str) -> None:
    """Ignore the report of an invalid field."""


class _TextOnly(Struct, frozen=True, gc=False):
    text: str | None = None


_decode_text_element = msgspec.json.Decoder(_TextOnly | str | None).decode


def content_text(raw: Raw) -> str:
    """Return the text of a value that is a string, a block or a list of both."""
    content = replace_invalid_utf8(bytes(raw))
    try:
        elements = _decode_list(content) if content[:1] == b"[" else [content]
    except DECODE_ERRORS:
        return ""
    return "\n".join(text for text in map(_element_text, elements) if text)


def _element_text(raw: Raw | bytes) -> str | None:
    try:
        element = _decode_text_element(raw)
    except DECODE_ERRORS:
        return None
    return element.text if isinstance(element, _TextOnly) else element


class FieldHooks:
    """Hooks for the fields that no single type describes, by struct and field name."""

    def __init__(self, hooks: Mapping[tuple[type[Struct], str], FieldHook]) -> None:
        self._hooks = hooks
        self._strict_twins: dict[type[Struct], _StrictTwin] = {}

    def get(self, struct_type: type[Struct], name: str) -> FieldHook | None:
        return self._hooks.get((struct_type, name))

    def strict_twin(self, struct_type: type[Struct]) -> _StrictTwin:
        twin = self._strict_twins.get(struct_type)
        if twin is None:
            hooks = {
                name: hook
                for (owner, name), hook in self._hooks.items()
                if owner is struct_type
            }
            twin = self._strict_twins[struct_type] = _make_twin(struct_type, hooks)
        return twin


_NO_HOOKS = FieldHooks({})


class _DecodeContext(Struct, frozen=True):
    """What stays the same for all nested values."""

    on_invalid: InvalidFieldCallback
    hooks: FieldHooks


_ID_START = 64
"""Characters that are kept of an id that is too long."""


def decode_struct(
    struct_type: type[T],
    raw: bytes | Raw,
    on_invalid: InvalidFieldCallback,
    *,
    path: str = "",
    hooks: FieldHooks = _NO_HOOKS,
) -> T:
    """Return the struct that the JSON object `raw` describes.

    A field whose value does not match its type is left out and reported to `on_invalid`;
    an id that is too long is shortened and reported.
    Null means missing. Fields that the struct does not have are ignored.
    """
    context = _DecodeContext(on_invalid, hooks)
    strict = _decode_strict(struct_type, raw, path, context)
    if strict is not None:
        return strict
    fields = _wire_fields(struct_type)
    values = {}
    for key, value in _decode_object(raw).items():
        field = fields.get(key)
        if field is None or _is_null(value):
            continue
        name, expected_type = field
        hook = hooks.get(struct_type, name)
        field_path = f"{path}.{key}" if path else key
        decoded = (
            hook(value, field_path, on_invalid)
            if hook
            else _decode_value(expected_type, value, field_path, context)
        )
        if decoded is not _INVALID:
            values[name] = decoded
    return struct_type(**values)


def _decode_strict(
    struct_type: type[T], raw: bytes | Raw, path: str, context: _DecodeContext
) -> T | None:
    """Decode in one step if all fields match, as they nearly always do."""
    twin = context.hooks.strict_twin(struct_type)
    try:
        found = twin.decode(raw)
    except DECODE_ERRORS:
        return None
    values = {}
    for field in twin.fields:
        value = getattr(found, field.name)
        if value is UNSET or value is None or (field.is_raw and _is_null(value)):
            continue
        if field.is_nested:
            field_path = f"{path}.{field.key}" if path else field.key
            value = (
                field.hook(value, field_path, context.on_invalid)
                if field.hook
                else _decode_value(field.expected_type, value, field_path, context)
            )
            if value is _INVALID:
                continue
        elif isinstance(value, float) and not math.isfinite(value):
            return None
        values[field.name] = value
    return struct_type(**values)


class _TwinField(Struct, frozen=True):
    name: str
    key: str
    """Its name in a transcript."""
    expected_type: Any
    is_raw: bool
    is_nested: bool
    hook: FieldHook | None


class _StrictTwin(Struct, frozen=True):
    """A copy of a struct type whose nested and hooked fields are decoded as `Raw`."""

    decode: Callable[[bytes | Raw], Any]
    fields: tuple[_TwinField, ...]


def _make_twin(
    struct_type: type[Struct], hooks: Mapping[str, FieldHook]
) -> _StrictTwin:
    definitions: list[tuple[str, Any, Any]] = []
    fields = []
    for key, (name, expected) in _wire_fields(struct_type).items():
        is_nested = name in hooks or _type_decoder(expected, strict=True) is None
        is_raw = is_nested or expected is Raw
        twin_type = Raw | UnsetType if is_raw else expected | None | UnsetType
        definitions.append((name, twin_type, msgspec.field(default=UNSET, name=key)))
        fields.append(
            _TwinField(name, key, expected, is_raw, is_nested, hooks.get(name))
        )
    twin = msgspec.defstruct(f"Strict{struct_type.__name__}", definitions, frozen=True)
    # Nested fields report invalid values, so they come last, when nothing else can fail.
    fields.sort(key=lambda field: field.is_nested)
    return _StrictTwin(msgspec.json.Decoder(twin).decode, tuple(fields))


def field_names(struct_type: type[Struct]) -> frozenset[str]:
    """Return the names that a struct's fields have in a transcript."""
    return frozenset(_wire_fields(struct_type))


def known_names(struct_type: type[Struct]) -> frozenset[str]:
    """Return the names of all known fields, including those that are not decoded."""
    return field_names(struct_type).union(getattr(struct_type, "unused_fields", ()))


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
        # Structs with a hooked field cannot be decoded directly.
        return None


def _decode_value(
    expected_type: Any, raw: Raw, path: str, context: _DecodeContext
) -> Any:
    """Return the value, or `_INVALID` after reporting the reason."""
    reason = "unexpected shape"
    for strict in (True, False):
        decoder = _type_decoder(expected_type, strict=strict)
        if decoder is not None:
            try:
                return _require_finite(decoder.decode(raw))
            except (*DECODE_ERRORS, OverflowError) as error:
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
    number = _truncate_float(expected_type, raw)
    if number is not None:
        return number
    context.on_invalid(path, reason)
    return _shorten_id(raw) if _is_id(expected_type) else _INVALID


@cache
def _is_id(expected_type: Any) -> bool:
    options = (expected_type, *get_args(expected_type))
    return any(ID_LENGTH in getattr(one, "__metadata__", ()) for one in options)


def _shorten_id(raw: Raw) -> Any:
    """Return the start of a long id with a digest: equal ids stay equal."""
    try:
        text = msgspec.json.decode(raw, type=str)
    except DECODE_ERRORS:
        return _INVALID
    return f"{text[:_ID_START]}-{sha256(text.encode()).hexdigest()}"


def _decode_elements(
    expected_type: Any, raw: Raw, path: str, context: _DecodeContext
) -> Iterator[Any]:
    for index, element in enumerate(_decode_list(raw)):
        decoded = _decode_value(expected_type, element, f"{path}[{index}]", context)
        if decoded is not _INVALID:
            yield decoded


def _decode_mapping(
    expected_type: Any, raw: Raw, path: str, context: _DecodeContext
) -> dict[str, Any]:
    decoded = {
        key: _decode_value(expected_type, value, f"{path}.{key}", context)
        for key, value in _decode_object(raw).items()
    }
    return {key: value for key, value in decoded.items() if value is not _INVALID}


def _require_finite(value: Any) -> Any:
    """Reject NaN and infinity."""
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
    """Round down a count that a gateway wrote as a fraction."""
    if int not in _union_members(expected_type):
        return None
    try:
        return int(msgspec.json.decode(raw, type=float))
    except (*DECODE_ERRORS, ValueError, OverflowError):
        return None


_RAW_DECODER = msgspec.json.Decoder(Raw)
_SALVAGE_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError)
_BOM = b"\xef\xbb\xbf"
_BLANK_BYTES = b"\0\t\r\n "
_BRACE = ord("{")
_TAIL_BYTES = 1 << 16
_NONBLANK = re.compile(rb"[^\0\t\r\n ]")
_OBJECT_START = re.compile(r'\{\s*"[^"\\]{0,100}"\s*:')
_INT64_DIGITS = 19
"""Numbers with this many digits may exceed 64 bits."""
_MAX_PASSES = 16
"""A damaged line is scanned at most this often, so hostile lines stay linear."""
_SCAN_COST_RATIO = 64
"""Characters that can be skipped in the time one is parsed."""
_MAX_PIECES = 1_000
"""A damaged line is split into at most this many objects and problems."""
_MAX_REPAIRED_BYTES = 16 << 20
"""A longer damaged line is not repaired: that takes eight times its length in memory."""
_MAX_DIVIDED_BYTES = 32 << 20
"""A longer damaged line is not searched for records: that takes three times its length."""
MIN_RECORD_LENGTH = len(b'{"type":""}')
MIN_GUARDED_LENGTH = 1 << 20
MAX_VALUES = 500_000
"""Values of a line that is decoded; a longer list of small ones would take gigabytes."""
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)


class SalvagedObject(Struct, frozen=True):
    """The bytes of one whole JSON object and their position.

    `raw` differs from the bytes at `position` only where they had to be repaired.
    """

    position: Position
    raw: bytes


def has_too_many_values(raw: bytes) -> bool:
    """Whether a line has so many values that decoding them would take gigabytes."""
    end = len(raw)
    if end < MIN_GUARDED_LENGTH or _count_values(raw, 0, end) <= MAX_VALUES:
        return False
    # Most commas and brackets of a long line are in its strings. Removing them would
    # take many times the memory of the line.
    count = start = 0
    for number, string in enumerate(_STRING.finditer(raw)):
        count += _count_values(raw, start, string.start())
        start = string.end()
        if count > MAX_VALUES or number > 2 * MAX_VALUES:
            return True
    return count + _count_values(raw, start, end) > MAX_VALUES


def _count_values(raw: bytes, start: int, end: int) -> int:
    return sum(raw.count(sign, start, end) for sign in (b",", b"{", b"["))


def salvage_line(line: Line) -> Iterator[SalvagedObject | Problem]:
    """Yield the whole objects on a line, and the problems found, in order."""
    raw, size = line.raw, line.position.length
    if has_too_many_values(raw):
        yield Problem("too-many", line.position)
        return
    start, end = 0, _end_of_content(raw)
    if line.position.offset == 0 and raw.startswith(_BOM):
        start = len(_BOM)
        yield Problem("bom", _position_within(line, 0, start))
    if start >= end:
        kind = "nul-run" if b"\0" in raw else "blank"
        yield Problem(kind, _position_within(line, start, size))
        return
    first = _first_nonblank(raw, start)
    yield from _gap_problems(line, start, first)
    position = _position_within(line, first, end)
    if raw[first] != _BRACE and (
        reason := _why_not_an_object(memoryview(raw)[first:end])
    ):
        yield Problem("not-an-object", position, reason)
        yield from _gap_problems(line, end, size)
        return
    is_whole = not first and raw[end : end + 2] in {b"", b"\n"}
    whole = _parse_whole(position, raw if is_whole else memoryview(raw)[first:end])
    if isinstance(whole, str):
        yield from _split_spliced(line, first, end, whole)
    else:
        yield from whole
    yield from _gap_problems(line, end, size)


def _parse_whole(
    position: Position, raw: bytes | memoryview
) -> list[SalvagedObject | Problem] | str:
    """Return the object, or the reason why the bytes are not JSON at all."""
    try:
        _decode_object(raw)
        check_utf8(raw)
    except RecursionError:
        return [Problem("too-deep", position)]
    except _SALVAGE_ERRORS as error:
        reason = str(error)
    else:
        return [SalvagedObject(position, bytes(raw))]
    repaired = _repair_json(bytes(raw)) if len(raw) <= _MAX_REPAIRED_BYTES else None
    if repaired is None:
        return reason
    if not repaired.startswith(b"{"):
        return [Problem("not-an-object", position, reason)]
    return [Problem("repaired", position, reason), SalvagedObject(position, repaired)]


def check_utf8(raw: bytes | memoryview) -> None:
    """Raise if bytes are not UTF-8; a long line is not decoded as a whole."""
    if isinstance(raw, bytes) and raw.isascii():
        return
    decoder = getincrementaldecoder("utf-8")()
    for start in range(0, len(raw), _TAIL_BYTES):
        decoder.decode(raw[start : start + _TAIL_BYTES])
    decoder.decode(b"", final=True)


def _split_spliced(
    line: Line, start: int, end: int, reason: str
) -> Iterator[SalvagedObject | Problem]:
    """Yield the whole records of a spliced line, and the torn rest as problems."""
    # Latin-1 maps each byte to one character, so indexes stay byte offsets.
    is_divided = end - start <= _MAX_DIVIDED_BYTES
    text = line.raw[:end].decode("latin-1") if is_divided else ""
    budget = _MAX_PASSES * len(text)
    found: list[SalvagedObject | Problem] = []
    at = done = start
    while (
        budget > 0
        and len(found) < _MAX_PIECES
        and (match := _OBJECT_START.search(text, at))
    ):
        at = match.start()
        fields, stop, cost = _scan_object(text, at)
        budget -= cost
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
    """Return the fields of the object at `at`, its end, and the characters parsed.

    The end of an incomplete object is its start.
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
    """Whether an object after torn text is a record, not a part of the torn record.

    A part is followed by a comma or a bracket. Where those are lost, the part seems to
    continue with the fields of its container: names that it already has, or that a
    record of its type cannot have.
    """
    # Few lines are torn, and these modules define many structs.
    from bygones.model.base import WireStruct
    from bygones.model.metadata import METADATA_BY_TYPE, RECORDS_BY_TYPE

    by_name = dict(fields)
    name = by_name.get("type")
    if not isinstance(name, str) or len(by_name) < len(fields):
        return False
    is_inside = text[stop : stop + 1] in {",", "]", "}"}
    is_value = text[max(at - 9, 0) : at].rstrip()[-1:] in {":", ",", "["}
    if is_inside or (
        is_value and by_name.keys() - known_names(RECORDS_BY_TYPE.get(name, WireStruct))
    ):
        return False
    return name in METADATA_BY_TYPE or "uuid" in by_name or "sessionId" in by_name


def _take_object(line: Line, at: int, stop: int) -> list[SalvagedObject | Problem]:
    whole = _parse_whole(_position_within(line, at, stop), line.raw[at:stop])
    return [] if isinstance(whole, str) else whole


def _why_not_an_object(raw: memoryview) -> str:
    """Return what strict JSON is instead of an object; creates no value.

    Empty for objects, and for what is not JSON.
    """
    try:
        _RAW_DECODER.decode(raw)
        _decode_object(raw)
    except msgspec.ValidationError as error:
        return str(error)
    except (msgspec.DecodeError, RecursionError):
        return ""
    return ""


def _repair_json(raw: bytes) -> bytes | None:
    """Return `raw` as strict JSON if a lenient parser accepts it.

    Invalid UTF-8, lone surrogates, control characters, NaN and infinity are replaced.
    Of anything but an object, only that it is valid is of interest: "null" is returned.
    """
    try:
        value = _lenient_decoder().decode(raw.decode("utf-8", "replace"))
        if not isinstance(value, dict):
            return b"null"
        repaired = _encode_json(value)
        _RAW_DECODER.decode(repaired)
    except (ValueError, RecursionError, msgspec.DecodeError):
        return None
    return repaired


def _encode_json(value: object) -> bytes:
    """Return JSON in which lone surrogates are replaced."""
    import json

    dumped = json.dumps(value, ensure_ascii=False)
    try:
        return dumped.encode()
    except UnicodeEncodeError:
        paired = dumped.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return paired.encode()


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
"""Names and values in order; a name may appear twice."""


def _gap_problems(line: Line, start: int, end: int) -> Iterator[Problem]:
    """Yield a problem if the bytes between two records are not blank."""
    if _NONBLANK.search(line.raw, start, end):
        detail = f"{end - start} bytes of a torn record"
        yield Problem("spliced", _position_within(line, start, end), detail)
    elif line.raw.find(b"\0", start, end) >= 0:
        yield Problem("nul-run", _position_within(line, start, end))


def _end_of_content(raw: bytes) -> int:
    """Return where the blanks at the end start; does not copy the line."""
    end = len(raw)
    while end:
        tail = raw[max(end - _TAIL_BYTES, 0) : end]
        content = len(tail.rstrip(_BLANK_BYTES))
        end -= len(tail) - content
        if content:
            break
    return end


def _first_nonblank(raw: bytes, start: int) -> int:
    match = _NONBLANK.search(raw, start)
    return match.start() if match else len(raw)


def _position_within(line: Line, start: int, end: int) -> Position:
    base = line.position
    return Position(base.source_id, base.generation, base.offset + start, end - start)
