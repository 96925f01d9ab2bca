"""Fixtures."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the path of a file that each example overwrites."""
    return tmp_path_factory.mktemp("file") / "a.jsonl"
