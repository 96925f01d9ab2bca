"""Erased data is removed everywhere, and is not accepted again."""

from __future__ import annotations

from pathlib import Path

import pytest

from bygones.model.base import SessionId
from bygones.team.access import TokenStore, erase, remove_orphaned_blobs
from bygones.team.contract import ErasureSelector
from tests.build import session_id
from tests.hub.sending import NOW, MemoryHub, make_project, push_project


def bytes_in(folder: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.fixture
def hub(tmp_path: Path) -> MemoryHub:
    _, folder = make_project(tmp_path)
    hub = MemoryHub(tmp_path / "raw")
    push_project(folder, hub)
    hub.folder = folder
    return hub


def test_erasure_removes_all_blobs_of_a_session(hub: MemoryHub, tmp_path: Path) -> None:
    assert len(bytes_in(tmp_path / "raw")) == 3

    receipt = erase(
        hub.store,
        hub.objects,
        ErasureSelector(session=SessionId(session_id(1))),
        now=NOW,
    )

    assert receipt.sessions == (session_id(1),)
    assert len(bytes_in(tmp_path / "raw")) == 2
    assert not any(b"of 1," in text for text in hub.texts().values())
    assert list(hub.store.orphaned_blobs()) == []
    assert push_project(hub.folder, hub).erased_files == 1
    assert len(bytes_in(tmp_path / "raw")) == 2


def test_erased_person_has_no_token(hub: MemoryHub, tmp_path: Path) -> None:
    secret, _ = TokenStore(hub.store).issue("ann", now=NOW)
    other, _ = TokenStore(hub.store).issue("ben", now=NOW)

    erase(hub.store, hub.objects, ErasureSelector(person="ann"), now=NOW)

    assert bytes_in(tmp_path / "raw") == {}
    assert TokenStore(hub.store).authenticate(secret) is None
    assert TokenStore(hub.store).authenticate(other) is not None


def test_held_session_is_erased_after_release(hub: MemoryHub, tmp_path: Path) -> None:
    hold = ErasureSelector(session=SessionId(session_id(2)))
    hub.store.hold(hold, reason="a dispute")

    receipt = erase(hub.store, hub.objects, ErasureSelector(person="ann"), now=NOW)

    assert receipt.held_sessions == (session_id(2),)
    assert len(bytes_in(tmp_path / "raw")) == 1
    hub.store.release(hold)
    erase(hub.store, hub.objects, ErasureSelector(person="ann"), now=NOW)
    assert bytes_in(tmp_path / "raw") == {}


def test_interrupted_erasure_can_be_repeated(hub: MemoryHub, tmp_path: Path) -> None:
    # Interrupted after the database part: the blob store is unchanged so far.
    hub.store.erase(ErasureSelector(session=SessionId(session_id(0))), now=NOW)
    assert len(bytes_in(tmp_path / "raw")) == 3

    assert remove_orphaned_blobs(hub.store, hub.objects) == 1

    assert len(bytes_in(tmp_path / "raw")) == 2
    assert remove_orphaned_blobs(hub.store, hub.objects) == 0


def test_blobs_of_a_killed_hub_are_removed(hub: MemoryHub, tmp_path: Path) -> None:
    hub.objects.for_source("ann", "a source that the engine never had").put(b"canary\n")
    expected = dict(hub.texts())

    assert remove_orphaned_blobs(hub.store, hub.objects) == 1

    assert len(bytes_in(tmp_path / "raw")) == 3
    assert hub.texts() == expected
