"""The versions of edited files, and whether their backups were archived."""

from __future__ import annotations

from msgspec import Struct

from bygones.model.sessions import Session
from bygones.model.versions import FileVersion
from bygones.store.chunks import Kept
from bygones.store.vault import Vault

__all__ = ["ArchivedVersion", "archived_versions"]


class ArchivedVersion(Struct, frozen=True, kw_only=True):
    """A version of a file, and its backup if that was there to be archived."""

    version: FileVersion
    backup: Kept | None = None

    @property
    def is_gone(self) -> bool:
        """Whether there was a backup of it that nobody has any more."""
        return self.backup is None and not self.version.is_new


def archived_versions(vault: Vault, session: Session) -> list[ArchivedVersion]:
    """Return the versions of all files that a session tracked, by path and number.

    A backup lies in the folder of the session that made it: this one, or one that
    this one goes on from.
    """
    homes = dict.fromkeys(source.home for source in session.sources)
    makers = (session.id, *(lineage.session for lineage in session.lineage))
    folders = [(home, f"file-history/{one}") for home in homes for one in makers]
    return [
        ArchivedVersion(version=version, backup=_backup(vault, folders, version))
        for versions in session.file_versions.values()
        for version in versions
    ]


def _backup(
    vault: Vault, folders: list[tuple[str, str]], version: FileVersion
) -> Kept | None:
    if version.backup is None:
        return None
    found = (vault.chunks.find(h, f"{f}/{version.backup}") for h, f in folders)
    return next(filter(None, found), None)
