"""What things cost, for this user: prices of the table, or the user's own."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from bygones.cli.terminal import plain
from bygones.errors import PricesUnreadable
from bygones.prices import load_prices
from bygones.settings import prices_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bygones.archive import Archive
    from bygones.model.ids import SessionId
    from bygones.model.listing import Listed
    from bygones.model.usage import Cost
    from bygones.prices import Prices

__all__ = ["costs", "known_prices", "own_prices"]


def own_prices() -> Prices:
    """Return the prices that count for this user."""
    return load_prices(prices_file(os.environ, Path.home()))


def known_prices() -> Prices | None:
    """Return them for whoever shows more than money: a broken file is told of."""
    try:
        return own_prices()
    except PricesUnreadable as error:
        sys.stderr.write(plain(f"note: costs are left out: {error}") + "\n")
        return None


def costs(archive: Archive, sessions: Sequence[Listed]) -> dict[SessionId, Cost]:
    """Return what sessions cost; of none where the prices cannot be read."""
    prices = known_prices() if sessions else None
    return archive.costs(sessions, prices) if prices is not None else {}
