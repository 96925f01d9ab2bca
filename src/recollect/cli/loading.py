"""Loading what a command needs, and no more."""

from __future__ import annotations

import gc
import sys
from importlib import import_module
from typing import Any

__all__ = ["loaded"]

_LITTER = 20_000
"""Values that may lie about before somebody looks which are of no use any more."""


def loaded(module: str, name: str) -> Any:  # noqa: ANN401 (whatever it is)
    """Return something of a module that is loaded now."""
    _load_values()
    found = getattr(import_module(module), name)
    # What was loaded stays to the end: nobody need look through it for litter, nor
    # for what a short answer leaves.
    gc.freeze()
    gc.set_threshold(_LITTER)
    gc.enable()
    return found


def _load_values() -> None:
    """Load what values are made of, without what it loads for older Pythons.

    If there is a typing_extensions, msgspec takes a function from it that this Python
    has itself; reading it takes as long as reading all of a list's sessions.
    """
    if "msgspec" in sys.modules or "typing_extensions" in sys.modules:
        return
    sys.modules["typing_extensions"] = None  # type: ignore[assignment]
    try:
        import_module("msgspec")
    finally:
        del sys.modules["typing_extensions"]
