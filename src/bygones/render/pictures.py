"""What a picture is, told by its first bytes and by nothing that is said of it."""

from __future__ import annotations

import re
from binascii import a2b_base64

__all__ = ["kind_of_bytes", "kind_of_coded"]

_SIGNS = (
    ("image/png", re.compile(rb"\x89PNG\r\n\x1a\n")),
    ("image/jpeg", re.compile(rb"\xff\xd8\xff")),
    ("image/gif", re.compile(rb"GIF8[79]a")),
    ("image/webp", re.compile(rb"RIFF....WEBP", re.DOTALL)),
)
_AHEAD = 16
"""Signs of base64 in which a picture says what it is."""


def kind_of_bytes(content: bytes) -> str:
    """Return what a picture is; nothing of what is none that we know."""
    return next((kind for kind, sign in _SIGNS if sign.match(content)), "")


def kind_of_coded(coded: str) -> str:
    """Return what a picture is that stands here as base64, without blanks."""
    try:
        return kind_of_bytes(a2b_base64(coded[:_AHEAD]))
    except ValueError:
        return ""
