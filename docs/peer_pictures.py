"""Takes pictures of other tools beside ours: ``python -m docs.peer_pictures BIN``.

BIN is a folder with `agentsview` and `claude-code-log` from PyPI. All show the same
invented home. Needs Chromium; the pictures are described in ``docs/web-comparison.md``.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread

from playwright.sync_api import Page, sync_playwright

from bygones.archive import Archive
from bygones.cli.commands.demo import write_demo_home
from bygones.usage.prices import load_prices
from bygones.web.server import ServerConfig, WebServer
from docs.requirements import ROOT
from docs.web_pictures import check_fonts

PICTURES = ROOT / "docs" / "pictures" / "peers"
PORT = 18081
WIDTH, HEIGHT = 1280, 800
OURS = {
    "list": "/",
    "session": "/session/{id}",
    "usage": "/usage?since=30d",
    "search": "/search?q=retry",
    "files": "/files",
    "map": "/session/{id}/map",
    "prompts": "/prompts",
    "export": "/share?session={id}",
    "compare": "/session/{id}/compare",
    "file": "/file?path=/work/shop/src/checkout.py",
    "projects": "/projects",
}
THEIRS = {
    "session": "/sessions/{id}",
    "usage": "/usage",
    "files": "/recent-edits",
    "activity": "/activity",
    "trends": "/trends",
}
"""The pages of agentsview."""


def main() -> None:
    """Take every picture."""
    check_fonts()
    programs = Path(sys.argv[1])
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        place = Path(folder)
        home = place / ".claude"
        now = datetime.now(UTC)  # noqa: TID251 (a picture is taken at some time)
        shutil.copytree(write_demo_home(place / "demo", now), home)
        for path in home.rglob("*.jsonl"):
            path.write_bytes(path.read_bytes().replace(bytes(place / "demo"), b"/work"))
        Archive.ingest(place / "archive", [home])
        with Archive.open(place / "archive") as archive:
            rewound = next(one.id for one in archive.sessions() if one.branch_count > 1)
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        take_ours(page, place / "archive", rewound)
        take_agentsview(page, programs, place, rewound)
        take_claude_code_log(page, programs, place, rewound)
        browser.close()


def shoot(page: Page, url: str, name: str) -> None:
    page.goto(url)
    page.wait_for_timeout(5000)
    page.screenshot(path=PICTURES / f"{name}.jpg", type="jpeg", quality=60)


def take_ours(page: Page, archive: Path, rewound: str) -> None:
    links: list[str] = []
    serving = WebServer(
        ServerConfig(folder=archive, prices=load_prices()), links.append
    )
    running = Thread(target=serving.run, daemon=True)
    running.start()
    page.goto(links[0])
    page.wait_for_url(re.compile(r"\.localhost:\d+/$"))
    home = page.url.removesuffix("/")
    for name, path in OURS.items():
        shoot(page, home + path.format(id=rewound), f"bygones-{name}")
    serving.stop()
    running.join()


def take_agentsview(page: Page, programs: Path, place: Path, rewound: str) -> None:
    words = [str(programs / "agentsview"), "serve", "--port", str(PORT), "--no-browser"]
    environ = {
        **os.environ,
        "HOME": str(place),
        "AGENTSVIEW_DATA_DIR": str(place / "av"),
    }
    server = subprocess.Popen(words, env=environ, stdout=subprocess.DEVNULL)  # noqa: S603 (our own words)
    try:
        page.wait_for_timeout(8000)
        root = f"http://127.0.0.1:{PORT}"
        shoot(page, root, "agentsview-list")
        for name, url_path in THEIRS.items():
            shoot(page, root + url_path.format(id=rewound), f"agentsview-{name}")
        page.goto(root)
        page.wait_for_timeout(2000)
        page.keyboard.press("Control+k")
        page.keyboard.type("retry")
        page.wait_for_timeout(3000)
        path = PICTURES / "agentsview-search.jpg"
        page.screenshot(path=path, type="jpeg", quality=60)
    finally:
        server.terminate()
        server.wait(20)


def take_claude_code_log(page: Page, programs: Path, place: Path, rewound: str) -> None:
    out = place / "log"
    projects = place / ".claude" / "projects"
    words = [str(programs / "claude-code-log"), "--all-projects", "-o", str(out)]
    environ = {**os.environ, "HOME": str(place)}
    subprocess.run(  # noqa: S603 (our own words)
        [*words, str(projects)], env=environ, check=True, capture_output=True
    )
    (session,) = out.glob(f"*/session-{rewound}.html")
    shoot(page, (out / "index.html").as_uri(), "claude-code-log-list")
    shoot(page, session.as_uri(), "claude-code-log-session")


if __name__ == "__main__":
    main()
