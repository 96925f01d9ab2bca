"""Writing files atomically."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

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
