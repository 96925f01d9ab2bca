"""Mark the words of a search in styled lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from bygones.render.text.primitives import SpanStyle, StyledLine, StyledSpan

FindWords = Callable[[str], Iterable[tuple[int, int]]]
"""Returns start and end of each match in a text, in order."""


def highlight_line(line: StyledLine, find_words: FindWords) -> StyledLine:
    """Return a line in which the words that were found have a style of their own."""
    text = "".join(span.text for span in line)
    matches = list(find_words(text)) if text else []
    return tuple(_split(line, matches)) if matches else line


def _split(line: StyledLine, matches: list[tuple[int, int]]) -> Iterator[StyledSpan]:
    offset = 0
    for span in line:
        end = offset + len(span.text)
        at = offset
        for start, stop in matches:
            start, stop = max(start, offset), min(stop, end)  # noqa: PLW2901 (clipped)
            if start >= stop:
                continue
            if start > at:
                yield span._replace(text=span.text[at - offset : start - offset])
            piece = span.text[start - offset : stop - offset]
            yield StyledSpan(piece, SpanStyle.MATCH)
            at = stop
        if at < end:
            yield span._replace(text=span.text[at - offset :])
        offset = end
