"""Which archive and which homes somebody means, and how fresh they have to be."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bygones.cli.terminal import short_path
from bygones.model.addresses import without_password
from bygones.settings import (
    HOME_VARIABLE,
    archive_folder,
    read_settings,
    source_homes,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bygones.archive import Archive

__all__ = [
    "Asked",
    "folder_of",
    "here",
    "homes_of",
    "opened",
    "preset",
    "shown_path",
]


class Asked(NamedTuple):
    """Which archive a command is about, and how fresh it has to be."""

    archive: Path | None = None
    homes: tuple[Path, ...] = ()
    as_is: bool = False
    quiet: bool = False
    verbose: bool = False

    @property
    def is_fixed(self) -> bool:
        """Whether to show the archive as it is: when told so, or when it is named.

        A named archive may be a backup, or that of somebody else; it is brought up to
        date with the homes that are named beside it, and with no others.
        """
        return self.as_is or (self.archive is not None and not self.homes)

    @property
    def names_homes(self) -> bool:
        """Whether somebody says where the homes are, here or by the variable."""
        return bool(self.homes or os.environ.get(HOME_VARIABLE, "").strip())

    @property
    def folder(self) -> Path:
        """The folder of the archive."""
        return folder_of(self.archive)

    def current(self) -> Archive:
        """Return the archive, open for reading, with what is new taken in.

        Where there is none yet, one is made if somebody watches, with a progress bar.
        """
        from bygones.cli.freshness import fresh  # noqa: PLC0415 (with it the archive)

        return fresh(self)


def preset() -> dict[str, Any]:
    """Return what this user has set once and for all, as commands call it."""
    told = read_settings(os.environ, Path.home())
    found = {"colour": told.color, "iso": told.iso}
    if told.ingest is not None:
        found["as_is"] = not told.ingest
    return {name: value for name, value in found.items() if value is not None}


def here() -> Path | None:
    """Return the directory one is in, if nobody has removed it."""
    try:
        return Path.cwd()
    except OSError:
        return None


def folder_of(archive: Path | None) -> Path:
    """Return the folder of the archive that is meant."""
    return archive_folder(archive, os.environ, Path.home())


def homes_of(homes: Sequence[Path]) -> tuple[Path, ...]:
    """Return the homes that are meant."""
    return source_homes(homes, os.environ, Path.home())


def opened(archive: Path | None) -> Archive:
    """Return the archive that is meant, open for reading."""
    from bygones.archive import Archive  # noqa: PLC0415 (not for a help page)

    return Archive.open(folder_of(archive))


def shown_path(path: str | Path) -> str:
    """Return a path as one would type it anywhere."""
    home, path = Path.home(), without_password(str(path))
    return "~" if str(path) == str(home) else short_path(str(path), home=home)
