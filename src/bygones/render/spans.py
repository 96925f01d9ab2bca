"""Styled text: what a renderer yields, and a face turns into colour or markup."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

__all__ = ["Row", "Span", "Style", "row", "text_of"]


class Style(StrEnum):
    """What a text is, for whoever chooses how that looks."""

    PLAIN = "plain"
    TITLE = "title"
    FACT = "fact"
    """What stands around the rest: times, counts, hints."""
    PROMPT = "prompt"
    HEADING = "heading"
    CODE = "code"
    THINKING = "thinking"
    TOOL = "tool"
    """The name of a tool."""
    OUTPUT = "output"
    """What a tool or a command printed."""
    ALERT = "alert"
    ADDED = "added"
    REMOVED = "removed"
    FORK = "fork"
    AGENT = "agent"


class Span(NamedTuple):
    """Some text of one style, harmless already."""

    text: str
    style: Style = Style.PLAIN


Row = tuple[Span, ...]
"""One line of text, without its end."""


def row(*spans: Span | str) -> Row:
    """Return the spans as a row; a bare text is plain."""
    return tuple(Span(span) if isinstance(span, str) else span for span in spans)


def text_of(spans: Iterable[Span]) -> str:
    """Return what the spans say, without their styles."""
    return "".join(span.text for span in spans).rstrip()
