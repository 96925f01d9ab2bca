"""Telling the address of a team's store from the path of a folder."""

from __future__ import annotations

import re

__all__ = ["is_address", "without_password"]

_ENGINES = ("postgres:/", "postgresql:/", "clickhouse:/", "chdb:/")
"""One slash is enough: a path keeps no more of them."""
_PASSWORD = r"(?<=:/)(/?[^/:@?]*):[^/@?]*@"  # noqa: S105 (where one stands)


def is_address(name: str) -> bool:
    """Whether a name is that of a team's store."""
    return name.startswith(_ENGINES)


def without_password(name: str) -> str:
    """Return an address as it can be shown; what is no address, as it is."""
    return re.sub(_PASSWORD, r"\1@", name, count=1) if is_address(name) else name
