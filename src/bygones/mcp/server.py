"""The methods of the MCP server, and the server over standard input and output."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

import msgspec
from msgspec import UNSET, Struct, UnsetType

from bygones import __version__
from bygones.errors import BygonesError
from bygones.mcp.tool_service import ToolService
from bygones.mcp.tools import (
    RESOURCE_TEMPLATES,
    TOOLS_BY_NAME,
    fill_prompt,
    format_error,
    instructions,
    list_prompts,
    list_session_resources,
    list_tools,
    read_session_resource,
    run_tool,
)
from bygones.model.base import DECODE_ERRORS

PROTOCOL_VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""The supported versions, newest first."""
PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
RESOURCE_NOT_FOUND = -32002

_Params = Mapping[str, Any]


class JsonRpcError(Exception):
    """A JSON-RPC error response."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class McpDispatcher:
    """Calls the method of a request and returns plain values, for any transport."""

    def __init__(self, service: ToolService) -> None:
        self._service = service
        self._methods: Mapping[str, Callable[[_Params], dict[str, Any]]] = {
            "initialize": self.initialize,
            "ping": lambda _: {},
            "tools/list": lambda params: _unpaged(params, tools=list_tools()),
            "tools/call": self.call_tool,
            "prompts/list": lambda params: _unpaged(params, prompts=list_prompts()),
            "prompts/get": self.get_prompt,
            "resources/list": self.list_resources,
            "resources/templates/list": lambda params: _unpaged(
                params, resourceTemplates=list(RESOURCE_TEMPLATES)
            ),
            "resources/read": self.read_resource,
        }

    def dispatch(self, method: str, params: object) -> dict[str, Any]:
        """Return the result of a request.

        Raises `JsonRpcError` if it fails.
        """
        handler = self._methods.get(method)
        if handler is None:
            raise JsonRpcError(METHOD_NOT_FOUND, "method not found")
        arguments = {} if params is None else params
        if not isinstance(arguments, Mapping):
            raise JsonRpcError(INVALID_PARAMS, "params must be an object")
        try:
            return handler(arguments)
        except UnicodeEncodeError as error:
            # A lone surrogate, which JSON can contain.
            raise JsonRpcError(INVALID_PARAMS, "params must be text") from error

    def initialize(self, params: _Params) -> dict[str, Any]:
        """Return the capabilities of the server, in a version that both sides know."""
        version = params.get("protocolVersion")
        return {
            "protocolVersion": version
            if version in PROTOCOL_VERSIONS
            else PROTOCOL_VERSIONS[0],
            "capabilities": {"tools": {}, "prompts": {}, "resources": {}},
            "serverInfo": {
                "name": "bygones",
                "title": "Bygones",
                "version": __version__,
            },
            "instructions": instructions(is_local=self._service.is_local),
        }

    def call_tool(self, params: _Params) -> dict[str, Any]:
        """Return the answer of a tool; invalid arguments are an answer for the model."""
        tool = TOOLS_BY_NAME.get(str(params.get("name")))
        if tool is None:
            raise JsonRpcError(INVALID_PARAMS, "unknown tool")
        arguments = params.get("arguments")
        response = run_tool(self._service, tool, {} if arguments is None else arguments)
        return {
            "content": [{"type": "text", "text": response.text}],
            "isError": response.is_error,
        }

    def get_prompt(self, params: _Params) -> dict[str, Any]:
        arguments = params.get("arguments") or {}
        name = params.get("name")
        text = (
            fill_prompt(str(name), arguments)
            if isinstance(arguments, Mapping)
            else None
        )
        if text is None:
            raise JsonRpcError(
                INVALID_PARAMS, "unknown prompt, or its argument is missing"
            )
        content = {"type": "text", "text": text}
        return {"messages": [{"role": "user", "content": content}]}

    def list_resources(self, params: _Params) -> dict[str, Any]:
        return _unpaged(params, resources=list(list_session_resources(self._service)))

    def read_resource(self, params: _Params) -> dict[str, Any]:
        uri = params.get("uri")
        try:
            text = read_session_resource(self._service, str(uri))
        except BygonesError as error:
            raise JsonRpcError(RESOURCE_NOT_FOUND, format_error(error)) from error
        if text is None:
            raise JsonRpcError(RESOURCE_NOT_FOUND, "resource not found")
        return {"contents": [{"uri": uri, "mimeType": "text/plain", "text": text}]}


def _unpaged(params: _Params, **result: Any) -> dict[str, Any]:  # noqa: ANN401 (any JSON)
    """Return a list that has no pages, and reject a cursor."""
    if params.get("cursor") is not None:
        raise JsonRpcError(INVALID_PARAMS, "this list has no pages: omit the cursor")
    return result


_MAX_MESSAGE_BYTES = 4 * 1024 * 1024
"""Requests of agents are far shorter."""


class _RpcMessage(Struct, frozen=True):
    method: str | None = None
    id: int | str | UnsetType | None = UNSET
    params: Any = None


_decoder = msgspec.json.Decoder(_RpcMessage)
_encoder = msgspec.json.Encoder()
_LONE_SURROGATE = re.compile(
    rb"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)
"""Half of a character, which JavaScript writes if it cuts a text. The first two parts
match what must stay."""


def _replace_lone_surrogate(match: re.Match[bytes]) -> bytes:
    return rb"\ufffd" if match[1] else match[0]


def serve_stdio(
    dispatcher: McpDispatcher,
    stdin: BinaryIO,
    stdout: BinaryIO,
    after_response: Callable[[], None] = lambda: None,
) -> None:
    """Serve until the end of input; `after_response` is called after each response."""
    while line := stdin.readline(_MAX_MESSAGE_BYTES + 1):
        if len(line) > _MAX_MESSAGE_BYTES and not line.endswith(b"\n"):
            while (more := stdin.readline(_MAX_MESSAGE_BYTES)) and not more.endswith(
                b"\n"
            ):
                pass
            response = _error_response(None, INVALID_REQUEST, "the message is too long")
        elif not line.strip():
            continue
        else:
            response = _handle_line(dispatcher, line)
        if response is not None:
            stdout.write(_encoder.encode(response) + b"\n")
            stdout.flush()
            after_response()


def _handle_line(dispatcher: McpDispatcher, line: bytes) -> object:
    """Return the response to a line: one, a batch, or none."""
    stripped = line.lstrip()
    if not stripped.startswith(b"["):
        return _handle_message(dispatcher, stripped)
    try:
        parts = msgspec.json.decode(stripped, type=list[msgspec.Raw])
    except DECODE_ERRORS:
        return _error_response(None, PARSE_ERROR, "this is not JSON")
    responses = [_handle_message(dispatcher, bytes(part)) for part in parts]
    return [response for response in responses if response is not None] or None


def _decode_message(raw: bytes) -> _RpcMessage:
    try:
        return _decoder.decode(raw)
    except DECODE_ERRORS:
        repaired = _LONE_SURROGATE.sub(_replace_lone_surrogate, raw)
        if repaired == raw:
            raise
        return _decoder.decode(repaired)


def _handle_message(dispatcher: McpDispatcher, raw: bytes) -> object:
    try:
        message = _decode_message(raw)
    except msgspec.ValidationError:
        return _error_response(None, INVALID_REQUEST, "this is not a request")
    except DECODE_ERRORS:
        return _error_response(None, PARSE_ERROR, "this is not JSON")
    if message.method is None or message.id is UNSET:
        return None  # a response, or a notification
    try:
        result = dispatcher.dispatch(message.method, message.params)
    except JsonRpcError as error:
        return _error_response(message.id, error.code, str(error))
    except Exception as error:  # noqa: BLE001 (the server continues)
        return _error_response(
            message.id, INTERNAL_ERROR, f"failed: {type(error).__name__}"
        )
    return {"jsonrpc": "2.0", "id": message.id, "result": result}


def _error_response(
    id_: int | str | UnsetType | None, code: int, message: str
) -> object:
    error = {"code": code, "message": message}
    return {"jsonrpc": "2.0", "id": None if id_ is UNSET else id_, "error": error}
