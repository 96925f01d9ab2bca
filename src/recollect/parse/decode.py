"""Decoding a struct field by field, so that one odd field costs that field only."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Raw, Struct

__all__ = ["Hook", "Odd", "decode_struct", "field_names"]

Odd = Callable[[str, str], None]
"""Takes the path of an odd field and what is odd about it."""

Hook = Callable[[Raw, str, Odd], Any]
"""Decodes one field that no single type describes; takes value, path and odd."""

T = TypeVar("T", bound=Struct)

_KEYS = msgspec.json.Decoder(dict[str, Raw])
_ELEMENTS = msgspec.json.Decoder(list[Raw])
_FAILURES = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_MISSING: Any = object()


class _Way(Struct, frozen=True):
    """What is the same all the way down a value."""

    odd: Odd
    hooks: Mapping[tuple[type, str], Hook]


def decode_struct(
    kind: type[T],
    raw: bytes | Raw,
    odd: Odd,
    *,
    path: str = "",
    hooks: Mapping[tuple[type, str], Hook] = {},
) -> T:
    """Return the struct that the JSON object ``raw`` describes.

    A field whose value does not fit is left out and told to ``odd``; null means
    missing. Fields that the struct does not have are passed over.
    """
    plan = _plan(kind)
    way = _Way(odd, hooks)
    values = {}
    for key, value in _KEYS.decode(raw).items():
        field = plan.get(key)
        if field is None or bytes(value) == b"null":
            continue
        name, wanted = field
        hook = hooks.get((kind, name))
        place = f"{path}.{key}" if path else key
        decoded = hook(value, place, odd) if hook else _value(wanted, value, place, way)
        if decoded is not _MISSING:
            values[name] = decoded
    return kind(**values)


def field_names(kind: type[Struct]) -> frozenset[str]:
    """Return the names that a struct's fields have in a transcript."""
    return frozenset(_plan(kind))


@cache
def _plan(kind: type[Struct]) -> dict[str, tuple[str, Any]]:
    hints = get_type_hints(kind, include_extras=True)
    return {
        field.encode_name: (field.name, hints[field.name])
        for field in msgspec.structs.fields(kind)
    }


@cache
def _decoder(wanted: Any, *, strict: bool) -> msgspec.json.Decoder[Any] | None:  # noqa: ANN401 (any type)
    try:
        return msgspec.json.Decoder(wanted, strict=strict)
    except TypeError:
        # A struct with a hooked field has no decoder of its own.
        return None


def _value(wanted: Any, raw: Raw, path: str, way: _Way) -> Any:  # noqa: ANN401 (a type of any form, and its value)
    """Return the value, or ``_MISSING`` after telling ``odd`` what is wrong."""
    reason = "unexpected shape"
    for strict in (True, False):
        decoder = _decoder(wanted, strict=strict)
        if decoder is not None:
            try:
                return _finite(decoder.decode(raw))
            except (*_FAILURES, OverflowError) as error:
                reason = str(error)
    first = bytes(memoryview(raw)[:1])
    for option in _options(wanted):
        container, inner = get_origin(option), get_args(option)
        if first == b"{" and isinstance(option, type) and issubclass(option, Struct):
            return decode_struct(option, raw, way.odd, path=path, hooks=way.hooks)
        if first == b"{" and container is dict:
            return _mapping(inner[1], raw, path, way)
        if first == b"[" and container in {tuple, list}:
            return container(_elements(inner[0], raw, path, way))
    whole = _whole_number(wanted, raw)
    if whole is None:
        way.odd(path, reason)
        return _MISSING
    return whole


def _elements(wanted: Any, raw: Raw, path: str, way: _Way) -> Iterator[Any]:  # noqa: ANN401 (as in _value)
    for number, element in enumerate(_ELEMENTS.decode(raw)):
        decoded = _value(wanted, element, f"{path}[{number}]", way)
        if decoded is not _MISSING:
            yield decoded


def _mapping(wanted: Any, raw: Raw, path: str, way: _Way) -> dict[str, Any]:  # noqa: ANN401 (as in _value)
    decoded = {
        key: _value(wanted, value, f"{path}.{key}", way)
        for key, value in _KEYS.decode(raw).items()
    }
    return {key: value for key, value in decoded.items() if value is not _MISSING}


def _finite(value: Any) -> Any:  # noqa: ANN401 (as in _value)
    """Refuse the words that are read as numbers without end."""
    if isinstance(value, float) and not math.isfinite(value):
        raise OverflowError(value)
    return value


def _options(wanted: Any) -> tuple[Any, ...]:  # noqa: ANN401 (as in _value)
    return get_args(wanted) if isinstance(wanted, UnionType) else (wanted,)


def _whole_number(wanted: Any, raw: Raw) -> int | None:  # noqa: ANN401 (as in _value)
    """Return a count that a gateway wrote as a fraction, rounded down."""
    if int not in _options(wanted):
        return None
    try:
        return int(msgspec.json.decode(raw, type=float))
    except (*_FAILURES, ValueError, OverflowError):
        return None
