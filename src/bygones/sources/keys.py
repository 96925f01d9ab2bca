"""The names of project folders, made the way Claude Code makes them."""

from __future__ import annotations

import re
import struct
import unicodedata

from bygones.model.ids import ProjectKey

__all__ = ["project_key"]

_LONGEST = 200
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_OTHER = re.compile("[^A-Za-z0-9]")
_LAST_SINGLE_UNIT = "\uffff"


def project_key(path: str) -> ProjectKey:
    """Return the name of the folder in which Claude Code keeps a path's sessions.

    ``path`` is the real path (links resolved) on the machine that wrote it; Windows
    paths work anywhere. Different paths may share a key, so there is no way back: a
    project's path comes from its records.
    """
    canonical = unicodedata.normalize("NFC", path)
    key = _OTHER.sub(_dashes, canonical)
    if len(key) > _LONGEST:
        key = f"{key[:_LONGEST]}-{_in_base_36(_rolling_hash(canonical))}"
    return ProjectKey(key)


def _dashes(match: re.Match[str]) -> str:
    # Claude Code counts UTF-16 units: a character beyond them is two.
    return "--" if match[0] > _LAST_SINGLE_UNIT else "-"


def _rolling_hash(text: str) -> int:
    """Return the absolute value of JavaScript's ``h = (h << 5) - h + unit | 0``."""
    value = 0
    for (unit,) in struct.iter_unpack("<H", text.encode("utf-16-le", "surrogatepass")):
        value = (31 * value + unit) & 0xFFFFFFFF
    return min(value, 0x100000000 - value)


def _in_base_36(number: int) -> str:
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
    return digits or "0"
