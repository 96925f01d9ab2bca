"""Writing archived files back, byte for byte."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from errno import EDQUOT, ENOSPC, EROFS
from itertools import count
from pathlib import Path
from zlib import crc32

from msgspec import Struct

from recollect.errors import ArchiveDamaged
from recollect.ingest.report import Progress, Silence
from recollect.model.ids import SourceId
from recollect.sources import project_key
from recollect.sources.places import BESIDE, COPY
from recollect.store.chunks import Kept
from recollect.store.connect import sync_folder
from recollect.store.folder import FolderShelf
from recollect.store.generations import older
from recollect.store.shelf import Shelf
from recollect.store.vault import Vault
from recollect.upkeep.relocate import target_of, whole_lines

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

_PRIVATE_FOLDER = 0o700
_NO_ROOM = frozenset({ENOSPC, EDQUOT, EROFS})
"""What the next file will meet with too."""


class Standing(StrEnum):
    """What stands at the place of a file that is to be restored."""

    NEW = "new"
    """Nothing."""
    SAME = "same"
    """The very same bytes."""
    DIFFERS = "differs"
    """Something else."""
    DAMAGED = "damaged"
    """Something with which the archive's own bytes, being damaged, do not compare."""


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
    skipped: int = 0
    """Files that differ and were left alone."""
    damaged: list[str] = []
    """Files that could not be written: their bytes in the archive are damaged."""
    refused: list[tuple[str, str]] = []
    """Files that the system would not let us write, and what it said."""
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
    rewritten so many times, and those that were not are left out.
    """
    found = (older(vault.chunks, kept, steps) for kept in sources)
    chosen = [kept for kept in found if kept is not None]
    several = len({kept.home for kept in chosen}) > 1
    plans = []
    taken: set[Path] = set()
    # Where two copies would meet in one folder, the newest has the better claim.
    for kept in sorted(chosen, key=lambda kept: -kept.mtime_ns):
        home = _home(kept, to, several=several)
        path = target_of(kept, home, project)
        if path in taken:
            path = target_of(kept, home)
        taken.add(path)
        plan = Plan(
            number=kept.number,
            generation=kept.generation,
            steps=steps,
            path=str(path),
            size=kept.size,
            state=_state(vault, kept, path, rewrite=rewrite, steps=steps),
        )
        plans.append(plan)
    return sorted(plans, key=lambda plan: plan.path)


def _home(kept: Kept, to: Path | None, *, several: bool) -> str:
    if to is None:
        return kept.home
    return f"{to}/{project_key(kept.home)}" if several else str(to)


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
    system refuses is told, and the rest is written.
    """
    done = Restored()
    folders: set[Path] = set()
    progress = progress or Silence()
    progress.begin("restoring", sum(plan.size for plan in plans))
    for plan in plans:
        kept = vault.chunks.source(plan.number)
        if kept is None:
            continue
        if plan.state is Standing.SAME:
            done.same += 1
        elif plan.state is Standing.DIFFERS and not overwrite:
            done.skipped += 1
        else:
            try:
                with vault.chunks.at_once():
                    now = vault.chunks.source(plan.number) or kept
                    now = older(vault.chunks, now, plan.steps) or now
                    told = _told(vault, now, rewrite)
                    _write(Path(plan.path), told, now.mtime_ns, done)
                folders.add(Path(plan.path).parent)
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
    return (raw for _, raw in found if raw is not None)


def _write(path: Path, raws: Iterable[bytes], mtime_ns: int, done: Restored) -> None:
    _make_folder(path.parent)
    # Of a length that any folder takes, whatever the file's own is.
    beside = path.with_name(f"{BESIDE}{crc32(os.fsencode(path.name)):08x}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0)
    try:
        with os.fdopen(os.open(beside, flags, 0o600), "wb") as file:
            size = sum(file.write(raw) for raw in raws)
            file.flush()
            os.fsync(file.fileno())
        os.utime(beside, ns=(mtime_ns, mtime_ns))
        _keep_copy(path, done)
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    done.bytes += size
    done.written += 1


def _make_folder(folder: Path) -> None:
    for above in (*reversed(folder.parents), folder):
        if not above.exists():
            above.mkdir(mode=_PRIVATE_FOLDER, exist_ok=True)


def _keep_copy(path: Path, done: Restored) -> None:
    """Give a file that stands in the way a second name, which nothing else has."""
    if not os.path.lexists(path):
        return
    names = (f"{path.name}{COPY}{f'-{n}' if n else ''}" for n in count())
    copy = next(p for n in names if not os.path.lexists(p := path.with_name(n)))
    try:
        os.link(path, copy, follow_symlinks=False)
    except OSError:  # not every file system knows links
        shutil.copy2(path, copy, follow_symlinks=False)
    done.copies.append(str(copy))
