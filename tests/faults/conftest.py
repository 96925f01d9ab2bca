"""What every harness can ask for."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.properties.homes import SCRATCH


@pytest.fixture
def scratch() -> Iterator[Path]:
    """Return a folder in memory, for what is written, synced and removed very often."""
    folder = Path(tempfile.mkdtemp(dir=SCRATCH))
    yield folder
    shutil.rmtree(folder)
