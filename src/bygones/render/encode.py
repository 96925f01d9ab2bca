"""Rows as lines of JSON that can steer no terminal."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from bygones.render.safe import safe_json

__all__ = ["encoded"]


def encoded(row: Struct) -> str:
    """Return a row as one line of JSON, every control character escaped."""
    try:
        text = msgspec.json.encode(row)
    except UnicodeEncodeError:
        # A file's name need not be valid text, and ids may be taken from it.
        text = msgspec.json.encode(_sound(row))
    return safe_json(text.decode())


def _sound(value: object) -> object:
    """Return a value as dicts and lists, with texts that can be written."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, tuple):
        return [_sound(one) for one in value]
    if isinstance(value, Struct):
        tag = value.__struct_config__.tag
        fields = {
            field.encode_name: _sound(getattr(value, field.name))
            for field in msgspec.structs.fields(value)
            if getattr(value, field.name) is not field.default
        }
        return ({"row": tag} if tag else {}) | fields
    return value
