"""Purged sessions are found by their id."""

from __future__ import annotations

from pathlib import Path

import pytest

from bygones.errors import AmbiguousSelector
from bygones.maintenance.purge import find_purged
from bygones.model.base import SessionId
from bygones.store.archive_db import begin_purge, end_purge
from tests.build import session, session_id
from tests.store.sandbox import Sandbox

ONE, NEVER = SessionId(session_id(1)), SessionId(session_id(3))
TWO = SessionId("5e55ffff-0000-4000-8000-000000000002")


@pytest.fixture
def sandbox(tmp_path: Path) -> Sandbox:
    """Return an archive with a history that contains one of two session ids."""
    sandbox = Sandbox(tmp_path)
    sandbox.home.session(NEVER, session("a", "b<a"))
    sandbox.home.history([{"display": "Count", "sessionId": ONE}])
    sandbox.ingest()
    with sandbox.open_dir(write=True) as archive_dir:
        begin_purge(archive_dir.byte_store.db, [ONE, TWO])
    return sandbox


def known(sandbox: Sandbox, name: str) -> str | None:
    with sandbox.open_dir() as archive_dir:
        return find_purged(archive_dir.byte_store, name)


def test_purged_session_is_found_by_its_id(sandbox: Sandbox) -> None:
    assert [known(sandbox, name) for name in (ONE, TWO, NEVER)] == [ONE, TWO, None]


def test_prefix_works_while_the_purge_is_unfinished(sandbox: Sandbox) -> None:
    assert known(sandbox, TWO[:8]) == TWO
    with pytest.raises(AmbiguousSelector, match=f"{ONE}; {TWO}"):
        known(sandbox, ONE[:4])


def test_prefix_works_while_a_file_still_contains_the_id(sandbox: Sandbox) -> None:
    with sandbox.open_dir(write=True) as archive_dir:
        end_purge(archive_dir.byte_store.db)

    assert (known(sandbox, ONE[:4]), known(sandbox, TWO[:8])) == (ONE, None)


@pytest.mark.parametrize("name", ["", ".*", "Coun", '"', "%", NEVER])
def test_session_that_was_not_purged_is_not_found(sandbox: Sandbox, name: str) -> None:
    assert known(sandbox, name) is None
