"""An archive's folder: the archive, the lock, and the index that belongs to it.

The index lies in ``index/<stamp>-<n>``. A reader takes the highest number with the
stamp it understands; a rebuild fills a folder beside it and then gives it a name.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Self

from bygones.errors import (
    ArchiveDamaged,
    ArchiveError,
    IndexAwaited,
    IndexDamaged,
    IndexMissing,
    SystemRefused,
)
from bygones.store.chunks import ARCHIVE_FILE, Chunks
from bygones.store.connect import (
    begin_reading,
    check_folder,
    damage_in,
    end_reading,
    is_damage,
    is_refusal,
    make_folder,
    reading_of,
    refusal,
    sync_folder,
    version_of,
)
from bygones.store.index import INDEX_FILE, Index, stamp_of
from bygones.store.lock import is_held
from bygones.store.purged import has_erased, is_erasing

if TYPE_CHECKING:  # the engine takes longer to load than a list takes to print
    from bygones.store.text import TextIndex

__all__ = ["Vault", "remove_indexes"]

_BUILDING = "building"
_PULSE = "pulse"
_SETTLED = "settled"
_FELT = "homes"
_WAIT = 5.0
"""Seconds that a reader waits for the index while a purge makes it anew."""
_STEP = 0.05
_TRIES = 3
"""How often an index is removed: who is just opening it may leave a file there."""


class Vault:
    """What is open of an archive: chunks always, index and text where there are any."""

    def __init__(
        self, folder: Path, *, write: bool = False, words: TextIndex | None = None
    ) -> None:
        self.folder = folder
        self._words = words
        """What stands where the text index would."""
        self.write = write
        self._is_still = False
        """Whether one moment is being looked at."""
        self.chunks = Chunks(folder, write=write)
        self.stamp = stamp_of(self.chunks.identity)
        if not write:
            self._open_newest()
            return
        newest = self._newest()
        # Whoever was building it was stopped: nobody else writes now.
        _remove(folder / "index" / _BUILDING)
        if newest is not None:  # or whoever was about to remove the others
            self._remove_but(newest)
        self._open_index(newest)

    @staticmethod
    def exists(folder: Path) -> bool:
        """Whether there is an archive in a folder."""
        check_folder(folder)
        return (folder / ARCHIVE_FILE).exists()

    def _open_newest(self) -> None:
        """Open the newest index; if that gives way meanwhile, the next.

        While a purge makes it anew there is none, and that is waited for.
        """
        until = time.monotonic() + _WAIT
        while True:
            place = self._newest()
            try:
                self._open_index(place)
            except SystemRefused:
                if self._newest() == place:
                    raise
            else:
                is_awaited = place is None and self._is_purged()
                if self._newest() == place and not is_awaited:
                    return
            if time.monotonic() > until:
                return
            self._close_index()
            time.sleep(_STEP)

    def _is_purged(self) -> bool:
        """Whether somebody is erasing at this moment."""
        return is_erasing(self.chunks.db) and is_held(self.folder)

    def missing(self) -> ArchiveError:
        """Return why there is no index: none was made, or one is being made."""
        if is_held(self.folder) or self._newest() != self._sought:
            return IndexAwaited(self.folder, is_erasing=is_erasing(self.chunks.db))
        return IndexMissing(self.folder)

    def _open_index(self, place: Path | None) -> None:
        self._text: TextIndex | None = None
        self.index = None
        self._sought = place
        try:
            if place is not None:
                with reading_of(place):
                    self.index = Index(place, write=self.write, stamp=self.stamp)
        except ArchiveError:
            # An index that cannot be opened is no index: a new one can be made.
            place = None
        self.place = place
        self.sign = _sign(place)
        """Which index is open: a name may be given twice, and this is not."""
        if self._is_still and self.index is not None:
            begin_reading(self.index.db)

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Have all reads see one moment, whoever writes meanwhile.

        Who finds in one statement and looks up in the next would miss what was derived
        anew between them. The index comes first: what it names is in the archive then.
        """
        if self._is_still or self.write:
            yield
            return
        self._is_still = True
        try:
            if self.index is not None:
                begin_reading(self.index.db)
            begin_reading(self.chunks.db)
            yield
        finally:
            self._end_moment()

    @contextmanager
    def in_step(self) -> Iterator[bool]:
        """Have all reads and the words see one moment; say whether they are level.

        They are not while somebody is about to write to one after the other.
        """
        before = self._written()
        self.text.hold()
        with self.at_once():
            is_level = self.index is not None and self.index.is_level()
            yield is_level and self._written() == before

    def _written(self) -> bytes:
        """Return what the words say of themselves: something else once they change."""
        try:
            return (
                (self.place / "text" / "meta.json").read_bytes() if self.place else b""
            )
        except OSError:
            return b""

    def _end_moment(self) -> None:
        if self._is_still:
            self._is_still = False
            end_reading(self.chunks.db)
            self.chunks.forget()
            if self.index is not None:
                end_reading(self.index.db)

    @property
    def text(self) -> TextIndex:
        """The text index, opened when it is first asked for."""
        if self._text is None:
            self._text = self._words or self._open_text()
        return self._text

    def check_words(self) -> None:
        """Open the text index, though nobody needs it: one that cannot be is told.

        :raises IndexDamaged: if its words are gone, or are none.
        """
        if self.index is not None:
            self._text = self.text

    def _open_text(self) -> TextIndex:
        from bygones.store.text import TextIndex  # noqa: PLC0415 (see above)

        while self.place is not None and self.index is not None:
            if self.write and self.index.level() and not TextIndex.exists(self.place):
                # The engine would begin an empty one, and nothing would be found.
                raise IndexDamaged(self.folder, "its words are gone")
            try:
                return TextIndex(self.place / "text", write=self.write)
            except ValueError as error:
                if self.write or self._newest() == self.place:
                    raise IndexDamaged(self.folder, str(error)) from error
            # The index that was open has given way to another, with words of its own.
            self._close_index()
            self._open_newest()
        raise self.missing()

    @property
    def moment(self) -> int:
        """Another number once somebody has written to the index that is open."""
        return version_of(self.index.db) if self.index is not None else 0

    def is_newest(self) -> bool:
        """Whether the index that is open has not given way to another."""
        return _sign(self._newest()) == self.sign

    def _newest(self) -> Path | None:
        """Return the newest whole index that this version understands."""
        found = [path for path, _ in self._numbered()]
        return found[-1] if found else None

    def _numbered(self) -> list[tuple[Path, int]]:
        root = self.folder / "index"
        names = [p.name for p in root.iterdir()] if root.is_dir() else []
        parted = [(name, *name.partition(f"{self.stamp}-")[::2]) for name in names]
        found = [
            (root / name, int(number))
            for name, before, number in parted
            if not before and number.isdecimal()
        ]
        return sorted(found, key=lambda pair: pair[1])

    def begin_index(self) -> None:
        """Go on with an empty index, in a folder that has no name yet."""
        self._close_index()
        root = self.folder / "index"
        make_folder(root)
        building = root / _BUILDING
        _remove(building)
        make_folder(building)
        self._open_index(building)

    def finish_index(self) -> None:
        """Give the new index its name; readers find it, and the old ones go."""
        self._close_index()
        root = self.folder / "index"
        numbers = [number for _, number in self._numbered()]
        name = f"{self.stamp}-{max(numbers, default=0) + 1}"
        (root / _BUILDING).rename(root / name)
        sync_folder(root)
        self._remove_but(root / name)
        self._open_index(root / name)

    def _remove_but(self, newest: Path) -> None:
        """Remove indexes that have given way; who reads one has it open."""
        for path in newest.parent.iterdir():
            if path.name != newest.name:
                _remove(path)

    @property
    def pulse(self) -> str | None:
        """What the homes looked like when they were last taken in.

        Unknown where the archive is another one than it was then: a backup may have
        been put into its place.
        """
        noted = self.index.stamp(_PULSE) if self.index is not None else None
        sign, _, reach = (noted or "").partition(" ")
        return sign if sign and reach == self.chunks.reach() else None

    def note_pulse(self, sign: str, felt: bytes = b"") -> None:
        """Remember what the homes look like, now that they are taken in."""
        if self.index is not None and (self.pulse or "") != sign:
            with self.index.db:
                noted = f"{sign} {self.chunks.reach()}" if sign else ""
                self.index.set_stamp(_PULSE, noted)
            if felt:
                self.note_felt(felt)

    def is_settled(self, sign: str) -> bool:
        """Whether homes that look so were looked at thoroughly, with nothing odd."""
        index = self.index
        return bool(sign) and sign == self.pulse == (index and index.stamp(_SETTLED))

    def note_settled(self, sign: str) -> None:
        """Remember that homes that look so were looked at thoroughly."""
        if self.index is not None and not self.is_settled(sign):
            with self.index.db:
                self.index.set_stamp(_SETTLED, sign)

    def felt(self) -> bytes | None:
        """Return what the homes looked like in full, if somebody noted that."""
        try:
            return (self.place / _FELT).read_bytes() if self.place else None
        except OSError:
            return None

    def note_felt(self, felt: bytes) -> None:
        """Note what the homes look like in full; where nobody can write, do not.

        Nor where something was purged: its file may still be there, and its name shall
        not stand here.
        """
        if self.place is None or has_erased(self.chunks.db):
            return
        path = self.place / f"{_FELT}.{os.getpid()}"
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(felt)
            path.replace(self.place / _FELT)
        except OSError:
            path.unlink(missing_ok=True)

    def drop_index(self) -> None:
        """Remove every index: what was purged must not live on in one.

        :raises SystemRefused: if something of it stays.
        """
        self._close_index()
        root = self.folder / "index"
        remove_indexes(self.folder)
        self._open_index(None)
        if root.exists():
            raise SystemRefused(f"{root}: it could not be removed")

    def _close_index(self) -> None:
        if self._text is not None:
            self._text.close()
        if self.index is not None:
            self.index.close()
        self._text = self.index = None

    def close(self) -> None:
        """Let go of everything."""
        self._end_moment()
        self._close_index()
        self.chunks.close()

    def __enter__(self) -> Self:
        """Use it as a context."""
        return self

    def __exit__(self, _: object, error: BaseException | None, *_trace: object) -> None:
        """Close it; damage that was met is told by what it is in."""
        try:
            self.tell(error)
        finally:
            self.close()

    def tell(self, error: BaseException | None) -> None:
        """Raise our error for what the engine met with: damage, or a full disk.

        It does not say in which of the two databases damage is: the index is looked
        through, as it is the smaller one.
        """
        if is_refusal(error):
            raise refusal(error, self.folder) from error
        if not is_damage(error):
            return
        if self.index is not None and (told := damage_in(self.index.db)):
            raise IndexDamaged(self.folder, told) from error
        raise ArchiveDamaged(self.chunks.path, str(error)) from error


def remove_indexes(folder: Path) -> None:
    """Remove every index of an archive, so that nobody ever finds half of one.

    Each is first given the name of one that is being built, which whoever writes next
    removes in any case.
    """
    root = folder / "index"
    for path in list(root.iterdir()) if root.is_dir() else []:
        if path.name != _BUILDING:
            _remove(root / _BUILDING)
            path.rename(root / _BUILDING)
            sync_folder(root)
    for _ in range(_TRIES):
        _remove(root)


def _sign(place: Path | None) -> tuple[int, int] | None:
    try:
        told = (place / INDEX_FILE).stat() if place is not None else None
    except OSError:
        return None
    return (told.st_dev, told.st_ino) if told is not None else None


def _remove(folder: Path) -> None:
    from shutil import rmtree  # noqa: PLC0415 (readers never need it)

    rmtree(folder, ignore_errors=True)
