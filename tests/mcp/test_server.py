"""Valid and invalid messages on standard input and output."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bygones.mcp import server
from bygones.mcp.server import (
    PROTOCOL_VERSIONS,
    JsonRpcError,
    McpDispatcher,
    serve_stdio,
)
from tests.mcp.client import ToolClient


@pytest.fixture
def speaker(tmp_path: Path) -> McpDispatcher:
    return ToolClient(tmp_path).dispatcher


def exchange(speaker: McpDispatcher, *lines: bytes) -> list[Any]:
    out = io.BytesIO()
    serve_stdio(speaker, io.BytesIO(b"".join(line + b"\n" for line in lines)), out)
    return [json.loads(line) for line in out.getvalue().splitlines()]


def request(method: str, id: object = 1, **params: object) -> bytes:  # noqa: A002
    query = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
    return json.dumps(query).encode()


@pytest.mark.parametrize("version", PROTOCOL_VERSIONS)
def test_known_protocol_version_is_accepted(
    speaker: McpDispatcher, version: str
) -> None:
    (answer,) = exchange(speaker, request("initialize", protocolVersion=version))

    assert answer["result"]["protocolVersion"] == version
    assert answer["result"]["serverInfo"]["name"] == "bygones"


def test_unknown_protocol_version_gets_the_newest(speaker: McpDispatcher) -> None:
    (answer,) = exchange(speaker, request("initialize", protocolVersion="1999-01-01"))

    assert answer["result"]["protocolVersion"] == PROTOCOL_VERSIONS[0]


def test_notifications_and_responses_get_no_response(speaker: McpDispatcher) -> None:
    note = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'

    assert (
        exchange(speaker, note, b'{"jsonrpc":"2.0","id":4,"result":{}}', b"", b"  ")
        == []
    )


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"{", -32700),
        (b"\xff\xfe", -32700),
        (b"[1,", -32700),
        (b"7", -32600),
        (b'{"method":7,"id":1}', -32600),
        (b'{"method":"x","id":{}}', -32600),
        (request("no/such"), -32601),
        (request("server/discover"), -32601),
        (b'{"method":"tools/call","id":1,"params":[1]}', -32602),
        (request("tools/call", name="no_such"), -32602),
        (request("tools/call", name=["a"]), -32602),
        (request("prompts/get", name="recall"), -32602),
        (request("prompts/get", name="recall", arguments=[1]), -32602),
        (request("resources/read", uri="file:///etc/passwd"), -32002),
        (request("resources/read", uri="bygones://session/none"), -32002),
        (request("resources/read"), -32002),
    ],
)
def test_invalid_messages_get_an_error_code(
    speaker: McpDispatcher, line: bytes, code: int
) -> None:
    (answer,) = exchange(speaker, line)

    assert answer["error"]["code"] == code


def test_too_long_line_is_rejected_and_the_next_is_served(
    speaker: McpDispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_MAX_MESSAGE_BYTES", 1000)

    long, short = exchange(
        speaker, b'"' + b"x" * 5000 + b'"', request("ping", id="next")
    )

    assert long["error"]["code"] == -32600
    assert short == {"jsonrpc": "2.0", "id": "next", "result": {}}


def test_batch_gets_one_response(speaker: McpDispatcher) -> None:
    (answers,) = exchange(
        speaker, b"[" + request("ping", 1) + b"," + request("x", 2) + b"]"
    )

    assert [answer["id"] for answer in answers] == [1, 2]


def test_server_continues_after_an_internal_error(
    speaker: McpDispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(speaker, "dispatch", broken)

    first, second = exchange(speaker, request("ping", 1), request("ping", 2))

    assert first["error"]["code"] == second["error"]["code"] == -32603


@given(lines=st.lists(st.binary(max_size=60).filter(lambda b: b"\n" not in b)))
def test_no_bytes_stop_the_server(lines: list[bytes]) -> None:
    answers = exchange(
        ToolClient(Path("/nowhere/at/all")).dispatcher, *lines, request("ping", "end")
    )

    assert answers[-1] == {"jsonrpc": "2.0", "id": "end", "result": {}}


@pytest.mark.parametrize("what", ["tools", "prompts", "resources"])
def test_lists_reject_cursors(speaker: McpDispatcher, what: str) -> None:
    assert speaker.dispatch(f"{what}/list", {})[what] is not None
    with pytest.raises(JsonRpcError, match="omit the cursor"):
        speaker.dispatch(f"{what}/list", {"cursor": "abc"})


@pytest.mark.parametrize(
    "escaped", [rb"\ud83d", rb"x\uDE00y", rb"\ud83d\ud83d\ude00", rb"\\\ud83d"]
)
def test_request_with_half_a_character_gets_a_response(
    speaker: McpDispatcher, escaped: bytes
) -> None:
    line = request("nothing", 7).replace(b'"nothing"', b'"' + escaped + b'"')

    (response,) = exchange(speaker, line)

    assert response["id"] == 7
    assert response["error"]["code"] != server.PARSE_ERROR
