"""An archive that all tests of the page look at, and the page over it."""

from __future__ import annotations

import pytest

from tests.web.archives import WebArchive, build_archive
from tests.web.client import WebClient, web_client


@pytest.fixture(scope="session")
def kept(tmp_path_factory: pytest.TempPathFactory) -> WebArchive:
    """Return an archive that nobody changes."""
    return build_archive(tmp_path_factory.mktemp("kept"))


@pytest.fixture
def page(kept: WebArchive) -> WebClient:
    """Return the page over that archive, opened."""
    return web_client(kept)
