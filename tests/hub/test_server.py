"""Access needs a token, and people see only what they may."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from select import select

import pytest

from bygones.errors import HubRejected, HubUnreachable
from bygones.hub.client import HubClient, push
from bygones.mcp.tools import TOOLS
from bygones.redact.engine import Redactor
from bygones.team.access import TokenStore
from bygones.team.contract import MAX_FRAME_BYTES
from bygones.web.app import ROUTES
from bygones.web.security import RequestLimits
from tests.build import session_id
from tests.hub.hubs import TestHub, run_hub
from tests.hub.sending import NOW, PROJECT, make_project
from tests.team.engines import ENGINES, open_engine
from tests.web.archives import EDITED_PATH, PLAIN, build_archive

ANN_SAID = b"Question"
MCP = {
    "content-type": "application/json",
    "accept": "application/json, text/event-stream",
}


@pytest.fixture(scope="module", params=["folders", *ENGINES])
def hub(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TestHub]:
    """Return a hub with sessions of two people: in local archives, and on each engine."""
    folder = tmp_path_factory.mktemp("hub")
    _, ann = make_project(folder / "ann", first=70)
    folders = {"ann": ann, "ben": build_archive(folder / "ben").folder}
    if request.param == "folders":
        with run_hub(folder, folders) as hub:
            yield hub
        return
    with open_engine(request.param) as make:
        engine, _ = make()
        with run_hub(folder, folders, engine) as hub:
            hub.push_all()
            yield hub
        engine.close()


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


def session_paths(id_: str) -> list[str]:
    """Return the URL of every route for one session."""
    paths = [
        row.path.replace("{id}", id_).replace("{agent}", "a1").replace("{version}", "x")
        for row in ROUTES
        if row.method == "GET"
    ]
    paths = [one.replace("{name}", "app.js") for one in paths]
    more = {"/search": "q=Question", "/search/answer": "q=Question"}
    more |= {"/api/search": "q=Question", "/api/files": f"session={id_}"}
    more |= {
        "/files": f"path={EDITED_PATH}",
        f"/session/{id_}/find": "q=Question",
    }
    return [f"{path}?{more[path]}" if path in more else path for path in paths]


@pytest.mark.full_on_clickhouse
def test_every_route_needs_a_token(hub: TestHub) -> None:
    revoked, token = hub.token("ann")
    TokenStore(hub.store).revoke(token.id, NOW)
    headers_list = [
        {},
        bearer("byg_wrong"),
        bearer(revoked),
        {"Cookie": f"bygones-hub={revoked}"},
    ]
    headers_list += [{"Authorization": f"Basic {revoked}"}, {"X-Bygones-Token": "ann"}]

    for path in [
        *session_paths(session_id(71)),
        "/mcp",
        "/push/acks",
        "/nowhere",
        "/api/live",
    ]:
        for headers in headers_list:
            assert hub.ask("GET", path, headers).status == 401, path
    assert hub.ask("POST", "/push", {}, b"x").status == 403
    assert hub.ask("POST", "/push", bearer("byg_wrong"), b"x").status == 401
    assert hub.ask("POST", "/mcp", bearer(revoked), b"{}").status == 401
    assert hub.ask("GET", "/health").body == b"alive\n"


def test_health_reports_sources_that_could_not_be_derived(hub: TestHub) -> None:
    hub.server.worker._describe_failures = lambda: "1 file could not"
    hub.server.worker.notify()
    while not hub.server.worker.warning:
        time.sleep(0.01)

    assert hub.ask("GET", "/health").body == b"alive; 1 file could not\n"


def test_what_claude_was_sent_is_not_shown_by_a_hub(hub: TestHub) -> None:
    ann = bearer(hub.token("ann")[0])
    path = f"/session/{session_id(71)}"

    assert b'data-sent="0"' in hub.ask("GET", path, ann).body
    assert hub.ask("GET", f"{path}/sent", ann).status == 404


def test_every_route_shows_only_own_sessions(hub: TestHub) -> None:
    ann, ben = hub.token("ann")[0], hub.token("ben")[0]
    hers = session_id(71)

    seen = {path: hub.ask("GET", path, bearer(ann)) for path in session_paths(hers)}
    foreign = {path: hub.ask("GET", path, bearer(ben)) for path in session_paths(hers)}

    assert sum(ANN_SAID in one.body for one in seen.values()) >= 8
    assert {one.status for one in seen.values()} <= {200, 204, 400, 404}
    for path, one in foreign.items():
        assert b"ann.lee" not in one.body, path
        assert b"mail me" not in one.body, path
        if hers in path.partition("?")[0]:
            assert one.status == 404, path


def test_caches_are_not_shared_between_people(hub: TestHub) -> None:
    ann, ben = hub.token("ann")[0], hub.token("ben")[0]

    for _ in range(3):
        hers = hub.ask("GET", "/api/sessions", bearer(ann)).body
        his = hub.ask("GET", "/api/sessions", bearer(ben)).body
        assert PLAIN.encode() in his
        assert PLAIN.encode() not in hers or b"Counting lines" not in hers
        assert b"mail me" not in his


def call_tool(
    hub: TestHub, secret: str, tool: str, arguments: dict[str, object]
) -> bytes:
    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": tool, "arguments": arguments},
    }
    payload = json.dumps(body).encode()
    return hub.ask("POST", "/mcp", {**bearer(secret), **MCP}, payload).body


@pytest.mark.full_on_clickhouse
def test_every_mcp_tool_shows_only_own_sessions(hub: TestHub) -> None:
    ann, ben = hub.token("ann")[0], hub.token("ben")[0]
    hers = session_id(72)
    arguments: dict[str, dict[str, object]] = {
        "search": {"query": "Question"},
        "recent": {},
        "outline": {"session": hers},
        "read": {"session": hers},
        "file_history": {"path": EDITED_PATH},
        "blame": {"path": EDITED_PATH, "line": 1},
        "file_at": {"path": EDITED_PATH, "session": hers},
    }
    names = {tool.name for tool in TOOLS}
    assert names == set(arguments)

    hits = sum(b"of 2" in call_tool(hub, ann, name, arguments[name]) for name in names)
    results = {name: call_tool(hub, ben, name, arguments[name]) for name in names}

    assert hits >= 2
    assert all(b"mail me" not in one and b"of 2" not in one for one in results.values())


def test_a_push_over_the_network_arrives(hub: TestHub) -> None:
    secret, _ = hub.token("cat")
    before = hub.derived
    with HubClient(hub.address, secret) as courier:
        done = push(
            hub.folders["ann"], [PROJECT], redactor=Redactor(), transport=courier
        )
        again = push(
            hub.folders["ann"], [PROJECT], redactor=Redactor(), transport=courier
        )

    assert (done.files, again.files) == (3, 0)
    own = [b for b in hub.store.export_updates() if b.source.person == "cat"]
    assert sum(span.length for b in own for span in b.spans) == done.bytes
    assert {b.source.teams for b in own} == {("shop",)}
    # The worker waits until no uploads come in.
    deadline = time.monotonic() + 20
    while hub.derived == before and time.monotonic() < deadline:
        time.sleep(0.02)
    assert hub.derived > before


def test_invalid_token_and_unreachable_hub_are_different_errors(hub: TestHub) -> None:
    wrong = HubClient(hub.address, "byg_wrong")
    with wrong, pytest.raises(HubRejected, match="token"):
        wrong.fetch_state("0" * 32)
    nobody = HubClient(
        "http://127.0.0.1:9", "byg_x", max_attempts=2, sleep=lambda _: None
    )
    with pytest.raises(HubUnreachable):
        nobody.fetch_state("0" * 32)


def test_foreign_hosts_origins_and_large_bodies_are_rejected(hub: TestHub) -> None:
    secret, _ = hub.token("ann")
    mine = bearer(secret)
    evil = {"Origin": "https://evil.example"}

    assert hub.ask("GET", "/", {**mine, "Host": "evil.example"}).status == 421
    assert hub.ask("GET", "/", {**mine, "Host": "hub.example.com"}).status == 200
    assert hub.ask("POST", "/push", {**mine, **evil}, b"x").status == 403
    assert hub.ask("POST", "/push", mine, b"x").status == 400
    huge = {**mine, "Content-Length": str(2 * MAX_FRAME_BYTES)}
    assert hub.ask("POST", "/push", huge).status == 413
    large = {**mine, "Content-Length": "100000"}
    assert hub.ask("POST", "/enter", large).status == 413
    assert hub.ask("GET", "/push/acks?machine=../..", mine).status == 400


def test_login_form_sets_the_cookie(hub: TestHub) -> None:
    secret, _ = hub.token("ann")
    # Chromium sends forms like this from a page without a referrer.
    own = {"Sec-Fetch-Site": "same-origin", "Origin": "null"}
    own |= {"Host": f"127.0.0.1:{hub.server.port}"}
    foreign = {**own, "Sec-Fetch-Site": "cross-site"}

    form = hub.ask("GET", "/", {"Accept": "text/html,*/*"})
    refused = hub.ask("POST", "/enter", own, b"token=byg_wrong")
    entered = hub.ask("POST", "/enter", own, f"token={secret}".encode())
    cookie = entered.headers["set-cookie"].partition(";")[0]

    assert (form.status, form.headers["location"]) == (303, "/enter")
    assert b"type=password" in hub.ask("GET", "/enter").body
    assert refused.status == 401
    assert hub.ask("POST", "/enter", foreign, f"token={secret}".encode()).status == 403
    assert "HttpOnly; SameSite=Strict" in entered.headers["set-cookie"]
    assert ANN_SAID in hub.ask("GET", "/", {"Cookie": cookie}).body
    away = {**own, "Host": "hub.example.com"}
    there = hub.ask("POST", "/enter", away, f"token={secret}".encode())
    assert there.headers["set-cookie"].endswith("; Secure")


def test_state_changing_request_from_another_page_is_rejected(hub: TestHub) -> None:
    secret, _ = hub.token("ann")
    cookie = {"Cookie": f"bygones-hub={secret}"}
    path = f"/api/sessions/{session_id(71)}/annotations"

    assert hub.ask("POST", path, cookie, b"{}").status == 403
    cross = {**cookie, "Sec-Fetch-Site": "cross-site"}
    assert hub.ask("POST", path, cross, b"{}").status == 403


def test_slow_uploads_of_one_person_do_not_delay_others(hub: TestHub) -> None:
    host = f"127.0.0.1:{hub.server.port}"
    head = (
        f"POST /push HTTP/1.1\r\nHost: {host}\r\nContent-Length: 9\r\n"
        f"Authorization: Bearer {hub.token('ann')[0]}\r\n\r\nx"
    )
    slow = [socket.create_connection(("127.0.0.1", hub.server.port)) for _ in range(9)]
    try:
        for one in slow:
            one.sendall(head.encode())
        time.sleep(0.3)  # until they wait for the rest

        started = time.monotonic()
        answer = hub.ask("POST", "/push", bearer(hub.token("ben")[0]), b"x")

        assert answer.status == 400
        assert time.monotonic() - started < RequestLimits.max_stall_seconds / 2
    finally:
        for one in slow:
            one.close()


def slow_request(hub: TestHub, path: str, headers: str) -> socket.socket:
    """Send a request of which the rest of the body does not arrive."""
    one = socket.create_connection(("127.0.0.1", hub.server.port))
    host = f"127.0.0.1:{hub.server.port}"
    head = f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 9\r\n{headers}"
    one.sendall(f"{head}\r\n\r\nx".encode())
    return one


def test_slow_uploads_of_many_people_do_not_block_others(
    hub: TestHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RequestLimits, "max_stall_seconds", 600)
    people = [hub.token(f"slow-{number}")[0] for number in range(6)]
    slow = [
        slow_request(hub, "/push", f"Authorization: Bearer {secret}")
        for secret in people
    ]
    try:
        time.sleep(0.3)  # until they wait for the rest

        answer = hub.ask("POST", "/push", bearer(hub.token("ben")[0]), b"x")

        assert answer.status == 400
    finally:
        for one in slow:
            one.close()


def test_slow_sign_ins_do_not_block_health_checks(
    hub: TestHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RequestLimits, "max_anonymous_stall_seconds", 600)
    monkeypatch.setattr(RequestLimits, "max_concurrent_requests", 2)
    own = "Sec-Fetch-Site: same-origin\r\nOrigin: null"
    slow = [slow_request(hub, "/enter", own) for _ in range(3)]
    try:
        slow[2].settimeout(60)

        assert slow[2].recv(12) == b"HTTP/1.1 503"
        assert hub.ask("GET", "/health").status == 200
        assert hub.ask("GET", "/enter").status == 200
        assert hub.ask("GET", "/ready").status != 503
    finally:
        for one in slow:
            one.close()


def test_slow_sign_ins_do_not_block_others(
    hub: TestHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RequestLimits, "max_anonymous_stall_seconds", 600)
    monkeypatch.setattr(RequestLimits, "max_anonymous_bodies", 2)
    monkeypatch.setattr(RequestLimits, "max_concurrent_requests", 4)
    own = {"Sec-Fetch-Site": "same-origin", "Origin": "null"}
    lines = "\r\n".join(f"{name}: {text}" for name, text in own.items())
    slow: list[socket.socket] = []
    try:
        for _ in range(12):
            slow.append(slow_request(hub, "/enter", lines))
            slow[0].settimeout(60)
            if len(slow) > 2:  # the oldest is given up
                assert slow[0].recv(12) == b"HTTP/1.1 408"
                slow.pop(0).close()
            answer = hub.ask("POST", "/enter", own, b"token=byg_wrong")
            assert answer.status == 401
    finally:
        for one in slow:
            one.close()


def test_slow_bodies_of_a_person_are_limited(
    hub: TestHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each keeps a file open, of which a process has a limited number."""
    monkeypatch.setattr(RequestLimits, "max_concurrent_bodies", 3)
    mine, others = hub.token("zoe")[0], hub.token("ben")[0]
    line = f"Authorization: Bearer {mine}"
    slow = [slow_request(hub, "/push", line) for _ in range(4)]
    try:
        ((rejected,), _, _) = select(slow, [], [], 60)

        assert rejected.recv(12) == b"HTTP/1.1 503"
        assert hub.ask("GET", "/push/acks", bearer(mine)).status == 400
        assert hub.ask("POST", "/push", bearer(others), b"x").status == 400
    finally:
        for one in slow:
            one.close()


def test_long_sign_in_is_rejected(hub: TestHub) -> None:
    own = {"Sec-Fetch-Site": "same-origin", "Origin": "null"}

    assert hub.ask("POST", "/enter", own, b"x" * 10_000).status == 413


def test_slow_body_without_a_token_is_rejected_at_once(
    hub: TestHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RequestLimits, "max_concurrent_requests", 2)
    wrong = "Authorization: Bearer byg_wrong"
    slow = [slow_request(hub, "/push", wrong) for _ in range(4)]
    try:
        for one in slow:
            one.settimeout(60)
            assert one.recv(12) == b"HTTP/1.1 401"
    finally:
        for one in slow:
            one.close()
