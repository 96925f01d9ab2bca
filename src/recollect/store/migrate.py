"""Bringing an archive to the newest version: a step and its number are one."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import apsw

from recollect.errors import ArchiveTooNew
from recollect.store.connect import copy_to

__all__ = ["LATEST", "migrate", "steps"]


def steps() -> Iterator[tuple[int, str]]:
    """Yield the numbers and texts of all steps, in order."""
    folder = resources.files("recollect.store").joinpath("migrations")
    files = sorted(f.name for f in folder.iterdir() if f.name.endswith(".sql"))
    for name in files:
        yield int(name[:4]), folder.joinpath(name).read_text("utf-8")


LATEST = max(number for number, _ in steps())


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
