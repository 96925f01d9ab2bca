"""Purged sessions are found by their id."""

from __future__ import annotations

from pathlib import Path

import pytest

from bygones.errors import AmbiguousSelector
from bygones.maintenance.purge import find_purged
from bygones.model.base import SessionId
from bygones.store.archive_db import begin_purge, end_purge
from tests.build import session, session_id
from tests.store.keeping import Keeping

ONE, NEVER = SessionId(session_id(1)), SessionId(session_id(3))
TWO = SessionId("5e55ffff-0000-4000-8000-000000000002")


@pytest.fixture
def keeping(tmp_path: Path) -> Keeping:
    """Return an archive with a history that contains one of two session ids."""
    keeping = Keeping(tmp_path)
    keeping.home.session(NEVER, session("a", "b<a"))
    keeping.home.history([{"display": "Count", "sessionId": ONE}])
    keeping.ingest()
    with keeping.vault(write=True) as archive_dir:
        begin_purge(archive_dir.byte_store.db, [ONE, TWO])
    return keeping


def known(keeping: Keeping, name: str) -> str | None:
    with keeping.vault() as archive_dir:
        return find_purged(archive_dir.byte_store, name)


def test_purged_session_is_found_by_its_id(keeping: Keeping) -> None:
    assert [known(keeping, name) for name in (ONE, TWO, NEVER)] == [ONE, TWO, None]


def test_prefix_works_while_the_purge_is_unfinished(keeping: Keeping) -> None:
    assert known(keeping, TWO[:8]) == TWO
    with pytest.raises(AmbiguousSelector, match=f"{ONE}; {TWO}"):
        known(keeping, ONE[:4])


def test_prefix_works_while_a_file_still_contains_the_id(keeping: Keeping) -> None:
    with keeping.vault(write=True) as archive_dir:
        end_purge(archive_dir.byte_store.db)

    assert (known(keeping, ONE[:4]), known(keeping, TWO[:8])) == (ONE, None)


@pytest.mark.parametrize("name", ["", ".*", "Coun", '"', "%", NEVER])
def test_session_that_was_not_purged_is_not_found(keeping: Keeping, name: str) -> None:
    assert known(keeping, name) is None
