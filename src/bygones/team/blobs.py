"""Blob stores: redacted bytes by address, in a folder or in object storage.

An address is ``person/source/hash``. Two sources never share a blob, even if the bytes
are the same: so erasing one source doesn't affect the other.
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
    """Files by name, in a folder or a bucket."""

    def write(self, name: str, raw: bytes) -> None:
        """Write a file atomically; once this returns, it is durable."""
        ...

    def read(self, name: str) -> bytes:
        """Return a file.

        :raises FileNotFoundError: if it is missing.
        """
        ...

    def read_many(self, names: Sequence[str]) -> dict[str, bytes]:
        """Return several files, without missing ones."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file; a missing one is ignored."""
        ...

    def list_names(self, prefix: str) -> Iterator[str]:
        """Yield the names below a prefix."""
        ...


class ExternalBlobStore:
    """A blob store in a folder or a bucket.

    The addresses of new blobs start with ``prefix``: a person and a source.
    """

    def __init__(self, backend: BlobBackend, prefix: str = "") -> None:
        self.backend = backend
        self._prefix = prefix

    def for_source(self, person: str, source: str) -> ExternalBlobStore:
        """Return the same store, in which new blobs belong to a source."""
        return ExternalBlobStore(self.backend, self.source_prefix(person, source))

    @staticmethod
    def source_prefix(person: str, source: str) -> str:
        """Return the start of the addresses of a source's blobs."""
        digest = sha256_digest(source.encode("utf-8", "surrogateescape")).hex()[:32]
        return f"{person}/{digest}/"

    def put(self, raw: bytes) -> str:
        return self.put_frame(compress(raw), sha256_digest(raw))

    def put_frame(self, frame: bytes, sha256: bytes) -> str:
        """Store bytes that are already compressed; return their address."""
        address = f"{self._prefix}{sha256.hex()}"
        self.backend.write(_object_name(address), frame)
        return address

    def get(self, address: str) -> bytes:
        """Return a blob.

        :raises ArchiveDamaged: if it is missing, or has another hash.
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
            raise ArchiveDamaged(Path("raw"), f"{address} does not match its hash")
        return raw

    def get_many(self, addresses: Sequence[str]) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for address, frame in self.get_frames(addresses).items():
            with suppress(Exception):  # get() raises for a damaged blob
                found[address] = decompress(frame)
        return found

    def get_frames(self, addresses: Sequence[str]) -> dict[str, bytes]:
        names = {_object_name(address): address for address in addresses}
        frames = self.backend.read_many(list(names))
        return {names[name]: frame for name, frame in frames.items()}

    def remove(self, addresses: Iterable[str]) -> None:
        for address in addresses:
            self.backend.remove(_object_name(address))

    def addresses(self, prefix: str = "") -> Iterator[str]:
        """Yield the addresses of all blobs, or of those with a prefix."""
        for name in self.backend.list_names(prefix):
            # Temporary files of a writer that was killed count as the blob.
            if _SUFFIX in name:
                yield name.partition(_SUFFIX)[0]


def open_blob_store(url: str) -> ExternalBlobStore:
    """Open the blob store at a URL: a folder, or anything that fsspec supports.

    :raises InvalidStoreURL: if the URL is not valid.
    """
    scheme, colon, rest = url.partition("://")
    if not colon or scheme == "file":
        folder = rest if colon else url
        if not folder:
            raise InvalidStoreURL("the raw store has no folder")
        return ExternalBlobStore(FolderBackend(Path(folder).absolute()))
    return ExternalBlobStore(FsspecBackend(url))


class FolderBackend:
    """Files in a folder, for a single hub."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        make_private_folder(folder)

    def write(self, name: str, raw: bytes) -> None:
        while True:
            try:
                self._write(self.folder / name, raw)
            except FileNotFoundError:
                # An erasure has removed the empty folder, or the temporary file.
                if not self.folder.is_dir():
                    raise
                continue
            return

    def _write(self, path: Path, raw: bytes) -> None:
        for above in reversed(path.relative_to(self.folder).parents[:-1]):
            if not (self.folder / above).exists():
                make_private_folder(self.folder / above)
                fsync_folder((self.folder / above).parent)
        temporary = path.with_name(f"{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(raw)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        fsync_folder(path.parent)

    def read(self, name: str) -> bytes:
        return (self.folder / name).read_bytes()

    def read_many(self, names: Sequence[str]) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for name in names:
            with suppress(OSError):
                found[name] = self.read(name)
        return found

    def remove(self, name: str) -> None:
        """Remove a file, with temporary files of a writer that was killed."""
        path = self.folder / name
        with suppress(FileNotFoundError):  # another erasure may remove the folder
            for file in (path, *path.parent.glob(f"{path.name}.*")):
                file.unlink(missing_ok=True)
        for folder in (path.parent, path.parent.parent):
            if folder == self.folder:
                return
            try:
                folder.rmdir()
            except OSError:
                return

    def list_names(self, prefix: str) -> Iterator[str]:
        # Unlike glob, walk ignores folders that are removed meanwhile.
        for folder, _, names in os.walk(self.folder / prefix):
            for name in names:
                yield (Path(folder) / name).relative_to(self.folder).as_posix()


class FsspecBackend:
    """Objects of a bucket, through fsspec, such as ``s3://bucket/folder``.

    Endpoint and credentials come from the environment variables of that storage, such
    as ``AWS_ENDPOINT_URL`` and ``AWS_ACCESS_KEY_ID``.
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
        with _translate_errors():
            self._filesystem.pipe_file(self._path(name), raw)

    def read(self, name: str) -> bytes:
        with _translate_errors():
            return bytes(self._filesystem.cat_file(self._path(name)))

    def read_many(self, names: Sequence[str]) -> dict[str, bytes]:
        paths = {self._path(name): name for name in names}
        with _translate_errors():
            found = self._filesystem.cat(list(paths), on_error="omit")
        return {paths[str(path)]: bytes(raw) for path, raw in found.items()}

    def remove(self, name: str) -> None:
        with _translate_errors():
            try:
                self._filesystem.rm_file(self._path(name))
            except FileNotFoundError:
                return

    def list_names(self, prefix: str) -> Iterator[str]:
        with _translate_errors():
            found = self._filesystem.find(self._path(prefix).rstrip("/"))
        for path in found:
            yield str(path)[len(self._root) + 1 :]

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"


class _translate_errors:  # noqa: N801 (used like a function)
    """Translates the errors of a bucket."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, FileNotFoundError):
            raise StoreError(f"the raw store: {error}") from error


def _object_name(address: str) -> str:
    """Return the file name of a blob; validates the address."""
    if not all(_ADDRESS_PART.fullmatch(part) for part in address.split("/")):
        raise ArchiveDamaged(Path("raw"), f"{address!r} is not a valid address")
    return address + _SUFFIX
