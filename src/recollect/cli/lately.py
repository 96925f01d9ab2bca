"""What was found last, so that it can be named by its number."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from recollect.settings import state_folder

if TYPE_CHECKING:
    from recollect.model.hits import Found

__all__ = ["Remembered", "remember", "remembered"]

_FILE = "last-search.json"
_DIGITS = 4


class Remembered(Struct, frozen=True):
    """A session that was found, and the records of its hits."""

    session: str
    records: tuple[str, ...] = ()


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
            Remembered(one.listed.id, tuple(hit.record for hit in one.hits))
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


def remembered(name: str, archive: Path) -> tuple[str, str | None] | None:
    """Return the session, and the record, that a number stands for.

    ``3`` is the third session of the last search in this archive, ``3.2`` its second
    hit.
    """
    first, _, second = name.partition(".")
    if not all(
        part.isdecimal() and len(part) < _DIGITS for part in (first, second or "0")
    ):
        return None
    with suppress(OSError, msgspec.MsgspecError):
        raw = _path().read_bytes()
        lately = msgspec.json.decode(raw, type=_Lately)
        at = int(first) - lately.first
        if lately.archive == str(archive) and 0 <= at < len(lately.found):
            one = lately.found[at]
            number = int(second or 1)
            records = one.records[number - 1 : number] if number else ()
            return one.session, records[0] if records else None
    return None


def _path() -> Path:
    return state_folder(os.environ, Path.home()) / _FILE
