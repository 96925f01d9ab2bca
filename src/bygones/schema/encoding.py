"""The base of all JSON objects, and how they are written."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
from msgspec import Struct

from bygones.model.base import Position, RecordId
from bygones.model.usage import Usage
from bygones.render.text.primitives import sanitize_json

SCHEMA_VERSION = 2
"""Increases when an object or a field is removed or changes its meaning."""
_NANOS_PER_DOLLAR = 10**9


class JsonObject(Struct, frozen=True, kw_only=True, tag_field="type"):
    """One object, printed on a line of its own or nested in another one."""


class TokenCounts(Struct, frozen=True, kw_only=True):
    """Tokens by how they are billed."""

    input: int = 0
    output: int = 0
    cache_write_5m: int = 0
    cache_write_1h: int = 0
    cache_read: int = 0

    @property
    def total(self) -> int:
        return (
            self.input
            + self.output
            + self.cache_write_5m
            + self.cache_write_1h
            + self.cache_read
        )

    @classmethod
    def from_usage(cls, usage: Usage) -> TokenCounts:
        return cls(
            input=usage.input,
            output=usage.output,
            cache_write_5m=usage.cache_write_5m,
            cache_write_1h=usage.cache_write_1h,
            cache_read=usage.cache_read,
        )


class SourcePosition(Struct, frozen=True, kw_only=True):
    """Where a record is in its source."""

    source: str
    """Its path, relative to the home of Claude Code."""
    generation: int
    """How often the source was rewritten before."""
    offset: int
    length: int

    @classmethod
    def from_position(cls, position: Position) -> SourcePosition:
        return cls(
            source=portable_source(position.source_id),
            generation=position.generation,
            offset=position.offset,
            length=position.length,
        )


def to_usd(nano_usd: int | None) -> float | None:
    return None if nano_usd is None else nano_usd / _NANOS_PER_DOLLAR


def to_ms(duration: timedelta | None) -> int | None:
    return None if duration is None else round(duration.total_seconds() * 1000)


def portable_source(source: str) -> str:
    """Return the path of a source without the folders of this machine."""
    head, separator, rest = source.replace("\\", "/").rpartition("/projects/")
    return f"projects/{rest}" if separator else head + rest.rpartition("/")[2]


def portable_id(record_id: RecordId) -> RecordId:
    """Return a record's id without the folder of its source.

    A record without a uuid is identified by its source and offset.
    """
    if not record_id.startswith("@"):
        return record_id
    return RecordId("@" + record_id.replace("\\", "/").rpartition("/")[2])


def encode_object(value: Struct) -> str:
    """Encode an object as one line of JSON with all control characters escaped."""
    try:
        encoded = msgspec.json.encode(value)
    except UnicodeEncodeError:
        # File names need not be valid text, and ids may contain them.
        encoded = msgspec.json.encode(_escape_surrogates(value))
    return sanitize_json(encoded.decode())


def encode_object_as_dict(value: Struct) -> dict[str, Any]:
    """Return an object as the dict that its JSON decodes to."""
    decoded: dict[str, Any] = msgspec.json.decode(encode_object(value))
    return decoded


def _escape_surrogates(value: object) -> object:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, tuple | list):
        return [_escape_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {
            _escape_surrogates(key): _escape_surrogates(item)
            for key, item in value.items()
        }
    if not isinstance(value, Struct):
        return value
    config = value.__struct_config__
    fields = {
        field.encode_name: _escape_surrogates(item)
        for field in msgspec.structs.fields(value)
        if (item := getattr(value, field.name)) is not msgspec.UNSET
    }
    return {config.tag_field: config.tag, **fields} if config.tag_field else fields
