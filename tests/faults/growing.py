"""A program that appends to a home and ingests it, until it is stopped.

``python -m tests.faults.growing ARCHIVE HOME``
"""

from __future__ import annotations

import sys
from itertools import count
from pathlib import Path

from bygones.archive import Archive
from tests.build import jsonl, prompt, session_id

__all__ = ["grow"]


def grow(archive: Path, home: Path) -> None:
    """Append to some sessions and ingest them, forever."""
    folder = home / "projects" / "-work-demo"
    folder.mkdir(parents=True, exist_ok=True)
    for number in count():
        name = session_id(10 + number % 5)
        record = prompt(f"{number} " + "words " * 900) | {"sessionId": name}
        with (folder / f"{name}.jsonl").open("ab") as file:
            file.write(jsonl([record] * 20))
        Archive.ingest(archive, [home], lock_timeout=60)


if __name__ == "__main__":
    grow(Path(sys.argv[1]), Path(sys.argv[2]))
