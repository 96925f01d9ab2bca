"""Takes pictures of an invented session's page: ``python -m docs.screenshots``.

Needs Chromium; the pictures lie in ``docs/pictures`` and are looked at, not compared.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from bygones.export.formats import ExportOptions, render_session
from bygones.reader import read_sessions
from bygones.redact.engine import Redactor
from bygones.redact.session import RedactionLog
from bygones.usage.message_costs import make_message_pricer
from bygones.usage.prices import load_prices
from docs.requirements import ROOT
from docs.web_pictures import check_fonts

PICTURES = ROOT / "docs" / "pictures"
SESSION = ROOT / "docs" / "pictures" / "session"
SHOTS = (
    ("light", 1280, 960, "light"),
    ("dark", 1280, 960, "dark"),
    ("phone", 390, 844, "light"),
)


def main() -> None:
    """Take every picture."""
    check_fonts()
    (session,) = read_sessions(SESSION)
    making = ExportOptions(
        redactor=Redactor(), message_pricer=make_message_pricer(load_prices())
    )
    browser_path = shutil.which("chromium")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page = Path(folder) / "page.html"
        page.write_text(
            "".join(render_session(session, making, RedactionLog())), "utf-8"
        )
        browser = playwright.chromium.launch(
            executable_path=browser_path, args=["--no-sandbox"]
        )
        for name, width, height, scheme in SHOTS:
            _shoot(browser, page, PICTURES / f"{name}.png", (width, height, scheme))
        browser.close()


def _shoot(
    browser: Browser, page: Path, picture: Path, form: tuple[int, int, str]
) -> None:
    width, height, scheme = form
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if scheme == "dark" else "light",
    )
    opened = context.new_page()
    opened.goto(page.as_uri())
    opened.screenshot(path=picture)
    context.close()


if __name__ == "__main__":
    main()
