"""What tools and commands printed: the beginning at once, the rest on demand."""

from __future__ import annotations

import re
from collections.abc import Iterable

from bygones.model.blocks import Block, Image, Text, ToolResult
from bygones.render.figures import several, size
from bygones.render.html.markup import NOTHING, Html, fold, joined, tag, text, words
from bygones.render.pictures import kind_of_coded
from bygones.render.words import block_note

__all__ = ["MOST", "output", "picture", "pictures", "result", "unheld"]

_LINES = 24
_SIGNS = 3_000
_SLACK = 8
"""Lines that are shown rather than hidden behind a fold of their own."""
MOST = 1_000_000
"""Signs of one output that a page holds at most."""
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}\Z")
_LARGEST = 4_000_000


def output(value: str, kind: str = "output", most: int = MOST) -> Html:
    """Return a text that was printed; a long one folds after its first lines.

    Of what folds a page holds ``most`` signs: :func:`unheld` stands for more, if that
    is less than any page holds.
    """
    value = value.strip("\n")
    if not value.strip():
        return NOTHING
    at = _cut(value)
    if at is None:
        return tag("pre", text(value), kind=kind)
    first, rest = value[:at], value[at:].removeprefix("\n")
    count = rest.count("\n") + 1
    told = several(count, "more line") if count > 1 else f"{len(rest):,} more signs"
    shown = tag("pre", text(first), kind=kind)
    if len(rest) > most < MOST:
        return joined((shown, unheld(f"Show {told}")))
    lost = len(rest) - MOST
    if lost > 0:
        rest = f"{rest[:MOST]}\n… {lost:,} more signs"
    folded = fold(words(f"Show {told}"), tag("pre", text(rest), kind=kind), "more")
    return joined((shown, folded))


def unheld(told: str) -> Html:
    """Return what stands for something that the page asks for when it is unfolded."""
    return Html(
        f'<details class="more" data-rest><summary>{words(told)}</summary></details>'
    )


def _cut(value: str) -> int | None:
    """Return where a text is cut, or ``None`` if it is short enough."""
    at = -1
    for _ in range(_LINES):
        at = value.find("\n", at + 1)
        if at < 0:
            return None if len(value) <= 2 * _SIGNS else _SIGNS
        if at > _SIGNS:
            return _SIGNS if len(value) > 2 * _SIGNS else None
    is_close = value.count("\n", at + 1) < _SLACK
    return None if is_close and len(value) <= 2 * _SIGNS else at


def result(
    answer: ToolResult | None, stored: str | None, kind: str, most: int = MOST
) -> Html:
    """Return what a tool answered; a long answer comes from its own file."""
    content = answer.content if answer else None
    if stored is not None:
        return output(stored, kind, most)
    if content is None or isinstance(content, str):
        return output(content or "", kind, most)
    return joined(_block(block, kind, most) for block in content)


def _block(block: Block, kind: str, most: int) -> Html:
    if isinstance(block, Text):
        return output(block.text or "", kind, most)
    return picture(block)


def pictures(blocks: Iterable[Block]) -> Html:
    """Return the blocks that are no text: pictures, and notes on everything else."""
    return joined(picture(block) for block in blocks if not isinstance(block, Text))


def picture(block: Block) -> Html:
    """Return a picture that came with a message; never one that lies elsewhere."""
    note = words(block_note(block))
    if not isinstance(block, Image) or block.source is None:
        return tag("p", note, kind="note") if note else NOTHING
    source = block.source
    coded = "".join((source.data or "").split())
    # Whatever it is called: a browser would show nothing of what is no picture.
    kind = kind_of_coded(coded)
    if not kind or not _BASE64.match(coded):
        return tag("p", note, kind="note")
    if len(coded) > _LARGEST:
        told = f"a picture of {size(len(coded) * 3 // 4)}, too large for this page"
        return tag("p", words(told), kind="note")
    return Html(
        f'<img src="data:{kind};base64,{coded}" alt="{note}" '
        'loading="lazy" decoding="async">'
    )
