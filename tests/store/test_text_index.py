"""Files that a killed writer of the text index leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from bygones.store.text_index import TextIndex
from bygones.store.tokenizer import prepare_with_checksum


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a text index with two records."""
    text = TextIndex(tmp_path, write=True)
    for record in (1, 2):
        text.add(record, 1, 0, prepare_with_checksum("hello"))
    text.commit()
    text.close()
    return tmp_path


def remove_record(folder: Path) -> set[str]:
    """Remove the text of one record; return the files of the index."""
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
    assert remove_record(folder)
    # As if it had been killed before the commit.
    (folder / "meta.json").write_bytes(known)

    assert remove_record(folder)
