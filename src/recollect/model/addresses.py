"""Telling the address of a team's store from the path of a folder."""

from __future__ import annotations

import re

__all__ = ["is_address", "without_password"]

_ADDRESS = re.compile(r"(?:postgres(?:ql)?|clickhouse|chdb):/")
"""One slash is enough: a path keeps no more of them."""


_PASSWORD = re.compile(r"(?<=:/)(/?[^/:@?]*):[^/@?]*@")


def is_address(name: str) -> bool:
    """Whether a name is that of a team's store."""
    return _ADDRESS.match(name) is not None


def without_password(name: str) -> str:
    """Return an address as it can be shown; what is no address, as it is."""
    return _PASSWORD.sub(r"\1@", name, count=1) if is_address(name) else name
