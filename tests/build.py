"""Builders for records, transcripts and homes.

Records are built in the form in which Claude Code writes them, as plain dicts, so that
a test can also make one invalid: ``prompt("hello") | {"uuid": 7}``.

* :func:`session` builds a tree: ``session("a", "b<a", "c<a")``.
* :func:`prompt`, :func:`reply`, :func:`system`, … make one record each; :func:`thread`
  links several into a chain.
* :func:`line`, :func:`lines`, :func:`jsonl`, :func:`sketches` turn records into the
  input of parsers.
* :class:`Home` writes a folder like ``~/.claude``.
"""

from __future__ import annotations

import json
import uuid as uuids
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from bygones.model.base import Line, Position, SourceId
from bygones.model.nodes import LocatedRecord
from bygones.parse.light import parse_line_light

__all__ = [
    "CWD",
    "PROJECT",
    "SESSION",
    "VERSION",
    "Home",
    "Written",
    "attachment",
    "compact",
    "delta",
    "image",
    "jsonl",
    "line",
    "lines",
    "meta",
    "moment",
    "progress",
    "prompt",
    "queue",
    "reply",
    "session",
    "session_id",
    "sketches",
    "snapshot",
    "source_line",
    "summary",
    "system",
    "text",
    "thinking",
    "thread",
    "title",
    "tool_result",
    "tool_use",
]

Written = dict[str, Any]
"""A record or a block as it is written; any field may hold anything."""

SESSION = "5e551000-0000-4000-8000-000000000000"
CWD = "/work/demo"
PROJECT = "-work-demo"
VERSION = "2.1.200"
MODEL = "claude-sonnet-4-5-20250929"

_START = datetime(2026, 1, 5, 9, tzinfo=UTC)
_NAMES = uuids.UUID(SESSION)
_USAGE = {
    "input_tokens": 10,
    "cache_creation_input_tokens": 200,
    "cache_read_input_tokens": 3000,
    "output_tokens": 40,
}


def moment(seconds: float) -> str:
    """Return the timestamp of a number of seconds after the start, as in a record."""
    time = _START + timedelta(seconds=seconds)
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def session_id(number: int) -> str:
    """Return the session id of a number."""
    return f"5e551000-0000-4000-8000-{number:012}"


def session(*nodes: str, **fields: object) -> list[Written]:
    """Return the records of a tree, one per argument, one second apart.

    ``a`` is a root; ``b<a`` is a child of ``a``, which may be missing.
    Prompts and replies alternate: a root or the child of a missing record is a prompt, the child
    of a prompt a reply, the child of anything else a prompt. A colon sets the type:
    ``b<a:user``, ``c<b:system``, ``d<c:attachment``, ``e<d:progress``. The text of
    each record is its name. ``fields`` are added to all records.
    """
    types: dict[str, str] = {}
    records = []
    for number, node in enumerate(nodes):
        edge, _, wanted = node.partition(":")
        name, _, parent = edge.partition("<")
        kind = wanted or ("assistant" if types.get(parent) == "user" else "user")
        types[name] = kind
        record = _MAKERS[kind](name)
        record |= {"uuid": name, "parentUuid": parent or None}
        records.append(record | {"timestamp": moment(number)} | fields)
    return records


def thread(*records: Written, start: float = 0) -> list[Written]:
    """Return the records as a chain, one second apart.

    A record that has a parent keeps it, and a compaction has none; metadata records
    are unchanged. Records with the same content get different ids.
    """
    chain: list[Written] = []
    seen: set[str] = set()
    parent = None
    for number, given in enumerate(records):
        record = dict(given)
        if "parentUuid" in record:
            while record["uuid"] in seen:
                record["uuid"] = _name(record["uuid"], number)
            if record["parentUuid"] is None and "logicalParentUuid" not in record:
                record["parentUuid"] = parent
            if record["timestamp"] == moment(0):
                record["timestamp"] = moment(start + number)
            parent = record["uuid"]
            seen.add(parent)
        chain.append(record)
    return chain


def prompt(
    content: str | list[Any],
    *,
    uuid: str | None = None,
    parent: str | None = None,
    **fields: object,
) -> Written:
    """Return the record of a prompt: a text, or blocks."""
    message = {"role": "user", "content": content}
    return _record("user", uuid, parent, {"message": message} | fields)


def reply(  # noqa: PLR0913 (all by name, all optional)
    content: str | list[Any],
    *,
    uuid: str | None = None,
    parent: str | None = None,
    message_id: str | None = None,
    model: str = MODEL,
    usage: Mapping[str, object] | None = None,
    **fields: object,
) -> Written:
    """Return a record of Claude's reply: a text, or blocks.

    Records of one message share ``message_id``; without it each is a separate message.
    """
    blocks = [text(content)] if isinstance(content, str) else content
    message = {
        "id": message_id or f"msg_{_name(blocks)[:8]}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": blocks,
        "stop_reason": None,
        "stop_sequence": None,
        "usage": _USAGE if usage is None else dict(usage),
    }
    request = {"requestId": f"req_{message['id']}"}
    return _record("assistant", uuid, parent, {"message": message} | request | fields)


def text(content: str) -> Written:
    """Return a text block."""
    return {"type": "text", "text": content}


def thinking(content: str) -> Written:
    """Return a thinking block."""
    return {"type": "thinking", "thinking": content, "signature": "sig"}


def image(base64: str = "iVBORw0KGgo=", media_type: str = "image/png") -> Written:
    """Return an image block."""
    source = {"type": "base64", "media_type": media_type, "data": base64}
    return {"type": "image", "source": source}


def tool_use(name: str, /, *, id: str = "toolu_1", **input: object) -> Written:  # noqa: A002 (the name in the format)
    """Return a tool call; other keyword arguments are its input."""
    return {"type": "tool_use", "id": id, "name": name, "input": input}


def tool_result(  # noqa: PLR0913 (all but two by name and optional)
    id: str,  # noqa: A002 (the name in the format)
    content: str | list[Any] = "",
    *,
    is_error: bool | None = None,
    outcome: object = None,
    uuid: str | None = None,
    parent: str | None = None,
    **fields: object,
) -> Written:
    """Return the user record with the result of a tool call."""
    block: Written = {"type": "tool_result", "tool_use_id": id, "content": content}
    if is_error is not None:
        block["is_error"] = is_error
    if outcome is not None:
        fields = {"toolUseResult": outcome} | fields
    return prompt([block], uuid=uuid, parent=parent, **fields)


def system(
    subtype: str | None,
    content: str | None = None,
    *,
    uuid: str | None = None,
    parent: str | None = None,
    **fields: object,
) -> Written:
    """Return a system record."""
    optional = {"subtype": subtype, "content": content, "level": "info"}
    present = {name: value for name, value in optional.items() if value is not None}
    return _record("system", uuid, parent, present | fields)


def compact(
    logical_parent: str,
    *,
    uuid: str | None = None,
    trigger: str = "auto",
    tokens: int = 155_000,
    **fields: object,
) -> Written:
    """Return the boundary of a compaction, which has only a logical parent."""
    return system(
        "compact_boundary",
        "Conversation compacted",
        uuid=uuid,
        parent=None,
        logicalParentUuid=logical_parent,
        compactMetadata={"trigger": trigger, "preTokens": tokens},
        **fields,
    )


def attachment(
    type: str,  # noqa: A002 (the name in the format)
    /,
    *,
    uuid: str | None = None,
    parent: str | None = None,
    **fields: object,
) -> Written:
    """Return an attachment; other keyword arguments are its fields."""
    return _record("attachment", uuid, parent, {"attachment": {"type": type} | fields})


def progress(
    type: str,  # noqa: A002 (the name in the format)
    /,
    *,
    uuid: str | None = None,
    parent: str | None = None,
    call: str = "toolu_1",
    **fields: object,
) -> Written:
    """Return a progress record of a tool call; other keyword arguments are its data."""
    data = {
        "data": {"type": type} | fields,
        "toolUseID": f"progress_{call}",
        "parentToolUseID": call,
    }
    return _record("progress", uuid, parent, data)


def meta(type: str, /, **fields: object) -> Written:  # noqa: A002 (the name in the format)
    """Return a metadata record of any type."""
    return {"type": type, "sessionId": SESSION} | fields


def summary(content: str, leaf: str) -> Written:
    """Return a summary record, with which old versions titled a leaf."""
    return {"type": "summary", "summary": content, "leafUuid": leaf}


def title(content: str, *, custom: bool = False) -> Written:
    """Return the session's title, generated or chosen by the user."""
    if custom:
        return meta("custom-title", customTitle=content)
    return meta("ai-title", aiTitle=content)


def queue(operation: str, content: str | list[Any] | None = None) -> Written:
    """Return a record of text that is added to the queue or removed."""
    extra = {} if content is None else {"content": content}
    return meta("queue-operation", operation=operation, timestamp=moment(0), **extra)


def snapshot(
    message: str,
    backups: Mapping[str, str | None] | None = None,
    *,
    update: bool = False,
) -> Written:
    """Return the tracked files at a message: name and backup, or None for a new file.

    A backup is named like ``0f1e2d3c4b5a6978@v2``; its version is read from there.
    """
    tracked = {path: _backup(name) for path, name in (backups or {}).items()}
    inner = {"messageId": message, "trackedFileBackups": tracked}
    return {
        "type": "file-history-snapshot",
        "messageId": message,
        "snapshot": inner | {"timestamp": moment(0)},
        "isSnapshotUpdate": update,
    }


def delta(message: str, snapshot_message: str, path: str, backup: str) -> Written:
    """Return the record of another version of one file."""
    return meta(
        "file-history-delta",
        messageId=message,
        snapshotMessageId=snapshot_message,
        trackingPath=path,
        backup=_backup(backup),
        timestamp=moment(0),
    )


def line(record: object) -> bytes:
    """Return a record as a JSON line without a newline."""
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode()


def jsonl(records: Iterable[object]) -> bytes:
    """Return the bytes of a transcript; bytes among the records are used unchanged."""
    return b"".join(
        (record if isinstance(record, bytes) else line(record)) + b"\n"
        for record in records
    )


def source_line(
    raw: bytes, *, offset: int = 0, ended: bool = True, source: str = "a.jsonl"
) -> Line:
    """Return a line as the reader of a source yields it."""
    return Line(Position(SourceId(source), 0, offset, len(raw)), raw, ended)


def lines(records: Iterable[object], *, source: str = "a.jsonl") -> list[Line]:
    """Return the lines of a transcript with their positions."""
    result = []
    offset = 0
    for record in records:
        raw = record if isinstance(record, bytes) else line(record)
        result.append(source_line(raw, offset=offset, source=source))
        offset += len(raw) + 1
    return result


def sketches(
    records: Iterable[object], *, source: str = "a.jsonl"
) -> list[LocatedRecord]:
    """Return the lightly parsed records of a transcript."""
    found = [
        part for one in lines(records, source=source) for part in parse_line_light(one)
    ]
    return [part for part in found if isinstance(part, LocatedRecord)]


class Home:
    """A folder like ``~/.claude``; each method writes one file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def session(
        self,
        id: str,  # noqa: A002 (the name in the format)
        records: Iterable[object],
        *,
        project: str = PROJECT,
    ) -> Path:
        """Write a session; records with the default session id get its id."""
        path = self.path / "projects" / project / f"{id}.jsonl"
        return _write(path, jsonl(_of_session(records, id)))

    def agent(  # noqa: PLR0913 (all but three by name and optional)
        self,
        session: str,
        agent_id: str,
        records: Iterable[object],
        *,
        flat: bool = False,
        meta: Mapping[str, object] | None = None,
        project: str = PROJECT,
    ) -> Path:
        """Write an agent's transcript below its session, or next to it with `flat`.

        Adds the agent's id to the records. With ``meta`` a sidecar is written too.
        """
        folder = self.path / "projects" / project
        if not flat:
            folder = folder / session / "subagents"
        if meta is not None:
            _write(folder / f"agent-{agent_id}.meta.json", line(meta))
        own = {"isSidechain": True, "agentId": agent_id}
        lines = (_with(record, own) for record in _of_session(records, session))
        return _write(folder / f"agent-{agent_id}.jsonl", jsonl(lines))

    def tool_result(
        self, session: str, name: str, content: str, *, project: str = PROJECT
    ) -> Path:
        """Write an output that was too large for its record."""
        folder = self.path / "projects" / project / session / "tool-results"
        return _write(folder / name, content.encode())

    def backup(self, session: str, name: str, content: bytes) -> Path:
        """Write a backup of a file, named like ``0f1e2d3c4b5a6978@v2``."""
        return _write(self.path / "file-history" / session / name, content)

    def history(self, prompts: Iterable[str | Mapping[str, object]]) -> Path:
        """Write the prompt history: from texts, or whole entries."""
        lines = [
            {
                "display": typed,
                "pastedContents": {},
                "timestamp": int(_START.timestamp() + number) * 1000,
                "project": CWD,
                "sessionId": SESSION,
            }
            if isinstance(typed, str)
            else typed
            for number, typed in enumerate(prompts)
        ]
        return _write(self.path / "history.jsonl", jsonl(lines))


def _record(
    kind: str, uuid: str | None, parent: str | None, fields: Mapping[str, object]
) -> Written:
    """Return a record with its fields in the order that Claude Code writes."""
    return {
        "parentUuid": parent,
        "isSidechain": False,
        "userType": "external",
        "cwd": CWD,
        "sessionId": SESSION,
        "version": VERSION,
        "gitBranch": "main",
        "type": kind,
        "uuid": uuid or _name(kind, parent, fields),
        "timestamp": moment(0),
        **fields,
    }


def _name(*parts: object) -> str:
    """Return a stable id for the given parts."""
    return str(uuids.uuid5(_NAMES, repr(parts)))


def _backup(name: str | None) -> Written:
    version = int(name.rpartition("@v")[2]) if name else 1
    return {"backupFileName": name, "version": version, "backupTime": moment(0)}


def _of_session(records: Iterable[object], id: str) -> list[object]:  # noqa: A002 (the name in the format)
    return [
        _with(record, {"sessionId": id})
        if isinstance(record, dict) and record.get("sessionId") == SESSION
        else record
        for record in records
    ]


def _with(record: object, fields: Mapping[str, object]) -> object:
    if isinstance(record, dict) and "sessionId" in record:
        return {**record, **fields}
    return record


def _write(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


_MAKERS: dict[str, Callable[[str], Written]] = {
    "user": prompt,
    "assistant": reply,
    "system": lambda name: system("informational", name),
    "attachment": lambda name: attachment("queued_command", prompt=name),
    "progress": lambda name: progress("bash_progress", output=name),
}
