"""Blob stores: redacted bytes by address, in a folder or in object storage.

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

from bygones.errors import (
    ArchiveDamaged,
    InvalidStoreURL,
    MissingDependency,
    StoreError,
)
from bygones.store.compression import compress, decompress, sha256_digest
from bygones.store.connect import fsync_folder, make_private_folder

__all__ = ["ExternalBlobStore", "FolderBackend", "FsspecBackend", "open_blob_store"]

_SUFFIX = ".zst"
_ADDRESS_PART = re.compile(r"[a-z0-9][a-z0-9._@+-]{0,127}")


class BlobBackend(Protocol):
    """Bytes by name: a folder, a bucket."""

    def write(self, name: str, raw: bytes) -> None:
        """Keep bytes, whole or not at all; once this returns they are there."""
        ...

    def read(self, name: str) -> bytes:
        """Return bytes; raise :class:`FileNotFoundError` if there are none."""
        ...

    def read_many(self, names: Sequence[str]) -> dict[str, bytes]:
        """Return the bytes of several names, of those that are there."""
        ...

    def remove(self, name: str) -> None:
        """Erase bytes; what is not there is no error."""
        ...

    def list_names(self, prefix: str) -> Iterator[str]:
        """Yield the names below a name."""
        ...


class ExternalBlobStore:
    """Blobs by address; those of a source get its ``prefix``: a person and a source."""

    def __init__(self, backend: BlobBackend, prefix: str = "") -> None:
        self.backend = backend
        self._prefix = prefix

    def for_source(self, person: str, source: str) -> ExternalBlobStore:
        """Return the same store, in which new objects belong to a source."""
        return ExternalBlobStore(self.backend, self.source_prefix(person, source))

    @staticmethod
    def source_prefix(person: str, source: str) -> str:
        """Return how the addresses of a source's objects begin."""
        sign = sha256_digest(source.encode("utf-8", "surrogateescape")).hex()[:32]
        return f"{person}/{sign}/"

    def put(self, raw: bytes) -> str:
        """Keep bytes, and return their address: the same for the same bytes."""
        return self.put_frame(compress(raw), sha256_digest(raw))

    def put_frame(self, frame: bytes, sha256: bytes) -> str:
        """Keep bytes that were packed already, and return their address."""
        address = f"{self._prefix}{sha256.hex()}"
        self.backend.write(_object_name(address), frame)
        return address

    def get(self, address: str) -> bytes:
        """Return bytes.

        :raises ArchiveDamaged: if they are not there, or are others.
        """
        try:
            frame = self.backend.read(_object_name(address))
            raw = decompress(frame)
        except FileNotFoundError:
            raise ArchiveDamaged(Path("raw"), f"{address} is missing") from None
        except StoreError:
            raise
        except Exception as error:
            raise ArchiveDamaged(Path("raw"), f"{address}: {error}") from error
        if sha256_digest(raw).hex() != address.rpartition("/")[2]:
            raise ArchiveDamaged(Path("raw"), f"{address} has another hash")
        return raw

    def get_many(self, addresses: Sequence[str]) -> dict[str, bytes]:
        """Return bytes of several objects; what is not there or damaged is not."""
        found: dict[str, bytes] = {}
        for address, frame in self.get_frames(addresses).items():
            with suppress(Exception):  # whoever asks for it alone is told
                found[address] = decompress(frame)
        return found

    def get_frames(self, addresses: Sequence[str]) -> dict[str, bytes]:
        """Return several objects as they are kept; what is not there is not."""
        names = {_object_name(address): address for address in addresses}
        kept = self.backend.read_many(list(names))
        return {names[name]: frame for name, frame in kept.items()}

    def remove(self, addresses: Iterable[str]) -> None:
        """Erase bytes; what is not there is no error."""
        for address in addresses:
            self.backend.remove(_object_name(address))

    def addresses(self, prefix: str = "") -> Iterator[str]:
        """Yield the addresses of all objects, or of those below a person or source."""
        for name in self.backend.list_names(prefix):
            # What a writer that was killed left beside an object counts as the object.
            if _SUFFIX in name:
                yield name.partition(_SUFFIX)[0]


def open_blob_store(url: str) -> ExternalBlobStore:
    """Return the blob store at an address: a folder, or what fsspec knows.

    :raises PlaceUnreadable: if that is no address.
    """
    scheme, colon, rest = url.partition("://")
    if not colon or scheme == "file":
        folder = rest if colon else url
        if not folder:
            raise InvalidStoreURL("the raw store has no folder")
        return ExternalBlobStore(FolderBackend(Path(folder).absolute()))
    return ExternalBlobStore(FsspecBackend(url))


class FolderBackend:
    """Files below a folder; for whoever runs the hub alone."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        make_private_folder(folder)

    def write(self, name: str, raw: bytes) -> None:
        """Write a file beside its place, have the disk keep it, give it its name."""
        path = self.folder / name
        for above in reversed(path.relative_to(self.folder).parents[:-1]):
            if not (self.folder / above).exists():
                make_private_folder(self.folder / above)
                fsync_folder((self.folder / above).parent)
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
        fsync_folder(path.parent)

    def read(self, name: str) -> bytes:
        """Return what a file holds."""
        return (self.folder / name).read_bytes()

    def read_many(self, names: Sequence[str]) -> dict[str, bytes]:
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

    def list_names(self, prefix: str) -> Iterator[str]:
        """Yield the names of files below a folder."""
        for path in sorted((self.folder / prefix).rglob("*")):
            if path.is_file():
                yield path.relative_to(self.folder).as_posix()


class FsspecBackend:
    """Objects of a bucket, through fsspec: ``s3://bucket/folder`` and the like.

    Where it is and who may ask is told by the variables of that storage, such as
    ``AWS_ACCESS_KEY_ID`` and ``AWS_ENDPOINT_URL``.
    """

    def __init__(self, url: str) -> None:
        try:
            from fsspec.core import url_to_fs
        except ImportError:
            raise MissingDependency("fsspec") from None
        try:
            options = {"use_listings_cache": False} if url[:2] == "s3" else {}
            system, root = url_to_fs(url, **options)
        except ImportError as error:
            raise MissingDependency(str(error.name or "s3fs")) from None
        except ValueError as error:
            raise InvalidStoreURL(str(error)) from None
        self._filesystem: Any = system
        self._root = str(root).rstrip("/")

    def write(self, name: str, raw: bytes) -> None:
        """Put an object: there at once and whole, or not."""
        with _translate_errors():
            self._filesystem.pipe_file(self._path(name), raw)

    def read(self, name: str) -> bytes:
        """Return an object's bytes."""
        with _translate_errors():
            return bytes(self._filesystem.cat_file(self._path(name)))

    def read_many(self, names: Sequence[str]) -> dict[str, bytes]:
        """Return the bytes of objects, fetched side by side."""
        paths = {self._path(name): name for name in names}
        with _translate_errors():
            found = self._filesystem.cat(list(paths), on_error="omit")
        return {paths[str(path)]: bytes(raw) for path, raw in found.items()}

    def remove(self, name: str) -> None:
        """Remove an object."""
        with _translate_errors():
            try:
                self._filesystem.rm_file(self._path(name))
            except FileNotFoundError:
                return

    def list_names(self, prefix: str) -> Iterator[str]:
        """Yield the names of objects below a name."""
        with _translate_errors():
            found = self._filesystem.find(self._path(prefix).rstrip("/"))
        for path in found:
            yield str(path)[len(self._root) + 1 :]

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"


class _translate_errors:  # noqa: N801 (used as a word)
    """Has what a bucket refuses come out as an error of ours."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, FileNotFoundError):
            raise StoreError(f"the raw store: {error}") from error


def _object_name(address: str) -> str:
    """Return the name of an object; an address leads nowhere else."""
    if not all(_ADDRESS_PART.fullmatch(part) for part in address.split("/")):
        raise ArchiveDamaged(Path("raw"), f"{address!r} is no address")
    return address + _SUFFIX
