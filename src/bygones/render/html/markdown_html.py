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
from bygones.render.html.inline import READY, Inline, inlined, plain
from bygones.render.html.markup import (
    HIGHLIGHT_CLASSES,
    Html,
    escape_text,
    highlight_code,
    tag,
)
from bygones.render.text.primitives import sanitize

__all__ = ["render_markdown", "render_preformatted"]

_MAX_MARKDOWN_LENGTH = 100_000
"""Signs of a text beyond which it is shown as it is."""
_MARKDOWN_CHARS = re.compile(r"[*_`\[\]<>|~\\&\t]|  |(?:^|\n) |(?:^|\n)[-+=#0-9]| \n")
"""Signs that may mean something in Markdown, at least where they stand."""
_BLANK_LINES = re.compile(r"\n\n+")
_ALLOWED_TAGS = {
    *("p", "br", "hr", "blockquote", "pre", "code", "em", "strong", "s", "a", "span"),
    *("ul", "ol", "li", "h3", "h4", "h5", "h6", "div"),
    *("table", "thead", "tbody", "tr", "th", "td"),
}
_ALLOWED_SCHEMES = {"http", "https", "mailto"}


def render_markdown(source: str) -> Html:
    """Return Markdown as markup."""
    if len(source) > _MAX_MARKDOWN_LENGTH:
        return render_preformatted(source)
    source = sanitize(source)
    if not _MARKDOWN_CHARS.search(source):
        return Html(f'<div class="prose">{_render_paragraphs(source)}</div>')
    made = blocks(source, _inline, _render_code)
    if made is None:
        try:
            # Its tables look one sign too far where a quote ends with the text.
            made = _markdown_parser().render(f"{source}\n")
        except IndexError:
            return render_preformatted(source)
    return Html(f'<div class="prose">{_clean(made)}</div>')


def _render_paragraphs(source: str) -> str:
    """Return a text without any sign of Markdown as that would be read, only faster."""
    parts = _BLANK_LINES.split(source.strip(" \n"))
    return "".join(f"<p>{escape(part, quote=False)}</p>\n" for part in parts if part)


def render_preformatted(source: str) -> Html:
    """Return a text as it was typed: its lines and blanks stay."""
    return tag("div", escape_text(source.strip("\n")), kind="typed")


def _clean(made: str) -> str:
    return _cleaner().clean(made)


@cache
def _cleaner() -> nh3.Cleaner:
    return nh3.Cleaner(
        tags=_ALLOWED_TAGS,
        attributes={"*": set(), "a": {"href"}, "ol": {"start"}},
        allowed_classes={
            "span": {*HIGHLIGHT_CLASSES, "picture"},
            "div": {"table"},
            "th": set(SIDES.values()),
            "td": set(SIDES.values()),
        },
        url_schemes=_ALLOWED_SCHEMES,
        link_rel="noopener noreferrer nofollow",
    )


@cache
def _markdown_parser() -> MarkdownIt:
    markdown = MarkdownIt("commonmark", {"html": False}).enable(
        ["table", "strikethrough"]
    )
    markdown.disable(["html_block", "html_inline"])
    markdown.inline = Inline()
    markdown.core.ruler.at("inline", inlined)
    markdown.validateLink = _is_allowed_link  # type: ignore[method-assign]
    for name, rule in (
        (READY, _ready),
        ("image", _render_image),
        ("fence", _render_fence),
        ("code_block", _render_fence),
        ("heading_open", _render_heading),
        ("heading_close", _render_heading),
        ("table_open", _render_table_open),
        ("table_close", _render_table_close),
        ("th_open", _render_cell),
        ("td_open", _render_cell),
    ):
        markdown.add_render_rule(name, rule)
    return markdown


def _inline(source: str) -> str:
    made = plain(source, links=False)
    return _markdown_parser().renderInline(source) if made is None else made


def _ready(_self: RendererHTML, tokens: Sequence[Token], at: int, *_: object) -> str:
    return tokens[at].content


def _is_allowed_link(url: str) -> bool:
    """Whether a link may be one; another stays the text that it is."""
    scheme, colon, _ = url.partition(":")
    return bool(colon) and scheme.strip().lower() in _ALLOWED_SCHEMES


def _render_image(
    _self: RendererHTML, tokens: Sequence[Token], at: int, *_: object
) -> str:
    token = tokens[at]
    source = str(token.attrs.get("src", ""))
    told = f'<span class="picture">[picture: {escape(token.content or source)}]</span>'
    return (
        f'<a href="{escape(source)}">{told}</a>' if _is_allowed_link(source) else told
    )


def _render_fence(
    _self: RendererHTML, tokens: Sequence[Token], at: int, *_: object
) -> str:
    return _render_code(tokens[at].content, tokens[at].info)


def _render_code(code: str, info: str) -> str:
    """Return a piece of code; what is told of it begins with its language."""
    language = info.strip().partition(" ")[0]
    return f"<pre><code>{highlight_code(code, language)}</code></pre>\n"


def _render_heading(
    _self: RendererHTML, tokens: Sequence[Token], at: int, *_: object
) -> str:
    name = HEADINGS.get(tokens[at].tag, "h6")
    return f"</{name}>\n" if tokens[at].nesting < 0 else f"<{name}>"


def _render_table_open(*_: object) -> str:
    return '<div class="table"><table>'


def _render_table_close(*_: object) -> str:
    return "</table></div>"


def _render_cell(
    _self: RendererHTML, tokens: Sequence[Token], at: int, *_: object
) -> str:
    token = tokens[at]
    side = SIDES.get(str(token.attrs.get("style", "")), "")
    return f'<{token.tag} class="{side}">' if side else f"<{token.tag}>"
