"""Render Markdown as HTML.

Transcripts are untrusted input. markdown-it runs with raw HTML disabled, and nh3 then
removes every tag and attribute that is not on the allow-list. Links may only use http,
https and mailto. Images are never loaded: they become a link with a label.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, lru_cache
from html import escape

import nh3
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

from bygones.render.html.markup import (
    HIGHLIGHT_CLASSES,
    Html,
    can_highlight,
    escape_sanitized,
    escape_text,
    highlight_code,
    tag,
)
from bygones.render.text.primitives import sanitize

_MAX_MARKDOWN_LENGTH = 100_000
"""Longer texts are shown as preformatted text."""
_MAX_CACHED_LENGTH = 8_000
_HEADING_TAGS = {"h1": "h3", "h2": "h4", "h3": "h5", "h4": "h6", "h5": "h6"}
"""Headings of a message rank below the two heading levels of the page."""
_ALIGNMENT_CLASSES = {"text-align:right": "right", "text-align:center": "middle"}
"""CSS classes of table cells by the inline style that markdown-it sets."""
_ALLOWED_TAGS = {
    *("p", "br", "hr", "blockquote", "pre", "code", "em", "strong", "s", "a", "span"),
    *("ul", "ol", "li", "h3", "h4", "h5", "h6", "div"),
    *("table", "thead", "tbody", "tr", "th", "td"),
}
_ALLOWED_SCHEMES = {"http", "https", "mailto"}


def render_markdown(source: str, *, has_colors: bool = True) -> Html:
    """Render a text; without colors, the class of code that could have them says so."""
    if len(source) > _MAX_MARKDOWN_LENGTH:
        return render_preformatted(source)
    if len(source) > _MAX_CACHED_LENGTH:
        return _render(source, has_colors)
    return _render_cached(source, has_colors)


def _render(source: str, has_colors: bool) -> Html:
    source = sanitize(source)
    try:
        html = _markdown_parser(has_colors).render(f"{source}\n")
    except IndexError:
        # markdown-it reads past the end of some tables inside a blockquote.
        return render_preformatted(source)
    return Html(f'<div class="prose">{_clean(html)}</div>')


# A page is rendered again whenever its session grows. Markdown takes about half of
# that time, and the earlier messages are the same. At most 512 texts of up to 8,000
# characters are kept, so the cache is bounded to a few megabytes.
_render_cached = lru_cache(maxsize=512)(_render)


_PROMPT_MARKDOWN = re.compile(r"(?m)^```|`[^`\n]+`|^(?:[-*]|\d{1,2}[.)]) \S")
"""Code and lists, which are common in prompts."""
_FENCED = re.compile(r"(?ms)^```.*?(?:^```|\Z)")
_INDENTED = re.compile(r"(?m)^(?: {2,}|\t)\S")


def render_prompt(source: str, *, has_colors: bool = True) -> Html:
    """Render what a user typed: code and lists are formatted, all else is literal.

    Most of it is not Markdown: `__init__` is not bold, and `#` may start a comment. A
    text with indented lines outside of fences may be code, and is not interpreted.
    """
    is_plain = (
        len(source) > _MAX_MARKDOWN_LENGTH
        or not _PROMPT_MARKDOWN.search(source)
        or _INDENTED.search(_FENCED.sub("", source)) is not None
    )
    if is_plain:
        return render_preformatted(source)
    html = _prompt_parser(has_colors).render(sanitize(source.strip("\n")))
    return Html(f'<div class="typed prose">{_clean(html)}</div>')


@cache
def _prompt_parser(has_colors: bool) -> MarkdownIt:
    markdown = MarkdownIt("zero", {"html": False, "breaks": True}).enable(
        ["fence", "backticks", "list", "newline"]
    )
    markdown.inline.ruler.at("text", _skip_text)
    fence = _render_fence if has_colors else _render_plain_fence
    markdown.add_render_rule("fence", fence)
    return markdown


def render_preformatted(source: str) -> Html:
    """Render text without interpreting it; line breaks and spaces are kept."""
    return tag("div", escape_text(source.strip("\n")), kind="typed")


def _clean(html: str) -> str:
    return _cleaner().clean(html)


@cache
def _cleaner() -> nh3.Cleaner:
    return nh3.Cleaner(
        tags=_ALLOWED_TAGS,
        attributes={"*": set(), "a": {"href"}, "ol": {"start"}},
        allowed_classes={
            "span": {*HIGHLIGHT_CLASSES, "picture"},
            "div": {"table"},
            "pre": {"plain"},
            "th": set(_ALIGNMENT_CLASSES.values()),
            "td": set(_ALIGNMENT_CLASSES.values()),
        },
        url_schemes=_ALLOWED_SCHEMES,
        link_rel="noopener noreferrer nofollow",
    )


@cache
def _markdown_parser(has_colors: bool) -> MarkdownIt:
    markdown = MarkdownIt("commonmark", {"html": False}).enable(
        ["table", "strikethrough"]
    )
    markdown.disable(["html_block", "html_inline"])
    markdown.inline.ruler.at("text", _skip_text)
    markdown.validateLink = _is_allowed_link  # type: ignore[method-assign]
    fence = _render_fence if has_colors else _render_plain_fence
    for name, rule in (
        ("image", _render_image),
        ("fence", fence),
        ("code_block", fence),
        ("heading_open", _render_heading),
        ("heading_close", _render_heading),
        ("table_open", _render_table_open),
        ("table_close", _render_table_close),
        ("th_open", _render_cell),
        ("td_open", _render_cell),
    ):
        markdown.add_render_rule(name, rule)
    return markdown


_INLINE_SYNTAX = re.compile(r"[\n\\`*_~\[\]!<&]")
"""The characters at which a rule of our parsers may match."""


def _skip_text(state: StateInline, silent: bool) -> bool:
    """Skip to the next character that has a meaning.

    The rule of markdown-it stops at more of them, such as colons and hyphens, for rules
    that are not enabled here. Without that, long replies take two thirds of the time.
    """
    start = state.pos
    found = _INLINE_SYNTAX.search(state.src, start, state.posMax)
    state.pos = found.start() if found else state.posMax
    if not silent:
        state.pending += state.src[start : state.pos]
    return state.pos > start


def _is_allowed_link(url: str) -> bool:
    scheme, colon, _ = url.partition(":")
    return bool(colon) and scheme.strip().lower() in _ALLOWED_SCHEMES


def _render_image(
    _self: RendererHTML, tokens: Sequence[Token], at: int, *_: object
) -> str:
    token = tokens[at]
    source = str(token.attrs.get("src", ""))
    label = f'<span class="picture">[image: {escape(token.content or source)}]</span>'
    return (
        f'<a href="{escape(source)}">{label}</a>' if _is_allowed_link(source) else label
    )


def _render_fence(
    _self: RendererHTML, tokens: Sequence[Token], at: int, *_: object
) -> str:
    language = tokens[at].info.strip().partition(" ")[0]
    code = highlight_code(tokens[at].content, language)
    return f"<pre><code>{code}</code></pre>\n"


def _render_plain_fence(
    _self: RendererHTML, tokens: Sequence[Token], at: int, *_: object
) -> str:
    language = tokens[at].info.strip().partition(" ")[0]
    css_class = ' class="plain"' if can_highlight(tokens[at].content, language) else ""
    code = escape_sanitized(tokens[at].content)
    return f"<pre{css_class}><code>{code}</code></pre>\n"


def _render_heading(
    _self: RendererHTML, tokens: Sequence[Token], at: int, *_: object
) -> str:
    name = _HEADING_TAGS.get(tokens[at].tag, "h6")
    return f"</{name}>\n" if tokens[at].nesting < 0 else f"<{name}>"


def _render_table_open(*_: object) -> str:
    return '<div class="table"><table>'


def _render_table_close(*_: object) -> str:
    return "</table></div>"


def _render_cell(
    _self: RendererHTML, tokens: Sequence[Token], at: int, *_: object
) -> str:
    token = tokens[at]
    css_class = _ALIGNMENT_CLASSES.get(str(token.attrs.get("style", "")), "")
    return f'<{token.tag} class="{css_class}">' if css_class else f"<{token.tag}>"
