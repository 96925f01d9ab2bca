"""What a writer of words leaves that was killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from bygones.store.text_index import TextIndex
from bygones.store.tokenizer import prepare_with_checksum


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the words of two records, of which one was then to be removed."""
    text = TextIndex(tmp_path, write=True)
    for record in (1, 2):
        text.add(record, 1, 0, prepare_with_checksum("hello"))
    text.commit()
    text.close()
    return tmp_path


def removed(folder: Path) -> set[str]:
    """Remove what one record says; return what files there are then."""
    text = TextIndex(folder, write=True)
    try:
        text.remove([1])
        text.commit()
        assert [record for record, *_ in text.iter_documents()] == [2]
    finally:
        text.close()
    return {path.name for path in folder.glob("*.del")}


def test_files_of_a_killed_writer_are_removed(folder: Path) -> None:
    known = (folder / "meta.json").read_bytes()
    assert removed(folder)
    # As if it had been killed before it said so.
    (folder / "meta.json").write_bytes(known)

    assert removed(folder)
