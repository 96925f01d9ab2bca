"""What was found last, so that it can be named by its number."""

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
    """A session that was found, with the records of its hits and what these are."""

    session: str
    records: tuple[str, ...] = ()
    parts: tuple[Part, ...] = ()


class SearchReference(NamedTuple):
    """What a number of the last search stands for."""

    session: str
    record: str | None = None
    part: Part | None = None
    """What the hit is, if one was named."""


class _LastSearch(Struct, frozen=True):
    archive: str
    first_number: int
    """The number of the first session."""
    matches: tuple[SavedMatch, ...]


def save_results(archive: Path, results: SearchResults, offset: int) -> None:
    """Keep ids of what was found, for the user alone; no text is kept.

    Where nothing can be written, nothing is remembered.
    """
    lately = _LastSearch(
        archive=str(archive),
        first_number=offset + 1,
        matches=tuple(
            SavedMatch(
                one.summary.id,
                tuple(hit.record_id for hit in one.hits),
                tuple(hit.part for hit in one.hits),
            )
            for one in results.sessions
        ),
    )
    path = _path()
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # A file that two searches write at once is still one of the two.
        scratch = path.with_name(f"{path.name}.{os.getpid()}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        with open(os.open(scratch, flags, 0o600), "wb") as file:  # noqa: PTH123
            file.write(msgspec.json.encode(lately))
        scratch.replace(path)


def forget_results() -> None:
    """Forget what was found: it may name a session that is erased."""
    with suppress(OSError):
        _path().unlink()


def find_result(name: str, archive: Path) -> SearchReference | None:
    """Return the session, and the record, that a number stands for.

    ``3`` is the third session of the last search in this archive, ``3.2`` its second
    hit.

    :raises UnknownResultNumber: where the session has no such hit.
    """
    numbers = _parse_number(name)
    lately = _load(archive) if numbers else None
    if numbers is None or lately is None:
        return None
    at = numbers[0] - lately.first_number
    if not 0 <= at < len(lately.matches):
        return None
    one, second = lately.matches[at], numbers[1]
    if second is None:
        return SearchReference(one.session, next(iter(one.records), None) or None)
    if not second:
        return SearchReference(one.session)
    if second > len(one.records):
        there = f"{numbers[0]} was found with {pluralize(len(one.records), 'hit')}"
        raise UnknownResultNumber(name, there)
    parts = one.parts[second - 1 : second] or (Part.OTHER,)
    return SearchReference(one.session, one.records[second - 1] or None, parts[0])


def check_result_number(name: str, archive: Path) -> None:
    """Refuse what can only be meant as a number of the last search.

    :raises UnknownResultNumber: with the numbers that there are.
    """
    if _parse_number(name) is None:
        return
    lately = _load(archive)
    if lately is None or not lately.matches:
        raise UnknownResultNumber(name, "nothing was searched for and found here")
    last = lately.first_number + len(lately.matches) - 1
    numbers = (
        f"{lately.first_number} to {last}" if last > lately.first_number else f"{last}"
    )
    raise UnknownResultNumber(name, f"the last search found {numbers}")


def _parse_number(name: str) -> tuple[int, int | None] | None:
    first, dot, second = name.partition(".")
    parts = (first, second) if dot else (first,)
    if not all(part.isdecimal() and len(part) < _MAX_DIGITS for part in parts):
        return None
    return int(first), int(second) if dot else None


def _load(archive: Path) -> _LastSearch | None:
    with suppress(OSError, msgspec.MsgspecError):
        lately = msgspec.json.decode(_path().read_bytes(), type=_LastSearch)
        return lately if lately.archive == str(archive) else None
    return None


def _path() -> Path:
    return find_state_dir(os.environ, Path.home()) / _FILE
