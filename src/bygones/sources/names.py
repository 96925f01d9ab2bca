"""File names as text that can be stored and shown, and back to the very same name.

A file name on disk need not be valid text. Python hides such bytes in lone
surrogates, which neither JSON nor a database takes. Here every byte that is not
UTF-8 becomes one character of a private range, and a character of that range that
really is in a name is written as its bytes in the same way. So the text is always
encodable, and each text belongs to exactly one name.
"""

from __future__ import annotations

import os
import re

__all__ = ["native_path", "path_text"]

_RANGE = 0xEF00
"""Byte ``0xNN`` (never below 0x80) is written as the character ``U+EFNN``."""

_HIDDEN = "[\udc80-\udcff\uef80-\uefff]"
_WRITTEN = "[\uef80-\uefff]"


def path_text(path: str | os.PathLike[str]) -> str:
    """Return a path as text with forward slashes, fit for ids, JSON and databases."""
    native = os.fspath(path)
    if os.sep != "/":
        native = native.replace(os.sep, "/")
    if native.isascii():
        return native
    text = os.fsencode(native).decode("utf-8", "surrogateescape")
    return re.sub(_HIDDEN, lambda match: _write(match[0]), text)


def native_path(text: str) -> str:
    """Return the path to open for a text that :func:`path_text` made."""
    if text.isascii():
        return text
    hidden = re.sub(_WRITTEN, lambda found: chr(ord(found[0]) - _RANGE + 0xDC00), text)
    try:
        return os.fsdecode(hidden.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:
        return text  # not made by path_text, so it names no file


def _write(character: str) -> str:
    raw = character.encode("utf-8", "surrogateescape")
    return "".join(chr(_RANGE + byte) for byte in raw)
