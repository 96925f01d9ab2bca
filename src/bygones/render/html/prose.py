"""Markdown to markup: raw HTML is off, and a second wall stands behind.

What is written in a transcript is hostile: Markdown-it reads no HTML, and what it
makes passes an allow-list. Links lead to the web or to a mail address; pictures are
never loaded from anywhere, they are named and linked.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from html import escape

import nh3
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token

from bygones.render.html.blocks import HEADINGS, SIDES, blocks
from bygones.render.html.code import CLASSES, highlighted
from bygones.render.html.inline import READY, Inline, inlined, plain
from bygones.render.html.markup import Html, tag, text
from bygones.render.safe import safe

__all__ = ["prose", "typed"]

_LONGEST = 100_000
"""Signs of a text beyond which it is shown as it is."""
_MARKED = re.compile(r"[*_`\[\]<>|~\\&\t]|  |(?:^|\n) |(?:^|\n)[-+=#0-9]| \n")
"""Signs that may mean something in Markdown, at least where they stand."""
_GAP = re.compile(r"\n\n+")
_TAGS = {
    *("p", "br", "hr", "blockquote", "pre", "code", "em", "strong", "s", "a", "span"),
    *("ul", "ol", "li", "h3", "h4", "h5", "h6", "div"),
    *("table", "thead", "tbody", "tr", "th", "td"),
}
_SCHEMES = {"http", "https", "mailto"}


def prose(source: str) -> Html:
    """Return Markdown as markup."""
    if len(source) > _LONGEST:
        return typed(source)
    source = safe(source)
    if not _MARKED.search(source):
        return Html(f'<div class="prose">{_paragraphs(source)}</div>')
    made = blocks(source, _inline, _code)
    if made is None:
        try:
            # Its tables look one sign too far where a quote ends with the text.
            made = _markdown().render(f"{source}\n")
        except IndexError:
            return typed(source)
    return Html(f'<div class="prose">{_walled(made)}</div>')


def _paragraphs(source: str) -> str:
    """Return a text without any sign of Markdown as that would be read, only faster."""
    parts = _GAP.split(source.strip(" \n"))
    return "".join(f"<p>{escape(part, quote=False)}</p>\n" for part in parts if part)


def typed(source: str) -> Html:
    """Return a text as it was typed: its lines and blanks stay."""
    return tag("div", text(source.strip("\n")), kind="typed")


def _walled(made: str) -> str:
    return _wall().clean(made)


@cache
def _wall() -> nh3.Cleaner:
    return nh3.Cleaner(
        tags=_TAGS,
        attributes={"*": set(), "a": {"href"}, "ol": {"start"}},
        allowed_classes={
            "span": {*CLASSES, "picture"},
            "div": {"table"},
            "th": set(SIDES.values()),
            "td": set(SIDES.values()),
        },
        url_schemes=_SCHEMES,
        link_rel="noopener noreferrer nofollow",
    )


@cache
def _markdown() -> MarkdownIt:
    markdown = MarkdownIt("commonmark", {"html": False}).enable(
        ["table", "strikethrough"]
    )
    markdown.disable(["html_block", "html_inline"])
    markdown.inline = Inline()
    markdown.core.ruler.at("inline", inlined)
    markdown.validateLink = _is_link  # type: ignore[method-assign]
    for name, rule in (
        (READY, _ready),
        ("image", _picture),
        ("fence", _fence),
        ("code_block", _fence),
        ("heading_open", _heading),
        ("heading_close", _heading),
        ("table_open", _table_open),
        ("table_close", _table_close),
        ("th_open", _cell),
        ("td_open", _cell),
    ):
        markdown.add_render_rule(name, rule)
    return markdown


def _inline(source: str) -> str:
    made = plain(source, links=False)
    return _markdown().renderInline(source) if made is None else made


def _ready(_self: RendererHTML, tokens: Sequence[Token], at: int, *_: object) -> str:
    return tokens[at].content


def _is_link(url: str) -> bool:
    """Whether a link may be one; another stays the text that it is."""
    scheme, colon, _ = url.partition(":")
    return bool(colon) and scheme.strip().lower() in _SCHEMES


def _picture(_self: RendererHTML, tokens: Sequence[Token], at: int, *_: object) -> str:
    token = tokens[at]
    source = str(token.attrs.get("src", ""))
    told = f'<span class="picture">[picture: {escape(token.content or source)}]</span>'
    return f'<a href="{escape(source)}">{told}</a>' if _is_link(source) else told


def _fence(_self: RendererHTML, tokens: Sequence[Token], at: int, *_: object) -> str:
    return _code(tokens[at].content, tokens[at].info)


def _code(code: str, told: str) -> str:
    """Return a piece of code; what is told of it begins with its language."""
    language = told.strip().partition(" ")[0]
    return f"<pre><code>{highlighted(code, language)}</code></pre>\n"


def _heading(_self: RendererHTML, tokens: Sequence[Token], at: int, *_: object) -> str:
    name = HEADINGS.get(tokens[at].tag, "h6")
    return f"</{name}>\n" if tokens[at].nesting < 0 else f"<{name}>"


def _table_open(*_: object) -> str:
    return '<div class="table"><table>'


def _table_close(*_: object) -> str:
    return "</table></div>"


def _cell(_self: RendererHTML, tokens: Sequence[Token], at: int, *_: object) -> str:
    token = tokens[at]
    side = SIDES.get(str(token.attrs.get("style", "")), "")
    return f'<{token.tag} class="{side}">' if side else f"<{token.tag}>"
