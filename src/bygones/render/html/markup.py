"""Build HTML from escaped text.

Text from transcripts becomes HTML in two places only: here, where it is escaped, and in
`markdown_html`. HTML has its own type, so the type checker finds text that was not
escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from hashlib import sha256
from html import escape
from itertools import cycle
from typing import NewType

from pygments.lexer import Lexer
from pygments.lexers import LEXERS, get_lexer_by_name
from pygments.token import Token, _TokenType

from bygones.render.text.primitives import sanitize

Html = NewType("Html", str)
"""HTML in which all text from transcripts is escaped."""
EMPTY_HTML = Html("")

_SIMPLE_ID = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
_SPECIAL_CHARS = re.compile("[&<>\"']")
_SHORT_LENGTH = 100
"""In shorter texts, searching for special characters first is faster."""


def _escape_attribute(value: str) -> str:
    """Escape like `html.escape`, but faster for short texts without special characters."""
    if len(value) < _SHORT_LENGTH and not _SPECIAL_CHARS.search(value):
        return value
    return escape(value)


def escape_text(value: str) -> Html:
    """Sanitize and escape a text for the content of an element.

    Quotes are not escaped, so the result must not be used in an attribute.
    """
    return escape_sanitized(sanitize(value))


def escape_sanitized(value: str) -> Html:
    """Escape a sanitized text for the content of an element."""
    return Html(escape(value, quote=False))


def escape_line(value: str) -> Html:
    """Sanitize and escape a text on one line, for elements and attributes."""
    return Html(_escape_attribute(sanitize(value, newlines="space")))


_INLINE_MARKDOWN = re.compile(
    r"`(?P<code>(?:[^`<\n]|</?mark>)+)`"
    # Not 2**n, **/*.py or a line of asterisks.
    r"|(?<![\w*/])\*\*(?=[^\s/])(?P<strong>(?:[^*`<\n]|</?mark>)+)(?<=\S)\*\*(?![\w*/])"
)


def format_inline(html: Html) -> Html:
    """Show code and bold of Markdown, in escaped text that may have marks."""
    return Html(_INLINE_MARKDOWN.sub(_inline_element, html))


def strip_inline(text: str) -> str:
    """Remove the marks of code and bold where only plain text can be shown.

    >>> strip_inline("**Done**: fix `parse`, not 2**n")
    'Done: fix parse, not 2**n'
    """
    return _INLINE_MARKDOWN.sub(lambda found: found[found.lastgroup or 0], text)


def _inline_element(found: re.Match[str]) -> str:
    name = found.lastgroup or ""
    content = found[name]
    marks = re.findall("</?mark>", content)
    is_nested = marks == ["<mark>", "</mark>"] * (len(marks) // 2)
    return f"<{name}>{content}</{name}>" if is_nested and content.strip() else found[0]


def join_html(parts: Iterable[Html], separator: str = "") -> Html:
    """Join HTML; empty parts are left out."""
    return Html(_escape_attribute(separator).join(filter(None, parts)))


def tag(name: str, content: Html = EMPTY_HTML, **attributes: str) -> Html:
    """Return an element. Attribute values are escaped; ``kind`` is the class."""
    rendered = ""
    for key, value in attributes.items():
        if value:
            attribute = "class" if key == "kind" else key.replace("_", "-")
            rendered += f' {attribute}="{_escape_attribute(value)}"'
    return Html(f"<{name}{rendered}>{content}</{name}>")


def render_facts(values: Iterable[str]) -> Html:
    """Return facts separated by dots; empty ones are left out."""
    return join_html((escape_line(value) for value in values if value), " · ")


def render_details(
    summary: Html, content: Html, css_class: str = "", *, is_open: bool = False
) -> Html:
    """Return a <details> element."""
    state = " open" if is_open else ""
    return Html(
        f'<details class="{escape(css_class)}"{state}><summary>{summary}</summary>'
        f"{content}</details>"
    )


def make_element_id(prefix: str, id_: str) -> str:
    """Return an element id; an unusual id is replaced by its hash."""
    if not _SIMPLE_ID.match(id_):
        id_ = sha256(id_.encode("utf-8", "surrogatepass")).hexdigest()[:24]
    return f"{prefix}-{id_}"


_MAX_CODE_LENGTH = 6_000
"""Longer code is not highlighted."""
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
_PLAIN_LANGUAGES = frozenset(
    ("", "text", "txt", "plain", "plaintext", "output", "none")
)


def can_highlight(code: str, language: str) -> bool:
    """Return whether `highlight_code` may add colors."""
    name = language.strip().lower()
    return name not in _PLAIN_LANGUAGES and len(code) <= _MAX_CODE_LENGTH


def highlight_code(code: str, language: str) -> str:
    """Highlight code; code in an unknown language is only escaped."""
    if not can_highlight(code, language):
        return escape_sanitized(code)
    return _highlight(code, language.strip().lower())


_MARKDOWN_LANGUAGES = frozenset(("markdown", "md"))
_MARKDOWN_SYNTAX = re.compile(
    r"(?m)^(#{1,6} .*)$|^([ \t]*(?:[-*+>]|\d{1,3}[.)]))(?= )|(`[^`\n]+`)"
)
"""Headings, list markers and code in Markdown.

The lexer of Pygments highlights more, but imports many others: three megabytes.
"""


CodePiece = tuple[str, str]
"""A text and its CSS class."""


@lru_cache(maxsize=64)
def _highlight(code: str, name: str) -> str:
    return "".join(_span(text, css_class) for text, css_class in _tokenize(code, name))


def _tokenize(code: str, name: str) -> Iterator[CodePiece]:
    """Yield the pieces of a code; neighbors have different classes."""
    if name in _MARKDOWN_LANGUAGES:
        classes = cycle(("", "k", "k", "s"))
        for part, css_class in zip(_MARKDOWN_SYNTAX.split(code), classes, strict=False):
            yield part or "", css_class
        return
    lexer = _lexer(name)
    if lexer is None:
        yield code, ""
        return
    last_class, pending = "", ""
    for token_type, value in lexer.get_tokens(code):
        css_class = _token_class(token_type) if value.strip() else last_class
        if css_class == last_class:
            pending += value
            continue
        yield pending, last_class
        last_class, pending = css_class, value
    yield pending, last_class


def split_code(
    lines: Sequence[str], language: str, max_length: int = _MAX_CODE_LENGTH
) -> list[tuple[CodePiece, ...]]:
    """Return highlighted pieces of consecutive sanitized lines of code.

    Long code, and code in an unknown language, is not highlighted.
    """
    code = "\n".join(lines)
    name = language.strip().lower()
    if not lines or name in _PLAIN_LANGUAGES or len(code) > max_length:
        return [((line, ""),) for line in lines]
    return list(_split_lines(code, name))


@lru_cache(maxsize=64)
def _split_lines(code: str, name: str) -> tuple[tuple[CodePiece, ...], ...]:
    lines: list[list[CodePiece]] = [[]]
    # Some lexers, such as that of diffs, need the end of the last line.
    for text, css_class in _tokenize(f"{code}\n", name):
        first, *others = text.split("\n")
        lines[-1].append((first, css_class))
        lines += ([(other, css_class)] for other in others)
    found = tuple(tuple(piece for piece in line if piece[0]) for line in lines)
    texts = ("".join(text for text, _ in line) for line in found)
    if "\n".join(texts) != f"{code}\n":  # a lexer that changes what it reads
        return tuple(((line, ""),) for line in code.split("\n"))
    return found[:-1]


def render_pieces(pieces: Iterable[CodePiece], marked: tuple[int, int] = (0, 0)) -> str:
    """Render the pieces of a line; characters from ``marked`` are emphasized."""
    start, stop = marked
    before: list[str] = []
    inside: list[str] = []
    after: list[str] = []
    at = 0
    for text, css_class in pieces:
        first, last = max(start - at, 0), max(stop - at, 0)
        before.append(_span(text[:first], css_class))
        inside.append(_span(text[first:last], css_class))
        after.append(_span(text[max(first, last) :], css_class))
        at += len(text)
    middle = "".join(inside)
    if middle:
        middle = f"<b>{middle}</b>"
    return f"{''.join(before)}{middle}{''.join(after)}"


def _span(text: str, css_class: str) -> str:
    if not text or not css_class:
        return escape_sanitized(text)
    return f'<span class="{css_class}">{escape_sanitized(text)}</span>'


@lru_cache(maxsize=256)
def _token_class(token_type: _TokenType) -> str:
    for parent, css_class in _TOKEN_CLASSES:
        if token_type[: len(parent)] == tuple(parent):
            return css_class
    return ""


@lru_cache(maxsize=128)
def _lexer(name: str) -> Lexer | None:
    # For an unknown name, Pygments would load all plug-ins.
    if name not in _known_languages():
        return None
    return get_lexer_by_name(name, stripnl=False, ensurenl=False)


@cache
def _known_languages() -> frozenset[str]:
    return frozenset(
        alias for _, _, aliases, _, _ in LEXERS.values() for alias in aliases
    )


def language_of(path: str) -> str:
    """Return the language of a file by its name; empty if it is not known."""
    name = path.replace("\\", "/").rpartition("/")[2].lower()
    extension = name.rpartition(".")[2] if "." in name else name
    if extension in _known_languages() or extension in _MARKDOWN_LANGUAGES:
        return extension
    patterns = _file_patterns()
    return patterns.get(name) or patterns.get(f"*.{extension}", "")


@cache
def _file_patterns() -> dict[str, str]:
    found: dict[str, str] = {}
    for _, _, aliases, patterns, _ in LEXERS.values():
        for pattern in patterns if aliases else ():
            found.setdefault(pattern.lower(), aliases[0])
    return found
