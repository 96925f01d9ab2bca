"""Archives of the cases, made once per worker and only read by tests."""

from __future__ import annotations

from pathlib import Path

from bygones.archive import Archive
from bygones.model.sessions import Session
from bygones.reader import read_sessions
from tests.cases.make import CASES, copied

__all__ = ["CaseArchives"]


class CaseArchives:
    """A copy of the home of each case, its sessions and its archive, made when needed.

    Cases use the same session ids, so each has an archive of its own.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sessions: dict[str, list[Session]] = {}

    def home(self, name: str) -> Path:
        """Return a copy of a case's input."""
        home = self._folder / name / "input"
        return home if home.exists() else copied(CASES / name, self._folder / name)

    def sessions(self, name: str) -> list[Session]:
        """Return the sessions of a case, read from its files."""
        if name not in self._sessions:
            self._sessions[name] = list(read_sessions(self.home(name)))
        return self._sessions[name]

    def archive(self, name: str) -> Path:
        """Return the folder of a case's archive."""
        archive = self._folder / name / "archive"
        if not archive.exists():
            Archive.ingest(archive, [self.home(name)])
        return archive
