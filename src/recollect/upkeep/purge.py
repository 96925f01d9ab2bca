"""Erasing on purpose, so that no byte is left and nothing comes back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from recollect.ingest.filling import rebuild_in
from recollect.ingest.report import Progress, Silence
from recollect.model.ids import SessionId
from recollect.store.chunks import Chunks
from recollect.store.lock import writing
from recollect.store.purged import begin_erasing, end_erasing
from recollect.store.vault import Vault
from recollect.upkeep.verified import forget_verified

__all__ = ["Purged", "purge"]


class Purged(Struct, kw_only=True):
    """What was erased."""

    sources: int = 0
    bytes: int = 0
    is_packed: bool = True
    """Whether no trace is left; a reader may keep old pages for as long as it reads."""


def purge(
    folder: Path,
    numbers: Sequence[int],
    *,
    sessions: Sequence[SessionId] = (),
    progress: Progress | None = None,
    wait: float = 5.0,
) -> Purged:
    """Erase sources from the archive and make the index anew without them.

    Freed pages are overwritten, the database is packed and its log emptied. A file
    that was purged is refused when it is met again, and so is what belongs to one of
    the ``sessions``. If this is stopped, the next purge finishes it, whatever it is of.
    """
    done = Purged()
    with writing(folder, wait=wait), Vault(folder, write=True) as vault:
        chunks = vault.chunks
        wanted = set(numbers)
        gone = [kept for kept in chunks.sources() if kept.number in wanted]
        if gone:
            # First, so that neither tells of what is gone if this is stopped. A copy
            # from before a migration has the same bytes.
            for copy in folder.glob(f"{chunks.path.name}.version-*"):
                copy.unlink()
            forget_verified(folder)
            vault.drop_index()
            with chunks.db:
                begin_erasing(chunks.db, sessions)
                for kept in gone:
                    done.sources += 1
                    done.bytes += kept.kept
                    chunks.erase(kept)
        done.is_packed = chunks.pack()
        if vault.index is None:
            rebuild_in(vault, progress or Silence())
        if done.is_packed:
            done.is_packed = _forget_names(chunks)
    return done


def _forget_names(chunks: Chunks) -> bool:
    with chunks.db:
        end_erasing(chunks.db)
    return chunks.empty_log()
