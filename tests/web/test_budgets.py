"""Size limits of pages."""

from __future__ import annotations

from bygones.web.layout import ASSETS, load_asset

MAX_SCRIPT_BYTES = 120_000


def test_scripts_are_small_in_total() -> None:
    sizes = {
        name: len(load_asset(name).encode()) for name in ASSETS if name.endswith(".js")
    }

    assert len(sizes) > 5
    assert sum(sizes.values()) <= MAX_SCRIPT_BYTES, sizes
