"""A hub in a real browser: the token is handed over in a form, once."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.hub.hubs import run_hub
from tests.web.archives import build_archive

pytestmark = pytest.mark.full


def test_a_token_opens_the_page_and_stays_out_of_addresses(
    browser: Browser, tmp_path: Path
) -> None:
    with run_hub(tmp_path, {"ben": build_archive(tmp_path).folder}) as hub:
        secret, _ = hub.token("ben")
        page = browser.new_page()
        requests: list[str] = []
        page.on("request", lambda request: requests.append(request.url))

        page.goto(hub.address)
        page.get_by_label("Token from the administrator of this hub").fill(secret)
        page.get_by_role("button").click()

        expect(page.get_by_text("Counting lines")).to_be_visible()
        page.reload()
        expect(page.get_by_text("Counting lines")).to_be_visible()
        assert secret not in " ".join(requests)
        assert secret not in page.evaluate("document.cookie")
        assert all(one.startswith(hub.address) for one in requests)
        page.close()
