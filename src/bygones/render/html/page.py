"""Render complete HTML pages around the fragments of a session."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from functools import cache
from hashlib import sha256
from html import escape
from pathlib import Path

from msgspec import Struct, structs

from bygones.errors import NotInArchive
from bygones.model.assembled import as_conversation
from bygones.model.conversations import (
    BranchSummary,
    Conversation,
    ConversationHeader,
)
from bygones.model.sessions import Message, Session
from bygones.render.headers import session_header_facts
from bygones.render.html.markup import (
    EMPTY_HTML,
    Html,
    escape_line,
    join_html,
    make_element_id,
    render_facts,
    tag,
)
from bygones.render.html.session import HtmlFragment, HtmlOptions, render_fragments
from bygones.render.numbers import pluralize
from bygones.render.text.primitives import sanitize, truncate_end
from bygones.render.walk import SHOW_ALL, SessionView, select_messages

STATIC_FILES = ("style.css", "page.js", "find.js")
_MAX_TITLE_WIDTH = 90
_SECTION_SIZE = 60
"""Messages and turns per section; browsers lay out visible sections only."""
_KEYBOARD_HELP = (
    "Keyboard shortcuts: j and k for the next and previous message, n and p for the "
    "next and previous prompt, o to expand or collapse all, t to switch the theme."
)


class PageFrame(Struct, frozen=True, kw_only=True):
    """What surrounds the content of a page."""

    assets_url: str = ""
    """Folder with the static files; empty if they are embedded in the page."""
    index_url: str = ""
    footer: Html = EMPTY_HTML
    previous_url: str = ""
    next_url: str = ""
    sidebar: Html = EMPTY_HTML
    scripts: tuple[str, ...] = ()
    """Static files to run in addition to ``page.js``."""


@cache
def load_static_file(name: str) -> str:
    # importlib.resources would import much that nothing else here needs.
    return (Path(__file__).parent / "static" / name).read_text("utf-8")


def render_session_page(
    source: Session | Conversation,
    view: SessionView = SHOW_ALL,
    options: HtmlOptions | None = None,
    frame: PageFrame | None = None,
) -> Iterator[Html]:
    """Yield a session as one page, in parts."""
    options, frame = options or HtmlOptions(), frame or PageFrame()
    conversation = as_conversation(source)
    header = conversation.facts
    branch = header.find_branch(view.branch)
    if branch is None:
        raise NotInArchive("branch", str(view.branch + 1))
    selected = select_messages(conversation, branch, view)
    prompts = (
        prompt
        for number, prompt in conversation.prompts(branch.number)
        if selected.start <= number < selected.stop
    )
    return render_html_page(
        page_title(header),
        render_session_header(header, branch, options, selected.description),
        group_into_sections(render_fragments(conversation, view, options)),
        structs.replace(frame, sidebar=render_table_of_contents(prompts)),
    )


def page_title(header: ConversationHeader) -> str:
    """Return the title of the page of a session."""
    return sanitize(header.title.text, newlines="space") or header.id


def group_into_sections(fragments: Iterable[HtmlFragment]) -> Iterator[Html]:
    """Group fragments into sections of a few dozen messages.

    Browsers lay out only sections on the screen. With one section per message,
    observing 50,000 of them would take longer than laying them out.
    """
    count = 0
    for fragment in fragments:
        if fragment.message_anchor or fragment.turn_number is not None:
            if count % _SECTION_SIZE == 0:
                yield Html(f"{'</section>' if count else ''}{_SECTION_START}")
            count += 1
        elif not count:
            yield _SECTION_START
            count = 1
        yield fragment.html
    if count:
        yield Html("</section>")


_SECTION_START = Html('<section class="part">')


def render_html_page(
    title: str, header: Html, main: Iterable[Html], frame: PageFrame
) -> Iterator[Html]:
    """Yield a complete page.

    A content security policy forbids external resources and other scripts, in case a
    text got past the escaping.
    """
    yield _render_head(title, frame)
    index_link = (
        f'<p class="up"><a href="{escape(frame.index_url)}">All sessions</a></p>'
    )
    wide = " wide" if frame.sidebar else ""
    yield Html(
        f'<body><a class="skip" href="#main">Skip to the conversation</a>'
        f'<div class="page{wide}"><header class="top">{index_link if frame.index_url else ""}'
        f'{header}<div class="bar">{_THEME_SWITCH}</div></header>{frame.sidebar}<main id="main">'
    )
    yield from main
    yield Html(
        f"</main>{_render_pager(frame)}"
        f'<footer class="foot">{frame.footer}<p>{escape_line(_KEYBOARD_HELP)}</p></footer></div>'
        f"{_render_scripts(frame)}</body></html>\n"
    )


def render_session_header(
    header: ConversationHeader,
    branch: BranchSummary,
    options: HtmlOptions,
    turn_range: str = "",
) -> Html:
    """Render title and facts of a session.

    ``turn_range`` describes the turns on the page, if not all are.
    """
    title = escape_line(header.title.text) or escape_line(header.id)
    lines = [
        tag("p", render_facts(facts))
        for facts in (
            *session_header_facts(header, branch, options.zone, options.cost),
            [turn_range],
        )
        if any(facts)
    ]
    return join_html((tag("h1", title), *lines))


def render_table_of_contents(prompts: Iterable[Message]) -> Html:
    """Render links to prompts on the page; empty if there is only one."""
    lines = [
        f'<li><a href="#{make_element_id("m", prompt.id)}">'
        f"{escape_line(truncate_end(prompt.preview, _MAX_TITLE_WIDTH)) or '…'}</a></li>"
        for prompt in prompts
    ]
    if len(lines) <= 1:
        return EMPTY_HTML
    count = escape_line(pluralize(len(lines), "prompt"))
    return Html(
        '<nav class="toc" aria-label="Prompts"><details open>'
        f"<summary>{count}</summary>"
        f"<ol>{''.join(lines)}</ol></details></nav>"
    )


_THEME_SWITCH = Html(
    '<fieldset class="theme" aria-label="Theme">'
    + "".join(
        f'<label><input type="radio" name="theme" id="theme-{name}" value="{name}" '
        f'autocomplete="off"'
        f"{' checked' if name == 'auto' else ''}><span>{label}</span></label>"
        for name, label in (("auto", "Auto"), ("light", "Light"), ("dark", "Dark"))
    )
    + "</fieldset>"
)


def _render_head(title: str, frame: PageFrame) -> Html:
    scripts = ("page.js", *frame.scripts)
    if frame.assets_url:
        style = f'<link rel="stylesheet" href="{escape(frame.assets_url)}style.css">'
        style_source = "'self'"
    else:
        style = f"<style>{load_static_file('style.css')}</style>"
        style_source = _csp_hash("style.css")
    # A page opened from a folder has no origin, so scripts are allowed by hash.
    script_sources = " ".join(map(_csp_hash, scripts))
    if frame.scripts:
        script_sources += " 'self'"
    policy = (
        f"default-src 'none'; style-src {style_source}; script-src {script_sources}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    return Html(
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="referrer" content="no-referrer"><meta name="generator" '
        f'content="Bygones"><title>{escape_line(title)}</title>{style}</head>'
    )


@cache
def _csp_hash(name: str) -> str:
    digest = sha256(load_static_file(name).encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _render_scripts(frame: PageFrame) -> str:
    index = ""
    if frame.scripts and frame.assets_url:
        index = f'<script src="{escape(frame.assets_url)}index.js"></script>'
    return index + "".join(
        f'<script type="module">{load_static_file(name)}</script>'
        for name in ("page.js", *frame.scripts)
    )


def _render_pager(frame: PageFrame) -> str:
    if not frame.previous_url and not frame.next_url:
        return ""
    links = (
        f'<a href="{escape(url)}" rel="{rel}">{label}</a>' if url else "<span></span>"
        for url, rel, label in (
            (frame.previous_url, "prev", "← Earlier"),
            (frame.next_url, "next", "Later →"),
        )
    )
    return f'<nav class="pager" aria-label="Pages">{"".join(links)}</nav>'
