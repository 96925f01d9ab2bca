"""Redacting JSON: what its strings say, not how they are spelled."""

from __future__ import annotations

import re

import msgspec
from msgspec import structs

from bygones.model.attachments import PrivateAttachment
from bygones.model.metadata import PrivateRecord
from bygones.render.redact.redactor import Found, Redactor
from bygones.render.redact.rules import NAMING

__all__ = [
    "PRIVATE",
    "Hiding",
    "is_picture",
    "is_private_line",
    "redacted_json",
    "redacted_line",
]

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


class Hiding:
    """Hides in one text after the other; remembers what, and where it stood."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self.met: list[Found] = []

    def told(self, text: str, name: str = "") -> str:
        """Return a text anew; a name is that of the field of which it is the value."""
        new, found = self._redactor.told(text, name)
        self.met += found
        return new

    def within(self, before: int, place: str) -> None:
        """Say where all stands that was met since there were so many."""
        self.met[before:] = [
            structs.replace(one, within=f"{place}{one.within}")
            for one in self.met[before:]
        ]


def redacted_json(raw: bytes, hiding: Hiding) -> bytes:
    """Return JSON with every text in it told anew; as it was if none has changed.

    What is no JSON is taken for text.
    """
    try:
        value = _decode(raw)
        new = _mapped(value, hiding)
    except _FAILURES:
        text = raw.decode("utf-8", "surrogateescape")
        return hiding.told(text).encode("utf-8", "surrogateescape")
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
    hiding = Hiding(needed)
    told = redacted_json(raw, hiding)
    return told, tuple(hiding.met)


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


def _mapped(value: object, hiding: Hiding) -> object:
    """Return the value itself unless a text of it is told otherwise."""
    if isinstance(value, str):
        new = hiding.told(value)
        return value if new == value else new
    if isinstance(value, list):
        many = [_element(at, one, hiding) for at, one in enumerate(value)]
        return (
            many if any(a is not b for a, b in zip(many, value, strict=True)) else value
        )
    if isinstance(value, dict):
        # A picture says nothing, and is long; what else stands beside it may say much.
        kept = "data" if _holds_picture(value) else None
        pairs = [
            (name, one) if name == kept else _field(name, one, hiding)
            for name, one in value.items()
        ]
        changed = any(
            a is not c or b is not d
            for (a, b), (c, d) in zip(pairs, value.items(), strict=True)
        )
        return _joined(pairs) if changed else value
    return value


def _element(at: int, value: object, hiding: Hiding) -> object:
    before = len(hiding.met)
    new = _mapped(value, hiding)
    if len(hiding.met) > before:
        hiding.within(before, f"[{at}]")
    return new


def _field(name: str, value: object, hiding: Hiding) -> tuple[object, object]:
    """Return a field; what is a secret by its name is told with it."""
    before = len(hiding.met)
    called = _mapped(name, hiding)
    if isinstance(value, str) and NAMING.search(name):
        new: object = hiding.told(value, name)
        new = value if new == value else new
    else:
        new = _mapped(value, hiding)
    if len(hiding.met) > before:
        hiding.within(before, f".{called}")
    return called, new


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
