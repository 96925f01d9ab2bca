"""The page as it is served, over hostile transcripts: on every route nothing runs."""

from __future__ import annotations

from contextlib import closing
from email.message import Message
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest
from playwright.sync_api import Browser

from bygones.archive import Archive
from bygones.model.reports import Grouping
from bygones.web.app import ROUTES
from tests.browser.payloads import PAYLOADS, batches
from tests.browser.server import RunningServer, open_tab, run_server
from tests.browser.tabs import BrowserTab
from tests.build import SESSION
from tests.faults.mutations import skip_escaping
from tests.faults.sizes import is_usual, reached
from tests.render.stories import hostile

pytestmark = pytest.mark.full

BATCHES = ["\n\n".join(PAYLOADS[::5])] if is_usual() else batches(25)
_OPEN = """
() => {
  for (const one of document.querySelectorAll("details")) one.open = true;
  return window.__p ?? null;
}
"""


def hostile_paths(bad: str) -> list[str]:
    """Return every readable route, and attacks in addresses."""
    found = [
        row.path.replace("{id}", SESSION).replace("{agent}", "x1")
        for row in ROUTES
        if row.method == "GET" and "{name}" not in row.path
    ]
    attack = quote(bad[:300], safe="")
    found += [f"{path}?q=img&from=0" for path in found]
    found += [f"/search?q={attack}", f"/search/answer?q={attack}", f"/?text={attack}"]
    found += [f"/session/{attack}", f"/nothing/{attack}", f"/files?path={attack}"]
    found += [f"/usage?by={grouping}" for grouping in Grouping]
    return [*found, f"/usage?by={attack}", f"/session/{SESSION}/find?q={attack}"]


def headers_of(tab: BrowserTab, server: RunningServer, path: str) -> Message:
    """Return the headers of an answer; only browsers resolve every name of localhost."""
    address = urlsplit(server.home)
    cookies = tab.page.context.cookies(server.home)
    cookie = "; ".join(f"{one['name']}={one['value']}" for one in cookies)
    with closing(HTTPConnection("127.0.0.1", address.port, timeout=60)) as connection:
        request_headers = {"Host": address.netloc, "Cookie": cookie}
        connection.request("GET", path, headers=request_headers)
        return connection.getresponse().headers


def assert_harmless(tab: BrowserTab, server: RunningServer, path: str) -> bool:
    """Open an address if it is a page; return whether it is one."""
    headers = headers_of(tab, server, path)
    assert headers["x-content-type-options"] == "nosniff"
    if not headers.get("content-type", "").startswith("text/html"):
        return False
    tab.page.goto(server.home + path)
    tab.page.wait_for_timeout(50)
    assert tab.page.evaluate(_OPEN) is None, path
    assert tab.dialogs == []
    assert tab.errors == []
    assert [
        url for url in tab.requests if not url.startswith((server.home, "data:"))
    ] == []
    return True


@pytest.mark.parametrize("policy", [True, False], ids=["policy", "no policy"])
@pytest.mark.parametrize("number", range(len(BATCHES)))
def test_attacks_in_transcripts_neither_run_nor_send_requests(
    number: int, policy: bool, browser: Browser, tmp_path: Path
) -> None:
    bad = BATCHES[number]
    hostile(tmp_path / "home", bad)
    Archive.ingest(tmp_path / "archive", [tmp_path / "home"])
    with (
        run_server(tmp_path / "archive") as server,
        open_tab(browser, server, bypass_csp=not policy) as tab,
    ):
        pages = sum(assert_harmless(tab, server, path) for path in hostile_paths(bad))

    assert pages > 20
    how = "with" if policy else "without"
    reached(f"web: all pages, 25 attacks together, {how} a CSP", pages)


def test_page_without_escaping_is_detected(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    skip_escaping(monkeypatch.setattr)
    hostile(tmp_path / "home", PAYLOADS[0])
    Archive.ingest(tmp_path / "archive", [tmp_path / "home"])

    with (
        run_server(tmp_path / "archive") as server,
        open_tab(browser, server, bypass_csp=True) as tab,
        pytest.raises(AssertionError),
    ):
        assert_harmless(tab, server, "/")
