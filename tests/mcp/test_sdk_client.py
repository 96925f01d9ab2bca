"""The client of the SDK with the server, over both transports."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import anyio
import httpx2
import pytest
import uvicorn
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, TextContent, TextResourceContents

from bygones.mcp.http import PATH, create_mcp_app
from tests.build import prompt, reply, session_id, thread, tool_result, tool_use
from tests.mcp.client import ToolClient, body, cursor

ONE = session_id(1)
TOKEN = "a token"  # noqa: S105 (of this test)
Asking = Callable[[Client], Awaitable[None]]


@pytest.fixture
def tool_client(tmp_path: Path) -> ToolClient:
    tool_client = ToolClient(tmp_path)
    many = [
        one
        for number in range(40)
        for one in (
            prompt(f"Ask {number}: grüße 漢字 \U0001f600"),
            reply([tool_use("Bash", id=f"toolu_{number}", command="ls")]),
            tool_result(f"toolu_{number}", "a\nb"),
        )
    ]
    tool_client.home.session(ONE, thread(*many))
    tool_client.sandbox.ingest()
    return tool_client


@asynccontextmanager
async def over_stdio(tool_client: ToolClient) -> AsyncIterator[Client]:
    parameters = StdioServerParameters(
        command=sys.executable,
        args=["-m", "bygones", "mcp", "--archive", str(tool_client.sandbox.archive)],
        env={**os.environ, "CLAUDE_PROJECT_DIR": "/work/demo"},
    )
    async with Client(stdio_client(parameters)) as client:
        yield client


@contextmanager
def serving(tool_client: ToolClient) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    app = create_mcp_app(tool_client.dispatcher, TOKEN)
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{port}{PATH}"
    finally:
        server.should_exit = True
        thread.join()


@asynccontextmanager
async def over_http(tool_client: ToolClient) -> AsyncIterator[Client]:
    with serving(tool_client) as address:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with httpx2.AsyncClient(headers=headers) as http:
            transport = streamable_http_client(address, http_client=http)
            async with Client(transport) as client:
                yield client


@pytest.fixture(params=[over_stdio, over_http])
def asking(
    request: pytest.FixtureRequest, tool_client: ToolClient
) -> Callable[[Asking], None]:
    def run(ask: Asking) -> None:
        async def whole() -> None:
            async with request.param(tool_client) as client:
                await ask(client)

        # In a thread: Playwright's loop may run in this one.
        with ThreadPoolExecutor(1) as thread:
            thread.submit(anyio.run, whole).result()

    return run


def text_of(result: CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text


def test_every_tool_is_listed_with_a_strict_schema(
    asking: Callable[[Asking], None],
) -> None:
    async def ask(client: Client) -> None:
        tools = (await client.list_tools()).tools
        names = {tool.name for tool in tools}

        assert names == {
            "search",
            "outline",
            "read",
            "file_history",
            "blame",
            "file_at",
            "recent",
        }
        for tool in tools:
            assert tool.input_schema["additionalProperties"] is False
            assert tool.input_schema["properties"]["max_bytes"]["maximum"] == 60_000
            assert tool.annotations is not None
            assert tool.annotations.read_only_hint is True

    asking(ask)


def test_session_is_read_in_parts(
    asking: Callable[[Asking], None], tool_client: ToolClient
) -> None:
    whole = body(tool_client.ask("read", session=ONE, max_bytes=60_000))

    async def ask(client: Client) -> None:
        parts = []
        given: dict[str, object] = {"session": ONE, "max_bytes": 1500}
        while True:
            result = await client.call_tool("read", given)
            text = text_of(result)
            assert len(text.encode()) <= 1500
            parts.append(body(text))
            rest = cursor(text)
            if rest is None:
                break
            given["cursor"] = rest
        assert "".join(parts) == whole
        assert len(parts) > 2

    asking(ask)


def test_invalid_call_is_a_tool_error(
    asking: Callable[[Asking], None],
) -> None:
    async def ask(client: Client) -> None:
        for arguments in ({}, {"session": 3}, {"session": "nobody"}):
            result = await client.call_tool("read", arguments)
            assert result.is_error
            assert text_of(result).startswith("error: ")

    asking(ask)


def test_prompts_and_resources_are_listed(asking: Callable[[Asking], None]) -> None:
    async def ask(client: Client) -> None:
        prompts = (await client.list_prompts()).prompts
        got = await client.get_prompt("recall", {"question": "the flaky test"})
        resources = (await client.list_resources()).resources
        templates = (await client.list_resource_templates()).resource_templates
        read = await client.read_resource(str(resources[0].uri))

        assert {one.name for one in prompts} == {"recall", "resume"}
        (message,) = got.messages
        assert isinstance(message.content, TextContent)
        assert message.content.text.endswith("the flaky test")
        assert templates[0].uri_template == "bygones://session/{session}"
        (content,) = read.contents
        assert isinstance(content, TextResourceContents)
        assert "Ask 0" in body(content.text)
        assert all("Ask" in str(one.title) for one in resources)

    asking(ask)


def test_request_without_token_is_rejected(tool_client: ToolClient) -> None:
    with serving(tool_client) as address:
        for headers in ({}, {"Authorization": "Bearer another"}):
            answer = httpx2.post(address, json={"x": 1}, headers=headers)

            assert answer.status_code == 401
            assert answer.content == b""


def test_foreign_host_name_is_rejected(tool_client: ToolClient) -> None:
    with serving(tool_client) as address:
        headers = {"Authorization": f"Bearer {TOKEN}", "Host": "evil.example"}

        answer = httpx2.post(address, json={"x": 1}, headers=headers)

        assert answer.status_code in {400, 403, 421}
