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
from bygones.render.html.tool_calls import detect_image_type

__all__ = ["EmbeddedImage", "iter_embedded_images", "link_images"]

_DATA_URL_IMAGE = re.compile(
    r'<img src="data:image/[a-z]+;base64,([A-Za-z0-9+/]+={0,2})"'
)
"""Ours alone: in any other text there is no ``<`` that is not escaped."""
_IMAGE_TAG = re.compile(rf'{_DATA_URL_IMAGE.pattern}( alt="([^"]*)"[^>]*>)')
_HEADER_CHARS = 64 * 1024
"""Signs in which the size of a picture stands."""
_JPEG_FRAME = re.compile(
    rb"\xff[\xc0-\xc3\xc5-\xc7\xc9-\xcb\xcd-\xcf]..\x08(..)(..)", re.DOTALL
)
"""What says how large a JPEG is: height, then width."""


class EmbeddedImage(NamedTuple):
    """A picture, and what its first bytes say that it is."""

    name: str
    media_type: str
    content: bytes


def link_images(html: Html, url_for: Callable[[str], str]) -> Html:
    """Return markup in which pictures are addresses; ``to`` gives them by a name."""

    def address(found: re.Match[str]) -> str:
        head = _decode_base64(found[1][:_HEADER_CHARS])
        if not detect_image_type(head):
            return f'<p class="note">{found[3]}</p>'
        size = _image_size(head)
        room = f' width="{size[0]}" height="{size[1]}"' if size else ""
        return f'<img src="{escape(url_for(_image_name(found[1])))}"{room}{found[2]}'

    return Html(_IMAGE_TAG.sub(address, html)) if "<img " in html else html


def iter_embedded_images(html: Html) -> Iterator[EmbeddedImage]:
    """Yield the pictures that markup holds."""
    for coded in _DATA_URL_IMAGE.findall(html):
        content = _decode_base64(coded)
        kind = detect_image_type(content)
        if kind:
            yield EmbeddedImage(_image_name(coded), kind, content)


def _image_name(base64_text: str) -> str:
    return blake2b(base64_text.encode(), digest_size=16).hexdigest()


def _decode_base64(base64_text: str) -> bytes:
    try:
        return b64decode(base64_text[: len(base64_text) // 4 * 4])
    except ValueError:
        return b""


def _image_size(head: bytes) -> tuple[int, int] | None:
    """Return width and height, where they are simple to read."""
    kind = detect_image_type(head)
    if kind == "image/png":
        width, height = head[16:20], head[20:24]
    elif kind == "image/gif":
        width, height = head[7:5:-1], head[9:7:-1]
    elif kind == "image/jpeg" and (found := _JPEG_FRAME.search(head)):
        height, width = found.groups()
    else:
        return None
    size = int.from_bytes(width, "big"), int.from_bytes(height, "big")
    return size if all(size) else None
