"""Operating a hub: readiness, metrics, logs, limits and the lifetime of tokens."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from bygones.archive import Archive
from bygones.cli.commands.hub import hub as hub_command
from bygones.errors import StoreError
from bygones.hub.monitoring import AccessLog, Metrics, RateLimiter
from bygones.team.access import TokenStore, migrate_store
from bygones.team.contract import (
    REBUILD_NOTE,
    AccessRole,
    BlobStore,
    ErasureSelector,
)
from bygones.team.reader import TeamReader
from bygones.team.stores.base import TeamStore
from bygones.team.text_engine import TeamEngine
from tests.hub.hubs import TestHub, run_hub
from tests.hub.sending import NOW, make_project
from tests.team.memory import MemoryStore

StoreAndBlobs = tuple[TeamStore, BlobStore]


@pytest.fixture(scope="module")
def hub(
    make: Callable[[], StoreAndBlobs], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TestHub]:
    root = tmp_path_factory.mktemp("operated")
    _, folder = make_project(root / "ann")
    store, _ = make()
    with run_hub(
        root, {"ann": folder}, store, log_file=root / "hub.log", max_requests=60
    ) as running:
        running.push_all()
        yield running
    store.close()


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


def log_lines(hub: TestHub) -> list[dict[str, object]]:
    text = (hub.folder / "hub.log").read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


def call_search(hub: TestHub, secret: str) -> bytes:
    """Search as an agent does."""
    call = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "search", "arguments": {"query": "hazel"}},
    }
    headers = bearer(secret) | {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
    }
    answer = hub.ask("POST", "/mcp", headers, json.dumps(call).encode())
    assert answer.status == 200
    return answer.body


def test_ready_hub_says_so_without_a_token(hub: TestHub) -> None:
    answer = hub.ask("GET", "/ready")

    assert (answer.status, answer.body) == (200, b"ready\n")


def test_hub_whose_index_is_rebuilt_shows_nothing_rather_than_a_part(
    hub: TestHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret, _ = hub.token("ann")
    monkeypatch.setattr("bygones.hub.monitoring._CHECK_SECONDS", 0.0)
    assert hub.ask("GET", "/api/sessions", bearer(secret)).status == 200
    hub.store.set_note(*REBUILD_NOTE, b"")
    try:
        assert hub.ask("GET", "/ready").status == 503
        rejected = hub.ask("GET", "/api/sessions", bearer(secret))
        assert (rejected.status, rejected.headers["retry-after"]) == (503, "30")
        assert hub.ask("GET", "/health").status == 200
        progress = hub.ask("GET", f"/push/acks?machine={'0' * 32}", bearer(secret))
        assert progress.status == 200
    finally:
        hub.store.set_note(*REBUILD_NOTE, None)
    assert hub.ask("GET", "/api/sessions", bearer(secret)).status == 200
    assert hub.ask("GET", "/ready").status == 200


@pytest.mark.req("ME2")
def test_log_names_person_token_and_what_was_read(hub: TestHub) -> None:
    secret, token = hub.token("ann")
    session = hub.store.matching_sessions(ErasureSelector())[0]
    path = f"/api/sessions/{session}"
    assert hub.ask("GET", path, bearer(secret)).status == 200
    assert hub.ask("GET", "/api/sessions", bearer("byg_wrong")).status == 401
    assert hub.ask("GET", "/api/search?q=walnut", bearer(secret)).status == 200

    deadline = time.monotonic() + 10  # a line is written after its answer is sent
    while "q=walnut" not in str(log_lines(hub)) and time.monotonic() < deadline:
        time.sleep(0.05)
    lines = log_lines(hub)

    read = next(line for line in lines if line.get("path") == path)
    assert (read["person"], read["token"], read["status"]) == ("ann", token.id, 200)
    assert any(line["status"] == 401 and "person" not in line for line in lines)
    assert any(line.get("query") == "q=walnut" for line in lines)
    mode = stat.S_IMODE((hub.folder / "hub.log").stat().st_mode)
    assert mode == 0o600
    assert secret not in (hub.folder / "hub.log").read_text("utf-8")


def test_log_does_not_contain_codes_of_the_provider(hub: TestHub) -> None:
    hub.ask("GET", "/oidc/callback?code=one-time-code&state=s")

    deadline = time.monotonic() + 10
    while "/oidc/callback" not in str(log_lines(hub)) and time.monotonic() < deadline:
        time.sleep(0.05)

    assert "/oidc/callback" in str(log_lines(hub))
    assert "one-time-code" not in str(log_lines(hub))


@pytest.mark.req("ME2")
def test_log_names_the_tools_that_agents_call(hub: TestHub) -> None:
    secret, token = hub.token("ann")
    call_search(hub, secret)

    logged = [line for line in log_lines(hub) if line["event"] == "tool"]

    assert logged[-1]["person"] == "ann"
    assert logged[-1]["token"] == token.id
    assert logged[-1]["tool"] == "search"
    assert logged[-1]["arguments"] == {"query": "hazel"}


def test_metrics_are_for_auditors_and_valid(hub: TestHub) -> None:
    own, _ = hub.token("ann")
    auditor, _ = TokenStore(hub.store).issue("root", role=AccessRole.AUDITOR, now=NOW)
    hub.ask("GET", "/", {**bearer(own), "Accept": "text/html"})

    assert hub.ask("GET", "/metrics").status == 401
    assert hub.ask("GET", "/metrics", bearer(own)).status == 403
    text = hub.ask("GET", "/metrics", bearer(auditor)).body.decode()

    sample = re.compile(r'[a-z_]+(?:\{(?:[a-z]+="[^"]*",?)+\})? -?[0-9.e+]+')
    for line in text.splitlines():
        assert line.startswith("# TYPE ") or sample.fullmatch(line), line
    assert (
        'bygones_hub_requests_total{method="GET",route="metrics",status="403"}' in text
    )
    assert "bygones_hub_ready 1" in text
    assert "bygones_hub_pending_files 0" in text
    assert not re.search(r"[0-9a-f]{8}-[0-9a-f]{4}", text)


def test_invented_paths_do_not_add_metrics(hub: TestHub) -> None:
    own, _ = hub.token("ann")
    auditor, _ = TokenStore(hub.store).issue("root", role=AccessRole.AUDITOR, now=NOW)
    for number in range(20):
        name = f"invented{chr(97 + number)}"
        hub.ask("GET", f"/{name}")
        hub.ask("GET", f"/api/{name}", bearer(own))

    text = hub.ask("GET", "/metrics", bearer(auditor)).body.decode()

    assert "invented" not in text
    assert 'route="other",status="401"} 20' in text
    assert 'route="other",status="404"} 20' in text


def test_too_many_requests_of_a_person_are_rejected(hub: TestHub) -> None:
    busy, _ = hub.token("busy")
    other, _ = hub.token("other")
    statuses = [hub.ask("GET", "/api/sessions", bearer(busy)).status for _ in range(40)]

    assert 200 in statuses
    assert statuses[-1] == 429
    answer = hub.ask("GET", "/api/sessions", bearer(busy))
    assert int(answer.headers["retry-after"]) >= 1
    assert hub.ask("GET", "/api/sessions", bearer(other)).status == 200
    assert hub.ask("GET", "/ready").status == 200


def test_limit_recovers_with_time() -> None:
    now = [0.0]
    limiter = RateLimiter(60, lambda: now[0])
    while not limiter.wait_seconds("ann"):
        pass
    assert limiter.wait_seconds("ben") == 0

    now[0] += limiter.wait_seconds("ann")

    assert limiter.wait_seconds("ann") == 0
    assert limiter.wait_seconds("ann") > 0


def test_expired_token_is_rejected() -> None:
    tokens = TokenStore(MemoryStore())
    secret, token = tokens.issue("ann", now=NOW, expires_at=NOW + timedelta(days=1))

    assert tokens.authenticate(secret, NOW) == token
    assert tokens.authenticate(secret, NOW + timedelta(days=1)) is None


def test_use_of_a_token_is_noted_every_ten_minutes() -> None:
    tokens = TokenStore(MemoryStore())
    secret, token = tokens.issue("ann", now=NOW)
    assert tokens.last_uses() == {}

    for minutes in (0, 9, 10, 15):
        tokens.authenticate(secret, NOW + timedelta(minutes=minutes))

    assert tokens.last_uses() == {token.id: NOW + timedelta(minutes=10)}


def test_token_file_is_private_and_events_are_listed(
    hub: TestHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = hub.store._address  # type: ignore[attr-defined]
    monkeypatch.setenv("BYGONES_HUB_STORE", address)
    monkeypatch.setenv("BYGONES_HUB_RAW", str(hub.folder / "raw"))
    run = CliRunner().invoke

    out = tmp_path / "token"
    arguments = ["token", "new", "eve", "--expires", "30d", "--out", str(out)]
    completed = run(hub_command, arguments)
    assert completed.exit_code == 0, completed.output
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    secret = out.read_text().strip()
    assert secret not in completed.output
    assert hub.ask("GET", "/api/sessions", bearer(secret)).status == 200
    assert run(hub_command, arguments).exit_code == 2
    tokens_json = run(hub_command, ["token", "list", "--json"]).output
    row = next(
        one
        for line in tokens_json.splitlines()
        if (one := json.loads(line))["person"] == "eve"
    )
    expires = datetime.fromisoformat(row["expires_at"])
    assert timedelta(days=29) < expires - datetime.now(UTC) <= timedelta(days=30)
    assert row["last_used_at"]
    assert run(hub_command, ["token", "revoke", "eve"]).exit_code == 0
    assert run(hub_command, ["hold", "--person", "eve"]).exit_code == 0
    events = run(hub_command, ["audit", "--person", "eve", "--json"]).output
    actions = [json.loads(line)["action"] for line in events.splitlines()]
    assert actions[-2:] == ["token-revoke", "hold"]
    assert "token-new" in actions
    checked = run(hub_command, ["check"])
    assert (checked.exit_code, checked.output.splitlines()[-1]) == (0, "complete")


def test_what_was_erased_since_a_migration_is_erased_by_the_next_one(
    make: Callable[[], StoreAndBlobs], tmp_path: Path
) -> None:
    _, folder = make_project(tmp_path / "ann")
    store, _ = make()
    with run_hub(tmp_path, {"ann": folder}, store) as running:
        running.push_all()
    target, _ = make()
    store.set_note("hub", "raw", str(tmp_path / "raw").encode())
    migrate_store(store, target)
    before = target.matching_sessions(ErasureSelector(person="ann"))
    with Archive.open(folder) as archive:
        assert len(before) == len(list(archive.sessions(include_empty=True)))
    store.erase(ErasureSelector(session=before[0]), now=NOW)

    migrate_store(store, target)

    assert target.matching_sessions(ErasureSelector()) == before[1:]
    store.close()
    target.close()


def test_token_in_an_address_is_not_logged(tmp_path: Path) -> None:
    secret, _ = TokenStore(MemoryStore()).issue("ann", now=NOW)
    with pytest.raises(FileNotFoundError):
        AccessLog(tmp_path / "no folder" / "hub.log")
    log = AccessLog(tmp_path / "hub.log")

    log.write(event="request", path=f"/x/{secret}", query=f"key={secret}&a=1")
    log.write(event="tool", tool="search", arguments={"query": f"grep {secret}"})

    text = (tmp_path / "hub.log").read_text()
    assert secret not in text
    assert text.count("byg_[redacted]") == 3
    assert "a=1" in text


def test_requests_are_answered_while_the_log_cannot_be_written(hub: TestHub) -> None:
    secret, _ = hub.token("ida")
    auditor, _ = TokenStore(hub.store).issue("eve", role=AccessRole.AUDITOR, now=NOW)
    log, moved = hub.folder / "hub.log", hub.folder / "kept.log"
    log.rename(moved)
    log.mkdir()
    try:
        found = call_search(hub, secret)
        answer = hub.ask("GET", "/api/sessions", bearer(secret))
        metrics = hub.ask("GET", "/metrics", bearer(auditor)).body.decode()
    finally:
        log.rmdir()
        moved.rename(log)

    assert b'"isError":false' in found
    assert answer.status == 200
    assert re.search(
        r"^bygones_hub_log_entries_lost_total [1-9]", metrics, re.MULTILINE
    )


def test_log_on_a_full_disk_is_reported_once_and_continues_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warnings: list[str] = []
    metrics = Metrics()
    path = tmp_path / "hub.log"
    log = AccessLog(path, metrics=metrics, on_warning=warnings.append)
    write = os.write
    room = 10

    def fill_disk(descriptor: int, content: bytes) -> int:
        nonlocal room
        if not room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        count = write(descriptor, content[:room])
        room -= count
        return count

    with monkeypatch.context() as patch:
        patch.setattr("bygones.hub.monitoring.os.write", fill_disk)
        for number in range(3):
            log.write(event="request", path=f"/{number}")
    log.write(event="request", path="/last")

    cut, last = path.read_text().splitlines()
    assert len(cut) == 10
    assert json.loads(last)["path"] == "/last"
    (warning,) = warnings
    assert "no space left on device" in warning
    assert "bygones_hub_log_entries_lost_total 3" in metrics.render({})


def test_request_is_answered_again_after_a_restart_of_the_database(
    hub: TestHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret, _ = hub.token("tim")
    failures = [StoreError("the connection was closed")] * 3
    original = TeamReader.engine

    def fail_at_first(self: TeamReader) -> TeamEngine:
        if failures:
            raise failures.pop()
        return original(self)

    monkeypatch.setattr(TeamReader, "engine", fail_at_first)
    statuses = [
        hub.ask("GET", "/api/search?q=retry", headers=bearer(secret)).status
        for _ in range(2)
    ]

    assert statuses == [503, 200]


def test_rejected_token_is_distinguished_from_a_missing_one(hub: TestHub) -> None:
    missing = hub.ask("GET", "/api/sessions")
    wrong = hub.ask("GET", "/api/sessions", bearer("byg_wrong"))

    assert (missing.status, wrong.status) == (401, 401)
    assert missing.body.strip() == b"A valid token is required."
    assert wrong.body.strip() == b"The token is unknown, expired or revoked."
