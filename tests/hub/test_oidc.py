"""Signing in with a real provider (npm oidc-provider): in the browser and by a code."""

from __future__ import annotations

import os
import re
import shutil
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from html import unescape
from http.cookiejar import CookieJar, DefaultCookiePolicy
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlencode, urljoin
from urllib.request import HTTPCookieProcessor, Request, build_opener

import pytest

from bygones.hub.oidc import OidcConfig
from bygones.team.access import TokenStore
from bygones.team.contract import AccessRole
from tests.hub.hubs import TestHub, run_hub
from tests.hub.sending import make_project

pytestmark = pytest.mark.full
CACHE = Path.home() / ".cache" / "bygones-tests" / "oidc-provider-9"
PROVIDER = Path(__file__).with_name("oidc_provider.mjs")


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestHub]:
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        pytest.skip("no provider: npm is missing")
    if not (CACHE / "node_modules" / "oidc-provider").is_dir():
        CACHE.mkdir(parents=True, exist_ok=True)
        (CACHE / "package.json").write_text("{}")
        command = [npm, "install", "oidc-provider@9", "--silent", "--no-audit"]
        if subprocess.run(command, cwd=CACHE, check=False, timeout=180).returncode:
            pytest.skip("no provider: npm cannot install it")
    root = tmp_path_factory.mktemp("oidc")
    _, folder = make_project(root / "ann")
    port, own_port = free_port(), free_port()
    base = f"http://127.0.0.1:{own_port}"
    config = OidcConfig(
        issuer=f"http://127.0.0.1:{port}",
        client_id="hub",
        client_secret="hub-secret",  # noqa: S106 (of the test)
        base_url=base,
        teams_by_group={"Developers": "shop"},
    )
    provider = subprocess.Popen(
        [node, PROVIDER, CACHE, str(port), f"{base}/oidc/callback"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert provider.stdout is not None
        assert b"listening" in provider.stdout.readline()
        people = {f"{name}@example.org": folder for name in ("ann", "ben")}
        with run_hub(root, people, port=own_port, oidc=config) as running:
            yield running
    finally:
        provider.kill()
        provider.communicate()


class Browser:
    """Follows redirects, keeps cookies and submits forms, as a browser does."""

    def __init__(self) -> None:
        policy = DefaultCookiePolicy(rfc2965=False)
        self._opener = build_opener(HTTPCookieProcessor(CookieJar(policy)))

    def open(self, url: str, form: dict[str, str] | None = None) -> tuple[str, str]:
        data = urlencode(form).encode() if form is not None else None
        try:
            request = Request(url, data)  # noqa: S310 (of the test)
            with self._opener.open(request, timeout=20) as answer:
                return answer.url, answer.read().decode()
        except HTTPError as error:
            return error.url, error.read().decode()

    def submit(self, url: str, page: str, **given: str) -> tuple[str, str]:
        action = re.search(r'<form[^>]*action="([^"]*)"', page)
        fields = dict(
            re.findall(r'<input[^>]*name="([^"]+)"[^>]*value="([^"]*)"', page)
        )
        target = urljoin(url, unescape(action[1]) if action else url)
        return self.open(target, {**fields, **given})

    def sign_in(self, url: str, page: str, login: str) -> tuple[str, str]:
        for _ in range(5):
            if 'name="login"' in page:
                url, page = self.submit(url, page, login=login, password="x")  # noqa: S106 (any is accepted)
            elif "<form" in page and "/interaction/" in url:
                url, page = self.submit(url, page)
            else:
                break
        return url, page


def test_browser_signs_in_and_groups_become_teams(hub: TestHub) -> None:
    browser = Browser()
    _, login_page = browser.open(f"{hub.address}/enter")
    assert "/oidc/start" in login_page

    url, page = browser.sign_in(*browser.open(f"{hub.address}/oidc/start"), "ann")

    assert url.startswith(f"{hub.address}/oidc/callback"), page
    _, home = browser.open(f"{hub.address}/")
    assert "Token from the administrator" not in home
    (token,) = [
        one
        for one in TokenStore(hub.store).list_tokens()
        if one.person == "ann@example.org"
    ]
    assert (token.teams, token.role) == (("shop",), AccessRole.TEAM)
    assert token.expires_at is not None


def test_callback_of_another_browser_is_rejected(hub: TestHub) -> None:
    url, page = Browser().open(f"{hub.address}/oidc/callback?code=x&state=y")
    assert "did not start" in page, url
    browser = Browser()
    browser.open(f"{hub.address}/oidc/start")
    _, page = browser.open(f"{hub.address}/oidc/callback?code=x&state=y")
    assert "did not start" in page


def test_unverified_email_is_rejected(hub: TestHub) -> None:
    browser = Browser()
    _, page = browser.sign_in(*browser.open(f"{hub.address}/oidc/start"), "mallory")
    assert "not verified" in page


def test_command_line_signs_in_with_a_code(hub: TestHub, tmp_path: Path) -> None:
    settings = tmp_path / "settings.toml"
    settings.write_text("")
    command = subprocess.Popen(
        [sys.executable, "-m", "bygones", "hub", "login", hub.address],
        env={**os.environ, "BYGONES_SETTINGS": str(settings)},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert command.stderr is not None
    found = re.search(r"open (\S+)", command.stderr.readline())
    assert found
    browser = Browser()
    url, page = browser.open(found[1])
    for _ in range(6):
        if 'name="login"' in page or "/interaction/" in url:
            url, page = browser.sign_in(url, page, "ben")
        elif "<form" in page:
            url, page = browser.submit(url, page, confirm="yes")
        else:
            break
    rest = command.communicate(timeout=60)[1]
    assert command.returncode == 0, (rest, url, page)

    (path,) = (tmp_path / "hubs").iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    token = TokenStore(hub.store).authenticate(path.read_text().strip())
    assert token is not None
    assert token.person == "ben@example.org"
