"""Load everything that pages need before there are threads.

No page then waits for a lexer or a Markdown rule. It also avoids a crash: msgspec
inspects a type when it is first decoded, and a second thread that decodes the same type
at that moment uses half-initialized data.
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
"""Packages that are imported late elsewhere; all their modules are loaded."""
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
"""Contains what replies usually contain; parts of the parser are created on use."""


def warm_up() -> None:
    """Import all modules, create all decoders, and freeze the heap."""
    limit_malloc_arenas()
    for name in _PACKAGES:
        package = import_module(f"bygones.{name}")
        for module in walk_packages(package.__path__, f"{package.__name__}."):
            import_module(module.name)
    for struct_type in _iter_subclasses(Struct):
        with suppress(TypeError, NameError):  # types that are never decoded
            msgspec.msgpack.Decoder(struct_type)
    render_markdown(_MARKDOWN_SAMPLE)
    for language in _HIGHLIGHT_LANGUAGES:
        highlight_code("k", language)
    # All of this stays. Collecting it would take longer than rendering a page.
    gc.collect()
    gc.freeze()


def _iter_subclasses(base: type[Struct]) -> Iterator[type[Struct]]:
    for subclass in base.__subclasses__():
        yield subclass
        yield from _iter_subclasses(subclass)
