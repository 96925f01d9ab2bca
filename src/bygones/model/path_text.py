"""Paths as text: any path of any system as a string that JSON and SQLite can hold."""

from __future__ import annotations

import os
import re

_PRIVATE_USE_BASE = 0xEF00
"""Byte `0xNN` (never below 0x80) is written as the character `U+EFNN`."""

_NEEDS_ESCAPE = "[\udc80-\udcff\uef80-\uefff]"
_ESCAPED = "[\uef80-\uefff]"


def encode_path(path: str | os.PathLike[str]) -> str:
    """Return a path as text with forward slashes.

    Bytes that are not valid UTF-8 become characters of the private use area.
    """
    native = os.fspath(path)
    if os.sep != "/":
        native = native.replace(os.sep, "/")
    if native.isascii():
        return native
    text = os.fsencode(native).decode("utf-8", "surrogateescape")
    return re.sub(_NEEDS_ESCAPE, lambda match: _escape(match[0]), text)


def decode_path(text: str) -> str:
    """Return the native path for a text from `encode_path`."""
    if text.isascii():
        return text
    escaped = re.sub(
        _ESCAPED, lambda match: chr(ord(match[0]) - _PRIVATE_USE_BASE + 0xDC00), text
    )
    try:
        return os.fsdecode(escaped.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:
        return text  # not made by encode_path, so it names no file


def _escape(character: str) -> str:
    raw = character.encode("utf-8", "surrogateescape")
    return "".join(chr(_PRIVATE_USE_BASE + byte) for byte in raw)
