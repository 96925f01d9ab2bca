"""Differences between texts, in lines.

The lines of a text are the parts between newlines, so a text that ends with a newline
has an empty last line, and joining the lines gives the text again.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher

from msgspec import Struct

from bygones.model.outcomes import PatchHunk

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_MAX_MATRIX = 40_000
"""Blocks without a unique line are compared line by line up to this size."""


_MAX_LOOK_AHEAD = 6
_MAX_PAIRED = 200
"""Lines of a block that are compared with others; a longer block was rewritten."""
_MIN_SIMILARITY = 0.7


class LineChange(Struct, frozen=True, gc=False):
    """Lines that replace others; `start` counts from 0 in the text before."""

    start: int
    removed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()


Block = tuple[int, int, int, int]
"""Start and stop of removed lines, and of the lines added in their place."""


def diff_lines(old: Sequence[str], new: Sequence[str]) -> list[Block]:
    """Return the blocks in which two sequences of lines differ, in order.

    Lines that are unique on both sides are anchors (a patience diff), so the cost is
    about linear, and moved or repeated lines do not pull blocks apart. The empty last
    lines of two texts are always a pair: they are not blank lines.
    """
    blocks: list[Block] = []
    last = int(bool(old and new) and old[-1] == new[-1] == "")
    pending = [(0, len(old) - last, 0, len(new) - last)]
    while pending:
        block = _trim(old, new, pending.pop())
        old_start, old_stop, new_start, new_stop = block
        if old_start == old_stop and new_start == new_stop:
            continue
        old_count, new_count = old_stop - old_start, new_stop - new_start
        if not old_count or not new_count or old_count == new_count == 1:
            blocks.append(block)
            continue
        anchors = _find_anchors(old, new, block)
        if anchors:
            pending += reversed(list(_split_at(block, anchors)))
        elif old_count * new_count <= _MAX_MATRIX:
            blocks += _compare_small(old, new, block)
        else:
            blocks.append(block)
    return blocks


def _trim(old: Sequence[str], new: Sequence[str], block: Block) -> Block:
    """Return a block without equal lines at its start and end."""
    old_start, old_stop, new_start, new_stop = block
    while (
        old_start < old_stop
        and new_start < new_stop
        and old[old_start] == new[new_start]
    ):
        old_start += 1
        new_start += 1
    while (
        old_start < old_stop
        and new_start < new_stop
        and old[old_stop - 1] == new[new_stop - 1]
    ):
        old_stop -= 1
        new_stop -= 1
    return old_start, old_stop, new_start, new_stop


def _find_anchors(
    old: Sequence[str], new: Sequence[str], block: Block
) -> list[tuple[int, int]]:
    """Return pairs of equal lines that are unique on both sides, in increasing order."""
    old_start, old_stop, new_start, new_stop = block
    old_counts = Counter(old[old_start:old_stop])
    new_counts = Counter(new[new_start:new_stop])
    positions = {
        line: at
        for at, line in enumerate(new[new_start:new_stop], new_start)
        if new_counts[line] == 1 and old_counts.get(line) == 1
    }
    pairs = [
        (at, positions[line])
        for at, line in enumerate(old[old_start:old_stop], old_start)
        if line in positions
    ]
    return _longest_increasing(pairs)


def _longest_increasing(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest subsequence whose second numbers increase."""
    tails: list[int] = []
    tail_indexes: list[int] = []
    previous: list[int] = []
    for index, (_, position) in enumerate(pairs):
        place = bisect_left(tails, position)
        previous.append(tail_indexes[place - 1] if place else -1)
        if place == len(tails):
            tails.append(position)
            tail_indexes.append(index)
        else:
            tails[place] = position
            tail_indexes[place] = index
    found = []
    index = tail_indexes[-1] if tail_indexes else -1
    while index >= 0:
        found.append(pairs[index])
        index = previous[index]
    return found[::-1]


def _split_at(block: Block, anchors: Iterable[tuple[int, int]]) -> Iterator[Block]:
    old_start, old_stop, new_start, new_stop = block
    for old_at, new_at in anchors:
        yield old_start, old_at, new_start, new_at
        old_start, new_start = old_at + 1, new_at + 1
    yield old_start, old_stop, new_start, new_stop


def _compare_small(
    old: Sequence[str], new: Sequence[str], block: Block
) -> Iterator[Block]:
    old_start, old_stop, new_start, new_stop = block
    matcher = SequenceMatcher(
        None, old[old_start:old_stop], new[new_start:new_stop], autojunk=False
    )
    for tag, a, b, c, d in matcher.get_opcodes():
        if tag != "equal":
            yield old_start + a, old_start + b, new_start + c, new_start + d


def diff_texts(old: str, new: str) -> tuple[LineChange, ...]:
    """Return the changes that make one text of another."""
    if old == new:
        return ()
    return changes_between(old.split("\n"), new.split("\n"))


def changes_between(
    old: Sequence[str], new: Sequence[str], offset: int = 0
) -> tuple[LineChange, ...]:
    """Return the changes between lines that start at a line of a text."""
    return tuple(
        LineChange(offset + a, tuple(old[a:b]), tuple(new[c:d]))
        for a, b, c, d in diff_lines(old, new)
    )


def apply_changes(lines: list[str], changes: Sequence[LineChange]) -> None:
    """Change lines in place; all changes refer to the lines before."""
    for change in reversed(changes):
        stop = change.start + len(change.removed)
        lines[change.start : stop] = change.added


def locate_replacement(
    text: str, offset: int, length: int, new: str
) -> tuple[LineChange, ...]:
    """Return the changes of replacing a part of a text."""
    start = text.rfind("\n", 0, offset) + 1
    stop = text.find("\n", offset + length)
    stop = len(text) if stop < 0 else stop
    old_lines = text[start:stop].split("\n")
    new_lines = (text[start:offset] + new + text[offset + length : stop]).split("\n")
    return changes_between(old_lines, new_lines, text.count("\n", 0, start))


def pair_similar(old: Sequence[str], new: Sequence[str]) -> dict[int, int]:
    """Return for lines of a changed block the lines that they were made from.

    Only lines that have most of their characters in common are paired, in order.
    """
    pairs: dict[int, int] = {}
    first = 0
    for at, line in enumerate(new[:_MAX_PAIRED]):
        window = range(first, min(first + _MAX_LOOK_AHEAD, len(old)))
        scored = [(_similarity(old[other], line), -other) for other in window]
        score, other = max(scored, default=(0.0, 0))
        if score >= _MIN_SIMILARITY:
            pairs[at] = -other
            first = -other + 1
    return pairs


def _similarity(old: str, new: str) -> float:
    a, b = old.strip(), new.strip()
    if not a or not b:
        return 0.0
    if a == b:
        return 1.0
    if min(len(a), len(b)) / max(len(a), len(b)) < _MIN_SIMILARITY / 2:
        return 0.0
    matcher = SequenceMatcher(None, a[:160], b[:160], autojunk=False)
    if matcher.quick_ratio() < _MIN_SIMILARITY:
        return 0.0
    return matcher.ratio()


_CONTEXT = 3


def build_patch(old: str | None, new: str | None) -> list[PatchHunk]:
    """Return the hunks of a unified diff; no text means that there is no file."""
    before, after = _file_lines(old), _file_lines(new)
    groups: list[list[Block]] = []
    for block in diff_lines(before, after):
        if groups and block[0] - groups[-1][-1][1] <= 2 * _CONTEXT:
            groups[-1].append(block)
        else:
            groups.append([block])
    return [_build_hunk(before, after, group) for group in groups]


def _file_lines(text: str | None) -> list[str]:
    """Return the lines of a file; a last line without a newline is marked."""
    if not text:
        return []
    lines = text.split("\n")
    if lines[-1] == "":
        return lines[:-1]
    lines[-1] += _NO_NEWLINE
    return lines


_NO_NEWLINE = "\n\\ No newline at end of file"


def _build_hunk(
    old: Sequence[str], new: Sequence[str], blocks: Sequence[Block]
) -> PatchHunk:
    start = max(blocks[0][0] - _CONTEXT, 0)
    stop = min(blocks[-1][1] + _CONTEXT, len(old))
    new_start = blocks[0][2] - (blocks[0][0] - start)
    lines: list[str] = []
    at = start
    for old_start, old_stop, added_start, added_stop in blocks:
        lines += (f" {line}" for line in old[at:old_start])
        lines += (f"-{line}" for line in old[old_start:old_stop])
        lines += (f"+{line}" for line in new[added_start:added_stop])
        at = old_stop
    lines += (f" {line}" for line in old[at:stop])
    new_count = sum(line[0] != "-" for line in lines)
    return PatchHunk(
        old_start=start + 1 if stop > start else start,
        old_lines=stop - start,
        new_start=new_start + 1 if new_count else new_start,
        new_lines=new_count,
        lines=tuple(part for line in lines for part in line.split("\n")),
    )


def quote_name(path: str) -> str:
    """Return a path for the header of a patch, on one line, as git writes it."""
    if not _CONTROL.search(path):
        return path
    text = path.replace("\\", "\\\\").replace('"', '\\"')
    text = _CONTROL.sub(lambda found: "\\" + format(ord(found[0]), "03o"), text)
    return f'"{text}"'


def format_patch(
    hunks: Iterable[PatchHunk], old_name: str, new_name: str
) -> Iterator[str]:
    """Yield the lines of a unified diff."""
    yield f"--- {old_name}"
    yield f"+++ {new_name}"
    for hunk in hunks:
        yield (
            f"@@ -{hunk.old_start},{hunk.old_lines}"
            f" +{hunk.new_start},{hunk.new_lines} @@"
        )
        yield from hunk.lines
