"""What derives beside a hub does so once for many parcels, and tries again."""

from __future__ import annotations

from threading import Event

import pytest

from bygones.hub import behind
from bygones.hub.behind import Deriving

LONG = 30.0


def test_what_comes_in_many_parcels_is_derived_a_few_times() -> None:
    calls: list[int] = []
    is_derived = Event()

    def derive() -> bool:
        calls.append(1)
        is_derived.set()
        return False

    deriving = Deriving(derive, lambda: None)
    deriving.begin()
    for _ in range(1000):
        deriving.wake()
    assert is_derived.wait(LONG)
    deriving.end()

    assert len(calls) < 10


def test_what_failed_is_tried_again_and_told() -> None:
    calls: list[int] = []
    is_told = Event()

    def derive() -> bool:
        calls.append(1)
        if len(calls) == 1:
            raise OSError
        return len(calls) == 2

    deriving = Deriving(derive, is_told.set)
    deriving.begin()
    assert is_told.wait(LONG)
    deriving.end()

    assert deriving.failure == ""


class Counting:
    """Counts derivations, and tells when there was one."""

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


def test_nothing_is_derived_while_a_sender_has_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = 0
    has_waited = Event()
    is_expecting = Deriving._is_expecting

    def looked(self: Deriving) -> bool:
        nonlocal looks
        found = is_expecting(self)
        looks += found
        if looks > 3:
            has_waited.set()
        return found

    monkeypatch.setattr(behind, "_QUIET", 0.01)
    monkeypatch.setattr(Deriving, "_is_expecting", looked)
    made = Counting()
    deriving = Deriving(made.derive, lambda: None)
    deriving.begin()
    made.wait()

    deriving.wake("ann", more=True)
    assert has_waited.wait(LONG)
    before = made.count
    deriving.wake("ben")
    deriving.wake("ann")
    made.wait()
    deriving.end()

    assert before == 1
    assert made.count >= 2


@pytest.mark.parametrize("limit", ["_SILENT", "_LONGEST"])
def test_a_sender_that_is_killed_or_never_ends_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(behind, "_QUIET", 0.01)
    monkeypatch.setattr(behind, limit, 0.02)
    made = Counting()
    deriving = Deriving(made.derive, lambda: None)
    deriving.begin()
    made.wait()

    deriving.wake("ann", more=True)
    made.wait()
    deriving.end()

    assert made.count >= 2


def test_what_is_withheld_or_fails_is_said_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(behind, "_AGAIN", 0.01)
    monkeypatch.setattr(behind, "_QUIET", 0.01)
    monkeypatch.setattr(behind, "_PAUSE", 0.01)
    calls: list[int] = []
    said: list[str] = []
    is_done = Event()

    def derive() -> bool:
        calls.append(1)
        if len(calls) < 3:
            raise OSError("what somebody wrote")
        if len(calls) > 6:
            is_done.set()
        return False

    deriving = Deriving(
        derive, lambda: None, withheld=lambda: "1 file was not", say=said.append
    )
    deriving.begin()
    assert is_done.wait(LONG)
    deriving.end()

    assert said == ["deriving failed (OSError), it is tried on", "1 file was not"]
    assert deriving.trouble == "1 file was not"
