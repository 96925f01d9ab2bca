"""Where homes and addresses stand in a text, looked for from the signs they all have.

The same as one pass with their patterns finds, at a part of its cost: a word is found
fast, and the pattern is asked only around it. Tests hold both against each other. What
is looked at there has an end, so that no text takes long.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from bygones.render.redact.personal import ADDRESS, HOME, KEYED_HOME, compiled

__all__ = ["addresses", "homes", "keyed_homes"]

_BEFORE_USERS = (7, 6, 5, 4, 3, 1)
"""How far before ``Users`` a home may begin, the farthest first."""
_LOCAL = 64
"""Signs before the @ of an address."""


def homes(text: str) -> Iterator[tuple[int, int]]:
    """Yield where home folders stand."""
    fits = compiled(HOME).match
    end = 0
    for at in _met(text, "/home/", "Users"):
        if text[at] == "/":
            starts = [at - 4, at] if text.startswith("/var", max(at - 4, 0)) else [at]
        else:
            starts = [at - before for before in _BEFORE_USERS]
        for start in starts:
            found = fits(text, start) if start >= end else None
            if found is not None and found.end() > at:
                end = found.end()
                yield start, end
                break


def keyed_homes(text: str) -> Iterator[tuple[int, int]]:
    """Yield where the names of home folders stand in projects' keys."""
    fits = compiled(KEYED_HOME).match
    for at in _met(text, "-home-", "-Users-"):
        found = fits(text, max(at - 1, 0))
        if found is not None:
            yield found.span(1)


def addresses(text: str) -> Iterator[tuple[int, int]]:
    """Yield where mail addresses stand."""
    whole, local, domain = _parted()
    end = 0
    for at in _met(text, "@", "%40"):
        # Most signs of one are none: what is behind says so at once.
        if at <= end or not domain.match(text, at + (1 if text[at] == "@" else 3)):
            continue
        first = max(end, at - _LOCAL)
        name = local.search(text[first:at])
        found = whole.match(text, first + name.start()) if name is not None else None
        if found is not None:
            end = found.end()
            yield found.span()


@cache
def _parted() -> tuple[re.Pattern[str], ...]:
    """Return what fits an address, what is before its @ and what is behind."""
    local, _, domain = ADDRESS.partition("(?:@|%40)")
    return compiled(ADDRESS), compiled(rf"{local}\Z"), compiled(domain)


def _met(text: str, *words: str) -> list[int]:
    """Return where any of some words stands, in order."""
    found = []
    for word in words:
        at = text.find(word)
        while at >= 0:
            found.append(at)
            at = text.find(word, at + 1)
    return sorted(found) if len(words) > 1 else found
