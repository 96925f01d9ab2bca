"""Start-up time, and answers during ingestion."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from bygones.archive import Archive
from tests.build import prompt, reply, session_id, thread, tool_result, tool_use
from tests.cli.terminals import run_piped
from tests.mcp.client import ToolClient, body, cursor


def test_server_starts_without_slow_imports() -> None:
    code = "import bygones.cli.commands.mcp, sys; print(*sys.modules)"

    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )

    loaded = set(found.stdout.split())
    assert "bygones.mcp.server" in loaded
    assert not loaded & {"mcp", "mcp_types", "pydantic", "starlette", "uvicorn"}
    assert not loaded & {"tantivy", "asyncio", "subprocess", "markdown_it"}


def test_tools_respond_during_ingestion(tmp_path: Path) -> None:
    client = ToolClient(tmp_path)
    client.home.session(session_id(0), thread(prompt("The first walrus"), reply("Yes")))
    client.sandbox.ingest()
    for number in range(1, 150):
        records = thread(prompt(f"walrus {number}"), reply("walrus " * 300))
        client.home.session(session_id(number), records)
    is_done = threading.Event()

    def take_in() -> None:
        try:
            Archive.ingest(client.sandbox.archive, [client.home.path])
        finally:
            is_done.set()

    writer = threading.Thread(target=take_in)
    writer.start()
    arguments = 0
    while not is_done.is_set() or arguments < 2:
        assert "walrus" in body(client.ask("search", query="walrus"))
        assert "The first walrus" in body(client.ask("read", session=session_id(0)))
        arguments += 1
    writer.join()

    assert len(client.read_all("recent").splitlines()) == 150


def test_huge_session_is_read_in_parts_of_the_requested_size(tmp_path: Path) -> None:
    client = ToolClient(tmp_path)
    turns = [
        one
        for number in range(700)
        for one in (
            prompt(f"Ask {number}"),
            reply([tool_use("Bash", id=f"toolu_{number}", command="cat log")]),
            tool_result(f"toolu_{number}", "a line of a log\n" * 200),
            reply(f"Answer {number}: " + "漢字 " * 30),
        )
    ]
    client.home.session(session_id(1), thread(*turns))
    client.sandbox.ingest()

    last = client.ask("read", session=session_id(1), at="t699", max_bytes=1000)
    full = client.ask(
        "read", session=session_id(1), at="t650", detail="full", max_bytes=60_000
    )

    assert "Answer 699" in body(last)
    assert cursor(last) is None
    assert len(full.encode()) > 50_000
    assert cursor(full) is not None


def test_broken_settings_are_reported_in_every_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tmp_path / "mine.toml"
    settings.write_text("[redact]\npatterns = 3\n")
    monkeypatch.setenv("BYGONES_SETTINGS", str(settings))
    asking = {"name": "recent", "arguments": {}}
    arguments = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": asking}

    done = run_piped("mcp", "--no-ingest", given=json.dumps(arguments) + "\n")

    assert done.returncode == 0
    assert "mine.toml is invalid: [redact] needs" in done.stderr
    result = json.loads(done.stdout)["result"]
    assert result["isError"]
    assert "mine.toml is invalid" in result["content"][0]["text"]
