"""The language of the tests: records, transcripts and homes in a few words.

Records are built in the form in which Claude Code writes them, as plain dicts, so that
a test can also say what is wrong with one: ``prompt("hello") | {"uuid": 7}``.

* :func:`session` draws a tree: ``session("a", "b<a", "c<a")``.
* :func:`prompt`, :func:`reply`, :func:`system`, … make one record each; :func:`thread`
  hangs several on one another.
* :func:`line`, :func:`lines`, :func:`jsonl`, :func:`sketches` turn records into what
  the stages take.
* :class:`Home` lays out a folder like ``~/.claude``.
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
    """Return a time so many seconds after the tests' beginning, as it is written."""
    time = _START + timedelta(seconds=seconds)
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def session_id(number: int) -> str:
    """Return one session id for each number."""
    return f"5e551000-0000-4000-8000-{number:012}"


def session(*words: str, **fields: object) -> list[Written]:
    """Return the records of a tree, one a word, one second apart.

    ``a`` is a root; ``b<a`` is a child of ``a``, which need not be among the words.
    Prompts and replies alternate: a root or the child of a ghost is a prompt, the child
    of a prompt a reply, the child of anything else a prompt. A colon sets the type:
    ``b<a:user``, ``c<b:system``, ``d<c:attachment``, ``e<d:progress``. What each says
    is its own name. ``fields`` go into all of them.
    """
    types: dict[str, str] = {}
    records = []
    for number, word in enumerate(words):
        place, _, wanted = word.partition(":")
        name, _, parent = place.partition("<")
        kind = wanted or ("assistant" if types.get(parent) == "user" else "user")
        types[name] = kind
        record = _MAKERS[kind](name)
        record |= {"uuid": name, "parentUuid": parent or None}
        records.append(record | {"timestamp": moment(number)} | fields)
    return records


def thread(*records: Written, start: float = 0) -> list[Written]:
    """Return the records hung on one another, one second apart.

    A record that has a parent keeps it, and a compaction has none; metadata records
    are left as they are. Records that say the same get ids of their own.
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
    """Return what a person typed: a text, or blocks."""
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
    """Return a piece of Claude's answer: a text, or blocks.

    Pieces of one message share ``message_id``; without it each is its own message.
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


def text(words: str) -> Written:
    """Return a block of text."""
    return {"type": "text", "text": words}


def thinking(words: str) -> Written:
    """Return a block of reasoning."""
    return {"type": "thinking", "thinking": words, "signature": "sig"}


def image(base64: str = "iVBORw0KGgo=", media_type: str = "image/png") -> Written:
    """Return a block with a picture."""
    source = {"type": "base64", "media_type": media_type, "data": base64}
    return {"type": "image", "source": source}


def tool_use(name: str, /, *, id: str = "toolu_1", **input: object) -> Written:  # noqa: A002 (the wire's words)
    """Return the block in which a tool is called; other names are its input."""
    return {"type": "tool_use", "id": id, "name": name, "input": input}


def tool_result(  # noqa: PLR0913 (all but two by name and optional)
    id: str,  # noqa: A002 (the wire's word)
    content: str | list[Any] = "",
    *,
    is_error: bool | None = None,
    outcome: object = None,
    uuid: str | None = None,
    parent: str | None = None,
    **fields: object,
) -> Written:
    """Return the user record that answers a call, with its structured outcome."""
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
    """Return a notice of the harness."""
    said = {"subtype": subtype, "content": content, "level": "info"}
    kept = {name: value for name, value in said.items() if value is not None}
    return _record("system", uuid, parent, kept | fields)


def compact(
    logical_parent: str,
    *,
    uuid: str | None = None,
    trigger: str = "auto",
    tokens: int = 155_000,
    **fields: object,
) -> Written:
    """Return the boundary of a compaction; its only parent is a logical one."""
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
    type: str,  # noqa: A002 (the wire's word)
    /,
    *,
    uuid: str | None = None,
    parent: str | None = None,
    **fields: object,
) -> Written:
    """Return an attachment; other names are the attachment's own fields."""
    return _record("attachment", uuid, parent, {"attachment": {"type": type} | fields})


def progress(
    type: str,  # noqa: A002 (the wire's word)
    /,
    *,
    uuid: str | None = None,
    parent: str | None = None,
    call: str = "toolu_1",
    **fields: object,
) -> Written:
    """Return a sign of life of the tool ``call``; other names are what it reports."""
    told = {
        "data": {"type": type} | fields,
        "toolUseID": f"progress_{call}",
        "parentToolUseID": call,
    }
    return _record("progress", uuid, parent, told)


def meta(type: str, /, **fields: object) -> Written:  # noqa: A002 (the wire's word)
    """Return a metadata record of any type."""
    return {"type": type, "sessionId": SESSION} | fields


def summary(words: str, leaf: str) -> Written:
    """Return the title that old versions gave to a leaf."""
    return {"type": "summary", "summary": words, "leafUuid": leaf}


def title(words: str, *, custom: bool = False) -> Written:
    """Return the session's title, made by a model or chosen by a person."""
    if custom:
        return meta("custom-title", customTitle=words)
    return meta("ai-title", aiTitle=words)


def queue(operation: str, content: str | list[Any] | None = None) -> Written:
    """Return text coming into the queue or leaving it."""
    said = {} if content is None else {"content": content}
    return meta("queue-operation", operation=operation, timestamp=moment(0), **said)


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
    """Return one more version of one file."""
    return meta(
        "file-history-delta",
        messageId=message,
        snapshotMessageId=snapshot_message,
        trackingPath=path,
        backup=_backup(backup),
        timestamp=moment(0),
    )


def line(record: object) -> bytes:
    """Return a record as one line is written, without its newline."""
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode()


def jsonl(records: Iterable[object]) -> bytes:
    """Return a whole transcript; bytes among the records are taken as they are."""
    return b"".join(
        (record if isinstance(record, bytes) else line(record)) + b"\n"
        for record in records
    )


def source_line(
    raw: bytes, *, offset: int = 0, ended: bool = True, source: str = "a.jsonl"
) -> Line:
    """Return a line as reading a source gives it."""
    return Line(Position(SourceId(source), 0, offset, len(raw)), raw, ended)


def lines(records: Iterable[object], *, source: str = "a.jsonl") -> list[Line]:
    """Return the lines of a transcript of these records, each at its place."""
    found = []
    offset = 0
    for record in records:
        raw = record if isinstance(record, bytes) else line(record)
        found.append(source_line(raw, offset=offset, source=source))
        offset += len(raw) + 1
    return found


def sketches(
    records: Iterable[object], *, source: str = "a.jsonl"
) -> list[LocatedRecord]:
    """Return the sketches of a transcript of these records."""
    found = [
        part for one in lines(records, source=source) for part in parse_line_light(one)
    ]
    return [part for part in found if isinstance(part, LocatedRecord)]


class Home:
    """A folder laid out like ``~/.claude``; each method writes one file of it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def session(
        self,
        id: str,  # noqa: A002 (the wire's word)
        records: Iterable[object],
        *,
        project: str = PROJECT,
    ) -> Path:
        """Write a session; records without a session of their own get its id."""
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
        """Write an agent's transcript below its session, or flat beside it.

        Its records become the agent's. With ``meta`` its sidecar is written too.
        """
        folder = self.path / "projects" / project
        if not flat:
            folder = folder / session / "subagents"
        if meta is not None:
            _write(folder / f"agent-{agent_id}.meta.json", line(meta))
        own = {"isSidechain": True, "agentId": agent_id}
        told = (_with(record, own) for record in _of_session(records, session))
        return _write(folder / f"agent-{agent_id}.jsonl", jsonl(told))

    def tool_result(
        self, session: str, name: str, words: str, *, project: str = PROJECT
    ) -> Path:
        """Write an output that was too big for its record."""
        folder = self.path / "projects" / project / session / "tool-results"
        return _write(folder / name, words.encode())

    def backup(self, session: str, name: str, content: bytes) -> Path:
        """Write a kept version of a file, named like ``0f1e2d3c4b5a6978@v2``."""
        return _write(self.path / "file-history" / session / name, content)

    def history(self, prompts: Iterable[str | Mapping[str, object]]) -> Path:
        """Write the list of typed prompts: texts, or whole lines of it."""
        told = [
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
        return _write(self.path / "history.jsonl", jsonl(told))


def _record(
    kind: str, uuid: str | None, parent: str | None, fields: Mapping[str, object]
) -> Written:
    """Return a record of the tree, its fields in the order of the wire."""
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
    """Return an id that is always the same for the same parts."""
    return str(uuids.uuid5(_NAMES, repr(parts)))


def _backup(name: str | None) -> Written:
    version = int(name.rpartition("@v")[2]) if name else 1
    return {"backupFileName": name, "version": version, "backupTime": moment(0)}


def _of_session(records: Iterable[object], id: str) -> list[object]:  # noqa: A002 (the wire's word)
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
