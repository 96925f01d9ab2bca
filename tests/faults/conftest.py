"""Fixtures of all harnesses."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.properties.homes import SCRATCH


@pytest.fixture
def scratch() -> Iterator[Path]:
    """Return a folder in memory, for tests that write and sync very often."""
    folder = Path(tempfile.mkdtemp(dir=SCRATCH))
    yield folder
    shutil.rmtree(folder)
