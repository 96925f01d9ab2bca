"""An empty home and its archive for each test of usage."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.usage.asking import Asking


@pytest.fixture
def asking(tmp_path: Path) -> Asking:
    """Return a home with nothing in it yet."""
    return Asking(tmp_path)
