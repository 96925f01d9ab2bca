"""What is stored about purged data."""

from __future__ import annotations

from pathlib import Path

from bygones.model.base import SessionId, SourceFile, SourceId, SourceKind
from bygones.store.archive_db import (
    ArchiveDB,
    begin_purge,
    end_purge,
    hash_of_session,
    hashes_of_source,
    is_purge_pending,
    load_pending_purge,
    load_purged_hashes,
)
from tests.build import session_id

ONE, TWO = SessionId(session_id(1)), SessionId("my-notes")


def test_purged_ids_are_replaced_by_hashes_when_the_purge_ends(
    tmp_path: Path,
) -> None:
    db = ArchiveDB(tmp_path, write=True).db
    assert not is_purge_pending(db)

    begin_purge(db, [ONE, TWO])
    assert (is_purge_pending(db), sorted(load_pending_purge(db))) == (True, [ONE, TWO])

    end_purge(db)
    assert (is_purge_pending(db), load_pending_purge(db)) == (False, [])
    assert load_purged_hashes(db) == {hash_of_session(ONE), hash_of_session(TWO)}


def test_purge_without_sessions_has_no_ids(tmp_path: Path) -> None:
    db = ArchiveDB(tmp_path, write=True).db

    begin_purge(db, [])

    assert (is_purge_pending(db), load_pending_purge(db)) == (True, [])


def test_file_name_that_is_not_an_id_is_not_hashed() -> None:
    def hashes(session: str) -> set[bytes]:
        path = f"projects/-work/{session}.jsonl"
        return hashes_of_source(
            SourceFile(
                id=SourceId(f"/home/{path}"),
                home="/home",
                relative_path=path,
                kind=SourceKind.SESSION,
                size=0,
                mtime_ns=0,
                session_id=SessionId(session),
            )
        )

    assert hash_of_session(ONE) in hashes(ONE)
    assert hash_of_session(TWO) not in hashes(TWO)
