"""Erasing on purpose, so that no byte is left and nothing comes back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from bygones.ingest.filling import rebuild_in
from bygones.ingest.report import Progress, Silence
from bygones.model.ids import SessionId
from bygones.store.chunks import Chunks, Kept
from bygones.store.derived import Derived
from bygones.store.lock import writing
from bygones.store.purged import begin_erasing, end_erasing
from bygones.store.vault import Vault
from bygones.upkeep.belongings import belongings
from bygones.upkeep.verified import forget_verified

__all__ = ["Purged", "purge"]


class Purged(Struct, kw_only=True):
    """What was erased."""

    sources: int = 0
    bytes: int = 0
    is_packed: bool = True
    """Whether no trace is left; a reader may keep old pages for as long as it reads."""


def purge(
    folder: Path,
    sources: Iterable[Kept],
    *,
    sessions: Sequence[SessionId] = (),
    progress: Progress | None = None,
    wait: float = 5.0,
) -> Purged:
    """Erase sources from the archive and make the index anew without them.

    Freed pages are overwritten, the database is packed and its log emptied. A file
    that was purged is refused when it is met again, and so is what belongs to one of
    the ``sessions``: what came to them since somebody looked goes as well. If this is
    stopped, the next purge finishes it, whatever it is of.
    """
    done = Purged()
    with writing(folder, wait=wait), Vault(folder, write=True) as vault:
        chunks = vault.chunks
        gone = _meant(vault, sources, sessions)
        if gone:
            # First, so that neither tells of what is gone if this is stopped. A copy
            # from before a migration has the same bytes.
            for copy in folder.glob(f"{chunks.path.name}.version-*"):
                copy.unlink()
            forget_verified(folder)
            with chunks.db:  # so that who finds no index knows why
                begin_erasing(chunks.db, ())
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


def _meant(
    vault: Vault, sources: Iterable[Kept], sessions: Sequence[SessionId]
) -> list[Kept]:
    """Return what is to be erased as it is now, by names.

    Others may have written since somebody looked: what is moved has another name, and
    what is erased has left its number to another file.
    """
    everything = list(vault.chunks.sources())
    names = {(kept.home, kept.path) for kept in sources}
    if sessions and vault.index is not None:
        own = belongings(everything, Derived(vault.index), sessions)
        names.update((kept.home, kept.path) for kept in own)
    return [kept for kept in everything if (kept.home, kept.path) in names]


def _forget_names(chunks: Chunks) -> bool:
    with chunks.db:
        end_erasing(chunks.db)
    return chunks.empty_log()
