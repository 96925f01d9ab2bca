"""Strategies for homes: small, with much in common between files."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from tests import build, strategies
from tests.build import PROJECT, session_id
from tests.faults.sizes import sized
from tests.store.sandbox import Sandbox

__all__ = [
    "AGENT",
    "LONGER",
    "NAMES",
    "SCRATCH",
    "contents",
    "layouts",
    "lines",
    "temporary_sandbox",
    "write_layout",
]

LONGER = sized(1, 20, 200)
"""How many times more examples to try than in every test run."""
ONE, TWO, THREE = map(session_id, (1, 2, 3))
AGENT = f"projects/{PROJECT}/{ONE}/subagents/agent-a1b2c3d.jsonl"
NAMES = (
    f"projects/{PROJECT}/{ONE}.jsonl",
    f"projects/{PROJECT}/{TWO}.jsonl",
    f"projects/{PROJECT}/{THREE}.jsonl",
    f"projects/{PROJECT}/agent-f1a2b3c.jsonl",
    f"projects/{PROJECT}/notes.jsonl",
    f"projects/{PROJECT}/notes/subagents/agent-e1e2e3e.jsonl",
    AGENT,
    AGENT.replace(".jsonl", ".meta.json"),
    f"projects/{PROJECT}/{ONE}/tool-results/toolu_1.txt",
    f"file-history/{ONE}/0f1e2d3c4b5a6978@v1",
)
"""Files of every kind; the session of some is only in their records."""

SCRATCH = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108 (fast)

_uuids = st.integers(1, 9).map(lambda n: f"{n:08}-0000-4000-8000-000000000000")
_sessions = st.sampled_from([ONE, TWO, THREE, "other"])
_messages = st.sampled_from([f"msg_{n}" + "x" * 16 for n in range(4)])
_words = st.sampled_from(
    ["hello", "grüße", "naïve 漢字", "\U0001f600 smile", "x" * 900]
)


@st.composite
def lines(draw: st.DrawFn) -> bytes:  # noqa: PLR0911 (one return per kind)
    """Return a line of a transcript, mostly valid."""
    kind = draw(st.sampled_from(["user"] * 4 + ["reply"] * 4 + _OTHERS))
    fields: dict[str, Any] = {"sessionId": draw(_sessions)}
    fields["timestamp"] = build.moment(draw(_seconds))
    tree_fields = fields | {"uuid": draw(_uuids), "parent": draw(st.none() | _uuids)}
    match kind:
        case "user":
            return build.line(build.prompt(draw(_words), **tree_fields))
        case "reply":
            block = draw(st.sampled_from(_BLOCKS))
            message_id = draw(_messages)
            return build.line(
                build.reply([block], message_id=message_id, **tree_fields)
            )
        case "result":
            outcome = {"agentId": "a1b2c3d", "status": "completed", "content": []}
            record = build.tool_result(
                "toolu_1", "done", outcome=outcome, **tree_fields
            )
            return build.line(record)
        case "summary":
            return build.line(build.summary(draw(_words), draw(_uuids)))
        case "title":
            return build.line(build.title(draw(_words)) | fields)
        case "unknown":
            return build.line(build.meta("from-tomorrow", version="9.9.9") | fields)
        case _:
            return draw(strategies.damaged_lines()).replace(b"\n", b" ")[:400]


_OTHERS = ["result", "summary", "summary", "title", "unknown", "damaged"]
_seconds = st.integers(0, 20)
_BLOCKS = [
    build.text("well"),
    build.thinking("hm"),
    build.tool_use("Task", id="toolu_1", prompt="look", subagent_type="general"),
    build.tool_use("Write", id="toolu_2", file_path="/work/demo/a.py", content="x"),
]


@st.composite
def contents(draw: st.DrawFn, name: str, max_size: int = 6) -> bytes:
    """Return the content of a file, with or without a final newline."""
    if name.endswith(".meta.json"):
        metadata = {"agentType": draw(_words), "toolUseId": "toolu_1"}
        return build.line(metadata)
    if not name.endswith(".jsonl"):
        return draw(st.binary(max_size=60))
    raw = b"".join(one + b"\n" for one in draw(st.lists(lines(), max_size=max_size)))
    rest = draw(st.sampled_from([b"", b"", b"", b'{"type":"user","half', b"\xf0\x9f"]))
    return raw + rest


@st.composite
def layouts(draw: st.DrawFn, names: tuple[str, ...] = NAMES) -> dict[str, bytes]:
    """Return the files of a home, by path."""
    chosen = draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
    return {name: draw(contents(name)) for name in sorted(chosen)}


@contextmanager
def temporary_sandbox() -> Iterator[Sandbox]:
    """Yield a temporary home and its archive."""
    # The text engine may still check for updates while its folder is removed.
    with tempfile.TemporaryDirectory(dir=SCRATCH, ignore_cleanup_errors=True) as folder:
        yield Sandbox(Path(folder))


def write_layout(sandbox: Sandbox, layout: Mapping[str, bytes]) -> None:
    """Write files into a home; unchanged ones are left alone."""
    (sandbox.home.path / "projects").mkdir(exist_ok=True)
    for name, raw in layout.items():
        path = sandbox.home.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_bytes() != raw:
            path.write_bytes(raw)
