"""Writes transcripts as Claude Code does: the invented home is made with it."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import msgspec

from bygones.sources import project_key

__all__ = ["Scribe"]

_VERSION = "2.1.30"
_Written = dict[str, Any]


class Scribe:
    """Writes one session, or one agent of it; every record hangs on the one before."""

    def __init__(
        self,
        name: str,
        folder: Path,
        begun: datetime,
        *,
        model: str = "claude-sonnet-4-5-20250929",
        agent: str | None = None,
    ) -> None:
        self.id = str(uuid5(NAMESPACE_URL, f"session {name}"))
        self._name = f"{name} {agent or ''}"
        self._cwd = folder
        self._time = begun
        self._model = model
        self._agent = agent
        self._records: list[_Written] = []
        self._last: str | None = None
        self._context = 14_000

    def _new_id(self) -> str:
        return str(uuid5(NAMESPACE_URL, f"{self._name} {len(self._records)}"))

    def _add(self, kind: str, fields: _Written, *, seconds: float = 4) -> str:
        self._time += timedelta(seconds=seconds)
        id_ = self._new_id()
        record = {
            "parentUuid": self._last,
            "isSidechain": self._agent is not None,
            "userType": "external",
            "cwd": str(self._cwd),
            "sessionId": self.id,
            "version": _VERSION,
            "gitBranch": "main",
            **({"agentId": self._agent} if self._agent else {}),
            "type": kind,
            **fields,
            "uuid": id_,
            "timestamp": _iso(self._time),
        }
        self._records.append(record)
        self._last = id_
        return id_

    def prompt(self, text: str, *, minutes: float = 1) -> str:
        """Write what a person typed; return the record's id."""
        message = {"role": "user", "content": text}
        return self._add("user", {"message": message}, seconds=minutes * 60)

    def answer(self, *blocks: _Written | str, seconds: float = 6) -> str:
        """Write an answer: texts and blocks, a record each, as Claude Code does."""
        message = f"msg_{self._new_id()[:12]}"
        for number, block in enumerate(blocks):
            said = {"type": "text", "text": block} if isinstance(block, str) else block
            self._context += 900
            usage = {
                "input_tokens": 6,
                "cache_creation_input_tokens": 1_100,
                "cache_read_input_tokens": self._context,
                "output_tokens": 60 + len(said.get("text", "x" * 500)) // 3,
            }
            body = {
                "id": message,
                "type": "message",
                "role": "assistant",
                "model": self._model,
                "content": [said],
                "usage": usage,
            }
            last = self._add(
                "assistant",
                {"message": body, "requestId": f"req_{message[4:]}"},
                seconds=seconds if number == 0 else 1,
            )
        return last

    def call(  # noqa: PLR0913 (all but three by name)
        self,
        tool: str,
        given: _Written,
        output: str,
        outcome: object = None,
        *,
        words: str = "",
        is_error: bool = False,
        seconds: float = 3,
    ) -> str:
        """Write a call with some words before it, and what the tool answered."""
        use = f"toolu_{self._new_id()[:12]}"
        block = {"type": "tool_use", "id": use, "name": tool, "input": given}
        self.answer(*([words] if words else []), block)
        result: _Written = {
            "type": "tool_result",
            "tool_use_id": use,
            "content": output,
        }
        if is_error:
            result["is_error"] = True
        told = {"toolUseResult": outcome if outcome is not None else output}
        message = {"role": "user", "content": [result]}
        self._add("user", {"message": message} | told, seconds=seconds)
        return use

    def bash(
        self, command: str, output: str, *, words: str = "", is_error: bool = False
    ) -> None:
        """Write a command that was run."""
        outcome = {
            "stdout": "" if is_error else output,
            "stderr": output if is_error else "",
            "interrupted": False,
        }
        given = {"command": command}
        self.call("Bash", given, output, outcome, words=words, is_error=is_error)

    def edit(
        self, path: str, old: str, new: str, *, line: int, words: str = ""
    ) -> None:
        """Write a change of a file, with its patch."""
        whole = str(self._cwd / path)
        lines = [f"-{one}" for one in old.splitlines()]
        lines += [f"+{one}" for one in new.splitlines()]
        hunk = {
            "oldStart": line,
            "oldLines": len(old.splitlines()),
            "newStart": line,
            "newLines": len(new.splitlines()),
            "lines": lines,
        }
        outcome = {
            "filePath": whole,
            "oldString": old,
            "newString": new,
            "structuredPatch": [hunk],
        }
        given = {"file_path": whole, "old_string": old, "new_string": new}
        self.call(
            "Edit", given, f"The file {whole} has been updated.", outcome, words=words
        )

    def write(self, path: str, content: str, *, words: str = "") -> None:
        """Write a file that is new."""
        whole = str(self._cwd / path)
        outcome = {
            "type": "create",
            "filePath": whole,
            "content": content,
            "structuredPatch": [],
        }
        given = {"file_path": whole, "content": content}
        self.call("Write", given, f"File created at: {whole}", outcome, words=words)

    def rewind(self, to: str) -> None:
        """Go back to a record: the next one is said there instead."""
        self._last = to

    def compact(self, summary: str) -> None:
        """Put a digest in the place of all that was said."""
        before, self._context = self._context, 9_000
        last, self._last = self._last, None
        self._add(
            "system",
            {
                "subtype": "compact_boundary",
                "content": "Conversation compacted",
                "level": "info",
                "logicalParentUuid": last,
                "compactMetadata": {"trigger": "auto", "preTokens": before * 9},
            },
        )
        message = {"role": "user", "content": summary}
        self._add("user", {"message": message, "isCompactSummary": True}, seconds=1)

    def title(self, words: str) -> None:
        """Name the session."""
        self._records.append(
            {"type": "custom-title", "customTitle": words, "sessionId": self.id}
        )

    def save(self, home: Path, *, call: str | None = None, task: str = "") -> None:
        """Write the transcript, and an agent's sidecar, with the times they had."""
        folder = home / "projects" / project_key(str(self._cwd))
        path = folder / f"{self.id}.jsonl"
        if self._agent is not None:
            path = folder / self.id / "subagents" / f"agent-{self._agent}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = map(msgspec.json.encode, self._records)
        path.write_bytes(b"".join(line + b"\n" for line in lines))
        written = [path]
        if self._agent is not None:
            note = {"agentType": "Explore", "description": task, "toolUseId": call}
            sidecar = path.with_suffix("").with_suffix(".meta.json")
            sidecar.write_bytes(msgspec.json.encode(note))
            written.append(sidecar)
        for one in written:
            os.utime(one, (self._time.timestamp(), self._time.timestamp()))

    @property
    def time(self) -> datetime:
        """When the last record was written."""
        return self._time


def _iso(time: datetime) -> str:
    return (
        time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    )
