"""Mark the words of a search in styled lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from bygones.model.summary import Excerpt
from bygones.render.text.primitives import (
    SpanStyle,
    StyledLine,
    StyledSpan,
    sanitize_line,
)

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


def excerpt_spans(excerpt: Excerpt) -> list[StyledSpan]:
    """Return an excerpt as spans, of which the matches have a style of their own."""
    spans, at = [StyledSpan("…" if excerpt.is_cut_before else "")], 0
    for start, stop in excerpt.highlights:
        spans.append(StyledSpan(_sanitized(excerpt.text[at:start])))
        spans.append(StyledSpan(_sanitized(excerpt.text[start:stop]), SpanStyle.MATCH))
        at = stop
    spans.append(StyledSpan(_sanitized(excerpt.text[at:])))
    spans.append(StyledSpan("…" if excerpt.is_cut_after else ""))
    return [span for span in spans if span.text]


def _sanitized(text: str) -> str:
    """Sanitize a piece of a line; spaces at its ends separate it from the others."""
    start = " " if text[:1].isspace() else ""
    end = " " if text[-1:].isspace() and text.strip() else ""
    return f"{start}{sanitize_line(text)}{end}"
