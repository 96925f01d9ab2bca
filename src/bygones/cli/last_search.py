"""The results of the last search, which can be named by their numbers."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec import Struct

from bygones.config import find_state_dir
from bygones.errors import UnknownResultNumber
from bygones.model.query import Part
from bygones.render.numbers import pluralize

if TYPE_CHECKING:
    from bygones.model.summary import SearchResults


__all__ = [
    "SavedMatch",
    "SearchReference",
    "check_result_number",
    "find_result",
    "forget_results",
    "save_results",
]

_FILE = "last-search.json"
_MAX_DIGITS = 4


class SavedMatch(Struct, frozen=True):
    """A session that was found, with the records of its hits."""

    session: str
    records: tuple[str, ...] = ()
    parts: tuple[Part, ...] = ()


class SearchReference(NamedTuple):
    """The session, and the record, that a number of the last search means."""

    session: str
    record: str | None = None
    part: Part | None = None
    """The part of the hit, if one was named."""


class _LastSearch(Struct, frozen=True):
    archive: str
    first_number: int
    """The number of the first session."""
    matches: tuple[SavedMatch, ...]


def save_results(archive: Path, results: SearchResults, offset: int) -> None:
    """Save the ids of results, but no text; failures to write are ignored."""
    search = _LastSearch(
        archive=str(archive),
        first_number=offset + 1,
        matches=tuple(
            SavedMatch(
                match.summary.id,
                tuple(hit.record_id for hit in match.hits),
                tuple(hit.part for hit in match.hits),
            )
            for match in results.sessions
        ),
    )
    path = _path()
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Two searches may write at once: the file is replaced atomically.
        scratch = path.with_name(f"{path.name}.{os.getpid()}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        with open(os.open(scratch, flags, 0o600), "wb") as file:  # noqa: PTH123
            file.write(msgspec.json.encode(search))
        scratch.replace(path)


def forget_results() -> None:
    """Delete the saved results, which may name a purged session."""
    with suppress(OSError):
        _path().unlink()


def find_result(name: str, archive: Path) -> SearchReference | None:
    """Return the session, and the record, that a number means.

    `3` is the third session of the last search in this archive, `3.2` its second hit.
    Raises `UnknownResultNumber` if the session has no such hit.
    """
    numbers = _parse_number(name)
    search = _load(archive) if numbers else None
    if numbers is None or search is None:
        return None
    number, hit = numbers
    index = number - search.first_number
    if not 0 <= index < len(search.matches):
        return None
    match = search.matches[index]
    if hit is None:
        return SearchReference(match.session, next(iter(match.records), None) or None)
    if hit == 0:
        return SearchReference(match.session)
    if hit > len(match.records):
        hits = pluralize(len(match.records), "hit")
        raise UnknownResultNumber(name, f"{number} was found with {hits}")
    parts = match.parts[hit - 1 : hit] or (Part.OTHER,)
    return SearchReference(match.session, match.records[hit - 1] or None, parts[0])


def check_result_number(name: str, archive: Path) -> None:
    """Raise `UnknownResultNumber` for a name that can only be a result number."""
    if _parse_number(name) is None:
        return
    search = _load(archive)
    if search is None or not search.matches:
        raise UnknownResultNumber(name, "no search of this archive found anything")
    first = search.first_number
    last = first + len(search.matches) - 1
    numbers = f"{first} to {last}" if last > first else f"{last}"
    raise UnknownResultNumber(name, f"the last search found {numbers}")


def _parse_number(name: str) -> tuple[int, int | None] | None:
    first, dot, second = name.partition(".")
    parts = (first, second) if dot else (first,)
    if not all(part.isdecimal() and len(part) < _MAX_DIGITS for part in parts):
        return None
    return int(first), int(second) if dot else None


def _load(archive: Path) -> _LastSearch | None:
    with suppress(OSError, msgspec.MsgspecError):
        search = msgspec.json.decode(_path().read_bytes(), type=_LastSearch)
        return search if search.archive == str(archive) else None
    return None


def _path() -> Path:
    return find_state_dir(os.environ, Path.home()) / _FILE
