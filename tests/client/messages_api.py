"""A stub of the Messages API: answers from a script and records every request.

A script maps phrases to answers. The newest prompt of a request that contains one of the
phrases selects the answers, and the number of answers since that prompt selects one of
them. So each step of a turn gets its own answer, and so does each agent.
"""

from __future__ import annotations

import json
import re
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

Json = dict[str, Any]
_PATIENCE_SECONDS = 10


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What the stub answers to one request."""

    blocks: Sequence[Json]
    usage: Json = field(default_factory=dict)
    """Token counts; by default every answer has its own, so that sums identify answers."""
    model: str | None = None
    """The model to report; default: the one that was requested."""
    stop_reason: str | None = None
    statuses: Sequence[int] = ()
    """HTTP errors that the first attempts get."""
    delay: float = 0
    """Seconds before the first block."""
    block_delay: float = 0
    """Seconds before each further block."""
    block_limit: int | None = None
    """Close the connection after this many blocks."""

    @property
    def is_cut_off(self) -> bool:
        """Whether the client never gets the end, and with it the count of output."""
        return self.block_limit is not None or self.block_delay > _PATIENCE_SECONDS


Script = Mapping[str, Sequence[Answer]]

OWN_REQUESTS = "(no tools)"
"""The phrase for requests that Claude Code makes for itself, such as titles."""


def say(text: str, *more: Json, **options: Any) -> Answer:  # noqa: ANN401 (any field of Answer)
    """Return an answer of a text and perhaps tool calls."""
    return Answer(blocks=[text_block(text), *more], **options)


def call(*blocks: Json, **options: Any) -> Answer:  # noqa: ANN401 (any field of Answer)
    """Return an answer of tool calls only."""
    return Answer(blocks=blocks, **options)


def text_block(text: str) -> Json:
    return {"type": "text", "text": text}


def thinking(text: str) -> Json:
    return {"type": "thinking", "thinking": text, "signature": "bm9uZQ=="}


def tool(name: str, /, **arguments: object) -> Json:
    return {"type": "tool_use", "name": name, "input": arguments}


def server_search(query: str, title: str, url: str) -> list[Json]:
    """Return the two blocks of a web search that the server makes."""
    identifier = f"srvtoolu_{uuid.uuid4().hex[:20]}"
    result = {
        "type": "web_search_result",
        "title": title,
        "url": url,
        "page_age": None,
        "encrypted_content": "bm9uZQ==",
    }
    return [
        {
            "type": "server_tool_use",
            "id": identifier,
            "name": "web_search",
            "input": {"query": query},
        },
        {
            "type": "web_search_tool_result",
            "tool_use_id": identifier,
            "content": [result],
        },
    ]


_REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>", re.DOTALL)
_TITLE = Answer(blocks=[text_block('{"title": "A title by the stub"}')])
_UNSCRIPTED = Answer(blocks=[text_block("Nothing is scripted for this.")])
_ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    429: "rate_limit_error",
    529: "overloaded_error",
}


def prompt_text(message: Json) -> str:
    """Return the text of a message, without tool results and injected reminders."""
    content = message["content"]
    if not isinstance(content, str):
        texts = [block.get("text", "") for block in content if block["type"] == "text"]
        content = "\n".join(texts)
    return _REMINDER.sub("", content)


def select_answer(script: Script, request: Json) -> tuple[str | None, int, Answer]:
    """Return the phrase, the step after it, and the answer to a request."""
    if not request.get("tools"):
        return OWN_REQUESTS, 0, script.get(OWN_REQUESTS, [_TITLE])[0]
    step = 0
    for message in reversed(request["messages"]):
        if message["role"] == "assistant":
            step += 1
            continue
        text = prompt_text(message) if message["role"] == "user" else ""
        places = {text.rfind(phrase): phrase for phrase in script if phrase in text}
        if places:
            phrase = places[max(places)]
            answers = script[phrase]
            return phrase, step, answers[min(step, len(answers) - 1)]
    return None, 0, _UNSCRIPTED


def default_usage(number: int) -> Json:
    """Return token counts that no other answer of the same run has."""
    five_minutes, hour = 17 * number, 19 * number
    return {
        "input_tokens": 7 * number + 3,
        "output_tokens": 11 * number + 5,
        "cache_read_input_tokens": 13 * number,
        "cache_creation_input_tokens": five_minutes + hour,
        "cache_creation": {
            "ephemeral_5m_input_tokens": five_minutes,
            "ephemeral_1h_input_tokens": hour,
        },
    }


class MessagesApi(ThreadingHTTPServer):
    """Serves a script on loopback while its ``with`` block runs."""

    daemon_threads = True

    def __init__(
        self, script: Script, log: Path, placeholders: Mapping[str, str]
    ) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.port: int = self.server_address[1]
        self.script, self.log, self.placeholders = script, log, placeholders
        self._attempts: Counter[tuple[str | None, int]] = Counter()
        self._answer_count = 0
        self._lock = threading.Lock()

    def record(self, **entry: object) -> None:
        line = json.dumps({"at": time.time(), **entry})
        with self._lock, self.log.open("a", encoding="utf-8") as log:
            log.write(f"{line}\n")

    def next_error(self, phrase: str | None, step: int, answer: Answer) -> int | None:
        """Return the HTTP error of this attempt, if it gets one."""
        with self._lock:
            attempt = self._attempts[phrase, step]
            self._attempts[phrase, step] += 1
        return answer.statuses[attempt] if attempt < len(answer.statuses) else None

    def build_message(self, answer: Answer, request: Json) -> Json:
        with self._lock:
            self._answer_count += 1
            number = self._answer_count
        text = json.dumps(list(answer.blocks))
        for name, value in self.placeholders.items():
            text = text.replace(name, value)
        blocks = json.loads(text)
        for block in blocks:
            if block["type"] == "tool_use":
                block["id"] = f"toolu_{uuid.uuid4().hex[:22]}"
        calls_tool = any(block["type"] == "tool_use" for block in blocks)
        return {
            "id": f"msg_{uuid.uuid4().hex[:22]}",
            "type": "message",
            "role": "assistant",
            "model": answer.model or request["model"],
            "content": blocks,
            "stop_reason": answer.stop_reason
            or ("tool_use" if calls_tool else "end_turn"),
            "stop_sequence": None,
            "usage": {**default_usage(number), **answer.usage},
        }

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up is part of some scenarios."""

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


def stream_events(message: Json) -> Iterator[list[tuple[str, Json]]]:
    """Yield the server-sent events of a message: the start, each block, the end."""
    # The first event has a preliminary count of output tokens, as in the real API.
    usage = {**message["usage"], "output_tokens": 1}
    start = {**message, "content": [], "stop_reason": None, "usage": usage}
    yield [("message_start", {"message": start})]
    for index, block in enumerate(message["content"]):
        empty, deltas = _block_deltas(block)
        yield [
            ("content_block_start", {"index": index, "content_block": empty}),
            *[
                ("content_block_delta", {"index": index, "delta": delta})
                for delta in deltas
            ],
            ("content_block_stop", {"index": index}),
        ]
    delta = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield [
        ("message_delta", {"delta": delta, "usage": message["usage"]}),
        ("message_stop", {}),
    ]


def _block_deltas(block: Json) -> tuple[Json, list[Json]]:
    kind = block["type"]
    if kind == "text":
        middle = len(block["text"]) // 2
        parts = (block["text"][:middle], block["text"][middle:])
        return block | {"text": ""}, [
            {"type": "text_delta", "text": part} for part in parts
        ]
    if kind == "thinking":
        return block | {"thinking": "", "signature": ""}, [
            {"type": "thinking_delta", "thinking": block["thinking"]},
            {"type": "signature_delta", "signature": block["signature"]},
        ]
    if kind in ("tool_use", "server_tool_use"):
        text = json.dumps(block["input"])
        return block | {"input": {}}, [
            {"type": "input_json_delta", "partial_json": text}
        ]
    return block, []


class _Handler(BaseHTTPRequestHandler):
    server: MessagesApi
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (inherited)
        """Requests are recorded in the log file instead."""

    def do_GET(self) -> None:
        self.server.record(method="GET", path=self.path)
        self._send_json({"data": []})

    def do_HEAD(self) -> None:
        self._send_json({})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        request = json.loads(body or b"{}")
        if "count_tokens" in self.path:
            self._send_json({"input_tokens": len(body) // 4})
        elif "/messages" in self.path:
            self._answer(request)
        else:
            self.server.record(method="POST", path=self.path)
            self._send_json({})

    def _answer(self, request: Json) -> None:
        phrase, step, answer = select_answer(self.server.script, request)
        entry = {"phrase": phrase, "step": step, "request": request}
        status = self.server.next_error(phrase, step, answer)
        if status is not None:
            self.server.record(**entry, status=status)
            kind = _ERROR_TYPES.get(status, "api_error")
            error = {"type": kind, "message": f"scripted {kind}"}
            self._send_json({"type": "error", "error": error}, status)
            return
        message = self.server.build_message(answer, request)
        self.server.record(**entry, status=200, answer=message)
        if request.get("stream"):
            self._stream(message, answer)
        else:
            self._send_json(message)

    def _stream(self, message: Json, answer: Answer) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("request-id", f"req_{uuid.uuid4().hex[:22]}")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        for number, events in enumerate(stream_events(message)):
            if answer.block_limit is not None and number > answer.block_limit:
                return
            if number:
                time.sleep(answer.delay if number == 1 else answer.block_delay)
            for name, data in events:
                line = json.dumps({"type": name, **data})
                self.wfile.write(f"event: {name}\ndata: {line}\n\n".encode())
            self.wfile.flush()

    def _send_json(self, body: Json, status: int = 200) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
