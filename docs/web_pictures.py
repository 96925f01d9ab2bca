"""Takes pictures of the page over an invented home: ``python -m docs.web_pictures``.

Needs Chromium; the pictures lie in ``docs/pictures`` and are looked at, not compared.
"""

from __future__ import annotations

import shutil
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread

from playwright.sync_api import sync_playwright

from docs.requirements import ROOT
from recollect.archive import Archive
from recollect.cli.demo_home import write_home
from recollect.web.server import Place, Serving

PICTURES = ROOT / "docs" / "pictures"
SHOTS = (
    ("web-home", "/", 1280, "light"),
    ("web-session", "/session/{rewound}", 1280, "light"),
    ("web-search", "/search?q=charged twice retry", 1280, "dark"),
    ("web-usage", "/usage?by=day", 1280, "light"),
    ("web-phone", "/session/{rewound}", 390, "dark"),
)


def main() -> None:
    """Take every picture."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "demo")
        now = datetime.now(UTC)  # noqa: TID251 (a picture is taken at some time)
        Archive.ingest(place / "archive", [write_home(place, now)])
        with Archive.open(place / "archive") as archive:
            rewound = next(one.id for one in archive.sessions() if one.branches > 1)
        links: list[str] = []
        serving = Serving(Place(folder=place / "archive"), links.append)
        running = Thread(target=serving.run, daemon=True)
        running.start()
        take(links[0], rewound)
        serving.stop()
        running.join()


def take(link: str, rewound: str) -> None:
    """Open the page with its link and take a picture of each address."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page()
        home = link.partition("/enter")[0]
        page.goto(link)
        page.wait_for_url(f"{home}/")
        for name, path, width, scheme in SHOTS:
            page.set_viewport_size({"width": width, "height": 800})
            page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
            page.goto(home + path.format(rewound=rewound))
            page.wait_for_timeout(800)
            page.screenshot(path=PICTURES / f"{name}.png")
        browser.close()


if __name__ == "__main__":
    main()
