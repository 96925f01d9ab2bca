"""Changes of a file: lines that came and went, with the words that differ marked."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby

from bygones.model.tools import PatchHunk
from bygones.render.html.markup import Html, escaped, text
from bygones.render.safe import safe

__all__ = ["diff"]

_WORD = re.compile(r"\w+|\s+|.", re.DOTALL)
_LONGEST = 400
"""Signs of a line beyond which its words are not compared."""
_ALIKE = 0.35
"""The share of a line that must stay for the rest of it to be marked."""


def diff(hunks: Sequence[PatchHunk]) -> Html:
    """Return hunks as one block of lines."""
    parts = [part for hunk in hunks for part in _hunk(hunk)]
    return Html(f'<pre class="diff">{"".join(parts)}</pre>') if parts else Html("")


def _hunk(hunk: PatchHunk) -> Iterator[str]:
    if hunk.old_start or hunk.new_start:
        yield f"<i>@@ line {max(hunk.new_start, 1)} @@</i>"
    gone: list[str] = []
    for sign, run in groupby(hunk.lines, key=lambda line: line[:1]):
        lines = list(run)
        if sign == "-":
            gone = lines
            continue
        if sign == "+":
            yield from _replaced(gone, lines)
        else:
            yield from _replaced(gone, [])
            # Without a sign, a line only says something about the file.
            yield f"<span>{text(chr(10).join(lines))}</span>"
        gone = []
    yield from _replaced(gone, [])


def _replaced(gone: Sequence[str], come: Sequence[str]) -> Iterator[str]:
    """Yield lines that went, then those that came in their place."""
    if len(gone) == len(come):
        pairs = [_pair(old, new) for old, new in zip(gone, come, strict=True)]
        yield from (f"<del>{old}</del>" for old, _ in pairs)
        yield from (f"<ins>{new}</ins>" for _, new in pairs)
        return
    yield from (f"<del>{text(line)}</del>" for line in gone)
    yield from (f"<ins>{text(line)}</ins>" for line in come)


def _pair(old: str, new: str) -> tuple[str, str]:
    """Return two lines with the words between their same beginning and end marked."""
    old, new = safe(old), safe(new)
    if max(len(old), len(new)) > _LONGEST:
        return escaped(old), escaped(new)
    before, after = _WORD.findall(old[1:]), _WORD.findall(new[1:])
    head = 0
    shorter = min(len(before), len(after))
    while head < shorter and before[head] == after[head]:
        head += 1
    tail = 0
    while tail < shorter - head and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    same = sum(map(len, (*before[:head], *(before[-tail:] if tail else ()))))
    if same < _ALIKE * max(len(old), len(new)):
        return escaped(old), escaped(new)
    return _marked(old[:1], before, head, tail), _marked(new[:1], after, head, tail)


def _marked(sign: str, line: Sequence[str], head: int, tail: int) -> str:
    end = len(line) - tail
    first, middle, last = line[:head], line[head:end], line[end:]
    marked = f"<b>{escaped(''.join(middle))}</b>" if middle else ""
    return f"{escaped(sign)}{escaped(''.join(first))}{marked}{escaped(''.join(last))}"
