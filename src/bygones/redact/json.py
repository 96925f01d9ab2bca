"""Redact the strings in JSON."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, TypeGuard

import msgspec
from msgspec import Struct, structs

from bygones.model.base import DECODE_ERRORS, TOOL_USE_TYPES
from bygones.model.metadata import (
    ATTACHMENTS_BY_TYPE,
    METADATA_BY_TYPE,
    RECORDS_BY_TYPE,
)
from bygones.redact.engine import Redaction, Redactor
from bygones.redact.rules import secret_field_pattern

PRIVATE_TYPES = frozenset(
    name
    for kinds in (METADATA_BY_TYPE, ATTACHMENTS_BY_TYPE)
    for name, kind in kinds.items()
    if kind.is_private
)
"""Records and attachments that contain only private data and are never exported."""
_PUBLIC_RECORD_TYPES = RECORDS_BY_TYPE.keys() - PRIVATE_TYPES
_PUBLIC_ATTACHMENTS = frozenset(
    name for name, kind in ATTACHMENTS_BY_TYPE.items() if kind.is_exported
)
_PRIVATE_NAMES = re.compile("|".join(f'"{kind}"' for kind in PRIVATE_TYPES).encode())
_PUBLIC_TYPE_FIELD = re.compile(
    rf'"type"\s*:\s*"({"|".join(map(re.escape, sorted(_PUBLIC_RECORD_TYPES)))})"'.encode()
)
_ATTACHMENT_FIELD = re.compile(rb'"(attachment|rendered)"')
_MEDIA_PREFIXES = {
    "image/png": "iVBORw0KGgo",
    "image/jpeg": "/9j/",
    "image/gif": "R0lGOD",
    "image/webp": "UklGR",
    "application/pdf": "JVBERi0",
}
"""How images and documents start in base64."""
_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")
_ENUM_FIELDS_TEXT = """
type types subtype system_subtype role kind status trigger operation mode level
model models model_id version versions terms entrypoint entrypoints
service_tier speed stop_reason stopReason userType user_type permissionMode
permission_mode media_type encoding
"""
ENUM_FIELDS = frozenset(_ENUM_FIELDS_TEXT.split())
"""Fields whose values are words of Claude Code, here and in its transcripts."""
_LINE_FIELDS = frozenset({"lines", "stdoutLines", "stderrLines"})
"""Fields whose value is a text as a list of lines."""
_ENUM_FIELDS_OF_TOOL_USE = ENUM_FIELDS | {"name"}
_ID_SUFFIXES = ("Id", "_id", "Uuid", "uuid")
_IDENTIFIER = re.compile(r"[A-Za-z0-9_$<][A-Za-z0-9_$.:>-]{0,63}")
_MAX_CACHED_NAME = 64
_MAX_KNOWN_IDENTIFIERS = 4096
_KEPT_KINDS = frozenset({"user", "random-token", "prefix-token"})
"""What is kept in names and ids, which are often random."""
_MCP_PREFIX = "mcp__"
"""Names of MCP tools contain the name of a server, which the user chooses."""
_decode = msgspec.json.Decoder().decode


class TextRedactor:
    """Redacts one text after the other and collects what was redacted."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self.redactions: list[Redaction] = []

    def redact(self, text: str, field_name: str = "") -> str:
        """Redact a text; ``field_name`` is the field whose value it is."""
        redacted, redactions = self._redactor.redact(text, field_name)
        self.redactions += redactions
        return redacted

    def redact_lines(self, lines: Sequence[str]) -> Sequence[str]:
        """Redact the lines of one text: a private key has several."""
        text = "\n".join(lines)
        new = self.redact(text)
        return lines if new == text else new.split("\n")

    def redact_identifier(self, text: str) -> str:
        """Redact the name of a field, a tool or a kind.

        A word that is also a login name is kept: readers of the transcript rely on it.
        Secrets and paths are redacted.
        """
        known = self._redactor.known_identifiers
        if text in known:
            return text
        if _IDENTIFIER.fullmatch(text) and not text.startswith(_MCP_PREFIX):
            found = self._redactor.find(text)
            if not found or all(redaction.kind in _KEPT_KINDS for redaction in found):
                if len(known) < _MAX_KNOWN_IDENTIFIERS:
                    known.add(text)
                return text
        return self.redact(text)

    def prefix_paths(self, start: int, prefix: str) -> None:
        """Prefix the paths of the redactions from number ``start`` on."""
        self.redactions[start:] = [
            structs.replace(redaction, path=f"{prefix}{redaction.path}")
            for redaction in self.redactions[start:]
        ]


def redact_json(raw: bytes, redactor: TextRedactor) -> bytes:
    """Redact every string in JSON. Bytes that are not valid JSON are redacted as text."""
    try:
        value = _decode(raw)
        new = _redact_value(value, redactor)
    except DECODE_ERRORS:
        text = raw.decode("utf-8", "surrogateescape")
        return redactor.redact(text).encode("utf-8", "surrogateescape")
    return raw if new is value else msgspec.json.encode(new)


def redact_line(
    raw: bytes, redactor: Redactor
) -> tuple[bytes | None, tuple[Redaction, ...]]:
    """Redact a line of a transcript; return it with what was redacted.

    Returns ``None`` for a private record. A line without redactions stays
    byte-identical.
    """
    public = remove_private(raw)
    return (None, ()) if public is None else redact_file(public, redactor)


def redact_file(raw: bytes, redactor: Redactor) -> tuple[bytes, tuple[Redaction, ...]]:
    """Redact JSON or text that is not a line of a transcript, such as a sidecar."""
    line_redactor = redactor.for_line(raw)
    if line_redactor is None:
        return raw, ()
    text_redactor = TextRedactor(line_redactor)
    redacted = redact_json(raw, text_redactor)
    return redacted, tuple(text_redactor.redactions)


class _TypedObject(Struct, frozen=True, gc=False):
    type: str | None = None


class _LineHead(Struct, frozen=True, gc=False):
    type: str | None = None
    uuid: str | None = None
    attachment: _TypedObject | None = None


_decode_head = msgspec.json.Decoder(_LineHead).decode


def remove_private(raw: bytes) -> bytes | None:
    """Return a line of a transcript without its private part, ``None`` if that is all.

    A record of an unknown type is private unless it is part of the tree (has a uuid):
    it may be a new kind of private record. An attachment that Claude Code wrote for
    the model, or of an unknown type, keeps the record that links its parent and its
    children, but not its content.
    """
    try:
        head = _decode_head(raw)
    except DECODE_ERRORS:
        return _remove_private_slowly(raw)
    if head.type in PRIVATE_TYPES or not (
        head.type in _PUBLIC_RECORD_TYPES or head.uuid
    ):
        return None
    if head.attachment and head.attachment.type not in _PUBLIC_ATTACHMENTS:
        return _empty_attachment(_decode(raw))
    return raw


def _remove_private_slowly(raw: bytes) -> bytes | None:
    """Handle a line that is damaged, not an object, or has fields of other types."""
    try:
        value = _decode(raw)
    except DECODE_ERRORS:
        return _replace_damage(raw)
    if not isinstance(value, dict):
        return b"[]"
    kind, attachment = value.get("type"), value.get("attachment")
    kind = kind if isinstance(kind, str) else None
    if kind in PRIVATE_TYPES or not (kind in _PUBLIC_RECORD_TYPES or value.get("uuid")):
        return None
    if attachment is None:
        return raw
    name = attachment.get("type") if isinstance(attachment, dict) else None
    is_public = isinstance(name, str) and name in _PUBLIC_ATTACHMENTS
    return raw if is_public else _empty_attachment(value)


def _replace_damage(raw: bytes) -> bytes | None:
    """Return a line that is not JSON if it is blank or part of a public record.

    Of other lines only `{` is left, so that the damage is still reported.
    """
    if not raw.strip(b"\0\t\r\n "):
        return raw
    if _PRIVATE_NAMES.search(raw):
        return None
    if _ATTACHMENT_FIELD.search(raw):
        return b"{"
    return raw if _PUBLIC_TYPE_FIELD.search(raw) else b"{"


def _empty_attachment(record: dict[str, Any]) -> bytes:
    """Encode a record with only the type of its attachment."""
    attachment = record["attachment"]
    kind = attachment.get("type") if isinstance(attachment, dict) else None
    rest = {name: value for name, value in record.items() if name != "rendered"}
    rest["attachment"] = {"type": kind if isinstance(kind, str) else None}
    return msgspec.json.encode(rest)


def _redact_value(value: object, redactor: TextRedactor) -> object:
    """Redact a decoded value; return the same object if nothing changed."""
    if isinstance(value, str):
        new = redactor.redact(value)
        return value if new == value else new
    if isinstance(value, list):
        items = [_redact_element(at, item, redactor) for at, item in enumerate(value)]
        is_changed = any(a is not b for a, b in zip(items, value, strict=True))
        return items if is_changed else value
    if isinstance(value, dict):
        # Base64 data of an image is long and contains no text; its siblings may.
        skipped = "data" if _is_media_object(value) else None
        enums = _enum_fields(value)
        pairs = [
            (name, item)
            if name == skipped
            else _redact_field(
                name, item, redactor, is_enum=name in enums or _is_id(name)
            )
            for name, item in value.items()
        ]
        is_changed = any(
            a is not c or b is not d
            for (a, b), (c, d) in zip(pairs, value.items(), strict=True)
        )
        return build_object(pairs) if is_changed else value
    return value


def _redact_element(at: int, value: object, redactor: TextRedactor) -> object:
    before = len(redactor.redactions)
    new = _redact_value(value, redactor)
    if len(redactor.redactions) > before:
        redactor.prefix_paths(before, f"[{at}]")
    return new


def _enum_fields(value: dict[str, object]) -> frozenset[str]:
    """Return the fields of an object whose values are not text."""
    kind = value.get("type")
    is_tool_use = isinstance(kind, str) and kind in TOOL_USE_TYPES
    return _ENUM_FIELDS_OF_TOOL_USE if is_tool_use else ENUM_FIELDS


def _is_id(name: str) -> bool:
    return name == "id" or name.endswith(_ID_SUFFIXES)


def _redact_field(
    name: str, value: object, redactor: TextRedactor, *, is_enum: bool
) -> tuple[str, object]:
    before = len(redactor.redactions)
    redacted_name = redactor.redact_identifier(name)
    redacted_name = name if redacted_name == name else redacted_name
    if isinstance(value, str) and (is_enum or _is_secret_field(name)):
        new: object = (
            redactor.redact_identifier(value)
            if is_enum
            else redactor.redact(value, name)
        )
        new = value if new == value else new
    elif name in _LINE_FIELDS and _is_text_list(value):
        new = redactor.redact_lines(value)
    else:
        new = _redact_value(value, redactor)
    if len(redactor.redactions) > before:
        redactor.prefix_paths(before, f".{redacted_name}")
    return redacted_name, new


def _is_secret_field(name: str) -> bool:
    """Whether the name of a field says that it holds a secret; few names are common."""
    if len(name) > _MAX_CACHED_NAME:
        return secret_field_pattern().search(name) is not None
    return _is_common_secret_field(name)


@lru_cache(maxsize=1024)
def _is_common_secret_field(name: str) -> bool:
    return secret_field_pattern().search(name) is not None


def _is_text_list(value: object) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_media_object(value: dict[str, object]) -> bool:
    return value.get("type") == "base64" and is_base64_media(
        value.get("media_type"), value.get("data")
    )


def is_base64_media(media_type: object, content: object) -> bool:
    """Whether a text is an image or a document in base64 and nothing else."""
    if not isinstance(media_type, str) or not isinstance(content, str):
        return False
    prefix = _MEDIA_PREFIXES.get(media_type)
    return (
        prefix is not None
        and content.startswith(prefix)
        and _BASE64.fullmatch(content) is not None
    )


def build_object(pairs: Iterable[tuple[str, object]]) -> dict[str, object]:
    """Build an object; names that are equal after redaction are numbered."""
    result: dict[str, object] = {}
    for name, value in pairs:
        unique = name
        number = 2
        while unique in result:
            unique = f"{name} ({number})"
            number += 1
        result[unique] = value
    return result
