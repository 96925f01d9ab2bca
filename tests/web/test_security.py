"""The security middleware, tested on every route."""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from bygones.web.app import create_app
from bygones.web.context import AppState
from bygones.web.live import EventBroadcaster
from bygones.web.pool import ArchivePool
from bygones.web.security import (
    LOGIN_PATH,
    SECURITY_HEADERS,
    LoginKeys,
    RequestLimits,
    SecurityMiddleware,
    allowed_hosts,
    is_loopback,
    safe_redirect_path,
)
from bygones.web.sign_in import load_login
from tests.web.archives import PLAIN, WebArchive
from tests.web.client import (
    PORT,
    WebClient,
    collect_messages,
    make_scope,
    run_coroutine,
    web_client,
)


def routes() -> list[Route]:
    """Return the routes of the router, so that no route can be missed."""
    state = AppState(pool=ArchivePool(Path("nowhere")), broadcaster=EventBroadcaster())
    all_routes = [
        route for route in create_app(state).routes if isinstance(route, Route)
    ]
    assert len(all_routes) == len(create_app(state).routes)
    return all_routes


class RecordingPath(str):
    """A path that records the strings it was compared with."""

    __slots__ = ("others",)
    others: set[str]

    def __eq__(self, other: object) -> bool:
        self.others.add(str(other))
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def entrances() -> list[Route]:
    """Return the paths that the middleware answers without the router."""
    path = RecordingPath("/anything")
    path.others = set()
    middleware = SecurityMiddleware(
        Response(), LoginKeys(PORT), host="127.0.0.1", port=PORT
    )
    for method in ("GET", "HEAD", "POST"):
        result = {"host": HOST, "sec-fetch-site": "same-origin"}
        scope = {**make_scope(method, path, result), "path": path}
        run_coroutine(collect_messages(middleware, scope, []))
    return [Route(one, Response, methods=["GET"]) for one in sorted(path.others)]


def test_middleware_itself_responds_to_the_login_path_only() -> None:
    assert [route.path for route in entrances()] == [LOGIN_PATH]


def example_request(route: Route) -> tuple[str, str]:
    path = route.path.replace("{id}", PLAIN).replace("{agent}", "a-a1")
    path = path.replace("{name}", "web.css").replace("{version}", "1")
    (method,) = (route.methods or {"GET"}) - {"HEAD"}
    return method, path


HOST = f"127.0.0.1:{PORT}"
REJECTED = (
    ({"cookie": ""}, 401),
    ({"cookie": f"bygones-{PORT}=wrong"}, 401),
    ({"cookie": f"bygones-{PORT + 1}=LASTING"}, 401),
    ({"host": f"attacker.test:{PORT}"}, 421),
    ({"host": "127.0.0.1"}, 421),
    ({"host": f"127.0.0.1:{PORT + 1}"}, 421),
    ({"host": f"127.0.0.1.attacker.test:{PORT}"}, 421),
    ({"host": f"evil-127.0.0.1:{PORT}"}, 421),
    ({"host": f"evil.localhost:{PORT}"}, 421),
    ({"host": f"127.0.0.1:{PORT}@attacker.test"}, 421),
    ({"host": ""}, 421),
    ({"origin": "http://attacker.test"}, 403),
    ({"origin": "null"}, 403),
    ({"origin": f"https://127.0.0.1:{PORT}"}, 403),
    ({"origin": f"http://127.0.0.1:{PORT + 1}"}, 403),
    ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}, 403),
    ({"sec-fetch-site": "same-site", "sec-fetch-mode": "cors"}, 403),
    ({"content-length": str(RequestLimits.max_body_bytes + 1)}, 413),
    ({"content-length": "-1"}, 413),
)
"""Headers of requests that no route may answer, with the status of the rejection."""


def example_requests() -> list[tuple[str, str]]:
    """Return a method and a path for each route."""
    return [example_request(route) for route in (*routes(), *entrances())]


def test_every_route_requires_the_cookie(web_archive: WebArchive) -> None:
    offenders = []
    for method, path in example_requests():
        page = web_client(web_archive)
        for headers, status in REJECTED:
            if status == 401 and _is_public(path):
                continue
            wrong = {
                name: fill_placeholder(value, page) for name, value in headers.items()
            }
            answer = page.ask(method, path, page.default_headers | wrong)
            if answer.status != status or answer.body.startswith(b"<!doctype"):
                offenders.append((method, path, headers, answer.status))

    assert offenders == []


def test_every_method_requires_the_cookie(page: WebClient) -> None:
    answers = {
        (method, path): page.ask(
            method, path, page.default_headers | {"cookie": ""}
        ).status
        for _, path in example_requests()
        for method in ("GET", "HEAD")
        if not _is_public(path)
    }

    assert {
        request: status for request, status in answers.items() if status != 401
    } == {}


def _is_public(path: str) -> bool:
    """Whether a path is a file of the product, which the sign-in page needs."""
    return path.startswith(("/static/", "/favicon.ico"))


def test_browser_without_cookie_gets_a_page_to_sign_in(page: WebClient) -> None:
    browser = page.default_headers | {"cookie": "", "accept": "text/html,*/*"}
    answer = page.ask("GET", "/session/abc?find=secret", browser)
    script = page.ask("GET", "/session/abc", browser | {"sec-fetch-mode": "cors"})

    assert answer.status == script.status == 401
    assert b'name="to" value="/session/abc"' in answer.body
    assert b"secret" not in answer.body
    assert b"<script type" not in answer.body
    assert not script.body.startswith(b"<!doctype")


@pytest.mark.parametrize("form", ["{key}", "http://127.0.0.1:1/enter?key={key}&to=/x"])
def test_pasted_link_or_key_signs_in(form: str, page: WebClient) -> None:
    text = form.format(key=page.keys.one_time_key)
    query = urlencode({"key": text, "to": "/usage"})
    answer = page.ask("GET", f"/enter?{query}", page.default_headers | {"cookie": ""})

    assert answer.status == 200
    assert b"url=/usage" in answer.body
    again = page.ask("GET", f"/enter?{query}", page.default_headers | {"cookie": ""})
    assert again.status == 401


@pytest.mark.parametrize("mode", [0o644, 0o660])
def test_saved_login_that_others_can_read_is_replaced(
    mode: int, tmp_path: Path
) -> None:
    path = tmp_path / "login"
    first = load_login(path)
    assert load_login(path) == first
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(mode)

    assert load_login(path).cookie_key != first.cookie_key
    assert path.stat().st_mode & 0o777 == 0o600


def fill_placeholder(value: str, page: WebClient) -> str:
    return value.replace("LASTING", page.keys.cookie_key)


def test_state_changing_request_without_origin_is_rejected(page: WebClient) -> None:
    silent = {name: page.default_headers[name] for name in ("host", "cookie")}
    cross = silent | {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}

    offenders = [
        (method, path, headers)
        for _, path in example_requests()
        for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "X")
        for headers in (silent, cross)
        if page.ask(method, path, headers).status != 403
    ]

    assert offenders == []


def test_web_sockets_are_rejected(page: WebClient) -> None:
    answers = {path: page.socket(path) for _, path in example_requests()}

    assert set(map(tuple, answers.values())) == {("websocket.close",)}, answers


def test_every_response_has_the_security_headers(web_archive: WebArchive) -> None:
    offenders = []
    for method, path in example_requests():
        if path == "/api/live":
            continue  # an endless response, tested with the live updates
        page = web_client(web_archive)
        for headers in (page.default_headers, {"host": HOST}):
            response_headers = page.ask(method, path, headers).headers
            wrong = {
                name: response_headers.get(name.lower())
                for name, value in SECURITY_HEADERS.items()
                if response_headers.get(name.lower()) != value
            }
            if (
                "no-store" not in response_headers["cache-control"]
                and "/static/" not in path
            ):
                wrong["Cache-Control"] = response_headers["cache-control"]
            wrong |= {
                name: value
                for name, value in response_headers.items()
                if name.startswith("access-") or name == "server"
            }
            if wrong:
                offenders.append((method, path, wrong))

    assert offenders == []


def test_content_security_policy_allows_own_scripts_only() -> None:
    policy = SECURITY_HEADERS["Content-Security-Policy"]

    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    assert "frame-ancestors 'none'" in policy
    assert "require-trusted-types-for 'script'" in policy


def test_login_link_works_once(page: WebClient) -> None:
    once = page.keys.one_time_key
    first = page.ask("GET", f"/enter?key={once}", {"host": HOST})

    assert first.status == 200
    cookie = first.headers["set-cookie"]
    assert cookie.startswith(f"bygones-{PORT}={page.keys.cookie_key}; ")
    assert "HttpOnly; SameSite=Strict" in cookie
    assert page.ask("GET", f"/enter?key={once}", {"host": HOST}).status == 401
    result = cookie.partition(";")[0]
    assert page.ask("GET", "/about", {"host": HOST, "cookie": result}).status == 200


def test_using_a_login_link_announces_the_next() -> None:
    result: list[str] = []
    keys = LoginKeys(PORT, result.append)

    assert keys.redeem(keys.one_time_key)
    assert result == [keys.one_time_key]
    assert not keys.redeem("")


@pytest.mark.parametrize(
    "to", ["//evil.test", "/\\evil.test", "https://evil.test", "/a?b", '/"><script>']
)
def test_login_link_does_not_redirect_to_other_sites(to: str, page: WebClient) -> None:
    answer = page.ask(
        "GET", f"/enter?key={page.keys.one_time_key}&to={to}", {"host": HOST}
    )

    assert 'content="0;url=/"' in answer.text


@given(st.text())
def test_redirect_path_cannot_close_an_attribute(path: str) -> None:
    assert safe_redirect_path(path).startswith("/")
    assert not set(safe_redirect_path(path)) & set("\"'<>&;\\ ")


def test_login_link_may_lead_to_a_session() -> None:
    assert safe_redirect_path(f"/session/{PLAIN}") == f"/session/{PLAIN}"
    assert safe_redirect_path("/session/a?at=b-c") == "/session/a?at=b-c"
    assert safe_redirect_path("/session/a?at=b&c") == "/"
    assert safe_redirect_path("/session/a?at=b?at=c") == "/"


def test_wrong_keys_do_not_lock_the_owner_out(page: WebClient) -> None:
    for _ in range(100):
        assert page.ask("GET", "/enter?key=wrong", {"host": HOST}).status == 401

    link = f"/enter?key={page.keys.one_time_key}"
    assert page.ask("GET", link, {"host": HOST}).status == 200


def test_browser_is_sent_to_a_random_name() -> None:
    keys = LoginKeys(1)
    name = "bygones-0123.localhost"

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await Response("in")(scope, receive, send)

    middleware = SecurityMiddleware(
        app, keys, host="127.0.0.1", port=1, browser_host=name
    )

    def get(host: str, query: str, **headers: str) -> tuple[int, str, str]:
        sent: list[Message] = []

        async def send(message: Message) -> None:
            sent.append(message)

        async def receive() -> Message:
            return {"type": "http.request"}

        fields = {"host": f"{host}:1", **headers}
        scope = {
            "type": "http",
            "method": "GET",
            "path": "/enter",
            "query_string": query.encode(),
            "headers": [
                (k.replace("_", "-").encode(), v.encode()) for k, v in fields.items()
            ],
        }
        asyncio.run(middleware(scope, receive, send))
        cookie = dict(sent[0]["headers"]).get(b"set-cookie", b"").decode()
        return sent[0]["status"], cookie, sent[1]["body"].decode()

    link = f"key={keys.one_time_key}&to=/session/a"
    status, cookie, page = get("127.0.0.1", link, sec_fetch_mode="navigate")
    assert (status, cookie) == (200, "")
    assert f"url=http://{name}:1/enter?key={keys.one_time_key}&amp;to=%2Fses" in page
    assert get(name, "key=wrong", sec_fetch_mode="navigate")[0] == 401
    assert get(name, link, sec_fetch_mode="navigate")[1].startswith("bygones-1=")
    # Programs, and browsers that cannot resolve the name, log in directly.
    assert get("127.0.0.1", f"key={keys.one_time_key}")[1]
    plain = f"key={keys.one_time_key}&plain=1"
    assert get("127.0.0.1", plain, sec_fetch_mode="navigate")[1]


def test_too_long_url_is_rejected(page: WebClient) -> None:
    assert page.get("/?text=" + "x" * RequestLimits.max_url_bytes).status == 414


def test_body_longer_than_announced_is_cut_off(page: WebClient) -> None:
    headers = page.default_headers | {"content-type": "application/json"}

    answer = page.ask(
        "POST", "/about", headers, b"x" * (RequestLimits.max_body_bytes + 1)
    )

    assert answer.status in {405, 413}


def test_connection_ends_if_the_announced_body_is_too_long(page: WebClient) -> None:
    size = str(RequestLimits.max_body_bytes + 1)
    headers = page.default_headers | {"content-length": size}

    answer = page.ask("POST", "/about", headers)

    assert (answer.status, answer.headers["connection"]) == (413, "close")


def test_chunked_body_that_is_too_long_gets_413() -> None:
    async def read_all(scope: Scope, receive: Receive, send: Send) -> None:
        await Request(scope, receive).body()
        await Response("read")(scope, receive, send)

    sent: list[Message] = []
    parts = iter([b"x" * RequestLimits.max_body_bytes, b"y"])

    async def receive() -> Message:
        return {"type": "http.request", "body": next(parts), "more_body": True}

    async def send(message: Message) -> None:
        sent.append(message)

    keys = LoginKeys(1)
    cookie = f"{keys.cookie_name}={keys.cookie_key}"
    headers = {
        "host": "127.0.0.1:1",
        "cookie": cookie,
        "origin": "http://127.0.0.1:1",
        "transfer-encoding": "chunked",
    }
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/",
        "query_string": b"",
        "headers": [(k.encode(), v.encode()) for k, v in headers.items()],
    }
    middleware = SecurityMiddleware(read_all, keys, host="127.0.0.1", port=1)

    asyncio.run(middleware(scope, receive, send))

    assert sent[0]["status"] == 413


def test_body_that_stops_arriving_gets_408(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients that send nothing must not use up the concurrent requests."""
    monkeypatch.setattr(RequestLimits, "max_stall_seconds", 0.05)
    sent: list[Message] = []
    parts = iter([b"x"])

    async def read_all(scope: Scope, receive: Receive, send: Send) -> None:
        await Request(scope, receive).body()
        await Response("read")(scope, receive, send)

    async def receive() -> Message:
        for part in parts:
            return {"type": "http.request", "body": part, "more_body": True}
        await asyncio.sleep(60)
        raise AssertionError

    async def send(message: Message) -> None:
        sent.append(message)

    keys = LoginKeys(1)
    cookie = f"{keys.cookie_name}={keys.cookie_key}"
    own = {"host": "127.0.0.1:1", "cookie": cookie, "origin": "http://127.0.0.1:1"}
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/",
        "query_string": b"",
        "headers": [(k.encode(), v.encode()) for k, v in own.items()],
    }
    middleware = SecurityMiddleware(read_all, keys, host="127.0.0.1", port=1)

    asyncio.run(asyncio.wait_for(middleware(scope, receive, send), 10))

    assert sent[0]["status"] == 408


def test_body_that_arrives_too_slowly_gets_408(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients that send byte after byte must not use up the concurrent requests."""
    monkeypatch.setattr(RequestLimits, "max_stall_seconds", 0.5)
    keys = LoginKeys(1)
    headers = {
        "host": "127.0.0.1:1",
        "cookie": f"{keys.cookie_name}={keys.cookie_key}",
        "origin": "http://127.0.0.1:1",
    }
    sent: list[Message] = []

    async def read_all(scope: Scope, receive: Receive, send: Send) -> None:
        await Request(scope, receive).body()
        await Response("read")(scope, receive, send)

    async def receive() -> Message:
        await asyncio.sleep(0.05)
        return {"type": "http.request", "body": b"x", "more_body": True}

    async def send(message: Message) -> None:
        sent.append(message)

    middleware = SecurityMiddleware(read_all, keys, host="127.0.0.1", port=1)
    scope = make_scope("POST", "/", headers)

    asyncio.run(asyncio.wait_for(middleware(scope, receive, send), 10))

    assert sent[0]["status"] == 408


def test_other_sites_may_link_here(page: WebClient) -> None:
    headers = page.default_headers | {
        "sec-fetch-site": "cross-site",
        "sec-fetch-mode": "navigate",
    }

    assert page.ask("GET", "/about", headers).status == 200


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/nothing", 404),
        ("/static/1/../../../../etc/passwd", 404),
        ("/static/1/%2e%2e%2fgate.py", 404),
        ("/static/1/gate.py", 404),
        ("/session/..%2f..%2fetc", 404),
        ("/session/%00", 404),
        (f"/session/{PLAIN}/agent/..%2f..", 404),
        ("/session/", 404),
        ("//about", 404),
    ],
)
def test_paths_cannot_leave_the_static_folder(
    path: str, status: int, page: WebClient
) -> None:
    assert page.get(path).status == status


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),  # noqa: S104 (only asked about)
        ("192.168.1.2", False),
        ("example.org", False),
    ],
)
def test_loopback_hosts(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


def test_wildcard_bind_accepts_addresses_but_no_names(web_archive: WebArchive) -> None:
    page = web_client(web_archive, host="0.0.0.0")  # noqa: S104 (nothing listens)

    for host, status in (
        (f"192.168.1.2:{PORT}", 200),
        (f"[fe80::1]:{PORT}", 200),
        (f"attacker.test:{PORT}", 421),
        ("192.168.1.2:80", 421),
    ):
        assert page.get("/about", host=host).status == status


def test_allowed_hosts_are_spelled_like_host_headers() -> None:
    assert allowed_hosts("::1", 1) >= {"[::1]:1", "localhost:1", "127.0.0.1:1"}
    assert "attacker.test:1" not in allowed_hosts("127.0.0.1", 1)
