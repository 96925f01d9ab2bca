"""Checking that every byte is what was stored, and that the index tells the truth."""

from __future__ import annotations

import shutil
import tempfile
import time
from datetime import datetime
from pathlib import Path

from bygones.errors import ArchiveDamaged, IndexAwaited
from bygones.ingest.filling import fill
from bygones.ingest.report import Progress, Report, Silence
from bygones.store.chunks import Chunk, Kept
from bygones.store.connect import damage_in, reading_of
from bygones.store.derived import Derived
from bygones.store.dump import dump
from bygones.store.lock import is_held
from bygones.store.rescue import readable
from bygones.store.vault import Vault
from bygones.upkeep.verdict import Damage, Verdict
from bygones.upkeep.verified import note_verified

__all__ = ["verify"]

_LOOKS, _STEP = 50, 0.1
"""How often it is looked whether all is level, and seconds from one to the next."""


def verify(
    folder: Path,
    *,
    deep: bool = False,
    progress: Progress | None = None,
    now: datetime | None = None,
) -> Verdict:
    """Check the hash of every chunk; with ``deep`` also the index against a rebuild.

    Damage does not end it: all that is whole is told from all that is not. Whoever
    says what time it is ``now`` has it noted beside the archive.
    """
    progress = progress or Silence()
    verdict = Verdict(damages=[], gaps=[], differences=[])
    with Vault(folder) as vault:
        verdict.has_index = vault.index is not None and not damage_in(vault.index.db)
        verdict.database = vault.chunks.check()
        _check_sources(vault, verdict, progress)
        with vault.at_once():
            verdict.is_level = _is_level(vault)
        verdict.is_busy = vault.index is None and is_held(folder)
        if deep and verdict.is_sound and vault.index is not None:
            _compare_level(folder, verdict, progress)
        if now is not None:
            verdict.is_noted = note_verified(vault.chunks, verdict, now=now)
    return verdict


def _check_sources(vault: Vault, verdict: Verdict, progress: Progress) -> None:
    sources, lost = readable(vault.chunks)
    for number in lost:
        verdict.sources += 1
        place = f"source {number}"
        verdict.damages.append(Damage(place, 0, 0, 0, "what it was cannot be read"))
    progress.begin("verifying", sum(kept.kept for kept in sources))
    for kept in sources:
        verdict.sources += 1
        for generation in range(kept.generation + 1):
            end = 0
            try:
                with vault.chunks.at_once():
                    for chunk, reason in vault.chunks.checked(kept.number, generation):
                        _note_chunk(verdict, kept, chunk, end=end, reason=reason)
                        end = chunk.stop
                        progress.advance(chunk.stop - chunk.start)
                    expected = vault.chunks.kept_of(kept.number, generation)
                    if end != expected:
                        gap = Damage(
                            kept.id, generation, end, expected, "the end is missing"
                        )
                        verdict.gaps.append(gap)
                    vault.chunks.fragment(kept.number, generation)
            except ArchiveDamaged as error:
                bad = Damage(kept.id, generation, end, kept.size, error.detail)
                verdict.damages.append(bad)
    progress.end()


def _note_chunk(
    verdict: Verdict, kept: Kept, chunk: Chunk, *, end: int, reason: str
) -> None:
    verdict.chunks += 1
    verdict.bytes += chunk.stop - chunk.start
    place = (kept.id, chunk.generation)
    if chunk.start != end:
        gap = Damage(*place, end, chunk.start, "no chunk holds these bytes")
        verdict.gaps.append(gap)
    if reason:
        verdict.damages.append(Damage(*place, chunk.start, chunk.stop, reason))


def _is_level(vault: Vault) -> bool:
    """Whether no ingestion was stopped before it came to the index."""
    index = vault.index
    if index is None:
        return True
    try:
        with reading_of(vault.folder):
            seen = index.seen()
            behind = (
                kept.number not in seen or seen[kept.number].lags(kept)
                for kept in vault.chunks.sources()
            )
            return not any(behind) and not Derived(index).dirty()
    except ArchiveDamaged:
        return True  # which a comparison tells better


def _compare_level(folder: Path, verdict: Verdict, progress: Progress) -> None:
    """Compare the index as it is when it has seen all; that may take some looks.

    Who writes does so to the archive first, to the index then and to the words last.
    """
    idle = 0
    for _ in range(_LOOKS):
        is_free = not is_held(folder)
        try:
            with Vault(folder) as vault:
                found = _compare(vault, progress)
        except IndexAwaited:
            break
        verdict.is_level = verdict.is_compared = found is not None
        if found is not None:
            verdict.differences = found
            return
        idle += is_free and not is_held(folder)
        if idle > 1:  # nobody is about to see to it
            return
        time.sleep(_STEP)
    verdict.is_busy = True


def _compare(vault: Vault, progress: Progress) -> list[str] | None:
    """Return the tables in which the index is not what a rebuild of it gives.

    Nothing is returned where it has not seen all of the archive.
    """
    # A reader of the copy may look for news once more while it is removed.
    with tempfile.TemporaryDirectory(
        prefix="bygones-", ignore_cleanup_errors=True
    ) as scratch:
        copy = Path(scratch) / "archive"
        copy.mkdir(mode=0o700)
        try:
            with reading_of(vault.folder), vault.in_step() as is_level:
                if not is_level or not _is_level(vault):
                    return None
                mine = dump(vault)
                vault.chunks.backup(copy / vault.chunks.path.name)
        except ArchiveDamaged:
            return ["everything"]
        with Vault(copy, write=True) as other:
            other.begin_index()
            fill(other, Report(problems=[]), progress)
            theirs = dump(other)
        shutil.rmtree(copy)
    return [table for table in sorted(mine) if mine[table] != theirs[table]]
