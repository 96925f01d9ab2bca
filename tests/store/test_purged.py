"""What is remembered of what was erased."""

from __future__ import annotations

from pathlib import Path

from bygones.model.ids import SessionId, SourceId
from bygones.model.sources import Source, SourceKind
from bygones.store.chunks import Chunks
from bygones.store.purged import (
    begin_erasing,
    end_erasing,
    erased_signs,
    is_erasing,
    purged_signs,
    session_sign,
    unfinished,
)
from tests.build import session_id

ONE, TWO = SessionId(session_id(1)), SessionId("my-notes")


def test_ids_are_kept_until_a_purge_is_done_and_hashes_from_then_on(
    tmp_path: Path,
) -> None:
    db = Chunks(tmp_path, write=True).db
    assert not is_erasing(db)

    begin_erasing(db, [ONE, TWO])
    assert (is_erasing(db), sorted(unfinished(db))) == (True, [ONE, TWO])

    end_erasing(db)
    assert (is_erasing(db), unfinished(db)) == (False, [])
    assert erased_signs(db) == {session_sign(ONE), session_sign(TWO)}


def test_a_purge_of_files_of_no_session_has_no_ids(tmp_path: Path) -> None:
    db = Chunks(tmp_path, write=True).db

    begin_erasing(db, [])

    assert (is_erasing(db), unfinished(db)) == (True, [])


def test_a_name_that_is_no_id_is_not_what_a_file_is_refused_by() -> None:
    def signs(session: str) -> set[bytes]:
        place = f"projects/-work/{session}.jsonl"
        return purged_signs(
            Source(
                id=SourceId(f"/home/{place}"),
                home="/home",
                path=place,
                kind=SourceKind.SESSION,
                size=0,
                mtime_ns=0,
                session=SessionId(session),
            )
        )

    assert session_sign(ONE) in signs(ONE)
    assert session_sign(TWO) not in signs(TWO)
