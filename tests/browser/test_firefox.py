"""The main pages in Firefox, driven through Marionette, its own remote control.

Playwright needs a build of Firefox of its own; this is the one that people have.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping

import pytest

from tests.browser.server import RunningServer, run_server
from tests.web.archives import LONG, LONG_TURNS, build_archive

pytestmark = pytest.mark.full
PATIENCE = 60.0


class Firefox:
    """A headless Firefox; its messages are a length, a colon and a JSON array."""

    def __init__(self, port: int) -> None:
        self._connection = _connect(port)
        self._input = self._connection.makefile("rb")
        self._read()  # the greeting
        self._number = 0
        self.command("WebDriver:NewSession", {})

    def _read(self) -> object:
        length = b""
        while (byte := self._input.read(1)) != b":":
            assert byte, "Firefox closed the connection"
            length += byte
        return json.loads(self._input.read(int(length)))

    def command(self, name: str, parameters: Mapping[str, object]) -> object:
        self._number += 1
        raw = json.dumps([0, self._number, name, parameters]).encode()
        self._connection.sendall(b"%d:%b" % (len(raw), raw))
        answer = self._read()
        assert isinstance(answer, list)
        _, _, error, result = answer
        assert error is None, error
        return result

    def open(self, url: str) -> None:
        self.command("WebDriver:Navigate", {"url": url})

    def evaluate(self, expression: str) -> object:
        script = {"script": f"return {expression}", "args": []}
        found = self.command("WebDriver:ExecuteScript", script)
        assert isinstance(found, dict)
        return found["value"]

    def wait_for(self, expression: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not self.evaluate(expression):
            assert time.monotonic() < deadline, expression
            time.sleep(0.1)

    def press(self, *keys: str) -> None:
        """Press keys together."""
        actions = [{"type": "keyDown", "value": key} for key in keys]
        actions += [{"type": "keyUp", "value": key} for key in reversed(keys)]
        source = {"type": "key", "id": "keyboard", "actions": actions}
        self.command("WebDriver:PerformActions", {"actions": [source]})

    def close(self) -> None:
        self._connection.close()


def _connect(port: int) -> socket.socket:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), PATIENCE)
        except OSError:
            assert time.monotonic() < deadline, "Firefox does not listen"
            time.sleep(0.2)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.fixture(scope="module")
def firefox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Firefox]:
    path = shutil.which("firefox") or shutil.which("firefox-esr")
    if path is None:
        pytest.skip("NO FIREFOX: `apt-get install firefox-esr` brings one")
    profile = tmp_path_factory.mktemp("profile")
    port = _free_port()
    profile.joinpath("user.js").write_text(
        f'user_pref("marionette.port", {port});\n'
        'user_pref("datareporting.policy.dataSubmissionEnabled", false);\n'
    )
    words = [path, "--headless", "--marionette", "--no-remote", "--profile"]
    process = subprocess.Popen(
        [*words, str(profile)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={"HOME": str(profile), "PATH": "/usr/bin:/bin"},
    )
    try:
        driver = Firefox(port)
        yield driver
        driver.close()
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture(scope="module")
def server(
    firefox: Firefox, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningServer]:
    archive_home = build_archive(tmp_path_factory.mktemp("firefox"))
    with run_server(archive_home.folder) as running:
        firefox.open(running.links[-1])
        firefox.wait_for(f"location.href === '{running.home}/'")
        yield running


_OVERFLOW = (
    "document.documentElement.scrollWidth - document.documentElement.clientWidth"
)


def test_every_page_fits_and_has_a_heading(
    firefox: Firefox, server: RunningServer
) -> None:
    for path in (
        *("/", "/search?q=question", "/prompts", "/projects", "/files", "/usage"),
        *(f"/session/{LONG}", f"/session/{LONG}/map", f"/share?session={LONG}"),
        *("/problems", "/about"),
    ):
        firefox.open(server.home + path)
        firefox.wait_for("document.readyState === 'complete'")
        for width in (1280, 500):
            firefox.command("WebDriver:SetWindowRect", {"width": width, "height": 900})
            firefox.wait_for(f"innerWidth <= {width}")
            assert firefox.evaluate(_OVERFLOW) == 0, (path, width)
        assert firefox.evaluate("document.querySelectorAll('h1, input').length"), path


def test_session_loads_its_outline_timeline_and_windows(
    firefox: Firefox, server: RunningServer
) -> None:
    firefox.command("WebDriver:SetWindowRect", {"width": 1280, "height": 900})
    firefox.open(f"{server.home}/session/{LONG}")
    firefox.wait_for("document.querySelectorAll('#outline a').length > 3")
    firefox.wait_for("document.querySelector('#session-timeline svg')")
    firefox.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    last = f"Question number {LONG_TURNS - 1}"
    firefox.wait_for(
        f"document.getElementById('conversation').textContent.includes('{last}')"
    )


def test_outline_jumps_and_back_returns(
    firefox: Firefox, server: RunningServer
) -> None:
    firefox.open(f"{server.home}/session/{LONG}")
    firefox.wait_for("document.querySelectorAll('#outline a').length > 20")
    firefox.evaluate("document.querySelectorAll('#outline a')[20].click()")
    firefox.wait_for("document.querySelector('article.target')")
    firefox.wait_for("scrollY > 500")
    before = firefox.evaluate("document.querySelector('article.target').id")
    firefox.open(f"{server.home}/usage")
    firefox.command("WebDriver:Back", {})
    firefox.wait_for(f"document.getElementById('{before}')")
    top = f"document.getElementById('{before}').getBoundingClientRect().top"
    firefox.wait_for(f"{top} > -200 && {top} < innerHeight")


def test_palette_and_find_open_by_key(firefox: Firefox, server: RunningServer) -> None:
    firefox.open(f"{server.home}/session/{LONG}")
    firefox.wait_for("document.querySelectorAll('#outline a').length > 3")
    firefox.press("\ue009", "k")
    firefox.wait_for("document.querySelector('dialog[open] input')")
    firefox.press("\ue00c")
    firefox.wait_for("!document.querySelector('dialog[open]')")
    firefox.press("f")
    firefox.wait_for("document.querySelector('.finder input')")
    for key in "number 7":
        firefox.press(key)
    firefox.wait_for(
        "/match/.test(document.querySelector('.finder output').textContent)"
    )
