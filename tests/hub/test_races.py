"""What is erased while it is being written is erased all the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Thread

import pytest

from bygones.model.base import SessionId
from bygones.team.access import erase
from bygones.team.blobs import ExternalBlobStore
from bygones.team.contract import AccessScope, BlobStore, ErasureSelector
from bygones.team.stores import postgres_rows
from bygones.team.stores.base import TeamStore
from bygones.team.stores.postgres import PostgresStore
from bygones.team.worker import derive_all
from tests.build import session_id
from tests.hub.sending import NOW, MemoryHub, sent, worked

LONG = 300
"""Seconds after which a thread is stuck, also on a busy machine."""
GONE = ErasureSelector(session=SessionId(session_id(1)))
Made = Callable[[], tuple[TeamStore, BlobStore]]


@pytest.fixture
def hub(make: Made, tmp_path: Path) -> Iterator[MemoryHub]:
    """Return a hub on a real engine, to which three sessions were sent."""
    hub = MemoryHub(tmp_path / "raw")
    store, _ = make()
    hub.folder = worked(tmp_path)[1]
    hub.use(store)
    sent(hub.folder, hub)
    yield hub
    store.close()


def other(hub: MemoryHub) -> tuple[TeamStore, ExternalBlobStore]:
    """Return the same store over a connection of its own."""
    return type(hub.store)(hub.store._address), hub.objects  # type: ignore[attr-defined, call-arg]


def sessions(hub: MemoryHub) -> list[str]:
    shelf = hub.store.open_reader(AccessScope(person="ann"), hub.objects)
    try:
        return sorted(
            one.id for one in shelf.sessions.iter_summaries(include_empty=True)
        )
    finally:
        shelf.close()


def join(thread: Thread) -> None:
    thread.join(LONG)
    assert not thread.is_alive()


def stalled(
    monkeypatch: pytest.MonkeyPatch, module: object, name: str
) -> tuple[Event, Event]:
    """Have a step about the session wait, a second at most; tell when it is there."""
    is_there, may_go = Event(), Event()
    step = getattr(module, name)

    def slow(*words: object) -> object:
        if session_id(1) in repr(words[1]):
            is_there.set()
            may_go.wait(1)
        return step(*words)

    monkeypatch.setattr(module, name, slow)
    return is_there, may_go


def test_rows_written_during_an_erasure_do_not_survive_it(
    hub: MemoryHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_there, may_go = stalled(monkeypatch, postgres_rows, "_insert_sessions")
    writer = Thread(target=derive_all, args=(hub.store, hub.objects))
    writer.start()
    assert is_there.wait(LONG)

    store, objects = other(hub)
    erase(store, objects, GONE, now=NOW)
    may_go.set()
    join(writer)
    derive_all(store, objects)
    store.close()

    assert sessions(hub) == [session_id(0), session_id(2)]


def test_upload_during_an_erasure_is_rejected_or_erased(
    hub: MemoryHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    derive_all(hub.store, hub.objects)
    store, objects = other(hub)
    late = MemoryHub(Path(objects.backend.folder))  # type: ignore[attr-defined]
    late.use(store)
    is_there, may_go = stalled(monkeypatch, PostgresStore, "_insert_sources")
    late_push = Thread(target=_push_as_another_machine, args=(hub.folder, late))
    late_push.start()
    assert is_there.wait(LONG)

    erase(hub.store, hub.objects, GONE, now=NOW)
    may_go.set()
    join(late_push)
    derive_all(store, objects)
    store.close()

    assert session_id(1) not in sessions(hub)
    assert not any(b"of 1," in hub.objects.get(one) for one in hub.objects.addresses())


def _push_as_another_machine(folder: Path, hub: MemoryHub) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bygones.hub.client.machine_id", lambda *_: "f" * 32)
        sent(folder, hub)
