"""What the server answers to each method, as plain values, whoever carries them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bygones import __version__
from bygones.errors import BygonesError
from bygones.mcp.offers import (
    TEMPLATES,
    prompt_listing,
    prompt_text,
    resource_listing,
    resource_text,
)
from bygones.mcp.recall import Recall
from bygones.mcp.tools import BY_NAME, INSTRUCTIONS, called, listing, told_error

__all__ = [
    "INTERNAL",
    "INVALID_PARAMS",
    "INVALID_REQUEST",
    "METHOD_UNKNOWN",
    "NOT_FOUND",
    "NOT_JSON",
    "VERSIONS",
    "Refused",
    "Speaker",
]

VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Those in which a client says hello first, the newest first."""
NOT_JSON = -32700
INVALID_REQUEST = -32600
METHOD_UNKNOWN = -32601
INVALID_PARAMS = -32602
INTERNAL = -32603
NOT_FOUND = -32002

_Given = Mapping[str, Any]


class Refused(Exception):
    """A request that cannot be answered, by the number that JSON-RPC has for that."""

    def __init__(self, code: int, words: str) -> None:
        super().__init__(words)
        self.code = code


class Speaker:
    """Answers requests by their method."""

    def __init__(self, recall: Recall) -> None:
        self._recall = recall
        self._methods: Mapping[str, Callable[[_Given], dict[str, Any]]] = {
            "initialize": self.hello,
            "ping": lambda _: {},
            "tools/list": lambda given: _whole(given, tools=listing()),
            "tools/call": self.call,
            "prompts/list": lambda given: _whole(given, prompts=prompt_listing()),
            "prompts/get": self.prompt,
            "resources/list": self.resources,
            "resources/templates/list": lambda given: _whole(
                given, resourceTemplates=list(TEMPLATES)
            ),
            "resources/read": self.resource,
        }

    def answer(self, method: str, params: object) -> dict[str, Any]:
        """Return the result of a request.

        :raises Refused: where there is none.
        """
        answering = self._methods.get(method)
        if answering is None:
            raise Refused(METHOD_UNKNOWN, "method not found")
        given = {} if params is None else params
        if not isinstance(given, Mapping):
            raise Refused(INVALID_PARAMS, "params must be an object")
        try:
            return answering(given)
        except UnicodeEncodeError as error:
            # Half of a sign, which JSON can hold and no name can.
            raise Refused(INVALID_PARAMS, "params must be text") from error

    def hello(self, given: _Given) -> dict[str, Any]:
        """Return what this server is and can, in a version that both sides know."""
        wanted = given.get("protocolVersion")
        return {
            "protocolVersion": wanted if wanted in VERSIONS else VERSIONS[0],
            "capabilities": {"tools": {}, "prompts": {}, "resources": {}},
            "serverInfo": {
                "name": "bygones",
                "title": "Bygones",
                "version": __version__,
            },
            "instructions": INSTRUCTIONS,
        }

    def call(self, given: _Given) -> dict[str, Any]:
        """Return what a tool answers; what was asked wrongly is told to the model."""
        tool = BY_NAME.get(str(given.get("name")))
        if tool is None:
            raise Refused(INVALID_PARAMS, "unknown tool")
        arguments = given.get("arguments")
        found = called(self._recall, tool, {} if arguments is None else arguments)
        return {
            "content": [{"type": "text", "text": found.text}],
            "isError": found.is_error,
        }

    def prompt(self, given: _Given) -> dict[str, Any]:
        """Return the words of a prompt."""
        arguments = given.get("arguments") or {}
        name = given.get("name")
        words = (
            prompt_text(str(name), arguments)
            if isinstance(arguments, Mapping)
            else None
        )
        if words is None:
            raise Refused(INVALID_PARAMS, "unknown prompt, or without its argument")
        content = {"type": "text", "text": words}
        return {"messages": [{"role": "user", "content": content}]}

    def resources(self, given: _Given) -> dict[str, Any]:
        """Return the sessions that can be attached."""
        return _whole(given, resources=list(resource_listing(self._recall)))

    def resource(self, given: _Given) -> dict[str, Any]:
        """Return what stands at an address."""
        address = given.get("uri")
        try:
            text = resource_text(self._recall, str(address))
        except BygonesError as error:
            raise Refused(NOT_FOUND, told_error(error)) from error
        if text is None:
            raise Refused(NOT_FOUND, "no resource of ours")
        return {"contents": [{"uri": address, "mimeType": "text/plain", "text": text}]}


def _whole(given: _Given, **listed: Any) -> dict[str, Any]:  # noqa: ANN401 (any JSON)
    """Return a list, which is told whole at once: no cursor leads into it."""
    if given.get("cursor") is not None:
        words = "this list has no cursors: ask without one, it is told whole"
        raise Refused(INVALID_PARAMS, words)
    return listed
