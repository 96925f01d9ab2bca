"""Writing files atomically."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from bygones.export.files import (
    encode_chunks,
    make_file_name,
    write_atomic,
    write_if_changed,
)


def test_parent_folders_are_created(tmp_path: Path) -> None:
    assert write_atomic(tmp_path / "a" / "b", [b"x", b"yz"]) == 3
    assert (tmp_path / "a" / "b").read_bytes() == b"xyz"


def test_failed_write_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "page"
    path.write_bytes(b"old")

    def failing() -> Iterator[bytes]:
        yield b"new"
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write_atomic(path, failing())
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [
        ("page", b"old")
    ]


def test_private_file_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    write_atomic(tmp_path / "page", [b""], private=True)

    assert stat.S_IMODE((tmp_path / "page").stat().st_mode) & 0o077 == 0


def test_unchanged_content_is_not_written_again(tmp_path: Path) -> None:
    path = tmp_path / "page"

    assert write_if_changed(path, b"x")
    assert not write_if_changed(path, b"x")
    assert write_if_changed(path, b"y")


@pytest.mark.parametrize(
    "id_", ["../x", "a/b", ".hidden", "a b", "", "x" * 300, "\x00"]
)
def test_unusual_id_is_not_used_as_file_name(id_: str) -> None:
    assert make_file_name(id_).isalnum()
    assert make_file_name("5e55-a_b") == "5e55-a_b"


@pytest.mark.parametrize("size", [0, 1, 200_000])
def test_encoded_chunks_are_the_joined_texts(size: int) -> None:
    texts = ["é" * size, "", "b" * size, "\ud800"]

    assert b"".join(encode_chunks(texts)) == "".join(texts).encode("utf-8", "replace")


@pytest.mark.skipif(os.name != "posix", reason="modes are those of POSIX")
@pytest.mark.parametrize(
    ("umask", "private", "modes"),
    [
        (0o000, False, (0o664, 0o775)),
        (0o022, False, (0o644, 0o755)),
        (0o077, False, (0o600, 0o700)),
        (0o000, True, (0o600, 0o700)),
    ],
)
def test_modes_respect_the_umask_and_are_never_world_writable(
    umask: int, private: bool, modes: tuple[int, int], tmp_path: Path
) -> None:
    path = tmp_path / "site" / "sessions" / "page"
    other = tmp_path / "page"
    leftover = tmp_path / ".page.exporting"
    leftover.touch()
    leftover.chmod(0o666)
    before = os.umask(umask)
    try:
        write_atomic(path, [b"x"], private=private)
        write_atomic(other, [b"x"], private=private)
    finally:
        os.umask(before)

    files = {stat.S_IMODE(one.stat().st_mode) for one in (path, other)}
    folders = {stat.S_IMODE(one.stat().st_mode) for one in path.parents[:2]}
    assert (files, folders) == ({modes[0]}, {modes[1]})


@pytest.mark.skipif(os.name != "posix", reason="links need rights elsewhere")
def test_link_in_place_of_the_temporary_file_is_not_followed(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"mine")
    (tmp_path / ".page.exporting").symlink_to(other)

    write_atomic(tmp_path / "page", [b"x"])

    assert other.read_bytes() == b"mine"
    assert not (tmp_path / "page").is_symlink()


def test_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    received: list[bytes] = []
    reader = Thread(target=lambda: received.append(path.read_bytes()), daemon=True)
    reader.start()

    assert write_atomic(path, [b"x", b"yz"]) == 3
    reader.join(5)
    assert received == [b"xyz"]
    assert path.is_fifo()
