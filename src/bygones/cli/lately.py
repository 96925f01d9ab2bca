"""What was found last, so that it can be named by its number."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec import Struct

from bygones.errors import NumberUnknown
from bygones.model.query import Part
from bygones.render.figures import several
from bygones.settings import state_folder

if TYPE_CHECKING:
    from bygones.model.hits import Found

__all__ = [
    "Recalled",
    "Remembered",
    "check_number",
    "forget",
    "remember",
    "remembered",
]

_FILE = "last-search.json"
_DIGITS = 4


class Remembered(Struct, frozen=True):
    """A session that was found, with the records of its hits and what these are."""

    session: str
    records: tuple[str, ...] = ()
    parts: tuple[Part, ...] = ()


class Recalled(NamedTuple):
    """What a number of the last search stands for."""

    session: str
    record: str | None = None
    part: Part | None = None
    """What the hit is, if one was named."""


class _Lately(Struct, frozen=True):
    archive: str
    first: int
    """The number of the first session."""
    found: tuple[Remembered, ...]


def remember(archive: Path, found: Found, offset: int) -> None:
    """Keep ids of what was found, for the user alone; no text is kept.

    Where nothing can be written, nothing is remembered.
    """
    lately = _Lately(
        archive=str(archive),
        first=offset + 1,
        found=tuple(
            Remembered(
                one.listed.id,
                tuple(hit.record for hit in one.hits),
                tuple(hit.part for hit in one.hits),
            )
            for one in found.sessions
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


def forget() -> None:
    """Forget what was found: it may name a session that is erased."""
    with suppress(OSError):
        _path().unlink()


def remembered(name: str, archive: Path) -> Recalled | None:
    """Return the session, and the record, that a number stands for.

    ``3`` is the third session of the last search in this archive, ``3.2`` its second
    hit.

    :raises NumberUnknown: where the session has no such hit.
    """
    numbers = _numbers(name)
    lately = _last(archive) if numbers else None
    if numbers is None or lately is None:
        return None
    at = numbers[0] - lately.first
    if not 0 <= at < len(lately.found):
        return None
    one, second = lately.found[at], numbers[1]
    if second is None:
        return Recalled(one.session, next(iter(one.records), None) or None)
    if not second:
        return Recalled(one.session)
    if second > len(one.records):
        there = f"{numbers[0]} was found with {several(len(one.records), 'hit')}"
        raise NumberUnknown(name, there)
    parts = one.parts[second - 1 : second] or (Part.OTHER,)
    return Recalled(one.session, one.records[second - 1] or None, parts[0])


def check_number(name: str, archive: Path) -> None:
    """Refuse what can only be meant as a number of the last search.

    :raises NumberUnknown: with the numbers that there are.
    """
    if _numbers(name) is None:
        return
    lately = _last(archive)
    if lately is None or not lately.found:
        raise NumberUnknown(name, "nothing was searched for and found here")
    last = lately.first + len(lately.found) - 1
    numbers = f"{lately.first} to {last}" if last > lately.first else f"{last}"
    raise NumberUnknown(name, f"the last search found {numbers}")


def _numbers(name: str) -> tuple[int, int | None] | None:
    first, dot, second = name.partition(".")
    parts = (first, second) if dot else (first,)
    if not all(part.isdecimal() and len(part) < _DIGITS for part in parts):
        return None
    return int(first), int(second) if dot else None


def _last(archive: Path) -> _Lately | None:
    with suppress(OSError, msgspec.MsgspecError):
        lately = msgspec.json.decode(_path().read_bytes(), type=_Lately)
        return lately if lately.archive == str(archive) else None
    return None


def _path() -> Path:
    return state_folder(os.environ, Path.home()) / _FILE
