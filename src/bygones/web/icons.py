"""Icons as inline SVG, so that nothing has to be loaded for them."""

from __future__ import annotations

from bygones.render.html.markup import Html

_PATHS = {
    "close": "M4 4l8 8M12 4l-8 8",
    "star": "M8 1.8l1.9 3.9 4.3.6-3.1 3 .7 4.3L8 11.6l-3.8 2 .7-4.3-3.1-3 4.3-.6z",
    "find": "M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9zM10.3 10.3l3.4 3.4",
    "outline": "M2.5 4h11M5 8h8.5M5 12h8.5",
    "terminal": "M2.5 4l4 4-4 4M8 12.5h5.5",
    "copy": "M5.5 5.5h8v8h-8zM3 10.5h-.5v-8h8V3",
    "map": "M4 3v10M4 7h4a3 3 0 0 1 3 3v3M4 3.2h.1M4 12.8h.1M11 12.8h.1",
    "file": "M4 1.8h5.2l2.8 2.9v9.5H4zM9 2v3h3",
    "share": "M8 10V2M5 4.8L8 1.8l3 3M3 8.5v5.7h10V8.5",
    "system": "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zM8 2v12",
    "light": "M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6zM8 1v1.6M8 13.4V15M1 8h1.6M13.4 8H15"
    "M3 3l1.2 1.2M11.8 11.8L13 13M13 3l-1.2 1.2M4.2 11.8L3 13",
    "dark": "M13.2 9.8A5.8 5.8 0 0 1 6.2 2.8a5.8 5.8 0 1 0 7 7z",
    "compare": "M2.5 3h4.5v10H2.5zM9 3h4.5v10H9z",
    "info": "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zM8 7.4v3.4M8 5.1h.01",
    "download": "M8 2v8M5 7.2l3 3 3-3M3 13.5h10",
}


def icon(name: str) -> Html:
    """Return an icon; what it means has to be said beside it."""
    return Html(
        '<svg class="icon" viewBox="0 0 16 16" aria-hidden="true">'
        f'<path d="{_PATHS[name]}"/></svg>'
    )
