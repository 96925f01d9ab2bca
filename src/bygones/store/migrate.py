"""Bringing an archive to the newest version: a step and its number are one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apsw

from bygones.errors import ArchiveTooNew
from bygones.store.connect import copy_to

__all__ = ["LATEST", "migrate", "steps"]

_FOLDER = Path(__file__).with_name("migrations")


def steps() -> Iterator[tuple[int, str]]:
    """Yield the numbers and texts of all steps, in order."""
    for path in sorted(_FOLDER.glob("*.sql")):
        yield int(path.name[:4]), path.read_text("utf-8")


LATEST = max(int(p.name[:4]) for p in _FOLDER.iterdir() if p.suffix == ".sql")


def migrate(db: apsw.Connection, path: Path) -> int:
    """Bring ``db`` to :data:`LATEST` and return the version it had before.

    A copy is made before an archive that holds something is changed.
    """
    found = int(str(db.pragma("user_version")))
    if found > LATEST:
        raise ArchiveTooNew(path, found=found, known=LATEST)
    if 0 < found < LATEST:
        copy_to(db, path.with_name(f"{path.name}.version-{found}"))
    for number, sql in steps():
        if number > found:
            with db:
                db.execute(sql)
                db.pragma("user_version", number)
    return found
