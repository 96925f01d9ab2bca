"""The server on standard input and output: a message a line.

The SDK takes twice as long to import as a whole first answer may take (see
docs/decisions.md), and a client starts this server with every session; so the few
messages that travel this way are read and written here. Tests talk to it with the
SDK's own client.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, BinaryIO

import msgspec
from msgspec import UNSET, Struct, UnsetType

from bygones.mcp.protocol import (
    INTERNAL,
    INVALID_REQUEST,
    NOT_JSON,
    Refused,
    Speaker,
)

__all__ = ["serve_stdio"]

_LONGEST = 4 * 1024 * 1024
"""Bytes of a message, at most; what agents ask is far shorter."""


class _Message(Struct, frozen=True):
    method: str | None = None
    id: int | str | UnsetType | None = UNSET
    params: Any = None


_decoder = msgspec.json.Decoder(_Message)
_encoder = msgspec.json.Encoder()


def serve_stdio(
    speaker: Speaker,
    heard: BinaryIO,
    said: BinaryIO,
    rest: Callable[[], None] = lambda: None,
) -> None:
    """Answer messages until there are no more; ``rest`` runs behind each answer."""
    while line := heard.readline(_LONGEST + 1):
        if len(line) > _LONGEST and not line.endswith(b"\n"):
            while (more := heard.readline(_LONGEST)) and not more.endswith(b"\n"):
                pass
            found = _refusal(None, INVALID_REQUEST, "the message is too long")
        elif not line.strip():
            continue
        else:
            found = _answered(speaker, line)
        if found is not None:
            said.write(_encoder.encode(found) + b"\n")
            said.flush()
            rest()


def _answered(speaker: Speaker, line: bytes) -> object:
    """Return what is to be said to a line: an answer, several, or nothing."""
    stripped = line.lstrip()
    if not stripped.startswith(b"["):
        return _one(speaker, stripped)
    try:
        parts = msgspec.json.decode(stripped, type=list[msgspec.Raw])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _refusal(None, NOT_JSON, "this is no JSON")
    answers = [_one(speaker, bytes(part)) for part in parts]
    return [one for one in answers if one is not None] or None


def _one(speaker: Speaker, raw: bytes) -> object:
    try:
        message = _decoder.decode(raw)
    except msgspec.ValidationError:
        return _refusal(None, INVALID_REQUEST, "this is no request")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _refusal(None, NOT_JSON, "this is no JSON")
    if message.method is None or message.id is UNSET:
        return None  # an answer to what nobody asked, or a notification
    try:
        result = speaker.answer(message.method, message.params)
    except Refused as error:
        return _refusal(message.id, error.code, str(error))
    except Exception as error:  # noqa: BLE001 (a server goes on)
        return _refusal(message.id, INTERNAL, f"failed: {type(error).__name__}")
    return {"jsonrpc": "2.0", "id": message.id, "result": result}


def _refusal(id_: int | str | UnsetType | None, code: int, words: str) -> object:
    error = {"code": code, "message": words}
    return {"jsonrpc": "2.0", "id": None if id_ is UNSET else id_, "error": error}
