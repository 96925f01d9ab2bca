"""The frame of every page, and the markup and URLs that several pages share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache, lru_cache, partial
from hashlib import sha256
from html import escape
from importlib.resources import files
from urllib.parse import quote, quote_plus

from msgspec import Struct
from starlette.responses import HTMLResponse

from bygones.model.base import SessionId
from bygones.model.reports import NANOS_PER_DOLLAR
from bygones.model.summary import SessionSummary
from bygones.render.html.markup import (
    EMPTY_HTML,
    Html,
    escape_line,
    escape_text,
    format_inline,
    join_html,
    make_element_id,
    strip_inline,
    tag,
)
from bygones.render.html.page import load_static_file as render_static
from bygones.render.numbers import format_age, format_usd
from bygones.web.icons import icon

_WEB_ASSETS = (
    *("web.css", "favicon.svg", "app.js", "html.js", "theme.js", "search.js"),
    *("palette.js", "usage.js", "usage.css"),
    *("session.css", "session.js", "conversation.js", "find.js"),
    *("file.css", "file.js"),
)
_RENDER_ASSETS = ("style.css",)
ASSETS = (*_RENDER_ASSETS, *_WEB_ASSETS)
"""The files that pages load. Nothing is loaded from other sites."""
RUNNING_TIMEOUT = timedelta(minutes=5)
"""How long after its last message a session counts as running."""

_NAV_ITEMS = (
    ("/", "Sessions"),
    ("/search", "Search"),
    ("/prompts", "Prompts"),
    ("/projects", "Projects"),
    ("/files", "Files"),
    ("/usage", "Usage"),
    ("/problems", "Problems"),
    ("/about", "About"),
)
_MAX_CHOICES = 200
"""Values that a field offers."""


class PageMeta(Struct, frozen=True, kw_only=True):
    """The properties of a page that its frame shows."""

    title: str
    nav: str = ""
    """The path of its entry in the navigation."""
    css_class: str = "plain"
    """The class of its main element, which sets the width."""
    scripts: tuple[str, ...] = ()
    styles: tuple[str, ...] = ()
    search_text: str = ""
    """The text in the search field."""
    is_bare: bool = False
    """Whether it is shown without navigation and scripts, as before the sign-in."""


@cache
def load_asset(name: str) -> str:
    if name in _RENDER_ASSETS:
        return render_static(name)
    return (files(__package__) / "static" / name).read_text("utf-8")


@cache
def _assets_hash() -> str:
    # One hash for all files, as scripts import each other by name.
    digest = sha256()
    for name in ASSETS:
        digest.update(load_asset(name).encode())
    return digest.hexdigest()[:12]


def _asset_url(name: str) -> str:
    return f"/static/{_assets_hash()}/{name}"


def render_page(
    page: PageMeta, main: Iterable[Html], status: int = 200
) -> HTMLResponse:
    content = "".join((*_page_head(page), *main, *_page_foot()))
    return HTMLResponse(content.encode("utf-8", "backslashreplace"), status)


def _page_head(page: PageMeta) -> Iterable[str]:
    title = escape_line(strip_inline(page.title))
    yield (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{title} · Bygones</title>"
        f'<link rel="icon" type="image/svg+xml" href="{_asset_url("favicon.svg")}">'
        f'<script src="{_asset_url("theme.js")}"></script>'
    )
    for name in ("style.css", "web.css", *page.styles):
        yield f'<link rel="stylesheet" href="{_asset_url(name)}">'
    main = f'<main id="main" class="{escape(page.css_class)}" tabindex="-1">'
    if page.is_bare:
        brand = '<span class="brand">Bygones</span>'
        yield f'</head><body><header class="bar-top">{brand}</header>{main}'
        return
    for name in ("app.js", *page.scripts):
        yield f'<script type="module" src="{_asset_url(name)}"></script>'
    nav_items = "".join(
        f'<li><a href="{url}"{_aria_current(url == page.nav)}>{name}</a></li>'
        for url, name in _NAV_ITEMS
    )
    yield (
        '</head><body><a class="skip" href="#main">Skip to content</a>'
        '<header class="bar-top"><nav aria-label="Main">'
        f'<a class="brand" href="/">Bygones</a><ul class="nav-items">{nav_items}</ul></nav>'
        '<form class="header-search" action="/search" role="search">'
        '<input type="search" name="q" placeholder="Search" aria-label="Search" '
        f'value="{escape(page.search_text)}" autocomplete="off" spellcheck="false" '
        'maxlength="2000"><button type="button" class="palette-hint" data-act="palette" '
        'title="Jump to anything (Ctrl-K)"><kbd>Ctrl K</kbd></button></form>'
        f"{_THEME_SWITCH}</header>{main}"
    )


def _page_foot() -> Iterable[str]:
    yield (
        '</main><div id="live-region" class="visually-hidden" role="status" '
        'aria-live="polite"></div>'
        '<dialog id="keys" aria-labelledby="keys-title"></dialog></body></html>\n'
    )


def _aria_current(is_current: bool) -> str:
    return ' aria-current="page"' if is_current else ""


_THEME_SWITCH = Html(
    '<fieldset class="theme"><legend class="visually-hidden">Theme</legend>'
    + "".join(
        f'<label title="{label}"><input type="radio" name="theme" id="theme-{name}" '
        f'value="{name}"{" checked" if name == "auto" else ""}>'
        f'<span aria-hidden="true">{icon(symbol)}</span>'
        f'<span class="visually-hidden">{label}</span></label>'
        for name, symbol, label in (
            ("auto", "system", "System theme"),
            ("light", "light", "Light"),
            ("dark", "dark", "Dark"),
        )
    )
    + "</fieldset>"
)


# A page repeats ids and the names of parameters.
_quote = lru_cache(maxsize=512)(partial(quote, safe="", errors="replace"))
_quote_plus = lru_cache(maxsize=512)(partial(quote_plus, errors="replace"))


def build_url(*parts: str, **query: object) -> str:
    """Return a URL of this site; empty query parameters are left out."""
    path = "/" + "/".join(map(_quote, parts))
    parameters = {
        name: str(value) for name, value in query.items() if value not in {None, "", 0}
    }
    query_text = "&".join(
        f"{_quote_plus(name)}={_quote_plus(value)}"
        for name, value in parameters.items()
    )
    return f"{path}?{query_text}" if parameters else path


def conversation_url(
    session: SessionId, *rest: str, agent: str | None = None, **query: object
) -> str:
    """Return the URL of a session or of an agent run in it, or one below it."""
    agent_parts = ("agent", make_element_id("a", agent)) if agent else ()
    return build_url("session", session, *agent_parts, *rest, **query)


def link(url: str, content: Html, css_class: str = "") -> Html:
    return tag("a", content, href=url, kind=css_class)


def session_link(summary: SessionSummary) -> Html:
    """Return a link to a session, with at most two lines of its title."""
    title = format_inline(escape_line(summary.title.text or summary.id))
    return link(conversation_url(summary.id), title, "session-link")


def time_tag(time: datetime | None, now: datetime) -> Html:
    """Return how long ago a time is, with the time as a tooltip."""
    if time is None:
        return EMPTY_HTML
    local_time = time.astimezone()
    return tag(
        "time",
        escape_line(format_age(time, now)),
        datetime=time.isoformat(),
        title=f"{local_time:%A, %B} {local_time.day}, {local_time:%Y, %H:%M}",
    )


def render_table(
    headers: Sequence[str], rows: Iterable[Sequence[Html]], *, text_columns: int = 1
) -> Html:
    """Return a table; the columns after the first `text_columns` are right-aligned."""
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


def select_field(
    name: str, empty_label: str, choices: Sequence[tuple[str, str]], selected: str
) -> Html:
    """Return a field of a form that selects one of a few values."""
    options = [("", empty_label)] if empty_label else []
    if selected and selected not in dict(choices):
        options.append((selected, selected))
    items = "".join(
        f'<option value="{escape(value)}"{" selected" if value == selected else ""}>'
        f"{escape_line(text)}</option>"
        for value, text in (*options, *choices)
    )
    label = name.capitalize()
    return Html(f'<select name="{name}" aria-label="{label}">{items}</select>')


def top_choices(counts: Counter[str]) -> list[tuple[str, str]]:
    """Return the most frequent values as choices, with their counts."""
    return [
        (name, f"{short_path(name)} ({count:,})")
        for name, count in counts.most_common(_MAX_CHOICES)
    ]


def render_commands(text: str) -> Html:
    """Return a text in which commands are in backticks, with these as code."""
    return join_html(
        tag("code", escape_line(part)) if at % 2 else escape_text(part)
        for at, part in enumerate(text.split("`"))
    )


def empty_message(message: str, hint: Html = EMPTY_HTML) -> Html:
    """Return the message of a page that has nothing to show."""
    return tag("div", join_html((tag("p", escape_line(message)), hint)), kind="empty")


def pager(
    previous: tuple[str, str], position: str, following: tuple[str, str], *, label: str
) -> Html:
    """Return links to the parts before and after the one shown.

    Each link is a label and a URL, which is empty if there is no such part.
    """
    if not previous[1] and not following[1]:
        return EMPTY_HTML
    sides = [
        link(url, escape_line(text)) if url else tag("span")
        for text, url in (previous, following)
    ]
    content = join_html((sides[0], tag("span", escape_line(position)), sides[1]))
    return tag("nav", content, kind="pager", aria_label=label)


def html_response(html: Html, headers: Mapping[str, str] | None = None) -> HTMLResponse:
    """Return a part of a page, without the frame."""
    return HTMLResponse(html.encode("utf-8", "backslashreplace"), headers=headers)


def short_path(path: str) -> str:
    """Return the last two parts of a path."""
    parts = path.replace("\\", "/").rstrip("/").split("/")
    return "/".join(parts[-2:])


def format_dollars(nanos: int | None) -> str:
    """Return an amount of money, without cents if it is large."""
    if nanos is None:
        return "\N{EN DASH}"
    dollars = nanos / NANOS_PER_DOLLAR
    return f"${dollars:,.0f}" if dollars >= 100 else format_usd(nanos)  # noqa: PLR2004


def is_running(summary: SessionSummary, now: datetime) -> bool:
    """Return whether a session had a message within `RUNNING_TIMEOUT`."""
    ended_at = summary.ended_at
    return ended_at is not None and timedelta(0) <= now - ended_at < RUNNING_TIMEOUT
