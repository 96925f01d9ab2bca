"""Redacting JSON: what its strings say, not how they are spelled."""

from __future__ import annotations

import re
from typing import Protocol

import msgspec

from recollect.model.attachments import PrivateAttachment
from recollect.model.metadata import PrivateRecord
from recollect.render.redact.redactor import Found, Redactor
from recollect.render.redact.rules import NAMING

__all__ = ["PRIVATE", "is_picture", "is_private_line", "redacted_json", "redacted_line"]

PRIVATE = frozenset((*PrivateAttachment.types, *PrivateRecord.types))
"""Records and attachments that hold nothing but what is private: they never leave."""
_FAILURES = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_PRIVATE_NAMES = re.compile("|".join(f'"{kind}"' for kind in PRIVATE).encode())
_PICTURES = {
    "image/png": "iVBORw0KGgo",
    "image/jpeg": "/9j/",
    "image/gif": "R0lGOD",
    "image/webp": "UklGR",
    "application/pdf": "JVBERi0",
}
"""How pictures and documents begin once they are base64."""
_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")
_decode = msgspec.json.Decoder().decode


class Told(Protocol):
    """Tells a text anew; a name is that of the field of which it is the value."""

    def __call__(self, text: str, name: str = "", /) -> str: ...


def redacted_json(raw: bytes, told: Told) -> bytes:
    """Return JSON with every text in it told anew; as it was if none has changed.

    What is no JSON is taken for text.
    """
    try:
        value = _decode(raw)
        new = _mapped(value, told)
    except _FAILURES:
        text = raw.decode("utf-8", "surrogateescape")
        return told(text).encode("utf-8", "surrogateescape")
    return raw if new is value else msgspec.json.encode(new)


def redacted_line(
    raw: bytes, redactor: Redactor
) -> tuple[bytes | None, tuple[Found, ...]]:
    """Return a line of a transcript without what must not leave, and what that was.

    ``None`` stands for a private record, which never leaves at all. A line in which
    nothing is hidden stays as it is, byte for byte.
    """
    if is_private_line(raw):
        return None, ()
    needed = redactor.for_line(raw)
    if needed is None:
        return raw, ()
    found: list[Found] = []

    def told(text: str, name: str = "") -> str:
        new, met = needed.told(text, name)
        found.extend(met)
        return new

    return redacted_json(raw, told), tuple(found)


def is_private_line(raw: bytes) -> bool:
    """Whether a line is a record, or an attachment, that never leaves."""
    # A name may be spelled with escapes, which nobody does who means no harm.
    if not _PRIVATE_NAMES.search(raw) and b"\\u00" not in raw:
        return False
    try:
        return _is_private(_decode(raw))
    except _FAILURES:
        # A torn record may be a private one.
        return _PRIVATE_NAMES.search(raw) is not None


def _is_private(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    attached = value.get("attachment")
    kinds = [value.get("type")]
    if isinstance(attached, dict):
        kinds.append(attached.get("type"))
    return any(isinstance(kind, str) and kind in PRIVATE for kind in kinds)


def _mapped(value: object, told: Told) -> object:
    """Return the value itself unless a text of it is told otherwise."""
    if isinstance(value, str):
        new = told(value)
        return value if new == value else new
    if isinstance(value, list):
        many = [_mapped(one, told) for one in value]
        return (
            many if any(a is not b for a, b in zip(many, value, strict=True)) else value
        )
    if isinstance(value, dict):
        # A picture says nothing, and is long; what else stands beside it may say much.
        kept = "data" if _holds_picture(value) else None
        pairs = [
            (_mapped(k, told), v if k == kept else _field(k, v, told))
            for k, v in value.items()
        ]
        changed = any(
            a is not c or b is not d
            for (a, b), (c, d) in zip(pairs, value.items(), strict=True)
        )
        return _joined(pairs) if changed else value
    return value


def _field(name: str, value: object, told: Told) -> object:
    """Return the value of a field; what is a secret by its name is told with it."""
    if isinstance(value, str) and NAMING.search(name):
        new = told(value, name)
        return value if new == value else new
    return _mapped(value, told)


def _holds_picture(value: dict[str, object]) -> bool:
    return value.get("type") == "base64" and is_picture(
        value.get("media_type"), value.get("data")
    )


def is_picture(kind: object, content: object) -> bool:
    """Whether a text is a picture or a document as base64, and nothing else."""
    if not isinstance(kind, str) or not isinstance(content, str):
        return False
    start = _PICTURES.get(kind)
    return (
        start is not None
        and content.startswith(start)
        and _BASE64.fullmatch(content) is not None
    )


def _joined(pairs: list[tuple[object, object]]) -> dict[str, object]:
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
