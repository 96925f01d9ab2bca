"""How styles look on a terminal: the one place where they become colours."""

from __future__ import annotations

from bygones.render.spans import Row, Style, text_of

__all__ = ["painted"]

_CODES = {
    Style.TITLE: "1",
    Style.FACT: "2",
    Style.PROMPT: "1;36",
    Style.HEADING: "1",
    Style.CODE: "33",
    Style.THINKING: "2;3",
    Style.TOOL: "1",
    Style.OUTPUT: "2",
    Style.ALERT: "31",
    Style.ADDED: "32",
    Style.REMOVED: "31",
    Style.FORK: "35",
    Style.AGENT: "34",
}


def painted(row: Row, *, coloured: bool) -> str:
    """Return a row as one line of text, with or without its colours."""
    if not coloured:
        return text_of(row)
    return "".join(
        f"\x1b[{_CODES[span.style]}m{span.text}\x1b[0m"
        if span.style in _CODES and span.text
        else span.text
        for span in row
    )
