"""What stands inside of a paragraph: the same as Markdown-it gives, in less time.

Markdown-it asks each of its rules at every sign that may mean something. Here a sign
is shown to the one rule that begins with it, and the plainest lines, of words, code
and bold, are read by one expression. Tests hold both against Markdown-it itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from html import escape

from markdown_it import rules_inline
from markdown_it.parser_inline import ParserInline
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

__all__ = ["READY", "Inline", "inlined", "plain"]

READY = "ready"
"""The kind of token that holds markup, read and escaped already."""

_RULES: dict[str, Callable[[StateInline, bool], bool]] = {
    "\n": rules_inline.newline,
    "\\": rules_inline.escape,
    "`": rules_inline.backtick,
    "~": rules_inline.strikethrough.tokenize,
    "*": rules_inline.emphasis.tokenize,
    "_": rules_inline.emphasis.tokenize,
    "[": rules_inline.link,
    "!": rules_inline.image,
    "<": rules_inline.autolink,
    "&": rules_inline.entity,
}
"""The rules that are on, each by the sign that it begins with."""
_STOP = re.compile(r"[\n\\`~*_\[\]!<&]")
"""Where a text ends: before the sign of a rule, and before the end of a link's."""


class Inline(ParserInline):
    """Reads what stands inside of a paragraph, one rule for each sign."""

    def skipToken(self, state: StateInline) -> None:  # noqa: N802 (Markdown-it's name)
        """Step over what begins here, without keeping it."""
        pos = state.pos
        known = state.cache.get(pos)
        if known is not None:
            state.pos = known
            return
        if state.level >= state.md.options["maxNesting"]:
            state.pos = state.posMax + 1
        else:
            rule = _RULES.get(state.src[pos])
            state.level += 1
            if rule is None:
                state.pos = _text_end(state, pos)
            elif not rule(state, True):
                state.pos = pos + 1
            state.level -= 1
        state.cache[pos] = state.pos

    def tokenize(self, state: StateInline) -> None:
        """Read everything up to the end that the state knows."""
        src, end = state.src, state.posMax
        deepest = state.md.options["maxNesting"]
        while state.pos < end:
            pos = state.pos
            rule = _RULES.get(src[pos])
            if rule is None:
                state.pos = _text_end(state, pos)
                state.pending += src[pos : state.pos]
            elif state.level >= deepest or not rule(state, False):
                state.pending += src[pos]
                state.pos = pos + 1
        if state.pending:
            state.pushPending()


def _text_end(state: StateInline, pos: int) -> int:
    found = _STOP.search(state.src, pos + 1)
    return min(found.start(), state.posMax) if found else state.posMax


def inlined(state: StateCore) -> None:
    """Read the inside of each paragraph, heading and cell."""
    for token in state.tokens:
        if token.type != "inline":
            continue
        made = plain(token.content)
        if made is None:
            token.children = token.children or []
            state.md.inline.parse(token.content, state.md, state.env, token.children)
        else:
            token.children = [Token(READY, "", 0, content=made)]


_LONE = (
    r"(?<=[^\W_])_++(?=[^\W_])|!(?!\[)|(?<!~)~(?!~)|&(?![#A-Za-z])|<(?= )"
    # A line end, where no blank makes it a break or goes away with it.
    r"|(?<! )\n(?![ \t])"
)
"""Signs that mean nothing where they stand."""
_CODE = r"(?<!`)`[^`\n ](?:[^`\n]*[^`\n ])?`(?!`)"
_CLOSING = re.compile(r"_(?![^\W_]|_)")
"""What could end an emphasis: without it, none of the signs before begins one."""


@cache
def _plain(*, links: bool, stress: bool) -> re.Pattern[str]:
    """Return what fits plain texts, in which links or emphasis could stand or not."""
    telling = f"`*<&~\\\\\n{'!' if links else ''}{_BRACKETS if links else ''}"
    words = rf"[^{telling}{'_' if stress else ''}]++"
    bold = (
        r"(?:(?<=[\s(])|(?<![\s\S]))\*\*(?![\s*])"
        rf"(?:{words}|{_LONE}|{_CODE})++"
        r"(?<=\S)\*\*(?:(?=\s)|(?![\s\S])|(?<=[^\W_]\*\*)(?=[.,:;)]))"
    )
    return re.compile(rf"(?:{words}|{_LONE}|{_CODE}|{bold})*+\Z")


_BRACKETS = r"\[\]"
_MARK = re.compile(r"`([^`]+)`|\*\*")


def plain(source: str, *, links: bool = True) -> str | None:
    """Return the markup of a text of words, code and bold; nothing of any other.

    Without ``links``, nobody said where a name in brackets leads: only an address
    behind it makes it a link.
    """
    links = links or "](" in source
    stress = "_" in source and _CLOSING.search(source) is not None
    if not _plain(links=links, stress=stress).match(source):
        return None
    shown = escape(source, quote=False)
    if "`" not in shown and "*" not in shown:
        return shown
    is_bold = False

    def marked(found: re.Match[str]) -> str:
        nonlocal is_bold
        if found[1] is not None:
            return f"<code>{found[1]}</code>"
        is_bold = not is_bold
        return "<strong>" if is_bold else "</strong>"

    return _MARK.sub(marked, shown)
