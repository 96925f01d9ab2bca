"""The worker of a hub derives once for many uploads, and retries."""

from __future__ import annotations

from threading import Event

import pytest

from bygones.team import worker
from bygones.team.worker import IndexWorker

LONG = 30.0


def test_many_requests_are_derived_together() -> None:
    calls: list[int] = []
    is_derived = Event()

    def derive() -> bool:
        calls.append(1)
        is_derived.set()
        return False

    index_worker = IndexWorker(derive, lambda: None)
    index_worker.start()
    for _ in range(1000):
        index_worker.notify()
    assert is_derived.wait(LONG)
    index_worker.stop()

    assert len(calls) < 10


def test_failed_derivation_is_reported_and_retried() -> None:
    calls: list[int] = []
    is_told = Event()

    def derive() -> bool:
        calls.append(1)
        if len(calls) == 1:
            raise OSError
        return len(calls) == 2

    index_worker = IndexWorker(derive, is_told.set)
    index_worker.start()
    assert is_told.wait(LONG)
    index_worker.stop()

    assert index_worker.last_error == ""


class DerivationCounter:
    """Counts derivations, and waits for the next one."""

    def __init__(self) -> None:
        self.count = 0
        self.is_done = Event()

    def derive(self) -> bool:
        self.count += 1
        self.is_done.set()
        return False

    def wait(self) -> None:
        assert self.is_done.wait(LONG)
        self.is_done.clear()


def test_worker_waits_while_a_sender_announces_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = 0
    has_waited = Event()
    is_expecting = IndexWorker._expects_more

    def looked(self: IndexWorker) -> bool:
        nonlocal looks
        found = is_expecting(self)
        looks += found
        if looks > 3:
            has_waited.set()
        return found

    monkeypatch.setattr(worker, "_QUIET_PERIOD", 0.01)
    monkeypatch.setattr(IndexWorker, "_expects_more", looked)
    counter = DerivationCounter()
    index_worker = IndexWorker(counter.derive, lambda: None)
    index_worker.start()
    counter.wait()

    index_worker.notify("ann", has_more=True)
    assert has_waited.wait(LONG)
    before = counter.count
    index_worker.notify("ben")
    index_worker.notify("ann")
    counter.wait()
    index_worker.stop()

    assert before == 1
    assert counter.count >= 2


@pytest.mark.parametrize("limit", ["_SENDER_TIMEOUT", "_MAX_WAIT"])
def test_worker_does_not_wait_forever_for_a_sender(
    monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(worker, "_QUIET_PERIOD", 0.01)
    monkeypatch.setattr(worker, limit, 0.02)
    counter = DerivationCounter()
    index_worker = IndexWorker(counter.derive, lambda: None)
    index_worker.start()
    counter.wait()

    index_worker.notify("ann", has_more=True)
    counter.wait()
    index_worker.stop()

    assert counter.count >= 2


def test_each_warning_is_reported_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker, "_RETRY_DELAY", 0.01)
    monkeypatch.setattr(worker, "_QUIET_PERIOD", 0.01)
    monkeypatch.setattr(worker, "_POLL_INTERVAL", 0.01)
    calls: list[int] = []
    warnings: list[str] = []
    is_done = Event()

    def derive() -> bool:
        calls.append(1)
        if len(calls) < 3:
            raise OSError("what somebody wrote")
        if len(calls) > 6:
            is_done.set()
        return False

    index_worker = IndexWorker(
        derive,
        lambda: None,
        describe_failures=lambda: "1 file was not",
        on_warning=warnings.append,
    )
    index_worker.start()
    assert is_done.wait(LONG)
    index_worker.stop()

    assert warnings == ["indexing failed (OSError); retrying", "1 file was not"]
    assert index_worker.warning == "1 file was not"
