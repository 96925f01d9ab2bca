"""HTML: sessions as pages, and as the pieces that pages are made of."""

from __future__ import annotations

from bygones.render.html.fragments import (
    WHOLE,
    Fragment,
    Setting,
    fragments,
    window_fragments,
)
from bygones.render.html.page import (
    STATIC,
    Shell,
    contents,
    heading,
    page,
    parts,
    session_page,
    static,
)

__all__ = [
    "STATIC",
    "WHOLE",
    "Fragment",
    "Setting",
    "Shell",
    "contents",
    "fragments",
    "heading",
    "page",
    "parts",
    "session_page",
    "static",
    "window_fragments",
]
