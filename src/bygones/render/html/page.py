"""Pages: what stands around the pieces of a session, in one file or beside others."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from functools import cache
from hashlib import sha256
from html import escape
from pathlib import Path

from msgspec import Struct, structs

from bygones.model.sessions import Branch, Session
from bygones.render.figures import several
from bygones.render.heads import session_facts
from bygones.render.html.fragments import WHOLE, Fragment, Setting, fragments
from bygones.render.html.markup import (
    NOTHING,
    Html,
    anchor,
    facts,
    joined,
    tag,
    words,
)
from bygones.render.safe import safe_line
from bygones.render.walk import View, turn_words

__all__ = [
    "STATIC",
    "Shell",
    "contents",
    "heading",
    "page",
    "parts",
    "session_page",
    "static",
]

STATIC = ("style.css", "page.js", "find.js")
"""The files that pages use: they lie in the package, beside this module."""
_TITLE = 90
_PART = 60
"""Messages and turns that are laid out together."""
_KEYS = (
    "Keys: j and k go through messages, n and p through prompts, o folds, t changes "
    "the theme."
)


class Shell(Struct, frozen=True, kw_only=True):
    """What surrounds a page."""

    assets: str = ""
    """The address of the folder with :data:`STATIC`; none if all is in the page."""
    up: str = ""
    """The address of the list that the page is in."""
    foot: Html = NOTHING
    before: str = ""
    """The address of the page before."""
    after: str = ""
    aside: Html = NOTHING
    """What stands beside the page where there is room: a list of what is on it."""
    scripts: tuple[str, ...] = ()
    """Files of :data:`STATIC` that run besides the usual."""


@cache
def static(name: str) -> str:
    """Return one of the files that pages use."""
    # Asking the package for it would load what nothing else here needs.
    return (Path(__file__).parent / "static" / name).read_text("utf-8")


def session_page(
    session: Session,
    view: View = WHOLE,
    setting: Setting | None = None,
    shell: Shell | None = None,
) -> Iterator[Html]:
    """Yield a session as one page, piece by piece, as it is walked."""
    setting, shell = setting or Setting(), shell or Shell()
    branch = next(b for b in session.branches if b.number == view.branch)
    main = parts(fragments(session, view, setting))
    title = safe_line(session.title.text) or session.id
    top = heading(session, branch, setting, turn_words(branch, view))
    return page(title, top, main, structs.replace(shell, aside=contents(branch, view)))


def parts(pieces: Iterable[Fragment]) -> Iterator[Html]:
    """Yield pieces in parts of a few dozen messages, which a browser lays out apart.

    What is off the screen is not laid out. Were each message such a part, watching
    fifty thousand of them would take longer than laying them out.
    """
    count = 0
    for piece in pieces:
        if piece.message or piece.turn is not None:
            if count % _PART == 0:
                yield Html(f"{'</section>' if count else ''}{_PART_START}")
            count += 1
        elif not count:
            yield _PART_START
            count = 1
        yield piece.html
    if count:
        yield Html("</section>")


_PART_START = Html('<section class="part">')


def page(title: str, top: Html, main: Iterable[Html], shell: Shell) -> Iterator[Html]:
    """Yield a whole page: what it is about, and what is on it.

    Nothing on it may load anything from elsewhere, nor run a script but ours: a policy
    says so even where a piece of text got past every other guard.
    """
    yield _head(title, shell)
    up = Html(f'<p class="up"><a href="{escape(shell.up)}">All sessions</a></p>')
    wide = " wide" if shell.aside else ""
    yield Html(
        f'<body><a class="skip" href="#main">To the conversation</a>'
        f'<div class="page{wide}"><header class="top">{up if shell.up else ""}'
        f'{top}<div class="bar">{_THEME}</div></header>{shell.aside}<main id="main">'
    )
    yield from main
    yield Html(
        f"</main>{_pager(shell)}"
        f'<footer class="foot">{shell.foot}<p>{words(_KEYS)}</p></footer></div>'
        f"{_scripts(shell)}</body></html>\n"
    )


def heading(
    session: Session, branch: Branch, setting: Setting, turns: str = ""
) -> Html:
    """Return what one wants to know of a session before reading it.

    ``turns`` are words for those that are on the page, if not all are.
    """
    title = words(session.title.text) or words(session.id)
    cost = setting.pricer(session.spends) if setting.pricer else None
    lines = [
        tag("p", facts(told))
        for told in (*session_facts(session, branch, setting.zone, cost), [turns])
        if any(told)
    ]
    return joined((tag("h1", title), *lines))


def contents(branch: Branch, view: View = WHOLE, *, page: str = "") -> Html:
    """Return the list of prompts on a branch, each a link; nothing if there is one.

    ``page`` is where they are, if not on this page.
    """
    prompts = [
        message
        for turn in branch.turns
        if turn.number >= view.first and (view.last is None or turn.number <= view.last)
        for message in turn.messages
        if message.is_prompt
    ]
    if len(prompts) <= 1:
        return NOTHING
    lines = (
        f'<li><a href="{escape(page)}#{anchor("m", one.id)}">'
        f"{words(one.head[:_TITLE]) or '…'}</a></li>"
        for one in prompts
    )
    count = words(several(len(prompts), "prompt"))
    return Html(
        '<nav class="toc" aria-label="Prompts"><details open>'
        f"<summary>{count}</summary>"
        f"<ol>{''.join(lines)}</ol></details></nav>"
    )


_THEME = Html(
    '<fieldset class="theme" aria-label="Theme">'
    + "".join(
        f'<label><input type="radio" name="theme" id="theme-{name}" value="{name}" '
        f'autocomplete="off"'
        f"{' checked' if name == 'auto' else ''}><span>{told}</span></label>"
        for name, told in (("auto", "Auto"), ("light", "Light"), ("dark", "Dark"))
    )
    + "</fieldset>"
)


def _head(title: str, shell: Shell) -> Html:
    own = ("page.js", *shell.scripts)
    if shell.assets:
        style = f'<link rel="stylesheet" href="{escape(shell.assets)}style.css">'
        styles = "'self'"
    else:
        style = f"<style>{static('style.css')}</style>"
        styles = _hash("style.css")
    # A page that lies in a folder has no origin: its own script is named by its hash.
    run = " ".join(map(_hash, own))
    beside = " 'self'" if shell.scripts else ""
    policy = (
        f"default-src 'none'; style-src {styles}; script-src {run}{beside}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    return Html(
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="referrer" content="no-referrer"><meta name="generator" '
        f'content="Bygones"><title>{words(title)}</title>{style}</head>'
    )


@cache
def _hash(name: str) -> str:
    digest = sha256(static(name).encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _scripts(shell: Shell) -> str:
    index = ""
    if shell.scripts and shell.assets:
        index = f'<script src="{escape(shell.assets)}index.js"></script>'
    own = ("page.js", *shell.scripts)
    return index + "".join(
        f'<script type="module">{static(name)}</script>' for name in own
    )


def _pager(shell: Shell) -> str:
    if not shell.before and not shell.after:
        return ""
    links = (
        f'<a href="{escape(address)}" rel="{rel}">{told}</a>'
        if address
        else "<span></span>"
        for address, rel, told in (
            (shell.before, "prev", "← Earlier"),
            (shell.after, "next", "Later →"),
        )
    )
    return f'<nav class="pager" aria-label="Pages">{"".join(links)}</nav>'
