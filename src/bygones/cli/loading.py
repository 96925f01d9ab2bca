"""Loading what a command needs, and no more."""

from __future__ import annotations

import gc
import os
import sys
import typing
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

__all__ = ["load_paths", "loaded"]

_LITTER = 20_000
"""Values that may lie about before somebody looks which are of no use any more."""


def loaded(module: str, name: str, *, litter: int = _LITTER) -> Any:  # noqa: ANN401 (whatever it is)
    """Return something of a module that is loaded now."""
    _load_values()
    found = getattr(import_module(module), name)
    # What was loaded stays to the end: nobody need look through it for litter, nor
    # for what a short answer leaves.
    gc.freeze()
    gc.set_threshold(litter)
    gc.enable()
    return found


def load_paths() -> None:
    """Load paths without the addresses that some of them can be turned into."""
    _read_types_late()
    _load("pathlib", {"urllib.parse": _stand_in("urllib.parse", "quote_from_bytes")})


def _read_types_late() -> None:
    """Have the types that fields are said to be of read when somebody asks for them.

    They are texts here, and Python compiles each as soon as it meets one, with all that
    it needs to take programs apart. Most are never asked for, and texts will do then.
    """
    if not hasattr(typing, "compile"):
        typing.compile = lambda text, *_: text  # type: ignore[attr-defined]


def _load_values() -> None:
    """Load what values are made of, without schemas, and without what is not used.

    If there is a typing_extensions, msgspec takes a function from it that this Python
    has itself; reading it takes as long as reading all of a list's sessions.
    """
    _know_system()
    _load(
        "msgspec",
        {
            "typing_extensions": None,
            "msgspec.inspect": _stand_in("msgspec.inspect"),
            "msgspec._json_schema": _stand_in(
                "msgspec._json_schema", "schema", "schema_components"
            ),
        },
    )
    # Whoever asks for it has it loaded then.
    vars(sys.modules["msgspec"]).pop("inspect", None)


def _know_system() -> None:
    """Have those that only ask which system and which Python this is be told at once.

    Several libraries do while they are loaded; all else is answered as ever.
    """
    if "platform" in sys.modules or sys.platform in {"win32", "darwin"}:
        return
    known = _stand_in("platform")
    told = {"system": os.uname().sysname}
    if sys.implementation.name == "cpython":
        told["python_implementation"] = "CPython"
    for name, answer in told.items():
        setattr(known, name, partial(str, answer))

    def load(name: str) -> object:
        if sys.modules.get("platform") is known:
            del sys.modules["platform"]
        return getattr(import_module("platform"), name)

    known.__getattr__ = load  # type: ignore[method-assign]
    sys.modules["platform"] = known


def _load(name: str, without: Mapping[str, ModuleType | None]) -> None:
    """Load a module, with others in the places of some that it hardly ever uses."""
    if name in sys.modules:
        return
    absent = {other: it for other, it in without.items() if other not in sys.modules}
    # None means that there is none.
    sys.modules.update(absent)  # type: ignore[arg-type]
    try:
        import_module(name)
    finally:
        for other in absent:
            del sys.modules[other]


def _stand_in(name: str, *functions: str) -> ModuleType:
    """Return a module whose functions load the real one when they are called."""
    module = type(sys)(name)
    for function in functions:
        setattr(module, function, partial(_called, name, function))
    return module


def _called(module: str, function: str, *given: Any, **named: Any) -> Any:  # noqa: ANN401 (as it is)
    return getattr(import_module(module), function)(*given, **named)
