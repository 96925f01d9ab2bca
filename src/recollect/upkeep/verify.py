"""Checking that every byte is what was stored, and that the index tells the truth."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from msgspec import Struct

from recollect.ingest.report import Progress, Report, Silence
from recollect.store.dump import dump
from recollect.store.vault import Vault
from recollect.upkeep.rebuild import fill

__all__ = ["Damage", "Verdict", "verify"]


class Damage(Struct, frozen=True):
    """Bytes of a source that are not what was stored."""

    source: str
    generation: int
    start: int
    stop: int
    reason: str


class Verdict(Struct, kw_only=True):
    """What a verification found."""

    sources: int = 0
    chunks: int = 0
    bytes: int = 0
    damages: list[Damage] = []
    gaps: list[Damage] = []
    """Stretches of a source that no chunk holds."""
    database: str = "ok"
    """What SQLite says about the file."""
    differences: list[str] = []
    """Tables in which the index is not what a rebuild gives; only if asked for."""

    @property
    def is_sound(self) -> bool:
        """Whether nothing was found."""
        found = (*self.damages, *self.gaps, *self.differences)
        return not found and self.database == "ok"

    @property
    def whole_sources(self) -> int:
        """How many sources have nothing wrong with them."""
        return self.sources - len({bad.source for bad in (*self.damages, *self.gaps)})


def verify(
    folder: Path, *, deep: bool = False, progress: Progress | None = None
) -> Verdict:
    """Check the hash of every chunk; with ``deep`` also the index against a rebuild.

    Damage does not end it: all that is whole is told from all that is not.
    """
    progress = progress or Silence()
    verdict = Verdict(damages=[], gaps=[], differences=[])
    with Vault(folder) as vault:
        verdict.database = vault.chunks.check()
        _check_chunks(vault, verdict, progress)
        if deep and verdict.is_sound:
            verdict.differences = _compare(vault, progress)
    return verdict


def _check_chunks(vault: Vault, verdict: Verdict, progress: Progress) -> None:
    progress.begin("verifying", vault.chunks.raw_size())
    for kept in vault.chunks.sources():
        verdict.sources += 1
        for generation in range(kept.generation + 1):
            end = 0
            for chunk, damage in vault.chunks.checked(kept.number, generation):
                verdict.chunks += 1
                verdict.bytes += chunk.stop - chunk.start
                place = (kept.id, generation)
                if chunk.start != end:
                    gap = Damage(*place, end, chunk.start, "no chunk holds these bytes")
                    verdict.gaps.append(gap)
                if damage:
                    bad = Damage(*place, chunk.start, chunk.stop, damage)
                    verdict.damages.append(bad)
                end = chunk.stop
                progress.advance(chunk.stop - chunk.start)
            expected = vault.chunks.kept_of(kept.number, generation)
            if end != expected:
                gap = Damage(kept.id, generation, end, expected, "the end is missing")
                verdict.gaps.append(gap)
    progress.end()


def _compare(vault: Vault, progress: Progress) -> list[str]:
    """Return the tables in which the index is not what a rebuild of it gives."""
    if vault.index is None:
        return ["there is no index"]
    with tempfile.TemporaryDirectory(prefix="recollect-") as scratch:
        copy = Path(scratch) / "archive"
        copy.mkdir(mode=0o700)
        vault.chunks.backup(copy / vault.chunks.path.name)
        with Vault(copy, write=True) as other:
            other.begin_index()
            fill(other, Report(problems=[]), progress)
            mine, theirs = dump(vault), dump(other)
        shutil.rmtree(copy)
    return [table for table in sorted(mine) if mine[table] != theirs[table]]
