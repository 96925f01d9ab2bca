"""A client for the tools of a server in this process."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bygones.mcp.server import McpDispatcher
from bygones.mcp.tool_service import Caller, ToolService
from bygones.redact.engine import Redactor
from tests.build import CWD
from tests.store.sandbox import Sandbox

__all__ = ["NOW", "ToolClient", "body", "cursor", "outside"]

NOW = datetime(2026, 1, 6, tzinfo=UTC)
_MARKED = re.compile(r"\n<<<([0-9a-f]{16})\n(.*)\n\1>>>(?:\n|$)", re.DOTALL)
_CURSOR = re.compile(r"To continue, pass cursor (\S+)")


class ToolClient:
    """Calls tools of a server in this process; tests can write to its home between calls."""

    def __init__(self, folder: Path, session: str | None = None) -> None:
        self.sandbox = Sandbox(folder)
        self.home = self.sandbox.home
        caller = Caller(
            directory=Path(CWD), session=session, clock=lambda: NOW, zone=UTC
        )
        redactor = Redactor(names=["zebraquux"])
        service = ToolService(self.sandbox.archive, caller, redactor=redactor)
        self.dispatcher = McpDispatcher(service)

    def call(self, tool: str, **arguments: Any) -> tuple[str, bool]:  # noqa: ANN401
        params = {"name": tool, "arguments": arguments}
        result = self.dispatcher.dispatch("tools/call", params)
        (block,) = result["content"]
        return block["text"], result["isError"]

    def ask(self, tool: str, **arguments: Any) -> str:  # noqa: ANN401
        text, is_error = self.call(tool, **arguments)
        assert not is_error, text
        limit = 3000 if tool in {"search", "recent"} else 6000
        assert len(text.encode()) <= arguments.get("max_bytes", limit)
        return text

    def fail(self, tool: str, **arguments: Any) -> str:  # noqa: ANN401
        text, is_error = self.call(tool, **arguments)
        assert is_error, text
        return text

    def read_all(self, tool: str, **arguments: Any) -> str:  # noqa: ANN401
        """Follow the cursors and return everything that the answers quote."""
        parts = []
        call_arguments = dict(arguments)
        for _ in range(10_000):
            text = self.ask(tool, **call_arguments)
            parts.append(body(text))
            next_cursor = cursor(text)
            if next_cursor is None:
                return "".join(parts)
            call_arguments = {**arguments, "cursor": next_cursor}
        raise AssertionError("the answer never ended")


def body(text: str) -> str:
    """Return the transcript text that an answer quotes."""
    quotations = _MARKED.findall(text)
    assert len(quotations) <= 1
    return str(quotations[0][1]) if quotations else ""


def outside(text: str) -> str:
    """Return an answer without what it quotes."""
    return _MARKED.sub("\n", text)


def cursor(text: str) -> str | None:
    """Return the cursor with which an answer ends."""
    match = _CURSOR.search(outside(text))
    return match[1] if match else None
