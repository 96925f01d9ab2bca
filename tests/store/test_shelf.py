"""The shelf of a folder has all that a shelf has."""

from __future__ import annotations

from recollect.store.shelf import FolderShelf, Shelf


def test_a_folder_has_a_shelf() -> None:
    named = {name for name in dir(Shelf) if not name.startswith("_")}

    assert named - {"chunks"} <= set(dir(FolderShelf))
