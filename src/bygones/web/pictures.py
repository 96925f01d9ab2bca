"""Pictures of messages: asked for one by one, and not a part of the page.

Whatever draws messages puts pictures into the markup, for pages that stand alone. Here
each becomes an address with its hash in it, so that a browser keeps it for good. What a
picture is, its first bytes say; what is none that we know is only named.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Iterator
from hashlib import blake2b
from html import escape
from typing import NamedTuple

from bygones.render.html.markup import Html
from bygones.render.pictures import kind_of_bytes

__all__ = ["Picture", "linked", "pictures_in"]

_DATA = re.compile(r'<img src="data:image/[a-z]+;base64,([A-Za-z0-9+/]+={0,2})"')
"""Ours alone: in any other text there is no ``<`` that is not escaped."""
_WHOLE = re.compile(rf'{_DATA.pattern}( alt="([^"]*)"[^>]*>)')
_AHEAD = 64 * 1024
"""Signs in which the size of a picture stands."""
_FRAME = re.compile(
    rb"\xff[\xc0-\xc3\xc5-\xc7\xc9-\xcb\xcd-\xcf]..\x08(..)(..)", re.DOTALL
)
"""What says how large a JPEG is: height, then width."""


class Picture(NamedTuple):
    """A picture, and what its first bytes say that it is."""

    name: str
    kind: str
    content: bytes


def linked(made: Html, to: Callable[[str], str]) -> Html:
    """Return markup in which pictures are addresses; ``to`` gives them by a name."""

    def address(found: re.Match[str]) -> str:
        head = _decoded(found[1][:_AHEAD])
        if not kind_of_bytes(head):
            return f'<p class="note">{found[3]}</p>'
        size = _size_of(head)
        room = f' width="{size[0]}" height="{size[1]}"' if size else ""
        return f'<img src="{escape(to(_name(found[1])))}"{room}{found[2]}'

    return Html(_WHOLE.sub(address, made)) if "<img " in made else made


def pictures_in(made: Html) -> Iterator[Picture]:
    """Yield the pictures that markup holds."""
    for coded in _DATA.findall(made):
        content = _decoded(coded)
        kind = kind_of_bytes(content)
        if kind:
            yield Picture(_name(coded), kind, content)


def _name(coded: str) -> str:
    return blake2b(coded.encode(), digest_size=16).hexdigest()


def _decoded(coded: str) -> bytes:
    try:
        return b64decode(coded[: len(coded) // 4 * 4])
    except ValueError:
        return b""


def _size_of(head: bytes) -> tuple[int, int] | None:
    """Return width and height, where they are simple to read."""
    kind = kind_of_bytes(head)
    if kind == "image/png":
        width, height = head[16:20], head[20:24]
    elif kind == "image/gif":
        width, height = head[7:5:-1], head[9:7:-1]
    elif kind == "image/jpeg" and (found := _FRAME.search(head)):
        height, width = found.groups()
    else:
        return None
    size = int.from_bytes(width, "big"), int.from_bytes(height, "big")
    return size if all(size) else None
