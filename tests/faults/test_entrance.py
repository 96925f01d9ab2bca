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
from tests.faults.addresses import NAMES, leading_to
from tests.faults.careless import any_key, leading_anywhere
from tests.faults.mutations import Set
from tests.faults.sizes import reached, sized
from tests.web.archives import WebArchive, build_archive
from tests.web.client import PORT, ClientResponse, WebClient, web_client

STEP = sized(400, 10, 1)
TRIES = 15
"""Wrong keys of which a gate has not yet had enough."""
HOST = {"host": f"127.0.0.1:{PORT}"}
OURS = f"http://{HOST['host']}"
ELSEWHERE = (
    *("//attacker.test", "///attacker.test", "/\\attacker.test", "\\\\attacker.test"),
    *("https:attacker.test", "https://attacker.test", "//attacker.test:8765/"),
    *("/%09/attacker.test", "/%0a/attacker.test", "%20//attacker.test", "/..//a.test"),
    *("javascript:alert(1)", "data:text/html,x", '/"><script>alert(1)</script>'),
    *("@attacker.test", ".attacker.test", ":80@attacker.test", "/;url=//attacker.test"),
    *("http://127.0.0.1:8765@attacker.test/", "http://127.0.0.1:8766/", "?at=//a.test"),
)
"""Where a link might lead, in spellings that browsers undo."""
PAGE = re.compile(
    r"<!doctype html><title>Bygones</title>"
    r'<meta http-equiv="refresh" content="0;url=([^"<>&;\s]*)">'
)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> WebArchive:
    return build_archive(tmp_path_factory.mktemp("entrance"))


def values(page: WebClient) -> list[str]:
    """Return what the entrance asks a link for, as it does."""
    heard: set[str] = set()

    class Listening(dict[str, list[str]]):
        def get(self, key: str, default: object = None) -> object:  # type: ignore[override]
            heard.add(key)
            return super().get(key, default)

    with patch.object(security, "parse_qs", lambda text: Listening(parse_qs(text))):
        page.ask("GET", f"{LOGIN_PATH}?key={page.keys.one_time_key}", HOST)
    return sorted(heard)


def names() -> list[str]:
    sure = leading_to(Path("/etc/passwd"))
    return list(dict.fromkeys([*ELSEWHERE, *sure, *NAMES[::STEP]]))


def faults(answer: ClientResponse, value: str) -> Iterator[str]:
    """Yield what an answer should not be, or should not say."""
    if value == "key":
        if answer.status != 401 or "set-cookie" in answer.headers:
            yield f"let in: {answer.status}"
        return
    found = PAGE.fullmatch(answer.text)
    if answer.status != 200 or not found:
        yield f"no page of ours: {answer.status} {answer.text}"
    elif urlsplit(urljoin(OURS + LOGIN_PATH, found[1]))[:2] != urlsplit(OURS)[:2]:
        yield f"leads to {found[1]}"


def entered(kept: WebArchive, value: str) -> tuple[int, list[str]]:
    """Come in with one hostile value each; return how often, and what was wrong."""
    wrong: list[str] = []
    page = web_client(kept)
    for number, name in enumerate(names()):
        if not number % TRIES:
            page = web_client(kept)
        given = {"key": page.keys.one_time_key, "to": "/"} | {value: name}
        query = "&".join(f"{one}={text}" for one, text in given.items())
        answer = page.ask("GET", f"{LOGIN_PATH}?{query}", HOST)
        wrong += [f"{value}={name} {fault}" for fault in faults(answer, value)]
    return len(names()), wrong


def test_no_value_of_a_link_lets_in_or_leads_elsewhere(kept: WebArchive) -> None:
    asked = values(web_client(kept))
    assert {"key", "to"} <= set(asked)

    for value in asked:
        count, wrong = entered(kept, value)
        assert wrong == []
        reached("web: hostile login links", count)


@pytest.mark.parametrize(
    ("mutation", "value"), [(any_key, "key"), (leading_anywhere, "to")]
)
def test_an_entrance_that_trusts_a_link_is_caught(
    mutation: Callable[[Set], None],
    value: str,
    kept: WebArchive,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mutation(monkeypatch.setattr)

    _, wrong = entered(kept, value)

    assert wrong
