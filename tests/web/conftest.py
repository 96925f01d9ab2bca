"""An archive that all web tests share, and a client for it."""

from __future__ import annotations

import pytest

from tests.web.archives import WebArchive, build_archive
from tests.web.client import WebClient, web_client


@pytest.fixture(scope="session")
def web_archive(tmp_path_factory: pytest.TempPathFactory) -> WebArchive:
    """Return an archive that no test changes."""
    return build_archive(tmp_path_factory.mktemp("kept"))


@pytest.fixture
def page(web_archive: WebArchive) -> WebClient:
    """Return a client of that archive that is logged in."""
    return web_client(web_archive)
