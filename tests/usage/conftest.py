"""An empty home and its archive for each test of usage."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.usage.usage_archive import UsageArchive


@pytest.fixture
def usage_archive(tmp_path: Path) -> UsageArchive:
    """Return an empty home and its archive."""
    return UsageArchive(tmp_path)
