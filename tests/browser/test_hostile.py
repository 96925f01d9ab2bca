"""Whatever a transcript holds: no script of it runs, no request leaves."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from bygones.export.folder import ExportItem, export_folder
from bygones.export.formats import ExportFormat
from tests.browser.payloads import PAYLOADS, batches
from tests.browser.tabs import new_tab, write_page
from tests.export.shared import export_options
from tests.faults.sizes import reached
from tests.render.stories import hostile

pytestmark = pytest.mark.full

BATCHES = batches(25)
_PROD = """
() => {
  for (const fold of document.querySelectorAll("details")) fold.open = true;
  for (const choice of document.querySelectorAll("input.other")) choice.click();
  const kinds = ["mouseover", "mouseenter", "pointerenter", "focus", "click", "error",
    "load", "toggle", "animationstart", "scroll", "pageshow", "cut", "begin"];
  for (const one of document.querySelectorAll("main *, .top *, .toc *")) {
    if (one.localName === "a") continue;
    for (const kind of kinds) one.dispatchEvent(new Event(kind));
  }
  return window.__p;
}
"""
"""Opens everything, touches everything, and tells whether anything ran."""
_LINKS = """
() => [...document.querySelectorAll("a")].map((a) => a.protocol)
"""


def attacks_of_batch(number: int) -> tuple[str, ...]:
    """Return the attacks of a batch, one by one."""
    return PAYLOADS[number * 25 : number * 25 + 25]


def test_there_are_hundreds_of_attacks() -> None:
    assert len(PAYLOADS) >= 300


@pytest.mark.parametrize("policy", [True, False], ids=["policy", "no policy"])
@pytest.mark.parametrize("number", range(len(BATCHES)))
def test_attacks_in_a_page_neither_run_nor_load(
    number: int, policy: bool, browser: Browser, tmp_path: Path
) -> None:
    path = write_page(
        hostile(tmp_path / "home", BATCHES[number]), tmp_path / "page.html"
    )

    with new_tab(browser, bypass_csp=not policy) as tab:
        tab.open(path)
        ran = tab.page.evaluate(_PROD)
        links = set(tab.page.evaluate(_LINKS))

    assert ran is None
    assert tab.external_requests == []
    assert tab.requests == [path.as_uri()]
    assert tab.dialogs == []
    assert tab.errors == []
    assert links <= {"file:", "https:", "http:", "mailto:"}
    if policy:  # each is tried twice, and counted once
        what = "exported page: attacks in every place, with and without a CSP"
        reached(what, len(attacks_of_batch(number)))


def test_script_that_runs_is_detected(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "raw.html"
    plain = [one for one in PAYLOADS if one.startswith("<img src=")]
    raw = "".join(f"<div>{payload}</div>" for payload in plain)
    path.write_text(f"<meta charset=utf-8><main>{raw}</main>", "utf-8")

    with new_tab(browser) as tab:
        tab.open(path)
        ran = tab.page.evaluate(_PROD)

    assert ran == 1
    assert tab.external_requests


def test_attacks_in_a_folder_of_pages_do_not_run(
    browser: Browser, tmp_path: Path
) -> None:
    bad = "\n\n".join(PAYLOADS[::7])
    session = hostile(tmp_path / "home", bad)
    export_items = [ExportItem(id=session.id, fingerprint=b"", load=lambda: session)]
    server = tmp_path / "site"
    export_folder(export_items, server, export_options(ExportFormat.HTML))

    for path in sorted(server.rglob("*.html")):
        with new_tab(browser) as tab:
            tab.open(path)
            if path.name == "index.html":
                tab.page.fill(".find", "img")
            ran = tab.page.evaluate(_PROD)

        assert ran is None
        assert tab.external_requests == []
        assert tab.dialogs == []
