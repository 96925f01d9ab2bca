"""Markup that is known to be harmless, told apart from text by its type.

Whatever comes from a transcript becomes markup in two places: here, where it is
escaped, and in :mod:`~bygones.render.html.markdown_html`, where Markdown is read. Nothing
takes a text where it wants :data:`Html`, and the type checker keeps that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache, lru_cache
from hashlib import sha256
from html import escape
from itertools import cycle
from typing import NewType

from pygments.lexer import Lexer
from pygments.lexers import LEXERS, get_lexer_by_name
from pygments.token import Token, _TokenType

from bygones.render.text.primitives import sanitize, sanitize_line

Html = NewType("Html", str)
"""Markup of ours; no text of a transcript is in it unless it was escaped."""
EMPTY_HTML = Html("")

_SIMPLE_ID = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
_SPECIAL_CHARS = re.compile("[&<>\"']")
_SHORT_LENGTH = 100
"""Signs up to which looking for those that tell something is faster than five times
exchanging them."""


def _escape_attribute(value: str) -> str:
    """Return a text as markup, as :func:`html.escape` does."""
    if len(value) < _SHORT_LENGTH and not _SPECIAL_CHARS.search(value):
        return value
    return escape(value)


def escape_text(value: str) -> Html:
    """Return a text as the content of an element, every sign of it seen.

    Quotes mean nothing there and stay, as outputs are full of them; what stands in an
    attribute is escaped by :func:`tag` or :func:`words`.
    """
    return escape_sanitized(sanitize(value))


def escape_sanitized(value: str) -> Html:
    """Return a text whose signs are all seen as the content of an element."""
    return Html(escape(value, quote=False))


def escape_line(value: str) -> Html:
    """Return a text on one line as markup that shows it."""
    return Html(_escape_attribute(sanitize_line(value)))


def join_html(parts: Iterable[Html], separator: str = "") -> Html:
    """Return markup behind each other; empty parts are left out."""
    return Html(_escape_attribute(separator).join(filter(None, parts)))


def tag(name: str, content: Html = EMPTY_HTML, **attributes: str) -> Html:
    """Return an element; ``kind`` stands for its class, values are escaped."""
    told = ""
    for key, value in attributes.items():
        if value:
            written = "class" if key == "kind" else key.replace("_", "-")
            told += f' {written}="{_escape_attribute(value)}"'
    return Html(f"<{name}{told}>{content}</{name}>")


def render_facts(values: Iterable[str]) -> Html:
    """Return facts behind each other, parted by dots."""
    return join_html((escape_line(one) for one in values if one), " · ")


def render_details(
    summary: Html, content: Html, css_class: str = "", *, is_open: bool = False
) -> Html:
    """Return content that folds away under a summary, without any script."""
    state = " open" if is_open else ""
    return Html(
        f'<details class="{escape(css_class)}"{state}><summary>{summary}</summary>'
        f"{content}</details>"
    )


def make_element_id(prefix: str, id_: str) -> str:
    """Return a name for a place on the page; an odd id gives way to its hash."""
    if not _SIMPLE_ID.match(id_):
        id_ = sha256(id_.encode("utf-8", "surrogatepass")).hexdigest()[:24]
    return f"{prefix}-{id_}"


_MAX_CODE_LENGTH = 6_000
"""Signs of a piece of code beyond which it is shown as it is."""
_TOKEN_CLASSES = (
    (Token.Comment, "c"),
    (Token.Keyword, "k"),
    (Token.Literal.String, "s"),
    (Token.Literal.Number, "n"),
    (Token.Name.Function, "f"),
    (Token.Name.Class, "f"),
    (Token.Name.Decorator, "f"),
    (Token.Name.Tag, "k"),
    (Token.Name.Builtin, "b"),
    (Token.Name.Attribute, "b"),
    (Token.Generic.Inserted, "i"),
    (Token.Generic.Deleted, "d"),
    (Token.Generic.Heading, "k"),
)
HIGHLIGHT_CLASSES = frozenset(name for _, name in _TOKEN_CLASSES)
"""The classes that a word of code can have."""
_PLAIN_LANGUAGES = frozenset(
    ("", "text", "txt", "plain", "plaintext", "output", "none")
)


def highlight_code(code: str, language: str) -> str:
    """Return code as markup, its words in classes; plain where nothing knows it."""
    name = language.strip().lower()
    if name in _PLAIN_LANGUAGES or len(code) > _MAX_CODE_LENGTH:
        return escape_sanitized(code)
    return _highlight(code, name)


_MARKDOWN_LANGUAGES = frozenset(("markdown", "md"))
_MARKDOWN_SYNTAX = re.compile(
    r"(?m)^(#{1,6} .*)$|^([ \t]*(?:[-*+>]|\d{1,3}[.)]))(?= )|(`[^`\n]+`)"
)
"""Headings, points and code of Markdown.

Pygments knows more of it, and for that loads music and Lisp: three megabytes.
"""


@lru_cache(maxsize=64)
def _highlight(code: str, name: str) -> str:
    if name in _MARKDOWN_LANGUAGES:
        return _highlight_markdown(code)
    lexer = _lexer(name)
    if lexer is None:
        return escape_sanitized(code)
    parts: list[str] = []
    last, run = "", ""
    for kind, value in lexer.get_tokens(code):
        found = _token_class(kind) if value.strip() else last
        if found == last:
            run += value
            continue
        parts.append(_span(run, last))
        last, run = found, value
    parts.append(_span(run, last))
    return "".join(parts)


def _highlight_markdown(code: str) -> str:
    kinds = cycle(("", "k", "k", "s"))
    return "".join(
        _span(part or "", kind)
        for part, kind in zip(_MARKDOWN_SYNTAX.split(code), kinds, strict=False)
    )


def _span(value: str, kind: str) -> str:
    if not value:
        return ""
    return (
        f'<span class="{kind}">{escape_sanitized(value)}</span>'
        if kind
        else escape_sanitized(value)
    )


@lru_cache(maxsize=256)
def _token_class(kind: _TokenType) -> str:
    return next(
        (name for over, name in _TOKEN_CLASSES if kind[: len(over)] == tuple(over)), ""
    )


@lru_cache(maxsize=128)
def _lexer(name: str) -> Lexer | None:
    # Of a name that it does not know, Pygments would ask all that is installed.
    if name not in _known_languages():
        return None
    return get_lexer_by_name(name, stripnl=False, ensurenl=False)


@cache
def _known_languages() -> frozenset[str]:
    return frozenset(
        alias for _, _, aliases, _, _ in LEXERS.values() for alias in aliases
    )
