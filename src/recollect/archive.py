"""Archive: the front door. Faces ask it and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self

from recollect.errors import ArchiveDamaged, ArchiveMissing
from recollect.ingest import Progress, Report, ingest
from recollect.ingest.loading import load_family
from recollect.model.ids import Position, SessionId
from recollect.model.listing import Listed
from recollect.model.sessions import Session
from recollect.parse import RecordLoader
from recollect.store.derived import Derived
from recollect.store.vault import Vault

__all__ = ["Archive"]

_STORED_LIMIT = 16 * 1024 * 1024


class Archive:
    """An archive that is open for reading.

    Writing is done by :meth:`ingest` and its kin, one at a time; whoever reads goes
    on with what was there.
    """

    def __init__(self, folder: Path) -> None:
        if not Vault.exists(folder):
            raise ArchiveMissing(folder)
        self.folder = folder
        self._open()

    def _open(self) -> None:
        self._vault = Vault(self.folder)
        self._loader = ChunkLoader(self._vault)

    @classmethod
    def open(cls, folder: str | Path) -> Self:
        """Open the archive in a folder."""
        return cls(Path(folder))

    @staticmethod
    def exists(folder: str | Path) -> bool:
        """Whether there is an archive in a folder."""
        return Vault.exists(Path(folder))

    @staticmethod
    def ingest(
        folder: str | Path,
        paths: Sequence[Path],
        *,
        progress: Progress | None = None,
    ) -> Report:
        """Bring the archive in a folder up to date with homes; make it if need be."""
        return ingest(Path(folder), paths, progress=progress)

    def close(self) -> None:
        """Let go of the archive."""
        self._vault.close()

    def __enter__(self) -> Self:
        """Use it as a context."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    @property
    def _derived(self) -> Derived:
        if self._vault.index is None:
            raise ArchiveDamaged(self.folder, "there is no index; run a rebuild")
        return Derived(self._vault.index)

    def sessions(
        self, *, project: str | None = None, empty: bool = False
    ) -> Iterator[Listed]:
        """Yield sessions for a list, newest first; empty ones only if asked for."""
        for listed in self._derived.listed(empty=empty):
            if project is None or listed.project == project:
                yield listed

    def session(self, id_: str) -> Session | None:
        """Return a session by its id, or by the beginning of one that is unique."""
        derived = self._derived
        number = derived.number_of(SessionId(id_))
        if number is None:
            numbers = derived.numbers_like(id_)
            if len(numbers) != 1:
                return None
            number = numbers[0]
        family = derived.family_of(number) or [number]
        for session in load_family(self._vault, derived, family, self._loader):
            if derived.number_of(session.id) == number:
                return session
        return None


class ChunkLoader(RecordLoader):
    """Opens records from the archive's chunks."""

    def __init__(self, vault: Vault) -> None:
        super().__init__()
        self._vault = vault
        self._numbers: dict[str, int] = {}

    def raw(self, position: Position) -> bytes:
        """Return the bytes at a position; none where they are damaged or missing."""
        number = self._number(position.source)
        if number is None:
            return b""
        try:
            return self._vault.chunks.read(
                number, position.generation, position.offset, position.length
            )
        except ArchiveDamaged:
            return b""

    def stored(self, position: Position, path: str) -> str | None:
        """Return a long output that was archived with its session."""
        session = position.source.partition("/subagents/")[0].removesuffix(".jsonl")
        name = path.replace("\\", "/").rpartition("/")[2]
        number = self._number(f"{session}/tool-results/{name}")
        kept = self._vault.chunks.source(number) if number is not None else None
        if kept is None:
            return None
        size = min(kept.kept, _STORED_LIMIT)
        raw = self._vault.chunks.read(kept.number, kept.generation, 0, size)
        return raw.decode("utf-8", "replace")

    def _number(self, source: str) -> int | None:
        if not self._numbers:
            kept = self._vault.chunks.sources()
            self._numbers = {str(one.id): one.number for one in kept}
        return self._numbers.get(source)
