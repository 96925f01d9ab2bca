"""The worker of a hub derives once for many uploads, and retries."""

from __future__ import annotations

from queue import Queue
from threading import Event

import pytest

from bygones.team import worker
from bygones.team.worker import IndexWorker

LONG = 30.0


def test_many_requests_are_derived_together() -> None:
    calls: list[int] = []
    is_derived = Event()

    def derive(_skipped: frozenset[str]) -> bool:
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

    def derive(_skipped: frozenset[str]) -> bool:
        calls.append(1)
        if len(calls) == 1:
            raise OSError
        return len(calls) == 2

    index_worker = IndexWorker(derive, is_told.set)
    index_worker.start()
    assert is_told.wait(LONG)
    index_worker.stop()

    assert index_worker.last_error == ""


class Derivations:
    """Records whose sources were skipped by each derivation, and waits for the next."""

    def __init__(self) -> None:
        self.skipped: Queue[frozenset[str]] = Queue()

    def derive(self, skipped_people: frozenset[str]) -> bool:
        self.skipped.put(skipped_people)
        return False

    def wait(self) -> frozenset[str]:
        return self.skipped.get(timeout=LONG)


def test_sources_of_people_who_announced_more_wait_and_others_do_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker, "_QUIET_PERIOD", 0.01)
    monkeypatch.setattr(worker, "_SENDER_TIMEOUT", 10 * LONG)
    monkeypatch.setattr(worker, "_MAX_WAIT", 10 * LONG)
    derivations = Derivations()
    index_worker = IndexWorker(derivations.derive, lambda: None)
    index_worker.start()
    derivations.wait()

    for _ in range(3):
        index_worker.notify("ann", has_more=True)
    index_worker.notify("ben", "1", has_more=True)
    index_worker.notify("ben", "1")
    first = derivations.wait()
    index_worker.notify("ann")
    second = derivations.wait()
    index_worker.stop()

    assert first == frozenset({"ann"})
    assert second == frozenset()


@pytest.mark.parametrize("limit", ["_SENDER_TIMEOUT", "_MAX_WAIT"])
def test_worker_does_not_wait_forever_for_a_sender(
    monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(worker, "_QUIET_PERIOD", 0.01)
    monkeypatch.setattr(worker, "_POLL_INTERVAL", 0.05)
    monkeypatch.setattr(worker, limit, 0.02)
    derivations = Derivations()
    index_worker = IndexWorker(derivations.derive, lambda: None)
    index_worker.notify("ann", has_more=True)
    index_worker.start()

    while derivations.wait():
        pass
    index_worker.stop()


def test_stopping_ends_what_is_being_derived() -> None:
    started, ended = Event(), Event()

    def derive(_skipped: frozenset[str]) -> bool:
        started.set()
        ended.wait(60)
        raise RuntimeError("ended")

    follower = IndexWorker(derive, lambda: None, stop_deriving=ended.set)
    index_worker = follower.as_follower_of(lambda _skipped: False)
    index_worker.start()
    assert started.wait(30)

    index_worker.stop()

    assert ended.is_set()
    assert not follower._thread.is_alive()
    assert index_worker.last_error == ""


def test_worker_and_its_follower_report_errors_and_warnings() -> None:
    def fail(_skipped: frozenset[str]) -> bool:
        raise OSError

    follower = IndexWorker(fail, lambda: None, describe_failures=lambda: "never")
    derivations = Derivations()
    index_worker = follower.as_follower_of(derivations.derive)
    index_worker.start()
    while not index_worker.warning:
        index_worker.notify("ann")
        derivations.wait()
    index_worker.stop()

    assert index_worker.last_error == "OSError: "
    assert index_worker.warning == "indexing failed (OSError); retrying"


def test_each_warning_is_reported_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker, "_RETRY_DELAY", 0.01)
    monkeypatch.setattr(worker, "_QUIET_PERIOD", 0.01)
    monkeypatch.setattr(worker, "_POLL_INTERVAL", 0.01)
    calls: list[int] = []
    warnings: list[str] = []
    is_done = Event()

    def derive(_skipped: frozenset[str]) -> bool:
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
