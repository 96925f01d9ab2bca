"""Writing archived files back, byte for byte."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from errno import EDQUOT, ENOSPC, EROFS
from itertools import chain
from pathlib import Path

from msgspec import Struct

from bygones.errors import ArchiveDamaged
from bygones.ingest.report import Progress, Silence
from bygones.model.ids import SourceId
from bygones.store.chunks import Kept
from bygones.store.connect import sync_folder
from bygones.store.folder import FolderShelf
from bygones.store.generations import older
from bygones.store.shelf import Shelf
from bygones.store.vault import Vault
from bygones.upkeep.placing import Put, Standing, put_file, sweep
from bygones.upkeep.relocate import folders_of, leads_out, target_of, whole_lines

__all__ = [
    "Plan",
    "Restored",
    "Rewrite",
    "Standing",
    "kept_bytes",
    "plan_restore",
    "raws_of",
    "restore",
]

Rewrite = Callable[[bytes], bytes]
"""Returns a line of a transcript as it shall be written."""

_NO_ROOM = frozenset({ENOSPC, EDQUOT, EROFS})
"""What the next file will meet with too."""


class Plan(Struct, frozen=True, kw_only=True):
    """A file that would be written, and what stands in the way."""

    number: int
    generation: int
    steps: int = 0
    """How many generations before the newest."""
    path: str
    size: int
    state: Standing


class Restored(Struct, kw_only=True):
    """What a restore wrote."""

    written: int = 0
    same: int = 0
    skipped: list[str] = []
    """Files that differ and were left alone."""
    damaged: list[str] = []
    """Files that could not be written: their bytes in the archive are damaged."""
    refused: list[tuple[str, str]] = []
    """Files that were not written, and why: the system said so, or another was."""
    bytes: int = 0
    copies: list[str] = []
    """Where files that stood in the way were put."""


def plan_restore(  # noqa: PLR0913 (all but two by name and optional)
    vault: Vault,
    sources: Iterable[Kept],
    *,
    to: Path | None = None,
    project: str | None = None,
    rewrite: Rewrite | None = None,
    steps: int = 0,
) -> list[Plan]:
    """Return what a restore would do: to the old places, or below ``to``.

    ``project`` is the directory that the project lies in now: its transcripts go to
    the folder in which Claude Code looks for it. Files of several homes get a folder
    each below ``to``. With ``steps``, files are written as they were before they were
    rewritten so many times, and those that were not are left out. Of files that would
    go to one place, the newest does.
    """
    found = (older(vault.chunks, kept, steps) for kept in sources)
    chosen = [kept for kept in found if kept is not None]
    several = len({kept.home for kept in chosen}) > 1
    folders = folders_of(vault.chunks.homes()) if to and several else {}
    plans = []
    taken: set[Path] = set()
    # Where two copies would meet in one folder, the newest has the better claim.
    for kept in sorted(chosen, key=lambda kept: -kept.mtime_ns):
        home = str(to / folders.get(kept.home, "")) if to else None
        if leads_out(kept.path):
            plans.append(_plan(kept, kept.path, Standing.OUTSIDE, steps))
            continue
        path = target_of(kept, home, project)
        if path in taken:
            path = target_of(kept, home)
        state = _state(vault, kept, path, rewrite=rewrite, steps=steps)
        if path in taken:
            state = Standing.TAKEN
        taken.add(path)
        plans.append(_plan(kept, str(path), state, steps))
    # Whichever goes to a place first stays before those that would follow it.
    return sorted(plans, key=lambda plan: plan.path)


def _plan(kept: Kept, path: str, state: Standing, steps: int) -> Plan:
    return Plan(
        number=kept.number,
        generation=kept.generation,
        steps=steps,
        path=path,
        size=kept.size,
        state=state,
    )


def _state(
    vault: Vault, kept: Kept, path: Path, *, rewrite: Rewrite | None, steps: int
) -> Standing:
    if not os.path.lexists(path):
        return Standing.NEW
    if not path.is_file():
        return Standing.DIFFERS
    try:
        # Of one moment: a small chunk gives way to a longer one while others write.
        with vault.chunks.at_once():
            now = vault.chunks.source(kept.number) or kept
            now = older(vault.chunks, now, steps) or kept
            if rewrite is None and path.stat().st_size != now.size:
                return Standing.DIFFERS
            return _compared(path, _told(vault, now, rewrite))
    except ArchiveDamaged:
        return Standing.DAMAGED


def _compared(path: Path, told: Iterable[bytes]) -> Standing:
    with path.open("rb") as file:
        for raw in told:
            if file.read(len(raw)) != raw:
                return Standing.DIFFERS
        return Standing.DIFFERS if file.read(1) else Standing.SAME


def restore(
    vault: Vault,
    plans: Sequence[Plan],
    *,
    overwrite: bool = False,
    rewrite: Rewrite | None = None,
    progress: Progress | None = None,
) -> Restored:
    """Carry out a plan; what differs is left alone unless told, and then copied.

    A file is written whole beside its place and then moved there, so that nobody
    ever sees half of it; one whose bytes are damaged is not written at all. What the
    system refuses is told, and the rest is written. A file that was written is not
    replaced by another of the same plan.
    """
    done = Restored()
    folders: set[Path] = set()
    mine: set[tuple[int, int]] = set()
    progress = progress or Silence()
    plans = _inside(plans, done)
    progress.begin("restoring", sum(plan.size for plan in plans))
    for folder in {Path(plan.path).parent for plan in plans}:
        sweep(folder)
    for plan in plans:
        kept = vault.chunks.source(plan.number)
        if kept is None:
            continue
        if plan.state is Standing.SAME:
            done.same += 1
        elif plan.state is Standing.DIFFERS and not overwrite:
            done.skipped.append(plan.path)
        else:
            try:
                with vault.chunks.at_once():
                    now = vault.chunks.source(plan.number) or kept
                    now = older(vault.chunks, now, plan.steps) or now
                    put = put_file(
                        Path(plan.path),
                        _told(vault, now, rewrite),
                        now.mtime_ns,
                        mine,
                        overwrite=overwrite and plan.state is not Standing.TAKEN,
                    )
                folders.add(Path(plan.path).parent)
                _note(done, plan, put)
            except ArchiveDamaged:
                done.damaged.append(plan.path)
            except OSError as error:
                if error.errno in _NO_ROOM:
                    raise
                done.refused.append((plan.path, error.strerror or str(error)))
        progress.advance(plan.size)
    for folder in folders:
        sync_folder(folder)
    progress.end()
    return done


def _inside(plans: Iterable[Plan], done: Restored) -> list[Plan]:
    """Return what has a place in its home; the rest is refused."""
    found = []
    for plan in plans:
        if plan.state is Standing.OUTSIDE:
            done.refused.append((plan.path, "the name leads out of the home"))
        else:
            found.append(plan)
    return found


def _note(done: Restored, plan: Plan, put: Put) -> None:
    if put.is_written:
        done.written += 1
        done.bytes += put.size
        done.copies += [str(put.copy)] if put.copy else []
    elif put.found is Standing.SAME:
        done.same += 1
    elif Standing.TAKEN in (put.found, plan.state):
        done.refused.append((plan.path, "another copy of it goes there"))
    else:
        done.skipped.append(plan.path)


def _told(vault: Vault, kept: Kept, rewrite: Rewrite | None) -> Iterator[bytes]:
    """Yield the bytes to write: those archived, unless somebody wants them changed."""
    raws = kept_bytes(vault, kept)
    if rewrite is None or not kept.kind.is_transcript:
        return raws
    return map(rewrite, whole_lines(raws))


def kept_bytes(vault: Vault, kept: Kept) -> Iterator[bytes]:
    """Yield all that is kept of a source, its unfinished last line too."""
    for _, raw in vault.chunks.chunks(kept.number, kept.generation):
        yield raw
    fragment = vault.chunks.fragment(kept.number, kept.generation)
    if fragment:
        yield fragment


def raws_of(shelf: Shelf, source: SourceId) -> Iterator[bytes]:
    """Yield all that is kept of a source; of a team's, what is whole of it."""
    kept = shelf.chunks.named(source)
    if kept is None:
        return iter(())
    if isinstance(shelf, FolderShelf):
        return kept_bytes(shelf.vault, kept)
    found = shelf.chunks.tried(kept.number, kept.generation)
    behind = shelf.chunks.fragment(kept.number, kept.generation)
    return chain((raw for _, raw in found if raw is not None), [behind])
