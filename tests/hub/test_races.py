"""Data that is erased while it is being written is erased completely."""

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
from tests.hub.sending import NOW, MemoryHub, make_project, push_project

LONG = 300
"""Seconds after which a thread is stuck, also on a busy machine."""
GONE = ErasureSelector(session=SessionId(session_id(1)))
MakeStore = Callable[[], tuple[TeamStore, BlobStore]]


@pytest.fixture
def hub(make: MakeStore, tmp_path: Path) -> Iterator[MemoryHub]:
    """Return a hub on a real engine with three sessions."""
    hub = MemoryHub(tmp_path / "raw")
    store, _ = make()
    hub.folder = make_project(tmp_path)[1]
    hub.use_store(store)
    push_project(hub.folder, hub)
    yield hub
    store.close()


def other(hub: MemoryHub) -> tuple[TeamStore, ExternalBlobStore]:
    """Return the same store over another connection."""
    return type(hub.store)(hub.store._address), hub.objects  # type: ignore[attr-defined, call-arg]


def sessions(hub: MemoryHub) -> list[str]:
    reader = hub.store.open_reader(AccessScope(person="ann"), hub.objects)
    try:
        return sorted(
            one.id for one in reader.sessions.iter_summaries(include_empty=True)
        )
    finally:
        reader.close()


def join(thread: Thread) -> None:
    thread.join(LONG)
    assert not thread.is_alive()


def delay_call(
    monkeypatch: pytest.MonkeyPatch, module: object, name: str
) -> tuple[Event, Event]:
    """Delay a call about the session by at most a second.

    Return an event that is set when the call starts, and one that lets it continue.
    """
    reached, released = Event(), Event()
    step = getattr(module, name)

    def slow(*arguments: object) -> object:
        if session_id(1) in repr(arguments[1]):
            reached.set()
            released.wait(1)
        return step(*arguments)

    monkeypatch.setattr(module, name, slow)
    return reached, released


def test_rows_written_during_an_erasure_do_not_survive_it(
    hub: MemoryHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached, released = delay_call(monkeypatch, postgres_rows, "_insert_sessions")
    writer = Thread(target=derive_all, args=(hub.store, hub.objects))
    writer.start()
    assert reached.wait(LONG)

    store, objects = other(hub)
    erase(store, objects, GONE, now=NOW)
    released.set()
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
    late.use_store(store)
    reached, released = delay_call(monkeypatch, PostgresStore, "_insert_sources")
    late_push = Thread(target=_push_as_another_machine, args=(hub.folder, late))
    late_push.start()
    assert reached.wait(LONG)

    erase(hub.store, hub.objects, GONE, now=NOW)
    released.set()
    join(late_push)
    derive_all(store, objects)
    store.close()

    assert session_id(1) not in sessions(hub)
    assert not any(b"of 1," in hub.objects.get(one) for one in hub.objects.addresses())


def _push_as_another_machine(folder: Path, hub: MemoryHub) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bygones.hub.client.machine_id", lambda *_: "f" * 32)
        push_project(folder, hub)
