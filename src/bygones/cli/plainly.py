"""Plain calls of the commands that are used most, read without click.

To load click takes as long as to answer such a call. What it would make of plain words
is written down here, and a test holds the two together. Whatever is not plain is left
to it: a slip, a value behind ``=``, a word that is excluded, an option before the
command, a wish for help.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bygones.cli.asked import Asked, preset
from bygones.cli.loading import loaded
from bygones.cli.reporting import reported

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["PLAIN", "plain_call", "run_plainly"]

_LITTER = 100_000
"""Values that may lie about: more than such an answer leaves."""


class Plain(NamedTuple):
    """A command that can be called plainly."""

    module: str
    work: str
    """The function that carries it out."""
    words: str
    """What it calls the words that are no options."""
    usual: Mapping[str, object]
    options: Mapping[str, tuple[str, Callable[[str], object] | None]]
    """What they are called, and how their values are read; a flag has none."""


def run_plainly(words: Sequence[str]) -> int | None:
    """Carry out a plain call and return its exit code; ``None`` if it is not one."""
    given = plain_call(words)
    if given is None:
        return None
    plain = PLAIN[words[0]]
    try:
        work = loaded(plain.module, plain.work, litter=_LITTER)
        wished = {**plain.usual, **preset(), **given}
        asked = Asked(**{name: wished.pop(name) for name in Asked._fields})
        work(asked=asked, **wished)
    except Exception as error:  # noqa: BLE001 (as for every command)
        return reported(error, words)
    return 0


def plain_call(words: Sequence[str]) -> dict[str, Any] | None:
    """Return what a call says, as click would; ``None`` if that is left to click."""
    plain = PLAIN.get(words[0]) if words else None
    if plain is None:
        return None
    given: dict[str, Any] = {}
    free: list[str] = []
    rest = iter(words[1:])
    for word in rest:
        if not word.startswith("-"):
            free.append(word)
            continue
        name, read = plain.options.get(word, ("", None))
        value = next(rest, "-") if read else ""
        if not name or value.startswith("-"):
            return None
        try:
            found = read(value) if read else True
        except ValueError:
            return None
        given[name] = (*given.get(name, ()), found) if name == "homes" else found
    return {**given, plain.words: tuple(free)}


def _number(text: str, least: int, most: int | None = None) -> int:
    number = int(text) if text.isascii() and text.isdecimal() else -1
    if number < least or (most is not None and number > most):
        raise ValueError(text)
    return number


def _one_of(text: str, *choices: str) -> str:
    if text not in choices:
        raise ValueError(text)
    return text


def _path(text: str) -> Path:
    if not text.strip():
        raise ValueError(text)
    return Path(text)


_USUAL = {
    "archive": None,
    "homes": (),
    "as_is": False,
    "quiet": False,
    "verbose": False,
    "iso": False,
    "as_json": False,
    "colour": "auto",
}
_OPTIONS = {
    "--archive": ("archive", _path),
    "--home": ("homes", _path),
    "--no-ingest": ("as_is", None),
    "--quiet": ("quiet", None),
    "-q": ("quiet", None),
    "--verbose": ("verbose", None),
    "-v": ("verbose", None),
    "--iso": ("iso", None),
    "--json": ("as_json", None),
    "--color": ("colour", lambda text: _one_of(text, "auto", "always", "never")),
}
_LIST_LIMIT = ("limit", partial(_number, least=1))
_SEARCH_LIMIT = ("limit", partial(_number, least=1, most=1000))
PLAIN = {
    "list": Plain(
        module="bygones.cli.listing",
        work="list_archive",
        words="query",
        usual=_USUAL
        | {"project": None, "starred": False, "empty": False, "limit": None},
        options=_OPTIONS
        | {
            "--project": ("project", str),
            "--starred": ("starred", None),
            "--all": ("empty", None),
            "--limit": _LIST_LIMIT,
            "-n": _LIST_LIMIT,
        },
    ),
    "search": Plain(
        module="bygones.cli.searching",
        work="search_archive",
        words="words",
        usual=_USUAL
        | {"limit": 10, "page": 1, "hits": 2, "sort": "best", "explain": False},
        options=_OPTIONS
        | {
            "--limit": _SEARCH_LIMIT,
            "-n": _SEARCH_LIMIT,
            "--page": ("page", partial(_number, least=1)),
            "--hits": ("hits", partial(_number, least=0, most=100)),
            "--sort": ("sort", lambda text: _one_of(text, "best", "newest", "oldest")),
            "--explain": ("explain", None),
        },
    ),
}
