"""The MCP server over streamable HTTP, for this machine and with a token.

It uses the SDK, whose slow import does not matter for a server that runs for long.
"""

from __future__ import annotations

import hmac
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from functools import partial
from typing import Any

import anyio.to_thread
import mcp_types as types
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError

from bygones import __version__
from bygones.mcp.server import JsonRpcError, McpDispatcher
from bygones.mcp.tools import instructions

HOST = "127.0.0.1"
PATH = "/mcp"

_Scope = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
_Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
_App = Callable[[_Scope, _Receive, _Send], Awaitable[None]]


def serve_http(
    dispatcher: McpDispatcher,
    token: str,
    sock: socket.socket,
    after_response: Callable[[], None],
) -> None:
    """Serve requests that have the token until interrupted.

    `after_response` is called after every response.
    """
    app = create_mcp_app(dispatcher, token)

    async def app_with_callback(scope: _Scope, receive: _Receive, send: _Send) -> None:
        await app(scope, receive, send)
        if scope["type"] == "http":
            after_response()

    config = uvicorn.Config(app_with_callback, log_level="warning", access_log=False)
    uvicorn.Server(config).run(sockets=[sock])


def create_mcp_app(dispatcher: McpDispatcher, token: str) -> _App:
    """Return the server as an ASGI application that requires the token."""
    return _require_token(
        _sdk_server(lambda _: dispatcher, is_local=True).streamable_http_app(host=HOST),
        token,
    )


def create_shared_mcp_app(dispatcher_for: Callable[[_Scope], McpDispatcher]) -> Any:  # noqa: ANN401 (an application of the SDK)
    """Return a server for several users that are already authenticated.

    It is stateless, so no user can continue the MCP session of another.
    """
    no_host_check = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    return _sdk_server(dispatcher_for, is_local=False).streamable_http_app(
        stateless_http=True, json_response=True, transport_security=no_host_check
    )


def _sdk_server(
    dispatcher_for: Callable[[_Scope], McpDispatcher], *, is_local: bool
) -> Server[Any]:
    async def dispatch(context: Any, method: str, params: Any) -> dict[str, Any]:  # noqa: ANN401
        arguments = params.model_dump(by_alias=True, mode="json") if params else {}
        dispatcher = dispatcher_for(context.request.scope)
        try:
            return await anyio.to_thread.run_sync(
                partial(dispatcher.dispatch, method, arguments)
            )
        except JsonRpcError as error:
            raise MCPError(code=error.code, message=str(error)) from error

    async def tools(context: Any, params: Any) -> types.ListToolsResult:  # noqa: ANN401
        result = await dispatch(context, "tools/list", params)
        return types.ListToolsResult.model_validate(result)

    async def call(context: Any, params: Any) -> types.CallToolResult:  # noqa: ANN401
        result = await dispatch(context, "tools/call", params)
        return types.CallToolResult.model_validate(result)

    async def prompts(context: Any, params: Any) -> types.ListPromptsResult:  # noqa: ANN401
        result = await dispatch(context, "prompts/list", params)
        return types.ListPromptsResult.model_validate(result)

    async def prompt(context: Any, params: Any) -> types.GetPromptResult:  # noqa: ANN401
        result = await dispatch(context, "prompts/get", params)
        return types.GetPromptResult.model_validate(result)

    async def resources(
        context: Any,  # noqa: ANN401
        params: Any,  # noqa: ANN401
    ) -> types.ListResourcesResult:
        result = await dispatch(context, "resources/list", params)
        return types.ListResourcesResult.model_validate(result)

    async def templates(
        context: Any,  # noqa: ANN401
        params: Any,  # noqa: ANN401
    ) -> types.ListResourceTemplatesResult:
        result = await dispatch(context, "resources/templates/list", params)
        return types.ListResourceTemplatesResult.model_validate(result)

    async def resource(context: Any, params: Any) -> types.ReadResourceResult:  # noqa: ANN401
        result = await dispatch(context, "resources/read", params)
        return types.ReadResourceResult.model_validate(result)

    return Server(
        "bygones",
        title="Bygones",
        version=__version__,
        instructions=instructions(is_local=is_local),
        on_list_tools=tools,
        on_call_tool=call,
        on_list_prompts=prompts,
        on_get_prompt=prompt,
        on_list_resources=resources,
        on_list_resource_templates=templates,
        on_read_resource=resource,
    )


def _require_token(app: Any, token: str) -> _App:  # noqa: ANN401 (any ASGI application)
    expected = f"Bearer {token}".encode()

    async def guarded(scope: _Scope, receive: _Receive, send: _Send) -> None:
        if scope["type"] == "http":
            header = dict(scope["headers"]).get(b"authorization", b"")
            if not hmac.compare_digest(header, expected):
                await _send_unauthorized(send)
                return
        await app(scope, receive, send)

    return guarded


async def _send_unauthorized(send: _Send) -> None:
    headers = [(b"www-authenticate", b"Bearer"), (b"content-length", b"0")]
    await send({"type": "http.response.start", "status": 401, "headers": headers})
    await send({"type": "http.response.body", "body": b""})
