"""What one copy of an archive has that another has not."""

from __future__ import annotations

from contextlib import suppress

from msgspec import Struct

from bygones.errors import ArchiveDamaged
from bygones.model.ids import SessionId
from bygones.store.annotations import annotation_times
from bygones.store.chunks import Chunks, Kept
from bygones.store.connect import reading_of
from bygones.store.press import digest
from bygones.store.purged import lasting_signs, purged_signs, session_sign

__all__ = ["Lack", "lacking"]


class Lack(Struct, frozen=True):
    """How much a copy would lose if another were put into its place."""

    files: int = 0
    annotations: int = 0
    purged: int = 0
    """Signs of what was erased there and would come back."""

    def __bool__(self) -> bool:
        """Whether it is anything."""
        return bool(self.files or self.annotations or self.purged)


def lacking(ours: Chunks, theirs: Chunks) -> Lack:
    """Return what ``theirs`` has that ``ours`` has not; both are of one archive.

    What was purged from ours is not missed there, nor is an annotation that was
    removed. Their chunks are known by their hashes, so that none of them is opened.
    """
    with reading_of(theirs.path):
        signs = lasting_signs(ours.db)
        files = sum(
            not (purged_signs(kept.source) & signs or _has(ours, theirs, kept))
            for kept in theirs.sources()
        )
        known = annotation_times(ours.db)
        annotations = sum(
            session_sign(SessionId(session)) not in signs
            and known.get((session, sign), -1) < added
            for (session, sign), added in annotation_times(theirs.db).items()
        )
        return Lack(files, annotations, len(lasting_signs(theirs.db) - signs))


def _has(ours: Chunks, theirs: Chunks, kept: Kept) -> bool:
    """Whether we have all bytes of a source, at its place or where it was moved to."""
    found = (ours.find(kept.home, kept.path), ours.source(kept.number))
    return any(
        all(
            _has_bytes(ours, number, theirs, (kept.number, generation))
            for generation in range(kept.generation + 1)
        )
        for number in {one.number for one in found if one is not None}
    )


def _has_bytes(
    ours: Chunks, number: int, theirs: Chunks, place: tuple[int, int]
) -> bool:
    own = (number, place[1])
    known = set(ours.hashes(*own))
    for start, stop, sign in theirs.hashes(*place):
        # The last one may have given way to a longer one, which begins as it did.
        is_known = (start, stop, sign) in known
        if not is_known and digest(ours.read(*own, start, stop - start)) != sign:
            return False
    rest = b""
    with suppress(ArchiveDamaged):  # nobody can lose what nobody can read
        rest = theirs.fragment(*place)
    start = theirs.kept_of(*place)
    beginning = ours.read(*own, start, len(rest)) + ours.fragment(*own)
    return beginning.startswith(rest)
