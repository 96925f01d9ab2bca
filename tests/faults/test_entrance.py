"""The login address, which is the only one that works without a cookie.

Every parameter gets hostile values. None of them is accepted as a key, and none
redirects to a page of another site.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import patch
from urllib.parse import parse_qs, urljoin, urlsplit

import pytest

from bygones.web import security
from bygones.web.security import LOGIN_PATH
from tests.faults.addresses import NAMES, names_leading_to
from tests.faults.careless import accept_any_key, redirect_anywhere
from tests.faults.mutations import Patch
from tests.faults.sizes import reached, sized
from tests.web.archives import WebArchive, build_archive
from tests.web.client import PORT, ClientResponse, WebClient, web_client

STEP = sized(400, 10, 1)
TRIES = 15
"""Wrong keys that are allowed before the login is locked."""
HOST = {"host": f"127.0.0.1:{PORT}"}
OWN_ORIGIN = f"http://{HOST['host']}"
FOREIGN_URLS = (
    *("//attacker.test", "///attacker.test", "/\\attacker.test", "\\\\attacker.test"),
    *("https:attacker.test", "https://attacker.test", "//attacker.test:8765/"),
    *("/%09/attacker.test", "/%0a/attacker.test", "%20//attacker.test", "/..//a.test"),
    *("javascript:alert(1)", "data:text/html,x", '/"><script>alert(1)</script>'),
    *("@attacker.test", ".attacker.test", ":80@attacker.test", "/;url=//attacker.test"),
    *("http://127.0.0.1:8765@attacker.test/", "http://127.0.0.1:8766/", "?at=//a.test"),
)
"""Redirect targets on other sites, in spellings that browsers normalize."""
PAGE = re.compile(
    r"<!doctype html><title>Bygones</title>"
    r'<meta http-equiv="refresh" content="0;url=([^"<>&;\s]*)">'
)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> WebArchive:
    return build_archive(tmp_path_factory.mktemp("entrance"))


def login_parameters(page: WebClient) -> list[str]:
    """Return the query parameters that the login handler reads."""
    requested: set[str] = set()

    class RecordingDict(dict[str, list[str]]):
        def get(self, key: str, default: object = None) -> object:  # type: ignore[override]
            requested.add(key)
            return super().get(key, default)

    with patch.object(security, "parse_qs", lambda text: RecordingDict(parse_qs(text))):
        page.ask("GET", f"{LOGIN_PATH}?key={page.keys.one_time_key}", HOST)
    return sorted(requested)


def hostile_names() -> list[str]:
    file_names = names_leading_to(Path("/etc/passwd"))
    return list(dict.fromkeys([*FOREIGN_URLS, *file_names, *NAMES[::STEP]]))


def faults(answer: ClientResponse, parameter: str) -> Iterator[str]:
    """Yield what is wrong with a response."""
    if parameter == "key":
        if answer.status != 401 or "set-cookie" in answer.headers:
            yield f"logged in: {answer.status}"
        return
    found = PAGE.fullmatch(answer.text)
    if answer.status != 200 or not found:
        yield f"unexpected page: {answer.status} {answer.text}"
    elif (
        urlsplit(urljoin(OWN_ORIGIN + LOGIN_PATH, found[1]))[:2]
        != urlsplit(OWN_ORIGIN)[:2]
    ):
        yield f"leads to {found[1]}"


def try_login_links(archive: WebArchive, parameter: str) -> tuple[int, list[str]]:
    """Request login links with one hostile value each; return how many, and the faults."""
    problems: list[str] = []
    page = web_client(archive)
    for number, name in enumerate(hostile_names()):
        if not number % TRIES:
            page = web_client(archive)
        params = {"key": page.keys.one_time_key, "to": "/"} | {parameter: name}
        query = "&".join(f"{key}={text}" for key, text in params.items())
        answer = page.ask("GET", f"{LOGIN_PATH}?{query}", HOST)
        problems += [
            f"{parameter}={name} {fault}" for fault in faults(answer, parameter)
        ]
    return len(hostile_names()), problems


def test_no_value_of_a_link_lets_in_or_leads_elsewhere(archive: WebArchive) -> None:
    parameters = login_parameters(web_client(archive))
    assert {"key", "to"} <= set(parameters)

    for parameter in parameters:
        count, problems = try_login_links(archive, parameter)
        assert problems == []
        reached("web: hostile login links", count)


@pytest.mark.parametrize(
    ("mutation", "parameter"), [(accept_any_key, "key"), (redirect_anywhere, "to")]
)
def test_an_entrance_that_trusts_a_link_is_caught(
    mutation: Callable[[Patch], None],
    parameter: str,
    archive: WebArchive,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mutation(monkeypatch.setattr)

    _, problems = try_login_links(archive, parameter)

    assert problems
