"""Folders and files on a disk that forgets: of all that a program writes.

Of a file, what was written since it was last synced may be there or not, sector by
sector. Of a folder, the names that were given, changed and taken away since it was last
synced are there up to any of them. A file that is synced is there by the name, and in
the folders, with which it was made, as on file systems with a journal; what it was
called later is certain only with its folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from random import Random

from tests.faults.disk import Act, Held

__all__ = ["Folders"]


class _Change:
    """What became of a name in a folder."""

    def __init__(self, act: Act, name: str, node: Node | None) -> None:
        self.task = act.task
        self.name = name
        self.other = PurePosixPath(act.raw.decode()).name if act.raw else ""
        self.node = node
        self.is_certain = False

    def apply(self, names: dict[str, Node]) -> None:
        if self.task in {"create", "folder"} and self.node is not None:
            names[self.name] = self.node
        elif self.name in names:
            found = names[self.name]
            if self.task != "link":
                del names[self.name]
            if self.other:
                names[self.other] = found


class _Folder:
    def __init__(self) -> None:
        self.sure: dict[str, Node] = {}
        self.loose: list[_Change] = []
        self.now: dict[str, Node] = {}

    def hear(self, change: _Change) -> None:
        self.loose.append(change)
        change.apply(self.now)

    def sync(self) -> None:
        self.sure, self.loose = dict(self.now), []

    def assure(self, node: Node) -> None:
        """Have a file be there by the name that it was made with."""
        for change in self.loose:
            change.is_certain |= change.node is node

    def left(self, random: Random) -> dict[str, Node]:
        names = dict(self.sure)
        most = len(self.loose)
        upto = random.choice([0, most, random.randint(0, most)])
        for number, change in enumerate(self.loose):
            if number < upto or change.is_certain:
                change.apply(names)
        return names


Node = _Folder | Held


class Folders:
    """What would be on the disk if the power went now, below one folder."""

    def __init__(self, root: Path, files: Mapping[str, bytes]) -> None:
        self._root = root
        self._top = _Folder()
        self.made: list[Act] = []
        """What was made that was not there before."""
        for path, raw in files.items():
            folder = self._top
            *above, name = Path(path).relative_to(root).parts
            for one in above:
                found = folder.now.setdefault(one, _Folder())
                assert isinstance(found, _Folder)
                folder = found
            folder.now[name] = Held(bytearray(raw), [])
        self._sync_all(self._top)

    def _sync_all(self, folder: _Folder) -> None:
        folder.sync()
        for node in folder.now.values():
            if isinstance(node, _Folder):
                self._sync_all(node)

    def hear(self, act: Act) -> None:
        """Follow what is done."""
        *above, name = Path(act.path).relative_to(self._root).parts or ("",)
        way = [self._top]
        for one in above:
            found = way[-1].now.get(one)
            if not isinstance(found, _Folder):
                return  # in a folder that is gone
            way.append(found)
        node = way[-1].now.get(name) if name else self._top
        if act.task in {"create", "folder"}:
            if node is None:
                self.made.append(act)
                made = _Folder() if act.task == "folder" else Held(bytearray(), [])
                way[-1].hear(_Change(act, name, made))
        elif act.task in {"delete", "link", "move"}:
            way[-1].hear(_Change(act, name, None))
        elif act.task == "sync" and node is not None:
            node.sync()
            for folder, inner in zip(way, [*way[1:], node], strict=True):
                folder.assure(inner)
        elif isinstance(node, Held):
            node.loose.append(act)

    def without_power(self, random: Random | None) -> dict[str, bytes]:
        """Return the files as they may be found afterwards.

        Without chance, all names exist, and only bytes that were synced.
        """
        found: dict[str, bytes] = {}
        waiting = [(self._root, self._top)]
        while waiting:
            path, folder = waiting.pop()
            for name, node in (folder.left(random) if random else folder.now).items():
                if isinstance(node, Held):
                    left = node.left(random) if random else bytes(node.sure)
                    found[str(path / name)] = left or b""
                else:
                    waiting.append((path / name, node))
        return found
