"""Markup that is known to be harmless, told apart from text by its type.

Whatever comes from a transcript becomes markup in two places: here, where it is
escaped, and in :mod:`~bygones.render.html.prose`, where Markdown is read. Nothing
takes a text where it wants :data:`Html`, and the type checker keeps that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import sha256
from html import escape
from typing import NewType

from bygones.render.safe import safe, safe_line

__all__ = [
    "NOTHING",
    "Html",
    "anchor",
    "escaped",
    "facts",
    "fold",
    "joined",
    "tag",
    "text",
    "words",
]

Html = NewType("Html", str)
"""Markup of ours; no text of a transcript is in it unless it was escaped."""
NOTHING = Html("")

_PLAIN = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
_TELLING = re.compile("[&<>\"']")
_SHORT = 100
"""Signs up to which looking for those that tell something is faster than five times
exchanging them."""


def _quoted(value: str) -> str:
    """Return a text as markup, as :func:`html.escape` does."""
    if len(value) < _SHORT and not _TELLING.search(value):
        return value
    return escape(value)


def text(value: str) -> Html:
    """Return a text as the content of an element, every sign of it seen.

    Quotes mean nothing there and stay, as outputs are full of them; what stands in an
    attribute is escaped by :func:`tag` or :func:`words`.
    """
    return escaped(safe(value))


def escaped(value: str) -> Html:
    """Return a text whose signs are all seen as the content of an element."""
    return Html(escape(value, quote=False))


def words(value: str) -> Html:
    """Return a text on one line as markup that shows it."""
    return Html(_quoted(safe_line(value)))


def joined(parts: Iterable[Html], between: str = "") -> Html:
    """Return markup behind each other; empty parts are left out."""
    return Html(_quoted(between).join(filter(None, parts)))


def tag(name: str, content: Html = NOTHING, **attributes: str) -> Html:
    """Return an element; ``kind`` stands for its class, values are escaped."""
    told = ""
    for key, value in attributes.items():
        if value:
            written = "class" if key == "kind" else key.replace("_", "-")
            told += f' {written}="{_quoted(value)}"'
    return Html(f"<{name}{told}>{content}</{name}>")


def facts(told: Iterable[str]) -> Html:
    """Return facts behind each other, parted by dots."""
    return joined((words(one) for one in told if one), " · ")


def fold(
    summary: Html, content: Html, kind: str = "", *, is_open: bool = False
) -> Html:
    """Return content that folds away under a summary, without any script."""
    state = " open" if is_open else ""
    return Html(
        f'<details class="{escape(kind)}"{state}><summary>{summary}</summary>'
        f"{content}</details>"
    )


def anchor(prefix: str, id_: str) -> str:
    """Return a name for a place on the page; an odd id gives way to its hash."""
    if not _PLAIN.match(id_):
        id_ = sha256(id_.encode("utf-8", "surrogatepass")).hexdigest()[:24]
    return f"{prefix}-{id_}"
