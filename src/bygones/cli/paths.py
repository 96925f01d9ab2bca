"""Paths that are given on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from os import PathLike

__all__ = ["NO_PATH", "path_type"]


NO_PATH = "an empty word is no path; a dot is this folder"


class _Named(click.Path):
    """A path that has a name: an empty one would silently mean this folder."""

    def convert(
        self,
        value: str | PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Any:  # noqa: ANN401 (click's business)
        """Return the path, or refuse a word in which there is none."""
        if isinstance(value, str) and not value.strip():
            self.fail(NO_PATH, param, ctx)
        return super().convert(value, param, ctx)


def path_type(*, is_file: bool = True, is_folder: bool = True) -> click.Path:
    """Return the type of an option or an argument that is a path."""
    return _Named(path_type=Path, file_okay=is_file, dir_okay=is_folder)
