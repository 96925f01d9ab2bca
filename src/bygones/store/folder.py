"""The shelf of a folder: what can be read of the archive in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bygones.store.annotations import all_annotations
from bygones.store.derived import Derived
from bygones.store.finding import Finding

if TYPE_CHECKING:  # most questions are small, and answered before these are loaded
    from contextlib import AbstractContextManager

    from bygones.model.annotations import Annotations
    from bygones.model.ids import SessionId
    from bygones.store.engine import Engine
    from bygones.store.shelf import Changing, Placing, Seeing, Summing, Typing
    from bygones.store.vault import Vault

__all__ = ["FolderShelf"]


class FolderShelf:
    """What can be read of the archive in a folder."""

    def __init__(self, vault: Vault) -> None:
        self.vault = vault
        self.chunks = vault.chunks

    @property
    def index(self) -> Seeing | None:
        """What is known of the lines of sources."""
        return self.vault.index

    @property
    def derived(self) -> Derived:
        """The rows of sessions; an error where there is no index."""
        if self.vault.index is None:
            raise self.vault.missing()
        return Derived(self.vault.index)

    @property
    def finding(self) -> Finding:
        """Sessions and records by what a person knows of them."""
        return Finding(self.derived.index)

    @property
    def places(self) -> Placing:
        """What a search must know besides words."""
        from bygones.store.places import Places  # noqa: PLC0415 (see above)

        return Places(self.derived.index)

    @property
    def changes(self) -> Changing:
        """Which files calls changed."""
        from bygones.store.records import Changes  # noqa: PLC0415 (see above)

        return Changes(self.derived.index)

    @property
    def typed(self) -> Typing:
        """What a person typed."""
        from bygones.store.records import Typed  # noqa: PLC0415 (see above)

        return Typed(self.derived.index)

    @property
    def spending(self) -> Summing:
        """What was spent."""
        from bygones.store.spending import Spending  # noqa: PLC0415 (see above)

        return Spending(self.derived.index)

    def engine(self) -> Engine:
        """Return the words as they are now."""
        from bygones.store.search import FolderEngine  # noqa: PLC0415 (see above)

        return FolderEngine(self.vault.text)

    def annotations(self) -> dict[SessionId, Annotations]:
        """Return what readers added to sessions."""
        return all_annotations(self.vault.chunks.db)

    def at_once(self) -> AbstractContextManager[None]:
        """Have all that is read see one moment, whoever writes meanwhile."""
        return self.vault.at_once()

    def is_renewed(self) -> bool:
        """Say yes: a folder is opened anew by whoever wants to know."""
        return True

    def close(self) -> None:
        """Let go of the folder."""
        self.vault.close()
