"""Outlines of what `tree` and `show` print, without times, sizes and ids.

An outline of `tree` starts with the title and the lineage of the session. An outline of
`show` has a line for each message and tool call::

    > a prompt            < an answer          = a compaction
    # a notification      ! a notice           % a command
      Bash failed: the label of the call
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from tests.client.messages_api import Json

_LINEAGE = re.compile(r" · (continues|forked from) ([0-9a-f]{8})")
_RETRY = re.compile(r'^(\d+) · .*"message":"([^"]*)".*$')
_TURN_NUMBER = re.compile(r"(?<=[●○]) \d+(?= )")
_AGENT_ID = re.compile(r"(?<=◆) [0-9a-f]{8}(?= )")
_COMPACTION_SIZES = re.compile(r"compacted \S+ to \S+ tokens,")


def outline_tree(text: str, session_ids: Sequence[str]) -> str:
    """Return the outline of what `tree` prints."""
    header, _, body = text.partition("\n\n")
    title = header.partition("\n")[0]
    lineage = "".join(
        f" ({relation} session {_number(session_ids, prefix)})"
        for relation, prefix in _LINEAGE.findall(header)
    )
    # Two spaces separate the text of a line from its counts.
    lines = [
        _COMPACTION_SIZES.sub("compacted,", line.partition("  ")[0].rstrip())
        for line in body.splitlines()
    ]
    lines = [_AGENT_ID.sub("", _TURN_NUMBER.sub("", line)) for line in lines]
    return "\n".join([title + lineage, *lines])


def _number(session_ids: Sequence[str], prefix: str) -> int:
    numbers = [n for n, id_ in enumerate(session_ids, 1) if id_.startswith(prefix)]
    return numbers[0] if numbers else 0


def outline_show(json_lines: str) -> str:
    """Return the outline of what `show --json` prints."""
    objects = [json.loads(line) for line in json_lines.splitlines()]
    lines: list[str] = []
    for item in objects:
        if item["type"] == "message":
            lines += _outline_message(item)
    return "\n".join(lines)


def _outline_message(message: Json) -> list[str]:
    if message["notice"] == "informational":
        return []
    text = _first_line(message["text"].strip())
    text = _RETRY.sub(r"\1 · \2", text)
    lines = [f"{_mark(message)} {text}"] if text else []
    return [
        *lines,
        *(
            f"  {call['name']} {call['state']}: {_first_line(call['label'])}".rstrip(
                ": "
            )
            for call in message["tool_calls"]
        ),
    ]


def _first_line(text: str) -> str:
    return text.partition("\n")[0]


def _mark(message: Json) -> str:
    if message["compaction"]:
        return "="
    if message["command"]:
        return "%"
    if message["notification"]:
        return "#"
    if message["role"] == "assistant":
        return "!" if message["is_error"] else "<"
    return ">" if message["origin"] in ("person", "sdk") else "!"
