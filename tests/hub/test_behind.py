"""What derives beside a hub does so once for many parcels, and tries again."""

from __future__ import annotations

from threading import Event

from recollect.hub.behind import Deriving

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
