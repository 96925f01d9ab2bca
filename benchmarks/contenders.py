"""The programs that are compared: Bygones, and others that can be installed.

Each has the command that runs it, its environment, and a scratch HOME in which ``.claude``
is a link to the home and everything that it writes stays.
"""

from __future__ import annotations

import compileall
import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.tree import Run, follow

__all__ = ["OURS", "PEERS", "Contender", "Room", "install", "our_command"]

ROOT = Path(__file__).resolve().parent.parent


class Contender(NamedTuple):
    """A program that imports a home; ``{room}`` and ``{bin}`` are folders."""

    name: str
    command: Sequence[str]
    """Import what is new in the home, and exit."""
    keeps: str
    """What it stores, to compare sizes."""
    imported: re.Pattern[str]
    """Finds the counts of imported files in its output."""
    rebuild: Sequence[str] = ()
    """Derive everything again, if it can."""
    env: Mapping[str, str] = {}
    package: str = ""
    """What pip installs, into an environment of its own."""


_US = (sys.executable, "-m", "bygones")
_HERE = ("--archive", "{room}/archive")
OURS = Contender(
    "bygones",
    (*_US, "ingest", *_HERE, "--home", "{room}/.claude", "--json"),
    keeps="every byte, compressed; complete texts with results; usage",
    imported=re.compile(r'"(?:new|grown|rewritten|moved)_count": ?(\d+)'),
    rebuild=(*_US, "rebuild", *_HERE),
    env={"PYTHONPATH": str(ROOT / "src")},
)


def our_command(name: str, *arguments: str) -> tuple[str, ...]:
    """Return a command of this checkout with the archive of a room."""
    return (*_US, name, *arguments, *_HERE, "--home", "{room}/.claude")


PEERS = (
    Contender(
        "agentsview",
        ("{bin}/agentsview", "sync"),
        keeps="no raw bytes; messages and tool calls with results; usage",
        imported=re.compile(r"Sync complete: (\d+) sessions"),
        env={
            # Otherwise a server that keeps running does the work.
            "AGENTSVIEW_NO_DAEMON": "1",
            "AGENTSVIEW_DISABLE_UPDATE_CHECK": "1",
            "AGENTSVIEW_TELEMETRY_ENABLED": "0",
        },
        package="agentsview==0.46.*",
    ),
    Contender(
        "claude-session-search",
        # It says "rebuild", and imports only what has changed.
        ("{bin}/claude-session-search", "--reindex"),
        keeps="no raw bytes; texts; those of tools are cut at 4,000 characters",
        imported=re.compile(r'"files_indexed": (\d+)'),
        package="claude-session-search==0.2.*",
    ),
)


def install(contender: Contender, scratch: Path) -> str:
    """Make a contender ready to run, and return its version."""
    if not contender.package:
        compileall.compile_dir(ROOT / "src", quiet=1)  # as pip does with the others
        return "this checkout"
    home = scratch / "programs" / contender.name
    pip = [str(_programs(home) / "python"), "-m", "pip", "--disable-pip-version-check"]
    if not _programs(home).exists():
        venv.create(home, with_pip=True)
        subprocess.run([*pip, "install", "--quiet", contender.package], check=True)
    shown = subprocess.run(
        [*pip, "show", contender.name], check=True, capture_output=True, text=True
    )
    return shown.stdout.partition("Version: ")[2].splitlines()[0]


class Room:
    """The scratch HOME of one contender."""

    def __init__(
        self, contender: Contender, scratch: Path, before: Sequence[str] = ()
    ) -> None:
        self.contender = contender
        self._scratch = scratch
        self._before = before
        self.folder = scratch / "rooms" / contender.name

    def prepare(self, home: Path) -> None:
        """Create it, with only a link to the home."""
        self.clear()
        self.folder.mkdir(parents=True)
        (self.folder / ".claude").symlink_to(home, target_is_directory=True)

    def clear(self) -> None:
        """Remove everything that was written."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, command: Sequence[str]) -> Run:
        """Run a command of the contender."""
        folders = {
            "room": str(self.folder),
            "bin": str(_programs(self._scratch / "programs" / self.contender.name)),
        }
        env = {
            "HOME": str(self.folder),
            "PATH": os.defpath,
            "LANG": "C.UTF-8",
            **self.contender.env,
        }
        return follow(
            [*self._before, *(argument.format_map(folders) for argument in command)],
            env=env,
            output=self.folder.with_suffix(".log"),
        )

    def written(self) -> int:
        """Return the bytes of all files that the contender has written."""
        return sum(
            path.lstat().st_size
            for path in self.folder.rglob("*")
            if path.is_file() and not path.is_symlink()
        )


def _programs(environment: Path) -> Path:
    return environment / "bin"
