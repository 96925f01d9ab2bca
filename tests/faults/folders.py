"""A model of a disk with folders, which loses unsynced operations at a power cut.

Data that was written to a file since its last sync may be lost, sector by sector. Names
that were created, changed and removed in a folder since its last sync are lost from any
one of them on. Syncing a file also makes the name durable with which it was created, and
its parent folders, as on file systems with a journal. Later names of the file are durable
only once its folder is synced.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from random import Random

from tests.faults.disk import FileOperation, FileState

__all__ = ["Folders"]


class _Change:
    """A change of a name in a folder."""

    def __init__(self, operation: FileOperation, name: str, node: Node | None) -> None:
        self.kind = operation.kind
        self.name = name
        self.other = (
            PurePosixPath(operation.data.decode()).name if operation.data else ""
        )
        self.node = node
        self.is_durable = False

    def apply(self, names: dict[str, Node]) -> None:
        if self.kind in {"create", "folder"} and self.node is not None:
            names[self.name] = self.node
        elif self.name in names:
            found = names[self.name]
            if self.kind != "link":
                del names[self.name]
            if self.other:
                names[self.other] = found


class _Folder:
    def __init__(self) -> None:
        self.synced: dict[str, Node] = {}
        self.unsynced: list[_Change] = []
        self.current: dict[str, Node] = {}

    def record(self, change: _Change) -> None:
        self.unsynced.append(change)
        change.apply(self.current)

    def sync(self) -> None:
        self.synced, self.unsynced = dict(self.current), []

    def mark_durable(self, node: Node) -> None:
        """Make the name durable with which a file was created."""
        for change in self.unsynced:
            change.is_durable |= change.node is node

    def after_power_cut(self, random: Random) -> dict[str, Node]:
        names = dict(self.synced)
        count = len(self.unsynced)
        stop = random.choice([0, count, random.randint(0, count)])
        for number, change in enumerate(self.unsynced):
            if number < stop or change.is_durable:
                change.apply(names)
        return names


Node = _Folder | FileState


class Folders:
    """What would be on the disk below one folder after a power cut now."""

    def __init__(self, root: Path, files: Mapping[str, bytes]) -> None:
        self._root = root
        self._top = _Folder()
        self.created: list[FileOperation] = []
        """Operations that created files and folders."""
        for path, raw in files.items():
            folder = self._top
            *parents, name = Path(path).relative_to(root).parts
            for part in parents:
                found = folder.current.setdefault(part, _Folder())
                assert isinstance(found, _Folder)
                folder = found
            folder.current[name] = FileState(bytearray(raw), [])
        self._sync_all(self._top)

    def _sync_all(self, folder: _Folder) -> None:
        folder.sync()
        for node in folder.current.values():
            if isinstance(node, _Folder):
                self._sync_all(node)

    def record(self, operation: FileOperation) -> None:
        """Apply an operation."""
        *parents, name = Path(operation.path).relative_to(self._root).parts or ("",)
        folders = [self._top]
        for part in parents:
            child = folders[-1].current.get(part)
            if not isinstance(child, _Folder):
                return  # in a deleted folder
            folders.append(child)
        node = folders[-1].current.get(name) if name else self._top
        if operation.kind in {"create", "folder"}:
            if node is None:
                self.created.append(operation)
                new_node = (
                    _Folder()
                    if operation.kind == "folder"
                    else FileState(bytearray(), [])
                )
                folders[-1].record(_Change(operation, name, new_node))
        elif operation.kind in {"delete", "link", "move"}:
            folders[-1].record(_Change(operation, name, None))
        elif operation.kind == "sync" and node is not None:
            node.sync()
            for folder, inner in zip(folders, [*folders[1:], node], strict=True):
                folder.mark_durable(inner)
        elif isinstance(node, FileState):
            node.unsynced.append(operation)

    def after_power_cut(self, random: Random | None) -> dict[str, bytes]:
        """Return the files that may be found after a power cut.

        Without a random generator, all names exist, with only synced bytes.
        """
        files: dict[str, bytes] = {}
        pending = [(self._root, self._top)]
        while pending:
            path, folder = pending.pop()
            for name, node in (
                folder.after_power_cut(random) if random else folder.current
            ).items():
                if isinstance(node, FileState):
                    data = (
                        node.after_power_cut(random) if random else bytes(node.synced)
                    )
                    files[str(path / name)] = data or b""
                else:
                    pending.append((path / name, node))
        return files
