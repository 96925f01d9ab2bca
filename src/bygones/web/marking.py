"""Mark the words of a query in HTML, and open what is folded around the best place."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from html import unescape
from typing import NamedTuple

from bygones.render.html.markup import EMPTY_HTML, Html, escape_line

HIT_MARK = '<mark id="hit">'
"""The first mark at the best place."""
_WINDOW_CHARS = 140
"""Characters of the best place: as many as an excerpt has after its first word."""
_CONTEXT_CHARS = 40
"""Characters before the first word of an excerpt."""
NEAR_CHARS = (24, 64)
"""Characters before and after the start of a match that say where it is."""
_MIN_CONTEXT = 8
"""Letters and digits around a word that identify a place."""
_TOKEN = re.compile(r"<[^>]*>|&#?\w+;|[^<&]+|[<&]")
_TAG = re.compile(r"<(/?)([a-zA-Z0-9]+)(?:[^>]*?\sid=\"([^\"]*)\")?")
_INLINE_TAGS = frozenset(
    ("a", "b", "code", "del", "em", "i", "ins", "mark", "s", "span", "strong")
)
_VOID_TAGS = frozenset(("br", "hr", "img", "input", "wbr"))
_UNMARKED_TAG = "header"
"""Names and times of messages are not part of what was said."""

FindSpans = Callable[[str], list[tuple[int, int]]]


class _Element(NamedTuple):
    name: str
    id: str
    tag_end: int
    """Position of the last character of its start tag."""


class _TextPiece(NamedTuple):
    """A part of the text and where it is in the HTML; an entity is one piece."""

    text: str
    start: int
    html_start: int
    html_stop: int
    folds: tuple[int, ...]
    """Ends of the start tags of the folded elements around it."""
    is_inside: bool
    """Whether it is in one of the elements that are looked at first."""

    def html_position(self, at: int) -> int:
        """Return the position of a character; entities are not divided."""
        if at <= self.start:
            return self.html_start
        return min(self.html_start + at - self.start, self.html_stop)


def mark_words(
    html: Html, find_spans: FindSpans, ids: Collection[str] = (), near: str = ""
) -> Html:
    """Return HTML with ``<mark>`` around words; `HIT_MARK` at the best place.

    The best place has the most different words, in an element with one of the ids if
    there is a match. With ``near``, it is where the text is the same around a match, and
    there may be none. What is folded around it is opened. ``find_spans`` returns where
    the words are in a text.
    """
    return _mark(html, find_spans, _Target(ids, _MatchContext.of(near, find_spans)))


def mark_most_similar(
    html: Html, find_spans: FindSpans, ids: Collection[str], near: str
) -> Html:
    """Mark words; the best place is the one with the most text as in ``near``."""
    context = _MatchContext.of(near, find_spans)
    if context is not None:
        context = context._replace(min_length=0)
    return _mark(html, find_spans, _Target(ids, context))


def _mark(html: Html, find_spans: FindSpans, target: _Target) -> Html:
    pieces = list(_iter_pieces(html, target.ids))
    text = "".join(piece.text for piece in pieces)
    spans = find_spans(text)
    if target.context is None:
        best = _best_span(text, spans, pieces) if spans else None
    else:
        best = target.context.find(text, spans, pieces)
        if best is not None and best not in spans:
            spans = sorted((*spans, best))
    inserts: list[tuple[int, str]] = []
    for span in spans:
        is_hit = span == best
        for piece in _overlapping(pieces, span):
            if piece.html_start == piece.html_stop:
                continue
            start, stop = map(piece.html_position, span)
            if span[1] >= piece.start + len(piece.text):
                stop = piece.html_stop
            mark = HIT_MARK if is_hit else "<mark>"
            inserts += [(start, mark), (stop, "</mark>")]
            if is_hit:
                inserts += [(fold, " open") for fold in piece.folds]
            is_hit = False
    return Html("".join(_insert_all(html, inserts)))


def excerpt_of_values(value: object, find_spans: FindSpans, near: str = "") -> Html:
    """Return the words around the first match in the texts of a decoded record.

    With ``near``, the match has to be where the text is like it.
    """
    text = " ".join(_iter_texts(value))
    spans = find_spans(text)
    context = _MatchContext.of(near, find_spans)
    span = spans[0] if spans else None
    if context is not None:
        span = context.find(text, spans)
    if span is None:
        return EMPTY_HTML
    part = text[max(0, span[0] - _CONTEXT_CHARS) : span[1] + _WINDOW_CHARS]
    return mark_words(escape_line(part), find_spans, near=near)


class _MatchContext(NamedTuple):
    """The letters and digits before and after the start of a match."""

    before: str
    """From its end to its start."""
    after: str
    word_length: int
    min_length: int
    """How many of them a text has to have in common with it."""

    @classmethod
    def of(cls, near: str, find_spans: FindSpans) -> _MatchContext | None:
        """Return the context of the first match in a text; `None` without a match."""
        span = next(iter(find_spans(near)), None) if near else None
        if span is None:
            return None
        start, stop = span
        before, after = _letters(near[:start]), _letters(near[start:])
        word = len(_letters(near[start:stop]))
        length = min(word + _MIN_CONTEXT, len(before) + len(after))
        return cls(before[::-1], after, word, length)

    def find(
        self, text: str, spans: list[tuple[int, int]], pieces: Sequence[_TextPiece] = ()
    ) -> tuple[int, int] | None:
        """Return the match whose context is the most like this one."""
        best, best_rank = None, (-1, False)
        # Punctuation and Markdown may be between the letters.
        room = 4 * NEAR_CHARS[1]
        for span in spans:
            after = _letters(text[span[0] : span[0] + room])
            before = _letters(text[max(span[0] - room, 0) : span[0]])[::-1]
            common = _common_length(self.after, after)
            common += _common_length(self.before, before)
            is_inside = any(piece.is_inside for piece in _overlapping(pieces, span))
            if common >= self.min_length and (common, is_inside) > best_rank:
                best, best_rank = span, (common, is_inside)
        return best or self._locate(text)

    def _locate(self, text: str) -> tuple[int, int] | None:
        """Return where a text is as here; its word may be longer than the indexed one."""
        wanted = f"{self.before[::-1]}{self.after}"
        start = _letters(text).find(wanted) + len(self.before)
        if start < len(self.before) or not self.word_length:
            return None
        positions = [at for at, character in enumerate(text) if character.isalnum()]
        return positions[start], positions[start + self.word_length - 1] + 1


class _Target(NamedTuple):
    """Where the best place is looked for."""

    ids: Collection[str]
    context: _MatchContext | None


def _letters(text: str) -> str:
    """Return the letters and digits of a text in lower case, one for each."""
    return "".join(character.lower()[:1] for character in text if character.isalnum())


def _common_length(one: str, other: str) -> int:
    pairs = zip(one, other, strict=False)
    return next(
        (at for at, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other))
    )


def _iter_texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _iter_texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from _iter_texts(one)


def _insert_all(html: str, inserts: list[tuple[int, str]]) -> Iterator[str]:
    at = 0
    for position, text in sorted(inserts, key=lambda insert: insert[0]):
        yield html[at:position]
        yield text
        at = position
    yield html[at:]


def _best_span(
    text: str, spans: list[tuple[int, int]], pieces: list[_TextPiece]
) -> tuple[int, int]:
    best, best_rank = spans[0], (False, 0, 0)
    for at, span in enumerate(spans):
        words = [
            text[start:stop].lower()
            for start, stop in spans[at : at + _WINDOW_CHARS]
            if stop <= span[0] + _WINDOW_CHARS
        ]
        is_inside = any(piece.is_inside for piece in _overlapping(pieces, span))
        rank = (is_inside, len(set(words)), len(words))
        if rank > best_rank:
            best, best_rank = span, rank
    return best


def _overlapping(
    pieces: Sequence[_TextPiece], span: tuple[int, int]
) -> Iterator[_TextPiece]:
    low, high = 0, len(pieces)
    while low < high:
        middle = (low + high) // 2
        if pieces[middle].start + len(pieces[middle].text) <= span[0]:
            low = middle + 1
        else:
            high = middle
    while low < len(pieces) and pieces[low].start < span[1]:
        yield pieces[low]
        low += 1


def _iter_pieces(html: str, ids: Collection[str]) -> Iterator[_TextPiece]:
    """Yield the texts between tags; other than inline elements separate words."""
    elements: list[_Element] = []
    start = 0
    for token in _TOKEN.finditer(html):
        tag = _TAG.match(token[0])
        if tag is None:
            if any(element.name == _UNMARKED_TAG for element in elements):
                continue
            text = unescape(token[0]) if token[0][0] == "&" else token[0]
            is_inside = any(element.id in ids for element in elements if element.id)
            folds = _folds_around(html, elements)
            yield _TextPiece(text, start, *token.span(), folds, is_inside)
            start += len(text)
            continue
        name = tag[2].lower()
        if name not in _INLINE_TAGS:
            position = token.start()
            yield _TextPiece("\n", start, position, position, (), is_inside=False)
            start += 1
        if tag[1]:
            while elements and elements.pop().name != name:
                pass
        elif name not in _VOID_TAGS:
            elements.append(_Element(name, tag[3] or "", token.end() - 1))


def _folds_around(html: str, elements: list[_Element]) -> tuple[int, ...]:
    """Return the closed elements that hide the innermost one."""
    return tuple(
        element.tag_end
        for at, element in enumerate(elements)
        if element.name == "details"
        and not (at + 1 < len(elements) and elements[at + 1].name == "summary")
        and not html.endswith(" open", 0, element.tag_end)
    )
