"""The blob store addresses bytes by their content, and removes them completely."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from bygones.errors import ArchiveDamaged, InvalidStoreURL, StoreError
from bygones.store.compression import compress, sha256_digest
from bygones.store.connect import fsync_folder
from bygones.team import blobs
from bygones.team.blobs import ExternalBlobStore, FolderBackend, open_blob_store
from tests.team.buckets import bucket

RAW = b'{"type":"user"}\n' * 100


@pytest.fixture(scope="module")
def served() -> Iterator[str]:
    with bucket() as address:
        yield address


@pytest.fixture(params=["folder", "bucket"])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> ExternalBlobStore:
    if request.param == "folder":
        return open_blob_store(str(tmp_path / "raw"))
    return open_blob_store(f"{request.getfixturevalue('served')}/{uuid4().hex}")


def test_same_bytes_of_one_source_share_a_blob(objects: ExternalBlobStore) -> None:
    blobs = objects.for_source("ann", "a.jsonl")

    address = blobs.put(RAW)

    assert (
        blobs.put(RAW) == address == blobs.put_frame(compress(RAW), sha256_digest(RAW))
    )
    assert address.startswith("ann/")
    assert list(objects.addresses()) == [address]
    assert objects.get(address) == RAW


def test_same_bytes_of_two_sources_are_two_blobs(
    objects: ExternalBlobStore,
) -> None:
    first = objects.for_source("ann", "a.jsonl").put(RAW)
    second = objects.for_source("ben", "a.jsonl").put(RAW)

    objects.remove([first, first])

    assert objects.get(second) == RAW
    with pytest.raises(ArchiveDamaged, match="missing"):
        objects.get(first)
    assert list(objects.addresses("ann/")) == []
    assert list(objects.addresses("ben/")) == [second]


@pytest.mark.parametrize("address", ["../x", "a/../b", "/etc/passwd", "", "a//b", "A"])
def test_address_with_path_traversal_is_rejected(
    objects: ExternalBlobStore, address: str
) -> None:
    with pytest.raises(ArchiveDamaged, match="not a valid address"):
        objects.get(address)


def test_blob_with_another_hash_is_rejected(tmp_path: Path) -> None:
    objects = open_blob_store(f"file://{tmp_path}/raw")
    address = objects.for_source("ann", "a").put(RAW)
    path = tmp_path / "raw" / f"{address}.zst"

    path.write_bytes(compress(b"others"))
    with pytest.raises(ArchiveDamaged, match="does not match its hash"):
        objects.get(address)
    path.write_bytes(b"torn")
    with pytest.raises(ArchiveDamaged, match=address):
        objects.get(address)


def test_temporary_files_are_removed_with_their_blob(tmp_path: Path) -> None:
    objects = open_blob_store(str(tmp_path / "raw"))
    address = objects.for_source("ann", "a").put(RAW)
    (tmp_path / "raw" / f"{address}.zst.77.abcd").write_bytes(b"half")

    objects.remove([address])

    assert list((tmp_path / "raw").iterdir()) == []


def test_blob_folder_is_private(tmp_path: Path) -> None:
    objects = open_blob_store(str(tmp_path / "raw"))
    address = objects.for_source("ann", "a").put(RAW)

    for path in (tmp_path / "raw", *(tmp_path / "raw").rglob("*")):
        assert path.stat().st_mode & 0o077 == 0
    assert (tmp_path / "raw" / f"{address}.zst").is_file()


@pytest.mark.parametrize("url", ["file://", "nowhere://bucket", ""])
def test_invalid_blob_store_url_is_rejected(url: str) -> None:
    pytest.importorskip("fsspec", reason="fsspec is not installed")
    with pytest.raises(InvalidStoreURL):
        open_blob_store(url)


def test_missing_bucket_is_reported_as_store_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("s3fs", reason="s3fs is not installed")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "y")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")

    with pytest.raises(StoreError, match="the raw store"):
        open_blob_store("s3://nowhere/raw").for_source("ann", "a").put(RAW)


def test_blob_is_written_even_if_its_folder_is_removed_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = FolderBackend(tmp_path / "raw")
    sync = fsync_folder
    removed: list[str] = []

    def erase_then_sync(folder: Path) -> None:
        if not removed and folder.name == "source":
            removed.append("ann/source/1.zst")
            backend.remove(removed[0])
        sync(folder)

    monkeypatch.setattr(blobs, "fsync_folder", erase_then_sync)

    backend.write("ann/source/1.zst", RAW)

    assert removed
    assert backend.read("ann/source/1.zst") == RAW


def test_folders_that_are_removed_while_blobs_are_listed_are_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = FolderBackend(tmp_path / "raw")
    backend.write("ann/first/1.zst", RAW)
    backend.write("ann/second/2.zst", RAW)
    scan = os.scandir

    def scan_or_fail(path: Path) -> object:
        if str(path).endswith("second"):
            raise FileNotFoundError(path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", scan_or_fail)

    assert list(backend.list_names("")) == ["ann/first/1.zst"]
