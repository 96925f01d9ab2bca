"""What searches know, made once for all archives of one server."""

from __future__ import annotations

from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from bygones.search.known import Known
from bygones.store.folder import FolderShelf
from bygones.store.vault import Vault

if TYPE_CHECKING:  # protocols take long to make
    from bygones.store.shelf import Shelf

__all__ = ["Commons"]


class Commons:
    """Keeps one value for all who search a folder, and makes it anew as that grows.

    It looks through connections of its own: only one that has read something can tell
    whether it was changed since.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = Lock()
        self._shelf: FolderShelf | None = None
        self._known: Known | None = None
        self._moment = 0

    def look(self) -> None:
        """See what has come: what is known is made anew then, once it is asked for."""
        with self._lock:
            if self._shelf is None:
                return
            if not self._shelf.vault.is_newest():
                self._let_go()
            elif self._shelf.vault.moment != self._moment:
                self._known = None

    def known(self, shelf: Shelf) -> Known | None:
        """Return what is known of the index that a shelf stands on.

        Nothing if that has given way to another: its numbers mean other sessions.
        """
        with self._lock:
            try:
                own = self._shelf = self._shelf or FolderShelf(Vault(self._folder))
                if self._known is None:
                    # Whatever is written from here on is seen by the next look.
                    self._moment = own.vault.moment
                    self._known = Known(own)
            except BaseException:
                self._let_go()
                raise
            is_same = (
                isinstance(shelf, FolderShelf) and shelf.vault.sign == own.vault.sign
            )
            return self._known if is_same else None

    def _let_go(self) -> None:
        shelf, self._shelf, self._known = self._shelf, None, None
        if shelf is not None:
            shelf.close()

    def close(self) -> None:
        """Let go of what is known; whoever searches goes on with what they have."""
        with self._lock:
            self._let_go()
