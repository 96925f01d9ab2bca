"""Diffs as HTML: unified or side by side, with line numbers and highlighted code."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby, zip_longest

from msgspec import Struct

from bygones.model.outcomes import PatchHunk
from bygones.render.html.markup import (
    CodePiece,
    Html,
    escape_line,
    render_pieces,
    split_code,
)
from bygones.render.text.primitives import sanitize

_WORD = re.compile(r"\w+|\s+|.", re.DOTALL)
_MAX_COMPARED_LENGTH = 400
"""Words of longer lines are not compared."""
_MIN_COMMON_SHARE = 0.35
"""If less of a line is unchanged, changed words are not marked."""

Mark = tuple[int, int]
"""Start and stop of the characters of a line that differ."""


def render_diff(
    hunks: Sequence[PatchHunk], language: str = "", *, has_colors: bool = True
) -> Html:
    """Render a unified diff.

    Numbers of lines are attributes that a style sheet shows, so they are not copied with
    the text. ``language`` is a name or file name extension that Pygments knows. Without
    colors, the code is not highlighted, and an attribute says so.
    """
    name = language if has_colors else ""
    parts = [part for hunk in hunks for part in _render_unified(hunk, name)]
    is_plain = " data-plain" if language and not has_colors else ""
    return (
        Html(f'<pre class="diff"{is_plain}>{"".join(parts)}</pre>')
        if parts
        else Html("")
    )


def render_split_diff(hunks: Sequence[PatchHunk], language: str = "") -> Html:
    """Render a diff side by side; lines that replace others are beside them."""
    rows = [row for hunk in hunks for row in _render_split(hunk, language)]
    if not rows:
        return Html("")
    head = "".join(
        f'<th scope="col">{name}</th>' for name in ("Line", "Before", "Line", "After")
    )
    return Html(
        '<div class="table" tabindex="0" role="region" aria-label="Changes">'
        f'<table class="split"><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


class _DiffLine(Struct, frozen=True):
    """A line of a diff; a number is 0 if it is not known."""

    marker: str
    pieces: Sequence[CodePiece]
    old_number: int = 0
    new_number: int = 0

    def render(self, marked: Mark = (0, 0)) -> str:
        return render_pieces(self.pieces, marked)

    @property
    def text(self) -> str:
        return "".join(text for text, _ in self.pieces)


class _LineGroup(Struct, frozen=True):
    """Unchanged lines, or removed lines with those that replace them."""

    unchanged: Sequence[_DiffLine] = ()
    removed: Sequence[_DiffLine] = ()
    added: Sequence[_DiffLine] = ()


def _group_lines(hunk: PatchHunk, language: str) -> Iterator[_LineGroup]:
    removed: list[_DiffLine] = []
    for marker, group in groupby(
        _number_lines(hunk, language), key=lambda line: line.marker
    ):
        lines = list(group)
        if marker == "-":
            removed = lines
        elif marker == "+":
            yield _LineGroup(removed=removed, added=lines)
            removed = []
        else:
            if removed:
                yield _LineGroup(removed=removed)
            yield _LineGroup(unchanged=lines)
            removed = []
    if removed:
        yield _LineGroup(removed=removed)


def _number_lines(hunk: PatchHunk, language: str) -> Iterator[_DiffLine]:
    """Yield the lines of a hunk with their numbers in the file before and after."""
    texts = [sanitize(line[1:]).replace("\n", " ") for line in hunk.lines]
    markers = [line[:1] for line in hunk.lines]
    code = _highlight_sides(markers, texts, language)
    is_numbered = bool(hunk.old_start or hunk.new_start)
    old, new = hunk.old_start, max(hunk.new_start, 1)
    for marker, pieces in zip(markers, code, strict=True):
        is_old, is_new = marker not in {"+", "\\"}, marker not in {"-", "\\"}
        yield _DiffLine(
            marker,
            pieces,
            old if is_numbered and is_old else 0,
            new if is_numbered and is_new else 0,
        )
        old += is_old
        new += is_new


def _highlight_sides(
    markers: Sequence[str], texts: Sequence[str], language: str
) -> list[Sequence[CodePiece]]:
    """Return the highlighted lines; each side is highlighted on its own."""
    found: list[Sequence[CodePiece]] = [((text, ""),) for text in texts]
    sides = [side for side in ("-", "+") if side in markers] or ["+"]
    for side in sides if language and texts else ():
        at = [n for n, marker in enumerate(markers) if marker in {"", " ", side}]
        code = split_code([texts[n] for n in at], language)
        for number, pieces in zip(at, code, strict=True):
            found[number] = pieces
    return found


def _render_unified(hunk: PatchHunk, language: str) -> Iterator[str]:
    if hunk.old_start or hunk.new_start:
        yield f"<i>{_hunk_heading(hunk)}</i>"
    for group in _group_lines(hunk, language):
        for line in group.unchanged:
            yield _unified_line("i" if line.marker == "\\" else "span", line)
        old_marks, new_marks = _mark_changes(group.removed, group.added)
        for line, marked in zip(group.removed, old_marks, strict=True):
            yield _unified_line("del", line, marked)
        for line, marked in zip(group.added, new_marks, strict=True):
            yield _unified_line("ins", line, marked)


def _hunk_heading(hunk: PatchHunk) -> Html:
    return escape_line(f"@@ line {max(hunk.new_start, 1)} @@")


def _unified_line(name: str, line: _DiffLine, marked: Mark = (0, 0)) -> str:
    old = f' data-old="{line.old_number}"' if line.old_number else ""
    new = f' data-new="{line.new_number}"' if line.new_number else ""
    marker = escape_line(line.marker) or " "
    return f"<{name}{old}{new}>{marker}{line.render(marked)}</{name}>"


def _render_split(hunk: PatchHunk, language: str) -> Iterator[str]:
    if hunk.old_start or hunk.new_start:
        yield f'<tr class="hunk"><td colspan="4">{_hunk_heading(hunk)}</td></tr>'
    for group in _group_lines(hunk, language):
        for line in group.unchanged:
            if line.marker == "\\":
                yield f'<tr class="hunk"><td colspan="4">{line.render()}</td></tr>'
            else:
                text = line.render()
                yield _split_row(
                    _split_cells("", line.old_number, text),
                    _split_cells("", line.new_number, text),
                )
        old_marks, new_marks = _mark_changes(group.removed, group.added)
        before = [
            _split_cells("removed", line.old_number, line.render(marked))
            for line, marked in zip(group.removed, old_marks, strict=True)
        ]
        after = [
            _split_cells("added", line.new_number, line.render(marked))
            for line, marked in zip(group.added, new_marks, strict=True)
        ]
        for old, new in zip_longest(before, after, fillvalue=_EMPTY_CELLS):
            yield _split_row(old, new)


_EMPTY_CELLS = '<td class="number"></td><td class="none"></td>'


def _split_row(old: str, new: str) -> str:
    return f"<tr>{old}{new}</tr>"


def _split_cells(kind: str, number: int, text: str) -> str:
    css_class = f' class="{kind}"' if kind else ""
    element = {"removed": "del", "added": "ins"}.get(kind, "span")
    return (
        f'<td class="number">{number or ""}</td>'
        f"<td{css_class}><pre><{element}>{text}</{element}></pre></td>"
    )


def _mark_changes(
    removed: Sequence[_DiffLine], added: Sequence[_DiffLine]
) -> tuple[list[Mark], list[Mark]]:
    """Return what differs in lines that replace the same number of lines."""
    if len(removed) != len(added):
        return [(0, 0)] * len(removed), [(0, 0)] * len(added)
    pairs = [
        _compare_words(old.text, new.text)
        for old, new in zip(removed, added, strict=True)
    ]
    return [old for old, _ in pairs], [new for _, new in pairs]


def _compare_words(old: str, new: str) -> tuple[Mark, Mark]:
    """Return the words between the common start and end of two lines."""
    nothing = (0, 0), (0, 0)
    longest = max(len(old), len(new))
    if longest > _MAX_COMPARED_LENGTH:
        return nothing
    before, after = _WORD.findall(old), _WORD.findall(new)
    head = 0
    shorter = min(len(before), len(after))
    while head < shorter and before[head] == after[head]:
        head += 1
    tail = 0
    while tail < shorter - head and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    start = sum(map(len, before[:head]))
    rest = sum(map(len, before[len(before) - tail :]))
    if start + rest < _MIN_COMMON_SHARE * (longest + 1):
        return nothing
    return (start, len(old) - rest), (start, len(new) - rest)
