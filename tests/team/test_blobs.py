"""The raw store keeps bytes by what they are, and forgets them wholly."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from bygones.errors import ArchiveDamaged, InvalidStoreURL, StoreError
from bygones.store.compression import compress, sha256_digest
from bygones.team.blobs import ExternalBlobStore, open_blob_store
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


def test_the_same_bytes_of_a_source_are_one_object(objects: ExternalBlobStore) -> None:
    place = objects.for_source("ann", "a.jsonl")

    address = place.put(RAW)

    assert (
        place.put(RAW) == address == place.put_frame(compress(RAW), sha256_digest(RAW))
    )
    assert address.startswith("ann/")
    assert list(objects.addresses()) == [address]
    assert objects.get(address) == RAW


def test_the_same_bytes_of_two_sources_are_two_objects(
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
def test_an_address_leads_nowhere_else(
    objects: ExternalBlobStore, address: str
) -> None:
    with pytest.raises(ArchiveDamaged, match="no address"):
        objects.get(address)


def test_bytes_that_are_others_are_not_given(tmp_path: Path) -> None:
    objects = open_blob_store(f"file://{tmp_path}/raw")
    address = objects.for_source("ann", "a").put(RAW)
    path = tmp_path / "raw" / f"{address}.zst"

    path.write_bytes(compress(b"others"))
    with pytest.raises(ArchiveDamaged, match="another hash"):
        objects.get(address)
    path.write_bytes(b"torn")
    with pytest.raises(ArchiveDamaged, match=address):
        objects.get(address)


def test_what_a_killed_writer_left_goes_with_its_object(tmp_path: Path) -> None:
    objects = open_blob_store(str(tmp_path / "raw"))
    address = objects.for_source("ann", "a").put(RAW)
    (tmp_path / "raw" / f"{address}.zst.77.abcd").write_bytes(b"half")

    objects.remove([address])

    assert list((tmp_path / "raw").iterdir()) == []


def test_only_the_owner_can_look_into_the_folder(tmp_path: Path) -> None:
    objects = open_blob_store(str(tmp_path / "raw"))
    address = objects.for_source("ann", "a").put(RAW)

    for path in (tmp_path / "raw", *(tmp_path / "raw").rglob("*")):
        assert path.stat().st_mode & 0o077 == 0
    assert (tmp_path / "raw" / f"{address}.zst").is_file()


@pytest.mark.parametrize("url", ["file://", "nowhere://bucket", ""])
def test_an_address_of_no_store_is_refused(url: str) -> None:
    pytest.importorskip("fsspec", reason="fsspec is not installed")
    with pytest.raises(InvalidStoreURL):
        open_blob_store(url)


def test_a_bucket_that_is_not_there_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("s3fs", reason="s3fs is not installed")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "y")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")

    with pytest.raises(StoreError, match="the raw store"):
        open_blob_store("s3://nowhere/raw").for_source("ann", "a").put(RAW)
