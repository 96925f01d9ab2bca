"""When an archive was verified and what that found, in a sentence."""

from __future__ import annotations

from bygones.model.verified import Verified
from bygones.render.figures import several, size

__all__ = ["verified_words"]


def verified_words(found: Verified | None, when: str) -> str:
    """Return what is known of the last verification; ``when`` tells how long ago."""
    if found is None:
        return "never: bygones verify reads every byte"
    deep = " and the index equal to a rebuild" if found.is_deep else ""
    told = f"{several(found.sources, 'file')}, {size(found.bytes)}"
    if not found.is_sound:
        damages = several(max(found.damages, 1), "damage")
        return f"{when}: {damages} in {told}; bygones verify tells where"
    since = f"; {size(found.since)} came since" if found.since else ""
    return f"{when}: {told} sound{deep}{since}"
