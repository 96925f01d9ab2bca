"""A real browser, where the system has one."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Error, expect, sync_playwright

expect.set_options(timeout=30_000)  # the machine may have other work

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Return a headless Chromium; tests that need it are skipped, and say so."""
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip(
            "NO BROWSER: pages were not opened, so nobody knows what runs in them; "
            "`apt-get install chromium` brings one"
        )
    with sync_playwright() as playwright:
        try:
            open_tab = playwright.chromium.launch(
                executable_path=path, args=["--no-sandbox", "--disable-gpu"]
            )
        except Error as error:
            pytest.skip(f"NO BROWSER: {path} does not start: {error}")
        yield open_tab
        open_tab.close()
