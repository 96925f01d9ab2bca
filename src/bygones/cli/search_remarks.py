"""What is said below an answer: how many there are, and what was looked for in vain."""

from __future__ import annotations

from collections.abc import Iterator

from bygones.model.hits import Bound, Found
from bygones.render.figures import several
from bygones.render.remarks import remarks

__all__ = ["answer_remarks"]


def answer_remarks(found: Found, offset: int) -> Iterator[str]:
    """Yield what should be known about an answer."""
    for remark in remarks(found):
        yield f"note: {remark}"
    shown = offset + len(found.sessions)
    if not found.sessions:
        yield "nothing found" if not offset else "nothing more found"
    elif found.total > shown or found.bound:
        told = found.bound.before(several(found.total, "session"))
        told = f"{offset + 1} to {shown} of {told}"
        if len(found.words) > 1 and found.bound is not Bound.ABOUT:
            told += f", {found.complete:,} with all words"
        yield f"{told}; --page shows more" if found.total > shown else told
