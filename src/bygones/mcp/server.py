"""What the server answers to each method, as plain values, whoever carries them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

import msgspec
from msgspec import UNSET, Struct, UnsetType

from bygones import __version__
from bygones.errors import BygonesError
from bygones.mcp.tool_service import ToolService
from bygones.mcp.tools import (
    INSTRUCTIONS,
    RESOURCE_TEMPLATES,
    TOOLS_BY_NAME,
    fill_prompt,
    format_error,
    list_prompts,
    list_session_resources,
    list_tools,
    read_session_resource,
    run_tool,
)
from bygones.model.base import DECODE_ERRORS

PROTOCOL_VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Those in which a client says hello first, the newest first."""
PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
RESOURCE_NOT_FOUND = -32002

_Params = Mapping[str, Any]


class JsonRpcError(Exception):
    """A request that cannot be answered, by the number that JSON-RPC has for that."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class McpDispatcher:
    """Answers requests by their method."""

    def __init__(self, service: ToolService) -> None:
        self._service = service
        self._methods: Mapping[str, Callable[[_Params], dict[str, Any]]] = {
            "initialize": self.initialize,
            "ping": lambda _: {},
            "tools/list": lambda given: _unpaged(given, tools=list_tools()),
            "tools/call": self.call_tool,
            "prompts/list": lambda given: _unpaged(given, prompts=list_prompts()),
            "prompts/get": self.get_prompt,
            "resources/list": self.list_resources,
            "resources/templates/list": lambda given: _unpaged(
                given, resourceTemplates=list(RESOURCE_TEMPLATES)
            ),
            "resources/read": self.read_resource,
        }

    def dispatch(self, method: str, params: object) -> dict[str, Any]:
        """Return the result of a request.

        :raises Refused: where there is none.
        """
        answering = self._methods.get(method)
        if answering is None:
            raise JsonRpcError(METHOD_NOT_FOUND, "method not found")
        given = {} if params is None else params
        if not isinstance(given, Mapping):
            raise JsonRpcError(INVALID_PARAMS, "params must be an object")
        try:
            return answering(given)
        except UnicodeEncodeError as error:
            # Half of a sign, which JSON can hold and no name can.
            raise JsonRpcError(INVALID_PARAMS, "params must be text") from error

    def initialize(self, params: _Params) -> dict[str, Any]:
        """Return what this server is and can, in a version that both sides know."""
        wanted = params.get("protocolVersion")
        return {
            "protocolVersion": wanted
            if wanted in PROTOCOL_VERSIONS
            else PROTOCOL_VERSIONS[0],
            "capabilities": {"tools": {}, "prompts": {}, "resources": {}},
            "serverInfo": {
                "name": "bygones",
                "title": "Bygones",
                "version": __version__,
            },
            "instructions": INSTRUCTIONS,
        }

    def call_tool(self, params: _Params) -> dict[str, Any]:
        """Return what a tool answers; what was asked wrongly is told to the model."""
        tool = TOOLS_BY_NAME.get(str(params.get("name")))
        if tool is None:
            raise JsonRpcError(INVALID_PARAMS, "unknown tool")
        arguments = params.get("arguments")
        found = run_tool(self._service, tool, {} if arguments is None else arguments)
        return {
            "content": [{"type": "text", "text": found.text}],
            "isError": found.is_error,
        }

    def get_prompt(self, params: _Params) -> dict[str, Any]:
        """Return the words of a prompt."""
        arguments = params.get("arguments") or {}
        name = params.get("name")
        words = (
            fill_prompt(str(name), arguments)
            if isinstance(arguments, Mapping)
            else None
        )
        if words is None:
            raise JsonRpcError(
                INVALID_PARAMS, "unknown prompt, or without its argument"
            )
        content = {"type": "text", "text": words}
        return {"messages": [{"role": "user", "content": content}]}

    def list_resources(self, params: _Params) -> dict[str, Any]:
        """Return the sessions that can be attached."""
        return _unpaged(params, resources=list(list_session_resources(self._service)))

    def read_resource(self, params: _Params) -> dict[str, Any]:
        """Return what stands at an address."""
        address = params.get("uri")
        try:
            text = read_session_resource(self._service, str(address))
        except BygonesError as error:
            raise JsonRpcError(RESOURCE_NOT_FOUND, format_error(error)) from error
        if text is None:
            raise JsonRpcError(RESOURCE_NOT_FOUND, "no resource of ours")
        return {"contents": [{"uri": address, "mimeType": "text/plain", "text": text}]}


def _unpaged(params: _Params, **summary: Any) -> dict[str, Any]:  # noqa: ANN401 (any JSON)
    """Return a list, which is told whole at once: no cursor leads into it."""
    if params.get("cursor") is not None:
        words = "this list has no cursors: ask without one, it is told whole"
        raise JsonRpcError(INVALID_PARAMS, words)
    return summary


_MAX_MESSAGE_BYTES = 4 * 1024 * 1024
"""Bytes of a message, at most; what agents ask is far shorter."""


class _RpcMessage(Struct, frozen=True):
    method: str | None = None
    id: int | str | UnsetType | None = UNSET
    params: Any = None


_decoder = msgspec.json.Decoder(_RpcMessage)
_encoder = msgspec.json.Encoder()


def serve_stdio(
    dispatcher: McpDispatcher,
    stdin: BinaryIO,
    stdout: BinaryIO,
    after_response: Callable[[], None] = lambda: None,
) -> None:
    """Answer messages until there are no more; ``rest`` runs behind each answer."""
    while line := stdin.readline(_MAX_MESSAGE_BYTES + 1):
        if len(line) > _MAX_MESSAGE_BYTES and not line.endswith(b"\n"):
            while (more := stdin.readline(_MAX_MESSAGE_BYTES)) and not more.endswith(
                b"\n"
            ):
                pass
            found = _error_response(None, INVALID_REQUEST, "the message is too long")
        elif not line.strip():
            continue
        else:
            found = _handle_line(dispatcher, line)
        if found is not None:
            stdout.write(_encoder.encode(found) + b"\n")
            stdout.flush()
            after_response()


def _handle_line(dispatcher: McpDispatcher, line: bytes) -> object:
    """Return what is to be said to a line: an answer, several, or nothing."""
    stripped = line.lstrip()
    if not stripped.startswith(b"["):
        return _handle_message(dispatcher, stripped)
    try:
        parts = msgspec.json.decode(stripped, type=list[msgspec.Raw])
    except DECODE_ERRORS:
        return _error_response(None, PARSE_ERROR, "this is no JSON")
    answers = [_handle_message(dispatcher, bytes(part)) for part in parts]
    return [one for one in answers if one is not None] or None


def _handle_message(dispatcher: McpDispatcher, raw: bytes) -> object:
    try:
        message = _decoder.decode(raw)
    except msgspec.ValidationError:
        return _error_response(None, INVALID_REQUEST, "this is no request")
    except DECODE_ERRORS:
        return _error_response(None, PARSE_ERROR, "this is no JSON")
    if message.method is None or message.id is UNSET:
        return None  # an answer to what nobody asked, or a notification
    try:
        result = dispatcher.dispatch(message.method, message.params)
    except JsonRpcError as error:
        return _error_response(message.id, error.code, str(error))
    except Exception as error:  # noqa: BLE001 (a server goes on)
        return _error_response(
            message.id, INTERNAL_ERROR, f"failed: {type(error).__name__}"
        )
    return {"jsonrpc": "2.0", "id": message.id, "result": result}


def _error_response(
    id_: int | str | UnsetType | None, code: int, message: str
) -> object:
    error = {"code": code, "message": message}
    return {"jsonrpc": "2.0", "id": None if id_ is UNSET else id_, "error": error}
