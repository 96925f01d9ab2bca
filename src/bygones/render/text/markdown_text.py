"""Render Markdown for a terminal.

Transcripts are untrusted input. Markdown can write any character as an entity, such as
``&#27;``, so every text is sanitized after it was parsed, not only before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token

from bygones.render.html.markup import split_code
from bygones.render.text.primitives import (
    SpanStyle,
    StyledLine,
    StyledSpan,
    display_width,
    sanitize,
    styled_line,
    truncate_end,
    wrap_markdown,
    wrap_spans,
)

_MAX_LENGTH = 100_000
"""Longer texts are shown as written."""
_MIN_WIDTH = 8
_MIN_COLUMN_WIDTH = 5
_MAX_RULE_WIDTH = 40
_TAB_WIDTH = 4
_CODE_STYLES = {
    "c": SpanStyle.COMMENT,
    "k": SpanStyle.KEYWORD,
    "s": SpanStyle.STRING,
    "n": SpanStyle.NUMBER,
    "f": SpanStyle.NAME,
    "b": SpanStyle.NAME,
    "i": SpanStyle.ADDED,
    "d": SpanStyle.REMOVED,
}
_INLINE_STYLES = {"strong": SpanStyle.STRONG, "em": SpanStyle.EMPHASIS}


def render_markdown_lines(text: str, width: int) -> Iterator[StyledLine]:
    """Yield the lines of a text: bold, code, lists, tables, highlighted code."""
    source = sanitize(text)
    if len(source) > _MAX_LENGTH:
        return _as_written(source, width)
    try:
        tokens = _markdown_parser().parse(f"{source}\n")
    except IndexError:
        # markdown-it reads past the end of some tables inside a blockquote.
        return _as_written(source, width)
    return _MarkdownLines(source, width).render(tokens)


def find_code_blocks(text: str) -> list[str]:
    """Return the code blocks of a text, unchanged and in order."""
    tokens = _markdown_parser().parse(f"{text}\n")
    return [one.content for one in tokens if one.type in {"fence", "code_block"}]


def _as_written(source: str, width: int) -> Iterator[StyledLine]:
    return map(styled_line, wrap_markdown(source, width))


@cache
def _markdown_parser() -> MarkdownIt:
    markdown = MarkdownIt("commonmark", {"html": False})
    markdown.enable(["table", "strikethrough"])
    return markdown.disable(["html_block", "html_inline"])


class _Indent(NamedTuple):
    """What is before the lines of a list item or a quotation."""

    first: str
    others: str
    style: SpanStyle


class _MarkdownLines:
    """Renders the blocks of one text."""

    def __init__(self, source: str, width: int) -> None:
        self._source_lines = source.split("\n")
        self._width = width
        self._indents: list[_Indent] = []
        self._used: list[bool] = []
        """Whether the first line of each indent was printed."""
        self._lists: list[int | None] = []
        """The next number of each list around; none for bullets."""
        self._needs_gap = False

    def render(self, tokens: Sequence[Token]) -> Iterator[StyledLine]:
        at = 0
        while at < len(tokens):
            token = tokens[at]
            if token.type == "table_open":
                end = next(
                    number
                    for number in range(at, len(tokens))
                    if tokens[number].type == "table_close"
                )
                yield from self._emit(self._table(tokens[at : end + 1]))
                at = end
            elif token.type == "inline":
                yield from self._render_inline(token, tokens[at - 1])
            elif token.type in {"fence", "code_block"}:
                yield from self._emit(self._code(token))
            elif token.type == "hr":
                rule = "─" * min(self._room(), _MAX_RULE_WIDTH)
                yield from self._emit([(StyledSpan(rule, SpanStyle.META),)])
            else:
                self._change_level(token)
            at += 1

    def _change_level(self, token: Token) -> None:
        """Enter or leave a list, an item or a quotation."""
        match token.type:
            case "bullet_list_open":
                self._lists.append(None)
            case "ordered_list_open":
                self._lists.append(int(str(token.attrs.get("start", 1))))
            case "bullet_list_close" | "ordered_list_close":
                self._lists.pop()
                self._needs_gap = self._needs_gap or not self._lists
            case "list_item_open":
                self._push(self._item_indent())
            case "blockquote_open":
                self._push(_Indent("▏ ", "▏ ", SpanStyle.META))
            case "list_item_close" | "blockquote_close":
                self._indents.pop()
                self._used.pop()
            case _:
                pass  # what opens and closes blocks of text

    def _item_indent(self) -> _Indent:
        number = self._lists[-1]
        marker = "• " if number is None else f"{number}. "
        if number is not None:
            self._lists[-1] = number + 1
        return _Indent(marker, " " * len(marker), SpanStyle.META)

    def _push(self, indent: _Indent) -> None:
        self._indents.append(indent)
        self._used.append(False)

    def _room(self) -> int:
        used = sum(len(indent.others) for indent in self._indents)
        return max(self._width - used, _MIN_WIDTH)

    def _emit(
        self, lines: Iterator[StyledLine] | list[StyledLine], *, is_tight: bool = False
    ) -> Iterator[StyledLine]:
        """Yield the lines of a block, after an empty one unless that was tight."""
        if self._needs_gap:
            yield self._gap()
        for line in lines:
            yield (*self._prefix(), *line)
        self._needs_gap = not is_tight

    def _prefix(self) -> StyledLine:
        spans = []
        for number, indent in enumerate(self._indents):
            text = indent.others if self._used[number] else indent.first
            self._used[number] = True
            spans.append(StyledSpan(text, indent.style))
        return tuple(spans)

    def _gap(self) -> StyledLine:
        """Return an empty line, within what was started before."""
        started = zip(self._indents, self._used, strict=True)
        return tuple(StyledSpan(one.others, one.style) for one, used in started if used)

    def _render_inline(self, token: Token, opener: Token) -> Iterator[StyledLine]:
        is_heading = opener.type == "heading_open"
        style = SpanStyle.HEADING if is_heading else SpanStyle.PLAIN
        spans = [*_inline_spans(token.children or (), style)]
        lines = (
            line
            for part in _split_at_breaks(spans)
            for line in wrap_spans(part, self._room())
        )
        yield from self._emit(lines, is_tight=opener.hidden)

    def _code(self, token: Token) -> Iterator[StyledLine]:
        code = sanitize(token.content).expandtabs(_TAB_WIDTH).rstrip("\n")
        language = token.info.strip().partition(" ")[0]
        for pieces in split_code(code.split("\n"), language):
            spans = (
                StyledSpan(sanitize(text), _CODE_STYLES.get(kind, SpanStyle.CODE))
                for text, kind in pieces
            )
            yield (StyledSpan("  "), *spans)

    def _table(self, tokens: Sequence[Token]) -> Iterator[StyledLine]:
        rows: list[list[list[StyledSpan]]] = []
        right: set[int] = set()
        for number, token in enumerate(tokens):
            if token.type == "tr_open":
                rows.append([])
            elif token.type == "inline":
                opener = tokens[number - 1]
                is_header = opener.type == "th_open"
                if is_header and opener.attrs.get("style") == "text-align:right":
                    right.add(len(rows[-1]))
                style = SpanStyle.STRONG if is_header else SpanStyle.PLAIN
                rows[-1].append([*_inline_spans(token.children or (), style)])
        widths = _column_widths(rows, self._room())
        if widths is None:
            first, last = tokens[0].map or (0, 0)
            written = "\n".join(self._source_lines[first:last])
            return _as_written(written, self._room())
        return _table_lines(rows, widths, right)


def _inline_spans(tokens: Sequence[Token], style: SpanStyle) -> Iterator[StyledSpan]:
    styles = [style]
    links: list[str] = []
    shown = ""
    """The text of the link so far."""
    for token in tokens:
        kind, _, end = token.type.rpartition("_")
        if kind in _INLINE_STYLES and end == "open":
            # Bold within a heading, or within bold, looks the same.
            is_plain = styles[-1] is SpanStyle.PLAIN
            styles.append(_INLINE_STYLES[kind] if is_plain else styles[-1])
        elif kind in _INLINE_STYLES:
            styles.pop()
        elif token.type == "s_open" and styles[-1] is SpanStyle.PLAIN:
            styles.append(SpanStyle.STRUCK)
        elif token.type == "s_close" and styles[-1] is SpanStyle.STRUCK:
            styles.pop()
        elif token.type == "link_open":
            links.append(str(token.attrs.get("href", "")))
            shown = ""
        elif token.type == "link_close":
            url = links.pop()
            if url.removeprefix("mailto:") != shown:
                yield StyledSpan(f" ({_one_line(url)})", SpanStyle.META)
        elif token.type in {"softbreak", "hardbreak"}:
            yield StyledSpan("\n", styles[-1])
        else:
            span = _leaf_span(token, styles[-1])
            shown += span.text
            yield span


def _leaf_span(token: Token, style: SpanStyle) -> StyledSpan:
    if token.type == "code_inline":
        is_struck = style is SpanStyle.STRUCK
        return StyledSpan(
            _one_line(token.content), style if is_struck else SpanStyle.CODE
        )
    if token.type == "image":
        source = str(token.attrs.get("src", ""))
        return StyledSpan(f"[image: {_one_line(token.content or source)}]", style)
    if token.type in {"s_open", "s_close"}:
        return StyledSpan("~~", style)  # within bold text or a heading
    return StyledSpan(_one_line(token.content), style)


def _one_line(text: str) -> str:
    return sanitize(text).replace("\n", " ").expandtabs(_TAB_WIDTH)


def _split_at_breaks(spans: Sequence[StyledSpan]) -> Iterator[list[StyledSpan]]:
    line: list[StyledSpan] = []
    for span in spans:
        if span.text == "\n":
            yield line
            line = []
        else:
            line.append(span)
    yield line


def _column_widths(
    rows: Sequence[Sequence[Sequence[StyledSpan]]], room: int
) -> list[int] | None:
    """Return the widths of columns; none if there is not enough room for a table."""
    count = max(map(len, rows), default=0)
    widths = [1] * count
    for row in rows:
        for number, cell in enumerate(row):
            widths[number] = max(widths[number], _cell_width(cell))
    room -= 3 * (count - 1)
    if not count or room < _MIN_COLUMN_WIDTH * count:
        return None
    while sum(widths) > room:
        widest = max(range(count), key=lambda number: widths[number])
        others = sorted(widths)[-2] if count > 1 else 0
        excess = sum(widths) - room
        step = max(min(widths[widest] - others, excess), 1)
        widths[widest] -= step
    return widths


def _cell_width(cell: Sequence[StyledSpan]) -> int:
    return sum(display_width(span.text) for span in cell)


def _table_lines(
    rows: Sequence[Sequence[Sequence[StyledSpan]]],
    widths: Sequence[int],
    right_aligned: set[int],
) -> Iterator[StyledLine]:
    bar = StyledSpan(" │ ", SpanStyle.META)
    for number, row in enumerate(rows):
        cells = [
            [*wrap_spans([one for one in cell if one.text], width)] or [()]
            for cell, width in zip(row, widths, strict=False)
        ]
        for height in range(max(map(len, cells), default=0)):
            line: list[StyledSpan] = []
            for column, width in enumerate(widths):
                part = cells[column][height : height + 1] if column < len(cells) else []
                cell = [*_padded(part, width)]
                if column in right_aligned and len(cell) > 1:
                    cell = [cell[-1], *cell[:-1]] if not cell[-1].text.strip() else cell
                line += [*([bar] if column else ()), *cell]
            yield tuple(line)
        if not number:
            rule = "─┼─".join("─" * width for width in widths)
            yield (StyledSpan(rule, SpanStyle.META),)


def _padded(lines: Sequence[StyledLine], width: int) -> Iterator[StyledSpan]:
    """Yield a line of a cell in its width; a word that is too long is cut."""
    left = width
    for span in lines[0] if lines else ():
        text = truncate_end(span.text, left)
        left -= display_width(text)
        yield span._replace(text=text)
    if left > 0:
        yield StyledSpan(" " * left)
