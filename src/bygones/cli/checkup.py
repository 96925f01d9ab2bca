"""What ``bygones doctor`` looks at: what is where, and how it is."""

from __future__ import annotations

import os
import platform
import stat
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from bygones.cli.rows import DoctorRow
from bygones.errors import NotOfTeams
from bygones.model.addresses import is_address
from bygones.settings import settings_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bygones.archive import Archive

__all__ = ["state"]

_ENGINES = ("apsw", "tantivy", "zstandard", "msgspec")
_OTHERS = 0o077


def state(
    archive: Archive | None, homes: Sequence[Path], wrong: Sequence[str]
) -> DoctorRow:
    """Return what is where, and how the archive is, if there is one."""
    told = settings_file(os.environ, Path.home())
    alone = DoctorRow(
        python=platform.python_version(),
        engines={name: version(name) for name in _ENGINES},
        settings=str(told) if told.is_file() else None,
        wrong=tuple(wrong),
    )
    return alone if archive is None else _with_archive(alone, archive, homes)


def _with_archive(
    alone: DoctorRow, archive: Archive, homes: Sequence[Path]
) -> DoctorRow:
    if is_address(archive.folder.as_posix()):
        raise NotOfTeams(archive.folder.name)
    kept = archive.sources()
    listed = list(archive.sessions(empty=True)) if archive.has_index else []
    return structs.replace(
        alone,
        has_archive=True,
        archive_bytes=_weight(archive.folder, "archive.db*"),
        index_bytes=_weight(archive.folder / "index", "**/*"),
        is_private=_is_private(archive.folder),
        has_index=archive.has_index,
        is_current=not homes or archive.is_current(homes),
        is_erasing=archive.is_erasing,
        verified=archive.verified,
        sessions=sum(not one.is_empty for one in listed),
        projects=len({one.project for one in listed if not one.is_empty}),
        files=len(kept),
        gone=sum(k.gone_ns is not None for k in kept),
        claude_versions=_ordered({v for one in listed for v in one.versions}),
        drift=len(archive.drift()) if archive.has_index else 0,
        problems=sum(one.problems for one in listed),
        odd_sessions=sum(one.problems > 0 for one in listed),
    )


def _weight(folder: Path, pattern: str) -> int:
    return sum(path.stat().st_size for path in folder.glob(pattern) if path.is_file())


def _is_private(folder: Path) -> bool:
    if os.name == "nt":
        return True  # who may read is not said by bits there
    return not any(
        stat.S_IMODE(path.stat().st_mode) & _OTHERS
        for path in (folder, *folder.glob("archive.db*"))
    )


def _ordered(versions: set[str]) -> tuple[str, ...]:
    def parts(one: str) -> list[tuple[bool, int, str]]:
        return [
            (p.isdecimal(), int(p) if p.isdecimal() else 0, p) for p in one.split(".")
        ]

    return tuple(sorted(versions, key=parts))
