"""Images of messages, loaded one by one instead of as a part of the page.

The renderer embeds images as data URLs, for exported pages. Here each of them becomes a
URL that contains its hash, so that browsers can keep it. The media type comes from the
first bytes; data of an unknown type is only named.
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

_DATA_URL_IMAGE = re.compile(
    r'<img src="data:image/[a-z]+;base64,([A-Za-z0-9+/]+={0,2})"'
)
"""Matches only tags of the renderer, as ``<`` is escaped in all other text."""
_IMAGE_TAG = re.compile(rf'{_DATA_URL_IMAGE.pattern}( alt="([^"]*)"[^>]*>)')
_HEADER_CHARS = 64 * 1024
"""Base64 characters that contain the size of an image."""
_JPEG_FRAME = re.compile(
    rb"\xff[\xc0-\xc3\xc5-\xc7\xc9-\xcb\xcd-\xcf]..\x08(..)(..)", re.DOTALL
)
"""The frame header of a JPEG, with height and width."""


class EmbeddedImage(NamedTuple):
    name: str
    media_type: str
    content: bytes


def link_images(html: Html, url_for: Callable[[str], str]) -> Html:
    """Replace the data URLs of images by the URLs that `url_for` returns."""

    def replace(match: re.Match[str]) -> str:
        head = _decode_base64(match[1][:_HEADER_CHARS])
        if not detect_image_type(head):
            return f'<p class="note">{match[3]}</p>'
        size = _image_size(head)
        attributes = f' width="{size[0]}" height="{size[1]}"' if size else ""
        url = escape(url_for(_image_name(match[1])))
        return f'<img src="{url}"{attributes}{match[2]}'

    return Html(_IMAGE_TAG.sub(replace, html)) if "<img " in html else html


def iter_embedded_images(html: Html) -> Iterator[EmbeddedImage]:
    for base64_text in _DATA_URL_IMAGE.findall(html):
        content = _decode_base64(base64_text)
        media_type = detect_image_type(content)
        if media_type:
            yield EmbeddedImage(_image_name(base64_text), media_type, content)


def _image_name(base64_text: str) -> str:
    return blake2b(base64_text.encode(), digest_size=16).hexdigest()


def _decode_base64(base64_text: str) -> bytes:
    try:
        return b64decode(base64_text[: len(base64_text) // 4 * 4])
    except ValueError:
        return b""


def _image_size(head: bytes) -> tuple[int, int] | None:
    """Return width and height of a PNG, GIF or JPEG."""
    media_type = detect_image_type(head)
    if media_type == "image/png":
        width, height = head[16:20], head[20:24]
    elif media_type == "image/gif":
        width, height = head[7:5:-1], head[9:7:-1]
    elif media_type == "image/jpeg" and (match := _JPEG_FRAME.search(head)):
        height, width = match.groups()
    else:
        return None
    size = int.from_bytes(width, "big"), int.from_bytes(height, "big")
    return size if all(size) else None
