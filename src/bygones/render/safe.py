r"""Text from transcripts made harmless for whatever shows it.

A transcript may hold anything: sequences that steer a terminal, marks that turn the
direction of writing, signs that nobody sees. None of it reaches a reader as it is.
"""

from __future__ import annotations

import re
from functools import cache

__all__ = ["EMOJI", "safe", "safe_json", "safe_line", "safe_name"]

_HIDDEN = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls, but for the tab and the newline
    "\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160"
    "\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ud800-\udfff\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb"
    "\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Signs that are not simply seen: controls, formats, fillers, tags, half pairs.

The two selectors that choose between an emoji and a letter stay: they stand behind
half of all emoji, and hide nothing.
"""
EMOJI = "\u2194\u2195\u2600-\u27bf\u2b1b\U0001f000-\U0001faff"
"""Signs of which several can be joined to one."""
_JOINER = f"(?<=[{EMOJI}\ufe0f])\u200d(?=[{EMOJI}])"
"""What makes one emoji of two, of a woman and a laptop; elsewhere nobody sees it."""
_SELECTORS = frozenset("\ufe0e\ufe0f")
_STRAY = "[\ufe0e\ufe0f](?<![^\\s\ufe0e\ufe0f].)"
"""A selector that selects nothing, as in a text hidden in a row of them."""
_ASCII = bytes((*b"\t\n", *range(0x20, 0x7F)))
_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
_SPACE = re.compile(r"\s+")


@cache
def _unseen() -> re.Pattern[str]:
    # So many signs take a while to compile, and most texts have none of them.
    return re.compile(f"(?!{_JOINER})[{_HIDDEN}]")


@cache
def _rare() -> re.Pattern[str]:
    return re.compile(f"[{_HIDDEN}\ufe0e\ufe0f]")


@cache
def _joiner() -> re.Pattern[str]:
    return re.compile(_JOINER)


def safe(text: str) -> str:
    r"""Return text of which every sign is seen; tabs and newlines stay.

    Colours are taken out; any other control becomes visible as ``\x1b`` and the like.

    >>> safe("a\x1b[31mb\x1b[0m \x1b]0;title\x07\u202e")
    'ab \\x1b]0;title\\x07\\u202e'
    """
    if text.isprintable() and text.isascii():
        return text
    rest = text.encode("utf-8", "surrogatepass").translate(None, _ASCII)
    if not rest:
        return text
    # Looking for a sign is fast where replacing one of hundreds is not.
    rare = set(_rare().findall(rest.decode("utf-8", "surrogatepass")))
    if not rare:
        return text
    text = _COLOUR.sub("", text.replace("\r\n", "\n"))
    if "\u200d" in rare:
        text = _unseen().sub(_escape, text)
    else:
        for sign in rare - _SELECTORS:
            text = text.replace(sign, sign.encode("unicode_escape").decode("ascii"))
    return text if rare.isdisjoint(_SELECTORS) else re.sub(_STRAY, _escape, text)


def safe_line(text: str) -> str:
    """Return text on one line of which every sign is seen; space is one blank."""
    if text.isprintable() and text.isascii():
        return " ".join(text.split()) if "  " in text else text.strip()
    return safe(_SPACE.sub(" ", _COLOUR.sub("", text)).strip())


def safe_name(text: str) -> str:
    r"""Return a name with everything escaped that is not a printable sign.

    A line end becomes ``\n``: a name stays the same name, on one line.
    """
    if text.isprintable():
        return text
    return "".join(
        sign
        if sign.isprintable() or _joiner().match(text, at)
        else sign.encode("unicode_escape").decode("ascii")
        for at, sign in enumerate(text)
    )


def safe_json(text: str) -> str:
    r"""Return JSON in which unseen signs are escaped; its meaning stays the same.

    They can stand in strings only, where JSON knows ``\u001b`` for them.
    """
    return _unseen().sub(_json_escape, text)


def _escape(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")


def _json_escape(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(
        f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2)
    )
