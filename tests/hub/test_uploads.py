"""Uploads are checked before any part is stored."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from bygones.errors import UploadRejected, UploadTooLarge
from bygones.hub.uploads import UploadHandler, UploadLimits, parse_request
from bygones.model.base import SessionId, SourceKind
from bygones.store.compression import compress, compress_and_hash
from bygones.team.contract import (
    ErasureSelector,
    UploadChunk,
    UploadRequest,
    encode_message,
)
from tests.hub.sending import NOW, MemoryHub

RAW = b'{"type":"user","uuid":"a"}\n'
SHA, FRAME = compress_and_hash(RAW)
PIECE = UploadChunk(
    home="0" * 16,
    path="projects/-work/5e55.jsonl",
    kind=SourceKind.SESSION,
    project="-work",
    session="5e55",
    agent=None,
    mtime_ns=1,
    generation=0,
    offset=0,
    length=len(RAW),
    client_offset=len(RAW),
    sha256=SHA,
    frame=FRAME,
)
MACHINE = "0" * 32


def make_request(*pieces: UploadChunk, machine: str = MACHINE) -> UploadRequest:
    return UploadRequest(machine=machine, chunks=pieces)


def change_chunk(**fields: object) -> UploadChunk:
    return msgspec.structs.replace(PIECE, **fields)


def unsized(raw: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_content_size=False).compress(raw)


BOMB = compress(b"\n" * (80 * 1024 * 1024))


@pytest.mark.parametrize(
    "piece",
    [
        change_chunk(home="../.."),
        change_chunk(path=""),
        change_chunk(path="projects/../../etc/passwd"),
        change_chunk(path="a\0b"),
        change_chunk(path="a" * 5000),
        change_chunk(session="x\x1b[2J"),
        change_chunk(project="..\\up"),
        change_chunk(offset=-1),
        change_chunk(client_offset=1 << 60),
        change_chunk(generation=1 << 31),
        change_chunk(mtime_ns=-1),
        change_chunk(length=len(RAW) + 1),
        change_chunk(length=0),
        change_chunk(sha256=b"x" * 32),
        change_chunk(frame=b"junk"),
        change_chunk(frame=b""),
        change_chunk(frame=unsized(RAW)),
        change_chunk(frame=compress(RAW) + b"more"),
        change_chunk(frame=compress(RAW) + compress(RAW)),
        change_chunk(frame=BOMB, length=80 * 1024 * 1024),
        change_chunk(frame=BOMB),
        change_chunk(
            frame=compress(RAW[:-1]),
            length=len(RAW) - 1,
            sha256=compress_and_hash(RAW[:-1])[0],
        ),
        change_chunk(fingerprint=b"1"),
        change_chunk(fingerprint=b"1" * 33, length=0, frame=b""),
        change_chunk(fingerprint=b"1", length=0, frame=b"", kind=SourceKind.SIDECAR),
    ],
    ids=range(25),
)
def test_request_with_an_invalid_chunk_is_rejected(piece: UploadChunk) -> None:
    with pytest.raises(UploadRejected):
        parse_request(encode_message(make_request(PIECE, piece)))


@pytest.mark.parametrize("machine", ["", "laptop", "0" * 33, "../" + "0" * 29])
def test_request_without_machine_is_rejected(machine: str) -> None:
    with pytest.raises(UploadRejected, match="machine"):
        parse_request(encode_message(make_request(PIECE, machine=machine)))


@pytest.mark.parametrize("signs", [(b"",), (b"1" * 33,), (SHA,) * 10_001], ids=range(3))
def test_request_with_invalid_hashes_is_rejected(signs: tuple[bytes, ...]) -> None:
    with pytest.raises(UploadRejected, match="hashes"):
        parse_request(
            encode_message(UploadRequest(machine=MACHINE, chunks=(), hashes=signs))
        )


@given(st.binary(max_size=200), st.integers(0, 400), st.integers(0, 255))
def test_random_bytes_are_rejected(junk: bytes, at: int, sign: int) -> None:
    whole = bytearray(encode_message(make_request(PIECE)))
    whole[at % len(whole)] = sign

    for raw in (junk, bytes(whole)):
        try:
            checked = parse_request(raw)
        except UploadRejected:
            continue
        assert all(one.sha256 == SHA for one in checked.chunks)


def test_owner_comes_from_the_token_only(tmp_path: Path) -> None:
    ann, ben = MemoryHub(tmp_path, "ann"), MemoryHub(tmp_path, "ben")
    ben.store, ben.handler = ann.store, ann.handler
    ann.send(make_request(PIECE))

    assert ben.fetch_state(MACHINE).sources == ()
    ben.send(make_request(PIECE))

    people = sorted(batch.source.person for batch in ann.store.export_updates())
    assert people == ["ann", "ben"]
    addresses = {
        b.source.person: b.spans[0].address for b in ann.store.export_updates()
    }
    assert addresses["ann"].startswith("ann/")
    assert addresses["ben"].startswith("ben/")


@pytest.mark.parametrize(
    ("pieces", "upto"),
    [
        ([PIECE, PIECE], len(RAW)),
        ([change_chunk(offset=5)], 0),
        ([change_chunk(offset=5), PIECE], len(RAW)),
        ([PIECE, change_chunk(offset=len(RAW))], 2 * len(RAW)),
        ([change_chunk(length=0, frame=b"", sha256=b"")], 0),
    ],
)
def test_only_continuing_chunks_are_stored(
    tmp_path: Path, pieces: list[UploadChunk], upto: int
) -> None:
    hub = MemoryHub(tmp_path)

    (known,) = hub.send(make_request(*pieces)).sources

    assert known.stored_bytes == upto
    assert sum(map(len, hub.texts().values())) == upto
    assert len(set(hub.objects.addresses())) == min(upto, 1)


def test_older_generation_is_ignored(tmp_path: Path) -> None:
    hub = MemoryHub(tmp_path)
    hub.send(make_request(change_chunk(generation=3)))

    (known,) = hub.send(
        make_request(change_chunk(generation=2, offset=len(RAW)))
    ).sources

    assert (known.generation, known.stored_bytes) == (3, len(RAW))


def test_probe_stores_nothing(tmp_path: Path) -> None:
    hub = MemoryHub(tmp_path)

    (known,) = hub.send(
        make_request(change_chunk(length=0, frame=b"", sha256=b""))
    ).sources

    assert (known.stored_bytes, known.is_erased) == (0, False)
    assert list(hub.store.export_updates()) == []
    assert list(hub.objects.addresses()) == []


def test_bytes_of_erased_sources_are_not_written(tmp_path: Path) -> None:
    hub = MemoryHub(tmp_path)
    hub.send(make_request(PIECE))
    receipt = hub.store.erase(ErasureSelector(session=SessionId("5e55")), now=NOW)
    hub.objects.remove(receipt.blob_addresses)

    (known,) = hub.send(make_request(PIECE)).sources

    assert known.is_erased
    assert list(hub.objects.addresses()) == []


def test_blobs_of_a_source_erased_during_upload_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = MemoryHub(tmp_path)
    put: Callable[..., object] = hub.store.put

    def late(batch: object) -> object:
        if getattr(batch, "spans", ()):
            hub.store.erase(ErasureSelector(session=SessionId("5e55")), now=NOW)
        return put(batch)

    monkeypatch.setattr(hub.store, "put", late)
    (known,) = hub.send(make_request(PIECE)).sources

    assert known.is_erased
    assert list(hub.objects.addresses()) == []


def test_source_is_stored_before_its_first_blob(tmp_path: Path) -> None:
    hub = MemoryHub(tmp_path)
    # A sweep of the blob store removes blobs without a source.
    known: list[int] = []
    write = hub.objects.backend.write

    def record_write(name: str, raw: bytes) -> None:
        known.append(len(hub.store.machine_sources("ann", MACHINE)))
        write(name, raw)

    hub.objects.backend.write = record_write  # type: ignore[method-assign]
    hub.send(
        make_request(
            PIECE, change_chunk(path="projects/-work/5e56.jsonl", session="5e56")
        )
    )

    assert known == [2, 2]


def test_rejected_source_does_not_affect_others(tmp_path: Path) -> None:
    hub = MemoryHub(tmp_path)
    hub.send(make_request(PIECE))
    hub.store.erase(ErasureSelector(session=SessionId("5e55")), now=NOW)

    other_one = change_chunk(path="projects/-work/5e56.jsonl", session="5e56")
    answer = hub.send(make_request(PIECE, other_one, PIECE))

    states = {one.path: (one.stored_bytes, one.is_erased) for one in answer.sources}
    assert states == {PIECE.path: (0, True), other_one.path: (len(RAW), False)}


def test_bomb_of_many_frames_is_rejected_before_it_is_decompressed() -> None:
    raw = b"\n" * (16 * 1024 * 1024)
    sha256, frame = compress_and_hash(raw)
    bomb = change_chunk(frame=frame, length=len(raw), sha256=sha256)
    body = encode_message(make_request(*[bomb] * 60))
    assert len(body) < 200_000

    started = time.process_time()
    with pytest.raises(UploadTooLarge, match="uncompressed"):
        parse_request(body)
    assert time.process_time() - started < 1


@pytest.mark.parametrize("name", ["source_bytes", "person_bytes"])
def test_file_and_person_are_limited(name: str, tmp_path: Path) -> None:
    hub = MemoryHub(tmp_path)
    limits = UploadLimits(**{name: 2 * len(RAW)})
    hub.handler = UploadHandler(hub.store, hub.objects, limits)
    pieces = [
        change_chunk(offset=number * len(RAW), client_offset=(number + 1) * len(RAW))
        for number in range(3)
    ]

    assert hub.send(make_request(*pieces[:2])).sources[0].stored_bytes == 2 * len(RAW)
    with pytest.raises(UploadTooLarge, match="more than"):
        hub.send(make_request(*pieces))


def test_deeply_nested_unknown_field_is_rejected() -> None:
    fields = msgspec.msgpack.decode(encode_message(make_request(PIECE)))
    nested = msgspec.Raw(b"\x91" * 200_000 + b"\xc0")

    with pytest.raises(UploadRejected):
        parse_request(msgspec.msgpack.encode(fields | {"unknown": nested}))
