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

from bygones.render.figures import several
from bygones.render.html import static as render_static
from bygones.render.html.markup import NOTHING, Html, joined, tag, words

__all__ = [
    "ASSETS",
    "Frame",
    "address",
    "asset",
    "empty",
    "framed",
    "link",
    "since",
    "stamp",
    "table",
]

_OWN = (
    *("web.css", "app.js", "session.js", "find.js", "search.js", "theme.js"),
    "html.js",
)
_SHARED = ("style.css",)
ASSETS = (*_SHARED, *_OWN)
"""The files that pages load, all of them from here."""

_WAYS = (
    ("/", "Sessions"),
    ("/search", "Search"),
    ("/projects", "Projects"),
    ("/files", "Files"),
    ("/usage", "Usage"),
    ("/problems", "Problems"),
    ("/about", "About"),
)
_STEPS = (
    (timedelta(minutes=1), timedelta(seconds=1), ""),
    (timedelta(hours=1), timedelta(minutes=1), "minute"),
    (timedelta(days=1), timedelta(hours=1), "hour"),
    (timedelta(days=14), timedelta(days=1), "day"),
    (timedelta(days=61), timedelta(days=7), "week"),
    (timedelta(days=730), timedelta(days=30.44), "month"),
)


class Frame(Struct, frozen=True, kw_only=True):
    """What a page says of itself to what stands around it."""

    title: str
    way: str = ""
    """The address of the way in the bar that it belongs to."""
    kind: str = "plain"
    """Its class: how wide it is, and what stands beside it."""
    scripts: tuple[str, ...] = ()
    query: str = ""
    """What the search box holds."""


@cache
def asset(name: str) -> str:
    """Return a file that pages load."""
    if name in _SHARED:
        return render_static(name)
    return (files(__package__) / "static" / name).read_text("utf-8")


@cache
def _version() -> str:
    # One for all files: they load each other by their names alone.
    told = sha256()
    for name in ASSETS:
        told.update(asset(name).encode())
    return told.hexdigest()[:12]


def _versioned(name: str) -> str:
    """Return the address of a file, which is another when a file is."""
    return f"/static/{_version()}/{name}"


def framed(frame: Frame, main: Iterable[Html], status: int = 200) -> HTMLResponse:
    """Return a whole page."""
    content = "".join((*_head(frame), *main, *_foot()))
    return HTMLResponse(content.encode("utf-8", "backslashreplace"), status)


def _head(frame: Frame) -> Iterable[str]:
    title = words(frame.title)
    yield (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{title} · Bygones</title>"
        f'<link rel="icon" href="data:,">'
        f'<link rel="stylesheet" href="{_versioned("style.css")}">'
        f'<link rel="stylesheet" href="{_versioned("web.css")}">'
        f'<script src="{_versioned("theme.js")}"></script>'
    )
    for name in ("app.js", *frame.scripts):
        yield f'<script type="module" src="{_versioned(name)}"></script>'
    ways = "".join(
        f'<li><a href="{to}"{_current(to == frame.way)}>{name}</a></li>'
        for to, name in _WAYS
    )
    yield (
        '</head><body><a class="skip" href="#main">To the content</a>'
        '<header class="bar-top"><nav aria-label="Ways">'
        f'<a class="brand" href="/">Bygones</a><ul class="ways">{ways}</ul></nav>'
        '<form class="box" action="/search" role="search">'
        '<input type="search" name="q" placeholder="Search" aria-label="Search" '
        f'value="{escape(frame.query)}" autocomplete="off" spellcheck="false" '
        'maxlength="2000"><kbd aria-hidden="true">/</kbd></form>'
        f"{_THEME}</header>"
        f'<main id="main" class="{escape(frame.kind)}" tabindex="-1">'
    )


def _foot() -> Iterable[str]:
    yield (
        '</main><div id="said" class="unseen" role="status" aria-live="polite"></div>'
        '<dialog id="keys" aria-labelledby="keys-title"></dialog></body></html>\n'
    )


def _current(is_current: bool) -> str:
    return ' aria-current="page"' if is_current else ""


_THEME = Html(
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


def address(*parts: str, **query: object) -> str:
    """Return an address of ours; parts and values are quoted, empty ones left out."""
    path = "/" + "/".join(quote(part, safe="") for part in parts)
    asked = {
        name: str(value) for name, value in query.items() if value not in {None, "", 0}
    }
    return f"{path}?{urlencode(asked)}" if asked else path


def link(to: str, content: Html, kind: str = "") -> Html:
    """Return a link to one of our own addresses."""
    return tag("a", content, href=to, kind=kind)


def stamp(time: datetime | None, now: datetime) -> Html:
    """Return how long ago something was, with the moment behind it."""
    if time is None:
        return NOTHING
    here = time.astimezone()
    return tag(
        "time",
        words(since(time, now)),
        datetime=time.isoformat(),
        title=f"{here:%A, %d %B %Y, %H:%M}",
    )


def since(time: datetime, now: datetime) -> str:
    """Return how long ago something was, in one unit; a day if that is long ago."""
    ago = now - time
    if ago >= timedelta(0):
        for limit, step, unit in _STEPS:
            if ago < limit:
                number = ago // step
                return f"{several(number, unit)} ago" if unit else "just now"
    return f"{time.astimezone():%Y-%m-%d}"


def table(
    heads: Sequence[str], rows: Iterable[Sequence[Html]], *, texts: int = 1
) -> Html:
    """Return a table; all columns but the first ``texts`` are numbers or short."""
    head = joined(
        tag("th", words(name), scope="col", kind="" if at < texts else "number")
        for at, name in enumerate(heads)
    )
    body = joined(
        tag(
            "tr",
            joined(
                tag("td", cell, kind="" if at < texts else "number")
                for at, cell in enumerate(row)
            ),
        )
        for row in rows
    )
    inner = joined((tag("thead", tag("tr", head)), tag("tbody", body)))
    return tag("div", tag("table", inner), kind="table", tabindex="0")


def empty(line: str, hint: Html = NOTHING) -> Html:
    """Return what a page says that has nothing to show."""
    return tag("div", joined((tag("p", words(line)), hint)), kind="empty")
