"""Opening and closing an archive."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Self

from bygones.config import (
    LocalTimezone,
    is_hub_url,
    is_store_url,
    resolve_archive_location,
    restore_slashes,
    strip_password,
)
from bygones.errors import ArchiveClosed, ArchiveNotFound, UnsupportedOnTeamStore
from bygones.model.query import Query
from bygones.store.archive_dir import ArchiveDir
from bygones.store.local_reader import LocalReader

# Most commands need little of this: the rest is imported by the methods that use it.
if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from datetime import tzinfo

    from bygones.errors import BygonesError
    from bygones.ingest.loading import StoreLoader
    from bygones.ingest.prompt_history import PromptsOnlySession
    from bygones.search.scoring import SharedSearchStats
    from bygones.search.service import Searcher
    from bygones.store.protocols import StoreReader


class ArchiveBase:
    """An archive that is open: its store, and what is loaded from it once."""

    def __init__(
        self, folder: str | Path, shared_stats: SharedSearchStats | None = None
    ) -> None:
        self.folder = Path(strip_password(str(folder)))
        self._shared_stats = shared_stats
        self._address = str(folder)
        self._is_team_store = is_store_url(self._address)
        if not self._is_team_store and not ArchiveDir.exists(self.folder):
            raise ArchiveNotFound(self.folder)
        self._open()

    def __repr__(self) -> str:
        state = "closed " if self._open_reader is None else ""
        name = str(self.folder)
        if self._is_team_store and ":/" in name:
            name = restore_slashes(name)
        return f"<{state}Archive {name!r}>"

    @property
    def is_closed(self) -> bool:
        """Whether the archive was closed."""
        return self._open_reader is None

    @property
    def address(self) -> str:
        """The folder, or the address of a team's store."""
        return str(self.folder) if not self._is_team_store else self._address

    @property
    def _reader(self) -> StoreReader:
        if self._open_reader is None:
            raise ArchiveClosed(self.folder)
        return self._open_reader

    def _open(self) -> None:
        self._open_loader: StoreLoader | None = None
        self._open_searcher: Searcher | None = None
        self._open_prompts_only: list[PromptsOnlySession] | None = None
        if is_hub_url(self._address):
            from bygones.archive.remote import open_hub_reader

            self._open_reader: StoreReader | None = open_hub_reader(self._address)
        elif self._is_team_store:
            from bygones.team.access import open_reader

            self._open_reader = open_reader(self._address)
        else:
            self._open_reader = LocalReader(ArchiveDir(self.folder))

    @property
    def _archive_dir(self) -> ArchiveDir:
        if not isinstance(self._reader, LocalReader):
            raise UnsupportedOnTeamStore(self.folder.name)
        return self._reader.archive_dir

    @property
    def _loader(self) -> StoreLoader:
        if self._open_loader is None:
            from bygones.ingest.loading import StoreLoader

            self._open_loader = StoreLoader(self._reader)
        return self._open_loader

    @property
    def _searcher(self) -> Searcher:
        reader = self._reader  # raises an error if the archive is closed
        if self._open_searcher is None and is_hub_url(self._address):
            from bygones.archive.remote import open_hub_searcher

            self._open_searcher = open_hub_searcher(reader)
        elif self._open_searcher is None:
            from bygones.search.service import Searcher

            self._open_searcher = Searcher(reader, self._shared_stats)
        return self._open_searcher

    @classmethod
    def open(
        cls,
        folder: str | Path | None = None,
        shared_stats: SharedSearchStats | None = None,
    ) -> Self:
        """Open the archive in a folder, or at the address of a team's store.

        Without a folder this is the archive that the command line uses: the one of
        ``BYGONES_ARCHIVE``, or of the settings, or in the user's data directory. An
        address names the user: ``postgresql://…?person=ann&teams=core&role=team``. That
        of a hub, ``https://hub.example.com``, needs a token: `BYGONES_HUB_TOKEN`, the one
        in the settings, or the one that ``bygones hub login`` has stored.
        Archives with the same ``shared_stats`` load what searches need once::

            with Archive.open() as archive:
                for session in archive.sessions("model:opus after:2w"):
                    print(session.title.text)

        Raises `ArchiveNotFound` if there is no archive.
        """
        if folder is None:
            folder = resolve_archive_location(None, os.environ, Path.home())
        elif not is_store_url(str(folder)):
            folder = Path(folder).expanduser()
        return cls(folder, shared_stats)

    @staticmethod
    def shared_stats(folder: str | Path) -> SharedSearchStats:
        """Return search statistics that several open archives of a folder share.

        Pass the result to :meth:`open`; searches then load them once for all.
        """
        from bygones.search.scoring import SharedSearchStats

        return SharedSearchStats(Path(folder))

    @classmethod
    def from_store(cls, reader: StoreReader, name: str = "team") -> Self:
        """Return an archive over a store that is open already."""
        self = cls.__new__(cls)
        self.folder, self._is_team_store, self._open_reader = Path(name), True, reader
        self._address = name
        self._open_loader = self._open_searcher = self._shared_stats = None
        self._open_prompts_only = None
        return self

    @staticmethod
    def exists(folder: str | Path) -> bool:
        """Whether there is an archive in a folder."""
        return is_store_url(str(folder)) or ArchiveDir.exists(require_folder(folder))

    @staticmethod
    def stored_bytes(folder: str | Path) -> int:
        """Return how many bytes of sources the archive in a folder stores, if any."""
        try:
            with ArchiveDir(Path(folder)) as archive_dir:
                return archive_dir.byte_store.count_generations()[1]
        except ArchiveNotFound:
            return 0

    @property
    def has_index(self) -> bool:
        """Whether there is an index that this version can read."""
        return self._reader.index is not None

    def refresh(self) -> None:
        """See what was ingested since the archive was opened."""
        if self._is_team_store:
            self._open_searcher = (
                None if self._reader.check_for_changes() else self._open_searcher
            )
            return
        loader, reader = self._open_loader, self._open_reader
        if isinstance(reader, LocalReader) and reader.archive_dir.reopen_text_index():
            self._open_reader = LocalReader(reader.archive_dir)
            self._open_loader = self._open_searcher = self._open_prompts_only = None
        else:
            self.close()
            self._open()
        if loader is not None:  # sessions that were loaded before go on using it
            loader.use_store(self._reader)
            self._open_loader = loader

    def read_transaction(self) -> AbstractContextManager[None]:
        """Let several calls see the same state; keep it short.

        ::

            with archive.read_transaction():
                sessions = list(archive.sessions())
                projects = archive.projects()
        """
        return self._reader.read_transaction()

    def close(self) -> None:
        """Close the archive; using it afterwards raises `ArchiveClosed`."""
        if self._open_reader is None:
            return
        self._open_reader.close()
        self._open_reader = None
        if self._open_loader is not None:
            self._open_loader.clear_cache()

    def __enter__(self) -> Self:
        """Return the archive."""
        return self

    def __exit__(self, _: object, error: BaseException | None, *_trace: object) -> None:
        """Close the archive; a database error is raised as `ArchiveDamaged`."""
        try:
            if not self._is_team_store and self._open_reader is not None:
                self._archive_dir.raise_translated(error)
        finally:
            self.close()


def parse_query_text(
    query: str | Query, now: datetime | None = None, timezone: tzinfo | None = None
) -> Query:
    """Return a query; a text is parsed with this machine's clock and time zone."""
    if not isinstance(query, str):
        return query
    from bygones.query.parser import parse_query

    return parse_query(
        query,
        now=now or datetime.now(UTC),  # noqa: TID251 (unless the caller has a clock)
        zone=timezone or LocalTimezone(),
    )


def translate_database_error(error: Exception) -> BygonesError | None:
    """Return the error of Bygones for one of the database; none if it is another."""
    from bygones.store.connect import translate_error

    return translate_error(error)


def require_folder(name: str | Path) -> Path:
    if is_store_url(str(name)):
        raise UnsupportedOnTeamStore(Path(name).name)
    return Path(name).expanduser()
