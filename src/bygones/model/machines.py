"""Homes on other machines, whose files came with a sync.

Their paths are like `laptop-1a2b3c4d:/home/ann/.claude`, with the name and the id of the
machine. Nothing is ever read or written there.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_HOME = re.compile(r"([A-Za-z0-9_.-]+)-([0-9a-f]{8})(?:\.(\d+))?:(.*)", re.DOTALL)
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]+")
_MAX_NAME_LENGTH = 40
MACHINE_ID = re.compile(r"[0-9a-f]{8}")


class Machine(NamedTuple):
    """A machine with an archive; the name may change, the id does not."""

    name: str
    id: str

    @property
    def label(self) -> str:
        return f"{self.name}-{self.id}"


class MachineHome(NamedTuple):
    """A home on another machine."""

    machine: Machine
    home: str
    variant: int = 1
    """Counts files with the same path that do not continue each other."""

    def __str__(self) -> str:
        variant = f".{self.variant}" if self.variant > 1 else ""
        return f"{self.machine.label}{variant}:{self.home}"


def parse_machine_home(home: str) -> MachineHome | None:
    """Return the parts of a home on another machine; none if it is on this one."""
    match = _HOME.fullmatch(home) if ":" in home else None
    if match is None:
        return None
    name, id_, variant, path = match.groups()
    return MachineHome(Machine(name, id_), path, int(variant or 1))


def is_on_this_machine(home: str) -> bool:
    """Whether a home may exist on this machine."""
    return parse_machine_home(home) is None


def clean_machine_name(name: str) -> str:
    """Return a host name without its domain and unusual characters."""
    cleaned = _NOT_IN_NAMES.sub("-", name.partition(".")[0]).strip("-")
    return cleaned[:_MAX_NAME_LENGTH] or "machine"
