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

from bygones.memory import limit_malloc_arenas
from bygones.render.html.markdown_html import render_markdown
from bygones.render.html.markup import highlight_code

__all__ = ["warm_up"]

_PACKAGES = (
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
    "maintenance",
    "redact",
    "usage",
)
"""What is loaded elsewhere when it is first asked for, all of it."""
_HIGHLIGHT_LANGUAGES = (
    "python",
    "bash",
    "json",
    "javascript",
    "typescript",
    "html",
    "diff",
)
_MARKDOWN_SAMPLE = (
    "# a\n\n**b** `c` [d](https://e.f) *g*\n\n- h\n\n| i |\n|---|\n| j |\n"
)
"""Something of all that answers usually have: what reads it is made at first use."""


def warm_up() -> None:
    """Load what pages need, and have every type looked at, by one thread."""
    limit_malloc_arenas()
    for stage in _PACKAGES:
        package = import_module(f"bygones.{stage}")
        for module in walk_packages(package.__path__, f"{package.__name__}."):
            import_module(module.name)
    for kind in _iter_subclasses(Struct):
        with suppress(TypeError, NameError):  # of what is never decoded
            msgspec.msgpack.Decoder(kind)
    render_markdown(_MARKDOWN_SAMPLE)
    for language in _HIGHLIGHT_LANGUAGES:
        highlight_code("k", language)
    # All of this stays: looking for litter in it takes longer than to make a page.
    gc.collect()
    gc.freeze()


def _iter_subclasses(base: type[Struct]) -> Iterator[type[Struct]]:
    for one in base.__subclasses__():
        yield one
        yield from _iter_subclasses(one)
