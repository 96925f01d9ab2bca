"""`bygones demo`: create a home with sample sessions."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import click
import msgspec

from bygones.archive import Archive
from bygones.cli.commands.list import SessionTable, print_sessions_json
from bygones.cli.context import color_option, json_option, path_type
from bygones.cli.open_archive import load_session_costs
from bygones.cli.output import Console, print_failure, print_objects
from bygones.config import ARCHIVE_ENV, HOME_ENV
from bygones.render.text.primitives import sanitize_name
from bygones.schema.commands import DemoObject
from bygones.sources.layout import project_key


@click.command("demo")
@click.argument("folder", required=False, type=path_type(allow_file=False))
@json_option
@color_option
def demo(*, folder: Path | None, as_json: bool, color: str) -> None:
    r"""Create sample sessions to try Bygones with.

    \b
    bygones demo
    bygones demo ~/demo

    The sessions are invented. They include an abandoned branch, agents, a compaction and
    edited files. Everything is written to FOLDER, which must be new or empty (default: a
    temporary folder). Your own sessions and archive are not changed.
    """
    place = folder.expanduser().absolute() if folder else _make_temp_folder()
    if place.exists() and any(place.iterdir()):
        raise click.UsageError(f"{place} is not empty; choose a new or an empty folder")
    console = Console.for_stdout(color)
    home = write_demo_home(place, console.now)
    archive = place / "archive"
    print_failure(Archive.ingest(archive, [home]).failure)
    with Archive.open(archive) as opened:
        sessions = list(opened.sessions())
        spent = load_session_costs(opened, sessions)
    if as_json:
        made = DemoObject(folder=str(place), home=str(home), archive=str(archive))
        print_objects([made])
        print_sessions_json(sessions, spent)
        return
    console.print_lines(SessionTable(console, spent).lines(sessions))
    rewound = next(one for one in sessions if one.branch_count > 1)
    sys.stdout.flush()
    sys.stderr.write(_next_steps(home, archive, rewound.id[:8]))


def _make_temp_folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="bygones-demo-"))


def _next_steps(home: Path, archive: Path, session: str) -> str:
    variables = ((HOME_ENV, home), (ARCHIVE_ENV, archive))
    exports = "\n  ".join(
        sanitize_name(f"export {name}={shlex.quote(str(path))}")
        for name, path in variables
    )
    program = _program()
    return (
        "These sessions are invented. To try Bygones with them, run"
        f"\n\n  {exports}\n"
        f"\n  {program} show last"
        f"\n  {program} tree {session}"
        f"\n  {program} files src/checkout.py"
        f"\n  {program} prompts retry\n"
    )


def _program() -> str:
    """Return the program as a shell in this directory finds it."""
    if shutil.which("bygones"):
        return "bygones"
    script = shutil.which("bygones", path=str(Path(sys.executable).parent))
    if script is None:
        return f"{shlex.quote(sys.executable)} -m bygones"
    is_below = Path(script).parent.is_relative_to(Path.cwd())
    return shlex.quote(os.path.relpath(script) if is_below else script)


_VERSION = "2.1.30"
_JsonObject = dict[str, Any]


class TranscriptWriter:
    """Writes one session, or one agent of it; every record hangs on the one before."""

    def __init__(
        self,
        name: str,
        folder: Path,
        started: datetime,
        *,
        model: str = "claude-sonnet-4-5-20250929",
        agent: str | None = None,
    ) -> None:
        self.id = str(uuid5(NAMESPACE_URL, f"session {name}"))
        self._name = f"{name} {agent or ''}"
        self._cwd = folder
        self._time = started
        self._model = model
        self._agent = agent
        self._records: list[_JsonObject] = []
        self._last: str | None = None
        self._context = 14_000

    def _new_id(self) -> str:
        return str(uuid5(NAMESPACE_URL, f"{self._name} {len(self._records)}"))

    def _add(self, kind: str, fields: _JsonObject, *, seconds: float = 4) -> str:
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

    def answer(self, *blocks: _JsonObject | str, seconds: float = 6) -> str:
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
        tool_input: _JsonObject,
        output: str,
        outcome: object = None,
        *,
        text: str = "",
        is_error: bool = False,
        seconds: float = 3,
    ) -> str:
        """Write a call with some words before it, and what the tool answered."""
        use = f"toolu_{self._new_id()[:12]}"
        block = {"type": "tool_use", "id": use, "name": tool, "input": tool_input}
        self.answer(*([text] if text else []), block)
        result: _JsonObject = {
            "type": "tool_result",
            "tool_use_id": use,
            "content": output,
        }
        if is_error:
            result["is_error"] = True
        structured = {"toolUseResult": outcome if outcome is not None else output}
        message = {"role": "user", "content": [result]}
        self._add("user", {"message": message} | structured, seconds=seconds)
        return use

    def bash(
        self, command: str, output: str, *, text: str = "", is_error: bool = False
    ) -> None:
        """Write a command that was run."""
        outcome = {
            "stdout": "" if is_error else output,
            "stderr": output if is_error else "",
            "interrupted": False,
        }
        given = {"command": command}
        self.call("Bash", given, output, outcome, text=text, is_error=is_error)

    def edit(  # noqa: PLR0913 (all but three by name)
        self,
        path: str,
        old: str,
        new: str,
        *,
        line: int,
        text: str = "",
        original: str | None = None,
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
            "originalFile": original,
            "structuredPatch": [hunk],
        }
        given = {"file_path": whole, "old_string": old, "new_string": new}
        self.call(
            "Edit", given, f"The file {whole} has been updated.", outcome, text=text
        )

    def write(self, path: str, content: str, *, text: str = "") -> None:
        """Write a file that is new."""
        whole = str(self._cwd / path)
        outcome = {
            "type": "create",
            "filePath": whole,
            "content": content,
            "structuredPatch": [],
        }
        given = {"file_path": whole, "content": content}
        self.call("Write", given, f"File created at: {whole}", outcome, text=text)

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

    def title(self, text: str) -> None:
        """Name the session."""
        self._records.append(
            {"type": "custom-title", "customTitle": text, "sessionId": self.id}
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


_RETRY_CODE = """\
def charge(order: Order) -> Receipt:
    for attempt in range(3):
        try:
            return gateway.charge(order.total, order.card)
        except GatewayTimeout:
            time.sleep(1)
    raise PaymentFailed(order.id)
"""
_BACKOFF_CODE = """\
def charge(order: Order) -> Receipt:
    key = f"{order.id}:{order.total}"
    for delay in (0.5, 1, 2, 4):
        try:
            return gateway.charge(order.total, order.card, idempotency_key=key)
        except GatewayTimeout:
            time.sleep(delay + random.random() / 2)
    raise PaymentFailed(order.id)
"""
_ORIGINAL_CODE = """\
def charge(order: Order) -> Receipt:
    return gateway.charge(order.total, order.card)
"""
_CHECKOUT_CODE = f"""\
import random
import time
from dataclasses import dataclass

from shop import gateway
from shop.errors import GatewayTimeout, PaymentFailed


@dataclass(frozen=True)
class Card:
    number: str
    expires: str

    @property
    def last_digits(self) -> str:
        return self.number[-4:]


@dataclass(frozen=True)
class Order:
    id: int
    total: int
    card: Card


@dataclass(frozen=True)
class Receipt:
    order: int
    amount: int


def total(prices: list[int], discount: int = 0) -> int:
    return max(sum(prices) - discount, 0)


def label(order: Order) -> str:
    return f"{{order.id}}, card ending in {{order.card.last_digits}}"


{_ORIGINAL_CODE}"""
"""The whole file, in which `charge` starts at line 40."""
_SMALL_MODEL = "claude-haiku-4-5-20251001"
_AGENTS = (
    (
        "a1b2c3d",
        "Look at the fixtures",
        "`catalog` is built again for each of 412 tests; it takes 1.1 s.",
    ),
    (
        "e4f5a6b",
        "Look for network calls",
        "No test opens a socket; `requests` is mocked everywhere.",
    ),
)


def write_demo_home(folder: Path, now: datetime) -> Path:
    """Write the home and its projects below a folder; return the home."""
    home = folder / "claude-home"
    shop, notes = folder / "shop", folder / "notes"
    for project in (shop, notes):
        project.mkdir(parents=True, exist_ok=True)
    _write_old_session(home, notes, now - timedelta(days=26))
    _write_compacted_session(home, notes, now - timedelta(days=9, hours=3))
    _write_umlauts_session(home, notes, now - timedelta(days=2, hours=1))
    _write_agents_session(home, shop, now - timedelta(days=1, hours=4))
    _write_retry_session(home, shop, now - timedelta(hours=2))
    return home


def _write_retry_session(home: Path, shop: Path, started: datetime) -> None:
    """Write a session that was rewound: the first way was the wrong one."""
    said = TranscriptWriter("retry", shop, started)
    said.prompt(
        "Payments fail now and then with a gateway timeout. Make checkout retry."
    )
    said.bash(
        "rg -n 'gateway.charge' src",
        "src/checkout.py:41:    return gateway.charge(order.total, order.card)",
        text="I'll look at where the gateway is called.",
    )
    fork = said.answer("There is one call, in `charge`, and it is never retried.")
    said.prompt("Retry three times, a second apart.")
    _edit_checkout(said, _RETRY_CODE)
    said.bash(
        "pytest -q tests/test_checkout.py",
        "FAILED tests/test_checkout.py::test_a_card_is_charged_once\n"
        "AssertionError: charged twice\n1 failed, 11 passed in 2.31s",
        is_error=True,
    )
    said.answer(
        "A timeout does not mean that nothing was charged: the second attempt charged "
        "the card again. A plain retry is not safe here."
    )
    said.rewind(fork)
    said.prompt(
        "Retry with exponential backoff and an idempotency key, so that no customer is "
        "charged twice.",
        minutes=3,
    )
    _edit_checkout(
        said,
        _BACKOFF_CODE,
        "The gateway accepts an `idempotency_key`, which makes a retry safe.",
    )
    said.bash("pytest -q tests/test_checkout.py", "12 passed in 2.28s")
    said.answer(
        "Done. `charge` now waits 0.5, 1, 2 and 4 seconds, each with some jitter, and "
        "sends the same key every time, so the gateway charges once.\n\n"
        "- the key is the order's id and total\n"
        "- after the fourth timeout `PaymentFailed` is raised, as before"
    )
    said.prompt("Write a test for the jitter, please.")
    said.write(
        "tests/test_backoff.py",
        "def test_no_two_clients_wait_the_same_time(clock: Clock) -> None:\n"
        "    assert len({waits(seed) for seed in range(20)}) == 20\n",
    )
    said.bash("pytest -q tests/test_backoff.py", "1 passed in 0.12s")
    said.answer("I added the test; it passes.")
    said.title("Make checkout retry without charging twice")
    said.save(home)


def _edit_checkout(said: TranscriptWriter, new: str, text: str = "") -> None:
    said.edit(
        "src/checkout.py",
        _ORIGINAL_CODE,
        new,
        line=40,
        text=text,
        original=_CHECKOUT_CODE,
    )


def _write_agents_session(home: Path, shop: Path, started: datetime) -> None:
    """Write a session that sent agents out."""
    said = TranscriptWriter(
        "slow tests", shop, started, model="claude-opus-4-5-20251101"
    )
    said.prompt(
        "Why do the tests take nine minutes? Find the cause before you change it."
    )
    said.answer(
        {
            "type": "thinking",
            "thinking": "Two suspects: fixtures and the network.",
            "signature": "",
        },
        "I'll have two agents check the fixtures and the network calls in parallel.",
    )
    for scout in _AGENTS:
        _write_agent(said, home, shop, scout)
    said.answer("The fixture `catalog` is the cause: 412 times 1.1 seconds.")
    said.prompt("Make it a session fixture then.")
    said.edit(
        "tests/conftest.py",
        "@pytest.fixture\n",
        '@pytest.fixture(scope="session")\n',
        line=12,
    )
    said.bash("pytest -q", "412 passed in 61.40s")
    said.answer("From nine minutes to one: the catalog is built once.")
    said.save(home)


def _write_agent(
    writer: TranscriptWriter, home: Path, shop: Path, agent_facts: tuple[str, str, str]
) -> None:
    """Write a call that starts an agent, and what the agent did."""
    agent, task, found = agent_facts
    report = {
        "status": "completed",
        "agentId": agent,
        "totalDurationMs": 48_000,
        "totalTokens": 31_000,
        "totalToolUseCount": 2,
        "content": [{"type": "text", "text": found}],
    }
    order = f"{task}. Change nothing."
    given = {"description": task, "prompt": order, "subagent_type": "Explore"}
    call = writer.call("Task", given, found, report, seconds=50)
    started_at = writer.time - timedelta(seconds=48)
    own = TranscriptWriter(
        "slow tests", shop, started_at, model=_SMALL_MODEL, agent=agent
    )
    own.prompt(order, minutes=0)
    own.bash("pytest --durations=5 -q", "1.12s setup    tests/test_cart.py")
    own.answer(found, seconds=20)
    own.save(home, call=call, task=task)


def _write_compacted_session(home: Path, notes: Path, started: datetime) -> None:
    """Write a session that outgrew its context."""
    said = TranscriptWriter("static pages", notes, started)
    said.prompt(
        "Move the notes from the database to Markdown files, one file per note."
    )
    said.write(
        "export.py", "for note in db.notes():\n    path(note).write_text(note.body)\n"
    )
    said.bash("python export.py && ls pages | wc -l", "231")
    said.answer("All 231 notes are files now.")
    said.prompt("And the tags?", minutes=4)
    said.edit(
        "export.py",
        "write_text(note.body)",
        "write_text(head(note) + note.body)",
        line=2,
    )
    said.answer("Each file now starts with its tags.")
    said.compact(
        "This session is being continued from a previous conversation that ran out of "
        "context. 231 notes were exported to Markdown, with their tags at the top."
    )
    said.prompt("Now build an index page by tag.", minutes=2)
    said.write("index.py", "pages = group(read_all(), by='tag')\n")
    said.bash("python index.py", "42 tags, 231 notes")
    said.answer("`index.html` lists 42 tags.")
    said.title("Move the notes to Markdown")
    said.save(home)


def _write_umlauts_session(home: Path, notes: Path, started: datetime) -> None:
    said = TranscriptWriter("umlauts", notes, started)
    said.prompt("日本語のノートが文字化けします。直してください。")
    said.edit(
        "export.py", 'open(path, "w")', 'open(path, "w", encoding="utf-8")', line=7
    )
    said.answer("エンコーディングを UTF-8 に指定しました。文字化けは直っています。")
    said.save(home)


def _write_old_session(home: Path, notes: Path, started: datetime) -> None:
    said = TranscriptWriter("old question", notes, started)
    said.prompt("What is the difference between rsync -a and cp -r?")
    said.answer(
        "`rsync -a` keeps times, owners, permissions and links, and copies only what "
        "differs; `cp -r` copies everything again and sets new times."
    )
    said.save(home)
