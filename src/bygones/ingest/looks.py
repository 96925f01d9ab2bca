"""The look at homes before anything is read: all of them, or what was written since."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct, structs

from bygones.model.sources import Source
from bygones.sources import native_path, path_text
from bygones.sources.pulse import Stir, Written, feel, stir
from bygones.store.chunks import Chunks
from bygones.store.kept import Kept
from bygones.store.vault import Vault

__all__ = ["Look", "look_at"]


class Look(Struct, frozen=True):
    """What was felt, and the only files that were written since the last time."""

    sign: str
    felt: bytes
    written: list[tuple[Source, Kept]] | None = None
    """``None`` where a walk must find out."""

    @property
    def known(self) -> list[Kept] | None:
        """What is kept of the files that were written."""
        return None if self.written is None else [kept for _, kept in self.written]


def look_at(vault: Vault, paths: Sequence[Path], *, is_thorough: bool) -> Look:
    """Return what is to be looked at; feels the homes before anything is read.

    What is written after that makes the next ingestion look again. Who looks
    thoroughly lists all folders once more; if all is then as it was left by one who
    did the same, and had nothing to tell of it, there is nothing to look at.
    """
    stirred = None if is_thorough else _stirred(vault, paths)
    if stirred is not None:
        homes = [path_text(path.absolute()) for path in paths]
        written = [_known(vault.chunks, homes, one) for one in stirred.files]
        known = [pair for pair in written if pair is not None]
        if len(known) == len(written):
            return Look(stirred.sign, stirred.felt, known)
    sign, felt = feel(paths)
    is_known = vault.is_settled(sign) if is_thorough else sign == vault.pulse
    if not is_known or not _are_there(vault, paths):
        return Look(sign, felt)
    if not is_thorough:
        vault.note_felt(felt)  # the next one need not list all folders again
    return Look(sign, felt, [])


def _are_there(vault: Vault, paths: Sequence[Path]) -> bool:
    """Whether no home has vanished that is not looked at: a walk would tell."""
    looked_at = {path_text(path.absolute()) for path in paths}
    others = {*vault.chunks.homes()} - looked_at
    return all(Path(native_path(home)).exists() for home in others)


def _stirred(vault: Vault, paths: Sequence[Path]) -> Stir | None:
    sign, felt = vault.pulse, vault.felt()
    return stir(felt, sign, paths) if sign and felt else None


def _known(
    chunks: Chunks, homes: Sequence[str], written: Written
) -> tuple[Source, Kept] | None:
    """Return a file as it is now and as it is kept, if it is one of ours."""
    name = path_text(written.path)
    for home in homes:
        path = name.removeprefix(f"{home}/")
        kept = chunks.find(home, path) if path != name else None
        if kept is None or kept.gone_ns is not None:
            continue
        now = structs.replace(
            kept.source,
            size=written.size,
            mtime_ns=written.mtime_ns,
            ctime_ns=written.ctime_ns,
            inode=written.inode,
        )
        return now, kept
    return None
