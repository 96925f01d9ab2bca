"""Code with its words told apart, where that costs little."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from itertools import cycle

from pygments.lexer import Lexer
from pygments.lexers import LEXERS, get_lexer_by_name
from pygments.token import Token, _TokenType

from bygones.render.html.markup import escaped

__all__ = ["CLASSES", "highlighted"]

_LONGEST = 6_000
"""Signs of a piece of code beyond which it is shown as it is."""
_KINDS = (
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
CLASSES = frozenset(name for _, name in _KINDS)
"""The classes that a word of code can have."""
_PLAIN = frozenset(("", "text", "txt", "plain", "plaintext", "output", "none"))


def highlighted(code: str, language: str) -> str:
    """Return code as markup, its words in classes; plain where nothing knows it."""
    name = language.strip().lower()
    if name in _PLAIN or len(code) > _LONGEST:
        return escaped(code)
    return _highlighted(code, name)


_MARKDOWN = frozenset(("markdown", "md"))
_SIGNS = re.compile(
    r"(?m)^(#{1,6} .*)$|^([ \t]*(?:[-*+>]|\d{1,3}[.)]))(?= )|(`[^`\n]+`)"
)
"""Headings, points and code of Markdown.

Pygments knows more of it, and for that loads music and Lisp: three megabytes.
"""


@lru_cache(maxsize=64)
def _highlighted(code: str, name: str) -> str:
    if name in _MARKDOWN:
        return _markdown(code)
    lexer = _lexer(name)
    if lexer is None:
        return escaped(code)
    parts: list[str] = []
    last, run = "", ""
    for kind, value in lexer.get_tokens(code):
        found = _class(kind) if value.strip() else last
        if found == last:
            run += value
            continue
        parts.append(_marked(run, last))
        last, run = found, value
    parts.append(_marked(run, last))
    return "".join(parts)


def _markdown(code: str) -> str:
    kinds = cycle(("", "k", "k", "s"))
    return "".join(
        _marked(part or "", kind)
        for part, kind in zip(_SIGNS.split(code), kinds, strict=False)
    )


def _marked(value: str, kind: str) -> str:
    if not value:
        return ""
    return f'<span class="{kind}">{escaped(value)}</span>' if kind else escaped(value)


@lru_cache(maxsize=256)
def _class(kind: _TokenType) -> str:
    return next((name for over, name in _KINDS if kind[: len(over)] == tuple(over)), "")


@lru_cache(maxsize=128)
def _lexer(name: str) -> Lexer | None:
    # Of a name that it does not know, Pygments would ask all that is installed.
    if name not in _known():
        return None
    return get_lexer_by_name(name, stripnl=False, ensurenl=False)


@cache
def _known() -> frozenset[str]:
    return frozenset(
        alias for _, _, aliases, _, _ in LEXERS.values() for alias in aliases
    )
