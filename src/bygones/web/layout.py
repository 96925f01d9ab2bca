"""What stands around every page: the head, the bar with the ways, the foot."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from functools import cache
from hashlib import sha256
from html import escape
from importlib.resources import files
from urllib.parse import quote, urlencode

from msgspec import Struct
from starlette.responses import HTMLResponse

from bygones.render.html.markup import EMPTY_HTML, Html, escape_line, join_html, tag
from bygones.render.html.page import load_static_file as render_static
from bygones.render.numbers import pluralize

__all__ = [
    "ASSETS",
    "PageMeta",
    "build_url",
    "empty_message",
    "format_age",
    "link",
    "load_asset",
    "render_page",
    "render_table",
    "time_tag",
]

_WEB_ASSETS = (
    *("web.css", "app.js", "session.js", "find.js", "search.js", "theme.js"),
    "html.js",
)
_RENDER_ASSETS = ("style.css",)
ASSETS = (*_RENDER_ASSETS, *_WEB_ASSETS)
"""The files that pages load, all of them from here."""

_NAV_ITEMS = (
    ("/", "Sessions"),
    ("/search", "Search"),
    ("/projects", "Projects"),
    ("/files", "Files"),
    ("/usage", "Usage"),
    ("/problems", "Problems"),
    ("/about", "About"),
)
_AGE_UNITS = (
    (timedelta(minutes=1), timedelta(seconds=1), ""),
    (timedelta(hours=1), timedelta(minutes=1), "minute"),
    (timedelta(days=1), timedelta(hours=1), "hour"),
    (timedelta(days=14), timedelta(days=1), "day"),
    (timedelta(days=61), timedelta(days=7), "week"),
    (timedelta(days=730), timedelta(days=30.44), "month"),
)


class PageMeta(Struct, frozen=True, kw_only=True):
    """What a page says of itself to what stands around it."""

    title: str
    nav: str = ""
    """The address of the way in the bar that it belongs to."""
    css_class: str = "plain"
    """Its class: how wide it is, and what stands beside it."""
    scripts: tuple[str, ...] = ()
    search_text: str = ""
    """What the search box holds."""


@cache
def load_asset(name: str) -> str:
    """Return a file that pages load."""
    if name in _RENDER_ASSETS:
        return render_static(name)
    return (files(__package__) / "static" / name).read_text("utf-8")


@cache
def _assets_hash() -> str:
    # One for all files: they load each other by their names alone.
    told = sha256()
    for name in ASSETS:
        told.update(load_asset(name).encode())
    return told.hexdigest()[:12]


def _asset_url(name: str) -> str:
    """Return the address of a file, which is another when a file is."""
    return f"/static/{_assets_hash()}/{name}"


def render_page(
    page: PageMeta, main: Iterable[Html], status: int = 200
) -> HTMLResponse:
    """Return a whole page."""
    content = "".join((*_page_head(page), *main, *_page_foot()))
    return HTMLResponse(content.encode("utf-8", "backslashreplace"), status)


def _page_head(page: PageMeta) -> Iterable[str]:
    title = escape_line(page.title)
    yield (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{title} · Bygones</title>"
        f'<link rel="icon" href="data:,">'
        f'<link rel="stylesheet" href="{_asset_url("style.css")}">'
        f'<link rel="stylesheet" href="{_asset_url("web.css")}">'
        f'<script src="{_asset_url("theme.js")}"></script>'
    )
    for name in ("app.js", *page.scripts):
        yield f'<script type="module" src="{_asset_url(name)}"></script>'
    ways = "".join(
        f'<li><a href="{to}"{_aria_current(to == page.nav)}>{name}</a></li>'
        for to, name in _NAV_ITEMS
    )
    yield (
        '</head><body><a class="skip" href="#main">To the content</a>'
        '<header class="bar-top"><nav aria-label="Ways">'
        f'<a class="brand" href="/">Bygones</a><ul class="ways">{ways}</ul></nav>'
        '<form class="box" action="/search" role="search">'
        '<input type="search" name="q" placeholder="Search" aria-label="Search" '
        f'value="{escape(page.search_text)}" autocomplete="off" spellcheck="false" '
        'maxlength="2000"><kbd aria-hidden="true">/</kbd></form>'
        f"{_THEME_SWITCH}</header>"
        f'<main id="main" class="{escape(page.css_class)}" tabindex="-1">'
    )


def _page_foot() -> Iterable[str]:
    yield (
        '</main><div id="said" class="unseen" role="status" aria-live="polite"></div>'
        '<dialog id="keys" aria-labelledby="keys-title"></dialog></body></html>\n'
    )


def _aria_current(is_current: bool) -> str:
    return ' aria-current="page"' if is_current else ""


_THEME_SWITCH = Html(
    '<fieldset class="theme"><legend class="unseen">Theme</legend>'
    + "".join(
        f'<label title="{told}"><input type="radio" name="theme" id="theme-{name}" '
        f'value="{name}"{" checked" if name == "auto" else ""}>'
        f'<span aria-hidden="true">{sign}</span>'
        f'<span class="unseen">{told}</span></label>'
        for name, sign, told in (
            ("auto", "◐", "As the system"),
            ("light", "☀", "Light"),
            ("dark", "☾", "Dark"),
        )
    )
    + "</fieldset>"
)


def build_url(*parts: str, **query: object) -> str:
    """Return an address of ours; parts and values are quoted, empty ones left out."""
    path = "/" + "/".join(quote(part, safe="") for part in parts)
    asked = {
        name: str(value) for name, value in query.items() if value not in {None, "", 0}
    }
    return f"{path}?{urlencode(asked)}" if asked else path


def link(url: str, content: Html, css_class: str = "") -> Html:
    """Return a link to one of our own addresses."""
    return tag("a", content, href=url, kind=css_class)


def time_tag(time: datetime | None, now: datetime) -> Html:
    """Return how long ago something was, with the moment behind it."""
    if time is None:
        return EMPTY_HTML
    here = time.astimezone()
    return tag(
        "time",
        escape_line(format_age(time, now)),
        datetime=time.isoformat(),
        title=f"{here:%A, %d %B %Y, %H:%M}",
    )


def format_age(time: datetime, now: datetime) -> str:
    """Return how long ago something was, in one unit; a day if that is long ago."""
    ago = now - time
    if ago >= timedelta(0):
        for limit, step, unit in _AGE_UNITS:
            if ago < limit:
                number = ago // step
                return f"{pluralize(number, unit)} ago" if unit else "just now"
    return f"{time.astimezone():%Y-%m-%d}"


def render_table(
    headers: Sequence[str], rows: Iterable[Sequence[Html]], *, text_columns: int = 1
) -> Html:
    """Return a table; all columns but the first ``texts`` are numbers or short."""
    head = join_html(
        tag(
            "th",
            escape_line(name),
            scope="col",
            kind="" if at < text_columns else "number",
        )
        for at, name in enumerate(headers)
    )
    body = join_html(
        tag(
            "tr",
            join_html(
                tag("td", cell, kind="" if at < text_columns else "number")
                for at, cell in enumerate(row)
            ),
        )
        for row in rows
    )
    inner = join_html((tag("thead", tag("tr", head)), tag("tbody", body)))
    return tag("div", tag("table", inner), kind="table", tabindex="0")


def empty_message(message: str, hint: Html = EMPTY_HTML) -> Html:
    """Return what a page says that has nothing to show."""
    return tag("div", join_html((tag("p", escape_line(message)), hint)), kind="empty")
