"""The raw store: masked bytes by address, in a folder or in object storage.

An address is ``person/source/hash``. Bytes of two sources never share an object, even
if they are the same: what is erased for one is erased, and stays there for the other.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from bygones.errors import ArchiveDamaged, ExtraMissing, PlaceUnreadable, StoreError
from bygones.store.connect import make_folder, sync_folder
from bygones.store.press import digest, squeeze, unpress

__all__ = ["FolderBytes", "RawObjects", "RemoteBytes", "open_objects"]

_SUFFIX = ".zst"
_PART = re.compile(r"[a-z0-9][a-z0-9._@+-]{0,127}")


class NamedBytes(Protocol):
    """Bytes by name: a folder, a bucket."""

    def write(self, name: str, raw: bytes) -> None:
        """Keep bytes, whole or not at all; once this returns they are there."""
        ...

    def read(self, name: str) -> bytes:
        """Return bytes; raise :class:`FileNotFoundError` if there are none."""
        ...

    def read_all(self, names: Sequence[str]) -> dict[str, bytes]:
        """Return the bytes of several names, of those that are there."""
        ...

    def remove(self, name: str) -> None:
        """Erase bytes; what is not there is no error."""
        ...

    def names(self, below: str) -> Iterator[str]:
        """Yield the names below a name."""
        ...


class RawObjects:
    """Objects by address; ``within`` is where new ones go: a person and a source."""

    def __init__(self, place: NamedBytes, within: str = "") -> None:
        self.place = place
        self._within = within

    def of(self, person: str, source: str) -> RawObjects:
        """Return the same store, in which new objects belong to a source."""
        return RawObjects(self.place, self.below(person, source))

    @staticmethod
    def below(person: str, source: str) -> str:
        """Return how the addresses of a source's objects begin."""
        sign = digest(source.encode("utf-8", "surrogateescape")).hex()[:32]
        return f"{person}/{sign}/"

    def put(self, raw: bytes) -> str:
        """Keep bytes, and return their address: the same for the same bytes."""
        return self.put_packed(squeeze(raw), digest(raw))

    def put_packed(self, frame: bytes, sha256: bytes) -> str:
        """Keep bytes that were packed already, and return their address."""
        address = f"{self._within}{sha256.hex()}"
        self.place.write(_name(address), frame)
        return address

    def bytes_of(self, address: str) -> bytes:
        """Return bytes.

        :raises ArchiveDamaged: if they are not there, or are others.
        """
        try:
            frame = self.place.read(_name(address))
            raw = unpress(frame)
        except FileNotFoundError:
            raise ArchiveDamaged(Path("raw"), f"{address} is missing") from None
        except StoreError:
            raise
        except Exception as error:
            raise ArchiveDamaged(Path("raw"), f"{address}: {error}") from error
        if digest(raw).hex() != address.rpartition("/")[2]:
            raise ArchiveDamaged(Path("raw"), f"{address} has another hash")
        return raw

    def several(self, addresses: Sequence[str]) -> dict[str, bytes]:
        """Return bytes of several objects; what is not there or damaged is not."""
        found: dict[str, bytes] = {}
        for address, frame in self.frames(addresses).items():
            with suppress(Exception):  # whoever asks for it alone is told
                found[address] = unpress(frame)
        return found

    def frames(self, addresses: Sequence[str]) -> dict[str, bytes]:
        """Return several objects as they are kept; what is not there is not."""
        names = {_name(address): address for address in addresses}
        kept = self.place.read_all(list(names))
        return {names[name]: frame for name, frame in kept.items()}

    def remove(self, addresses: Iterable[str]) -> None:
        """Erase bytes; what is not there is no error."""
        for address in addresses:
            self.place.remove(_name(address))

    def addresses(self, below: str = "") -> Iterator[str]:
        """Yield the addresses of all objects, or of those below a person or source."""
        for name in self.place.names(below):
            # What a writer that was killed left beside an object counts as the object.
            if _SUFFIX in name:
                yield name.partition(_SUFFIX)[0]


def open_objects(url: str) -> RawObjects:
    """Return the raw store at an address: a folder, or what fsspec knows.

    :raises PlaceUnreadable: if that is no address.
    """
    scheme, colon, rest = url.partition("://")
    if not colon or scheme == "file":
        folder = rest if colon else url
        if not folder:
            raise PlaceUnreadable("the raw store has no folder")
        return RawObjects(FolderBytes(Path(folder).absolute()))
    return RawObjects(RemoteBytes(url))


class FolderBytes:
    """Files below a folder; for whoever runs the hub alone."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        make_folder(folder)

    def write(self, name: str, raw: bytes) -> None:
        """Write a file beside its place, have the disk keep it, give it its name."""
        path = self.folder / name
        for above in reversed(path.relative_to(self.folder).parents[:-1]):
            if not (self.folder / above).exists():
                make_folder(self.folder / above)
                sync_folder((self.folder / above).parent)
        beside = path.with_name(f"{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(raw)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(path)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)

    def read(self, name: str) -> bytes:
        """Return what a file holds."""
        return (self.folder / name).read_bytes()

    def read_all(self, names: Sequence[str]) -> dict[str, bytes]:
        """Return what files hold."""
        found: dict[str, bytes] = {}
        for name in names:
            with suppress(OSError):
                found[name] = self.read(name)
        return found

    def remove(self, name: str) -> None:
        """Remove a file, with what a writer that was killed left beside it."""
        path = self.folder / name
        for left in (path, *path.parent.glob(f"{path.name}.*")):
            left.unlink(missing_ok=True)
        for above in (path.parent, path.parent.parent):
            if above == self.folder:
                return
            try:
                above.rmdir()
            except OSError:
                return

    def names(self, below: str) -> Iterator[str]:
        """Yield the names of files below a folder."""
        for path in sorted((self.folder / below).rglob("*")):
            if path.is_file():
                yield path.relative_to(self.folder).as_posix()


class RemoteBytes:
    """Objects of a bucket, through fsspec: ``s3://bucket/folder`` and the like.

    Where it is and who may ask is told by the variables of that storage, such as
    ``AWS_ACCESS_KEY_ID`` and ``AWS_ENDPOINT_URL``.
    """

    def __init__(self, url: str) -> None:
        try:
            from fsspec.core import url_to_fs  # noqa: PLC0415 (an extra)
        except ImportError:
            raise ExtraMissing("fsspec") from None
        try:
            options = {"use_listings_cache": False} if url[:2] == "s3" else {}
            system, root = url_to_fs(url, **options)
        except ImportError as error:
            raise ExtraMissing(str(error.name or "s3fs")) from None
        except ValueError as error:
            raise PlaceUnreadable(str(error)) from None
        self._system: Any = system
        self._root = str(root).rstrip("/")

    def write(self, name: str, raw: bytes) -> None:
        """Put an object: there at once and whole, or not."""
        with _told():
            self._system.pipe_file(self._path(name), raw)

    def read(self, name: str) -> bytes:
        """Return an object's bytes."""
        with _told():
            return bytes(self._system.cat_file(self._path(name)))

    def read_all(self, names: Sequence[str]) -> dict[str, bytes]:
        """Return the bytes of objects, fetched side by side."""
        paths = {self._path(name): name for name in names}
        with _told():
            found = self._system.cat(list(paths), on_error="omit")
        return {paths[str(path)]: bytes(raw) for path, raw in found.items()}

    def remove(self, name: str) -> None:
        """Remove an object."""
        with _told():
            try:
                self._system.rm_file(self._path(name))
            except FileNotFoundError:
                return

    def names(self, below: str) -> Iterator[str]:
        """Yield the names of objects below a name."""
        with _told():
            found = self._system.find(self._path(below).rstrip("/"))
        for path in found:
            yield str(path)[len(self._root) + 1 :]

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"


class _told:  # noqa: N801 (used as a word)
    """Has what a bucket refuses come out as an error of ours."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, FileNotFoundError):
            raise StoreError(f"the raw store: {error}") from error


def _name(address: str) -> str:
    """Return the name of an object; an address leads nowhere else."""
    if not all(_PART.fullmatch(part) for part in address.split("/")):
        raise ArchiveDamaged(Path("raw"), f"{address!r} is no address")
    return address + _SUFFIX
