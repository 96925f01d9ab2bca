"""Takes pictures of the page over an invented home: ``python -m docs.web_pictures``.

Needs Chromium; the pictures lie in ``docs/pictures`` and are looked at, not compared.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread

from playwright.sync_api import sync_playwright

from bygones.archive import Archive
from bygones.cli.commands.demo import write_demo_home
from bygones.usage.prices import load_prices
from bygones.web.server import ServerConfig, WebServer
from docs.requirements import ROOT

PICTURES = ROOT / "docs" / "pictures"
SHOTS = (
    ("web-home", "/", 1280, "light"),
    ("web-session", "/session/{rewound}", 1280, "light"),
    ("web-search", "/search?q=charged twice retry", 1280, "dark"),
    ("web-usage", "/usage?since=30d", 1280, "light"),
    ("web-compare", "/session/{rewound}/compare", 1280, "light"),
    ("web-phone", "/session/{rewound}", 390, "dark"),
)


def main() -> None:
    """Take every picture."""
    check_fonts()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "demo")
        now = datetime.now(UTC)  # noqa: TID251 (a picture is taken at some time)
        home = write_demo_home(place, now)
        for path in home.rglob("*.jsonl"):
            # A picture shows where people work, not where it was taken.
            path.write_bytes(path.read_bytes().replace(bytes(place), b"/work"))
        Archive.ingest(place / "archive", [home])
        with Archive.open(place / "archive") as archive:
            rewound = next(one.id for one in archive.sessions() if one.branch_count > 1)
        links: list[str] = []
        served = ServerConfig(
            folder=place / "archive",
            prices=load_prices(),
            searches_file=place / "searches.json",
        )
        serving = WebServer(served, links.append)
        running = Thread(target=serving.run, daemon=True)
        running.start()
        take(links[0], rewound)
        serving.stop()
        running.join()


def check_fonts() -> None:
    """Refuse to take pictures in which a language would be a row of squares."""
    found = subprocess.run(  # noqa: S603 (of words that are ours)
        [shutil.which("fc-list") or "fc-list", ":lang=zh"],
        check=True,
        capture_output=True,
        text=True,
    )
    if not found.stdout.strip():
        raise SystemExit("no font has Chinese: apt-get install fonts-noto-cjk")


def take(link: str, rewound: str) -> None:
    """Open the page with its link and take a picture of each address."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page()
        page.goto(link)
        # The server leads the browser to a host name of its own.
        page.wait_for_url(re.compile(r"\.localhost:\d+/$"))
        home = page.url.removesuffix("/")
        for name, path, width, scheme in SHOTS:
            page.set_viewport_size({"width": width, "height": 800})
            page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
            page.goto(home + path.format(rewound=rewound))
            page.wait_for_timeout(800)
            page.screenshot(path=PICTURES / f"{name}.png")
        browser.close()


if __name__ == "__main__":
    main()
