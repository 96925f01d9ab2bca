"""Redacting JSON: what its strings say, not how they are spelled."""

from __future__ import annotations

import re

import msgspec
from msgspec import structs

from bygones.model.base import DECODE_ERRORS
from bygones.model.metadata import PrivateAttachment, PrivateRecord
from bygones.redact.engine import Redaction, Redactor
from bygones.redact.rules import SECRET_FIELD_NAME

__all__ = [
    "PRIVATE_TYPES",
    "TextRedactor",
    "is_base64_media",
    "is_private_line",
    "redact_json",
    "redact_line",
]

PRIVATE_TYPES = frozenset((*PrivateAttachment.types, *PrivateRecord.types))
"""Records and attachments that hold nothing but what is private: they never leave."""
_PRIVATE_NAMES = re.compile("|".join(f'"{kind}"' for kind in PRIVATE_TYPES).encode())
_MEDIA_PREFIXES = {
    "image/png": "iVBORw0KGgo",
    "image/jpeg": "/9j/",
    "image/gif": "R0lGOD",
    "image/webp": "UklGR",
    "application/pdf": "JVBERi0",
}
"""How pictures and documents begin once they are base64."""
_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")
_decode = msgspec.json.Decoder().decode


class TextRedactor:
    """Hides in one text after the other; remembers what, and where it stood."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self.redactions: list[Redaction] = []

    def redact(self, text: str, field_name: str = "") -> str:
        """Return a text anew; a name is that of the field of which it is the value."""
        new, found = self._redactor.redact(text, field_name)
        self.redactions += found
        return new

    def prefix_paths(self, start: int, prefix: str) -> None:
        """Say where all stands that was met since there were so many."""
        self.redactions[start:] = [
            structs.replace(one, path=f"{prefix}{one.path}")
            for one in self.redactions[start:]
        ]


def redact_json(raw: bytes, redactor: TextRedactor) -> bytes:
    """Return JSON with every text in it told anew; as it was if none has changed.

    What is no JSON is taken for text.
    """
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
    """Return a line of a transcript without what must not leave, and what that was.

    ``None`` stands for a private record, which never leaves at all. A line in which
    nothing is hidden stays as it is, byte for byte.
    """
    if is_private_line(raw):
        return None, ()
    needed = redactor.for_line(raw)
    if needed is None:
        return raw, ()
    hiding = TextRedactor(needed)
    told = redact_json(raw, hiding)
    return told, tuple(hiding.redactions)


def is_private_line(raw: bytes) -> bool:
    """Whether a line is a record, or an attachment, that never leaves."""
    # A name may be spelled with escapes, which nobody does who means no harm.
    if not _PRIVATE_NAMES.search(raw) and b"\\u00" not in raw:
        return False
    try:
        return _is_private(_decode(raw))
    except DECODE_ERRORS:
        # A torn record may be a private one.
        return _PRIVATE_NAMES.search(raw) is not None


def _is_private(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    attached = value.get("attachment")
    kinds = [value.get("type")]
    if isinstance(attached, dict):
        kinds.append(attached.get("type"))
    return any(isinstance(kind, str) and kind in PRIVATE_TYPES for kind in kinds)


def _redact_value(value: object, redactor: TextRedactor) -> object:
    """Return the value itself unless a text of it is told otherwise."""
    if isinstance(value, str):
        new = redactor.redact(value)
        return value if new == value else new
    if isinstance(value, list):
        many = [_redact_element(at, one, redactor) for at, one in enumerate(value)]
        return (
            many if any(a is not b for a, b in zip(many, value, strict=True)) else value
        )
    if isinstance(value, dict):
        # A picture says nothing, and is long; what else stands beside it may say much.
        kept = "data" if _is_media_object(value) else None
        pairs = [
            (name, one) if name == kept else _redact_field(name, one, redactor)
            for name, one in value.items()
        ]
        changed = any(
            a is not c or b is not d
            for (a, b), (c, d) in zip(pairs, value.items(), strict=True)
        )
        return _build_object(pairs) if changed else value
    return value


def _redact_element(at: int, value: object, redactor: TextRedactor) -> object:
    before = len(redactor.redactions)
    new = _redact_value(value, redactor)
    if len(redactor.redactions) > before:
        redactor.prefix_paths(before, f"[{at}]")
    return new


def _redact_field(
    name: str, value: object, redactor: TextRedactor
) -> tuple[object, object]:
    """Return a field; what is a secret by its name is told with it."""
    before = len(redactor.redactions)
    called = _redact_value(name, redactor)
    if isinstance(value, str) and SECRET_FIELD_NAME.search(name):
        new: object = redactor.redact(value, name)
        new = value if new == value else new
    else:
        new = _redact_value(value, redactor)
    if len(redactor.redactions) > before:
        redactor.prefix_paths(before, f".{called}")
    return called, new


def _is_media_object(value: dict[str, object]) -> bool:
    return value.get("type") == "base64" and is_base64_media(
        value.get("media_type"), value.get("data")
    )


def is_base64_media(kind: object, content: object) -> bool:
    """Whether a text is a picture or a document as base64, and nothing else."""
    if not isinstance(kind, str) or not isinstance(content, str):
        return False
    start = _MEDIA_PREFIXES.get(kind)
    return (
        start is not None
        and content.startswith(start)
        and _BASE64.fullmatch(content) is not None
    )


def _build_object(pairs: list[tuple[object, object]]) -> dict[str, object]:
    """Return an object; names that are the same once redacted are numbered."""
    joined: dict[str, object] = {}
    for name, value in pairs:
        told = str(name)
        number = 2
        while told in joined:
            told = f"{name} ({number})"
            number += 1
        joined[told] = value
    return joined
