"""Telling the address of a team's store from the path of a folder."""

from __future__ import annotations

import re

__all__ = ["is_address"]

_ADDRESS = re.compile(r"(?:postgres(?:ql)?|clickhouse|chdb):/")
"""One slash is enough: a path keeps no more of them."""


def is_address(name: str) -> bool:
    """Whether a name is that of a team's store."""
    return _ADDRESS.match(name) is not None
