"""Before there are threads: what pages need is loaded, and every type is known.

No page is the first to need a language or a rule of Markdown, and to wait for it. And
msgspec looks at a type when it is first decoded. Whoever decodes it in another thread
at that moment meets with half of what it will know, and the process crashes.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pkgutil import walk_packages

import msgspec
from msgspec import Struct

from bygones.ingest.pace import share_heaps
from bygones.render.html.code import highlighted
from bygones.render.html.prose import prose

__all__ = ["make_ready"]

_STAGES = (
    "assemble",
    "export",
    "ingest",
    "model",
    "parse",
    "query",
    "render",
    "search",
    "sources",
    "store",
    "upkeep",
    "usage",
)
"""What is loaded elsewhere when it is first asked for, all of it."""
_LANGUAGES = ("python", "bash", "json", "javascript", "typescript", "html", "diff")
_SAMPLE = "# a\n\n**b** `c` [d](https://e.f) *g*\n\n- h\n\n| i |\n|---|\n| j |\n"
"""Something of all that answers usually have: what reads it is made at first use."""


def make_ready() -> None:
    """Load what pages need, and have every type looked at, by one thread."""
    share_heaps()
    for stage in _STAGES:
        package = import_module(f"bygones.{stage}")
        for module in walk_packages(package.__path__, f"{package.__name__}."):
            import_module(module.name)
    for kind in _kinds(Struct):
        with suppress(TypeError, NameError):  # of what is never decoded
            msgspec.msgpack.Decoder(kind)
    prose(_SAMPLE)
    for language in _LANGUAGES:
        highlighted("k", language)
    # All of this stays: looking for litter in it takes longer than to make a page.
    gc.collect()
    gc.freeze()


def _kinds(kind: type[Struct]) -> Iterator[type[Struct]]:
    for one in kind.__subclasses__():
        yield one
        yield from _kinds(one)
