"""Writing archived files back, byte for byte."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from recollect.sources import native_path, project_key
from recollect.store.chunks import Kept
from recollect.store.vault import Vault

__all__ = ["Plan", "Restored", "plan_restore", "restore"]

_COPY = ".before-restore"


class Plan(Struct, frozen=True, kw_only=True):
    """A file that would be written, and what stands in the way."""

    number: int
    generation: int
    path: str
    size: int
    state: str
    """``new``, ``same`` or ``differs``."""


class Restored(Struct, kw_only=True):
    """What a restore wrote."""

    written: int = 0
    same: int = 0
    skipped: int = 0
    """Files that differ and were left alone."""
    bytes: int = 0
    copies: list[str] = []
    """Where files that stood in the way were put."""


def plan_restore(
    vault: Vault,
    sources: Iterable[Kept],
    *,
    to: Path | None = None,
    project: str | None = None,
) -> list[Plan]:
    """Return what a restore would do: to the old places, or below ``to``.

    ``project`` is the directory that the project lies in now: its transcripts go to
    the folder in which Claude Code looks for it.
    """
    plans = []
    for kept in sources:
        path = _target(kept, to, project)
        state = _state(vault, kept, path)
        plans.append(
            Plan(
                number=kept.number,
                generation=kept.generation,
                path=str(path),
                size=kept.size,
                state=state,
            )
        )
    return plans


def _target(kept: Kept, to: Path | None, project: str | None) -> Path:
    home = str(to) if to is not None else kept.home
    path = kept.path
    if project is not None and kept.project is not None:
        path = path.replace(f"{kept.project}/", f"{project_key(project)}/", 1)
    return Path(native_path(f"{home}/{path}"))


def _state(vault: Vault, kept: Kept, path: Path) -> str:
    if not path.exists():
        return "new"
    if path.stat().st_size != kept.size:
        return "differs"
    with path.open("rb") as file:
        for raw in _bytes(vault, kept):
            if file.read(len(raw)) != raw:
                return "differs"
    return "same"


def _bytes(vault: Vault, kept: Kept) -> Iterator[bytes]:
    for _, raw in vault.chunks.chunks(kept.number, kept.generation):
        yield raw
    fragment = vault.chunks.fragment(kept.number, kept.generation)
    if fragment:
        yield fragment


def restore(
    vault: Vault,
    plans: Sequence[Plan],
    *,
    overwrite: bool = False,
    rewrite: Callable[[bytes], bytes] | None = None,
) -> Restored:
    """Carry out a plan; what differs is left alone unless told, and then copied.

    A file is written whole beside its place and then moved there, so that nobody
    ever sees half of it.
    """
    done = Restored(copies=[])
    for plan in plans:
        kept = vault.chunks.source(plan.number)
        if kept is None:
            continue
        if plan.state == "same" and rewrite is None:
            done.same += 1
        elif plan.state == "differs" and not overwrite:
            done.skipped += 1
        else:
            path = Path(plan.path)
            _step_aside(path, done)
            _write(path, _told(vault, kept, rewrite), kept.mtime_ns, done)
    return done


def _told(
    vault: Vault, kept: Kept, rewrite: Callable[[bytes], bytes] | None
) -> Iterator[bytes]:
    """Yield the bytes to write: those archived, unless somebody wants them changed."""
    for raw in _bytes(vault, kept):
        yield rewrite(raw) if rewrite and kept.kind.is_transcript else raw


def _step_aside(path: Path, done: Restored) -> None:
    """Put a file that stands in the way beside its place."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if path.exists():
        copy = path.with_name(path.name + _COPY)
        path.rename(copy)
        done.copies.append(str(copy))


def _write(path: Path, raws: Iterable[bytes], mtime_ns: int, done: Restored) -> None:
    beside = path.with_name(f".{path.name}.restoring")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    with os.fdopen(os.open(beside, flags, 0o600), "wb") as file:
        for raw in raws:
            done.bytes += file.write(raw)
        file.flush()
        os.fsync(file.fileno())
    os.utime(beside, ns=(mtime_ns, mtime_ns))
    beside.replace(path)
    done.written += 1
