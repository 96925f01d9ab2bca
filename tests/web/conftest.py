"""An archive that all tests of the page look at, and the page over it."""

from __future__ import annotations

import pytest

from tests.web.archives import Kept, furnished
from tests.web.client import Asking, asking


@pytest.fixture(scope="session")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    """Return an archive that nobody changes."""
    return furnished(tmp_path_factory.mktemp("kept"))


@pytest.fixture
def page(kept: Kept) -> Asking:
    """Return the page over that archive, opened."""
    return asking(kept)
