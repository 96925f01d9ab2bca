"""The search for traces finds everything that is on the disk."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import pytest
import zstandard

from bygones.store.text_index import TextIndex
from bygones.store.tokenizer import prepare_with_checksum
from tests.faults.traces import decompress_frames, find_traces

CANARY = b"canaryabcdefghijkl"
RANDOM = Random(1)  # noqa: S311 (the same every time)
PAGES = 10


def create_frame() -> bytes:
    """Return a frame of several pages with the canary hidden in it.

    Of frames of some other lengths, SQLite overwrites a part when it deletes their rows.
    """
    around = bytes(RANDOM.choices(b"abcdefghijkl", k=PAGES * 4_096))
    compressed = zstandard.compress(around + CANARY + around[::-1], level=1)
    assert CANARY not in compressed
    assert len(compressed) > PAGES / 2 * 4_096
    return compressed


@pytest.fixture(params=["in the file", "in the log"])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """Return a database with a table and unrelated rows."""
    with closing(sqlite3.connect(tmp_path / "some.db", isolation_level=None)) as db:
        if request.param == "in the log":
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA wal_autocheckpoint = 0")
        db.execute("PRAGMA secure_delete = OFF")
        db.execute("CREATE TABLE kept (id INTEGER PRIMARY KEY, before TEXT, frame)")
        for number in range(9):
            db.execute("INSERT INTO kept VALUES (?, '', ?)", (number * 10, b"x" * 600))
        yield db


@pytest.mark.parametrize("before", ["", "y" * 5_000], ids=["at once", "further on"])
def test_what_is_pressed_into_several_pages_is_found(
    before: str, db: sqlite3.Connection, tmp_path: Path
) -> None:
    assert find_traces(tmp_path, CANARY) == []

    db.execute("INSERT INTO kept VALUES (33, ?, ?)", (before, create_frame()))

    for path in tmp_path.iterdir():
        assert CANARY not in b"".join(decompress_frames(path.read_bytes()))
    assert find_traces(tmp_path, CANARY) == ["some.db"]


@pytest.mark.parametrize("before", ["", "y" * 5_000], ids=["at once", "further on"])
def test_what_only_free_pages_hold_is_found(
    before: str, db: sqlite3.Connection, tmp_path: Path
) -> None:
    db.execute("INSERT INTO kept VALUES (33, ?, ?)", (before, create_frame()))
    db.execute("INSERT INTO kept VALUES (34, '', ?)", (b"z" * 9_000,))
    # The first page that is freed becomes the trunk page of the free list.
    db.execute("DELETE FROM kept WHERE id = 34")
    db.execute("DELETE FROM kept WHERE id = 33")

    assert find_traces(tmp_path, CANARY) == ["some.db"]


def test_what_was_overwritten_is_not_found(
    db: sqlite3.Connection, tmp_path: Path
) -> None:
    db.execute("INSERT INTO kept VALUES (33, '', ?)", (create_frame(),))
    db.execute("PRAGMA secure_delete = ON")
    db.execute("DELETE FROM kept WHERE id = 33")
    db.execute("VACUUM")
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    assert find_traces(tmp_path, CANARY) == []


def test_what_a_log_held_before_is_found(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "some.db", isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("CREATE TABLE kept (frame)")
        db.execute("INSERT INTO kept VALUES (?)", (create_frame(),))
        db.execute("PRAGMA secure_delete = ON")
        db.execute("DELETE FROM kept")
        db.execute("VACUUM")
        db.execute("PRAGMA wal_checkpoint(RESTART)")
        db.execute("INSERT INTO kept VALUES ('other')")

        assert find_traces(tmp_path, CANARY) == ["some.db"]


def test_words_are_found_also_if_no_index_names_them_any_more(tmp_path: Path) -> None:
    text = TextIndex(tmp_path / "text", write=True)
    text.add(1, 1, 1, prepare_with_checksum(f"A {CANARY.decode()}, and others"))
    text.commit()
    text.close()
    raw = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert CANARY not in raw
    assert find_traces(tmp_path, CANARY) == ["meta.json"]

    meta = tmp_path / "text" / "meta.json"
    without_segments = json.loads(meta.read_text("utf-8")) | {"segments": []}
    meta.write_text(json.dumps(without_segments), "utf-8")

    assert find_traces(tmp_path, CANARY) == ["meta.json"]
    assert find_traces(tmp_path, b"canarythatneverwas") == []


def test_names_and_plain_files_are_looked_through(tmp_path: Path) -> None:
    (tmp_path / f"{CANARY.decode()}.txt").touch()
    (tmp_path / "plain").write_bytes(b"..." + CANARY)
    (tmp_path / "pressed").write_bytes(b"..." + create_frame() + b"...")

    assert find_traces(tmp_path, CANARY) == [
        f"{CANARY.decode()}.txt",
        "plain",
        "pressed",
    ]
