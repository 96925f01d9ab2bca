"""Working without the collector of circular garbage, which finds none here."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["uncollected"]


@contextmanager
def uncollected() -> Iterator[None]:
    """Leave the collector off for as long as many values are made and dropped.

    Values here form no circles, so nothing stays behind; looking for some took a
    tenth of all ingestion.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
