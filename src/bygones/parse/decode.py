"""Decoding a struct field by field, so that one odd field costs that field only."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

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
    way = _Way(odd, hooks)
    sound = _sound(kind, raw, path, way)
    if sound is not None:
        return sound
    plan = _plan(kind)
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


def _sound(kind: type[T], raw: bytes | Raw, path: str, way: _Way) -> T | None:
    """Return the struct at once if all of its fields fit, as nearly always they do."""
    quick = _quick(kind, frozenset(name for held, name in way.hooks if held is kind))
    try:
        found = quick.decoder.decode(raw)
    except _FAILURES:
        return None
    values = {}
    for name, key, is_raw, is_nested in quick.fields:
        value = getattr(found, name)
        if value is UNSET or value is None or (is_raw and bytes(value) == b"null"):
            continue
        if is_nested:
            hook = way.hooks.get((kind, name))
            place = f"{path}.{key}" if path else key
            value = (
                hook(value, place, way.odd)
                if hook
                else _value(_plan(kind)[key][1], value, place, way)
            )
            if value is _MISSING:
                continue
        elif isinstance(value, float) and not math.isfinite(value):
            return None
        values[name] = value
    return kind(**values)


class _Quick(Struct, frozen=True):
    """A twin of a struct that is decoded in one go, its hooked fields left raw."""

    decoder: Any
    fields: tuple[tuple[str, str, bool, bool], ...]
    """Of each its name, its name in a transcript, and how its value is taken."""


@cache
def _quick(kind: type[Struct], hooked: frozenset[str]) -> _Quick:
    twins: list[tuple[str, Any, Any]] = []
    fields = []
    for key, (name, wanted) in _plan(kind).items():
        is_nested = name in hooked or _decoder(wanted, strict=True) is None
        is_raw = is_nested or wanted is Raw
        taken = Raw | UnsetType if is_raw else wanted | None | UnsetType
        twins.append((name, taken, msgspec.field(default=UNSET, name=key)))
        fields.append((name, key, is_raw, is_nested))
    twin = msgspec.defstruct(f"Quick{kind.__name__}", twins, frozen=True)
    # What is nested tells its oddities: it comes last, when nothing can fail any more.
    fields.sort(key=lambda field: field[3])
    return _Quick(msgspec.json.Decoder(twin), tuple(fields))


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
