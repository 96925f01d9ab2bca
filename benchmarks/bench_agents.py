"""Measure how much an agent must read to answer a question about earlier sessions.

``python -m benchmarks.bench_agents`` generates a home in which the same few hundred words
occur in every session, plants thirty facts in it, and answers thirty questions about them
with Bygones' tools, as an agent calls them, and by grepping and reading the transcripts.
A question is answered when the line with the fact has been read. All methods search for
the same words and know where to look next. Everything that is read and sent counts, at
four bytes per token.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from benchmarks.run import title
from bygones.archive import Archive
from bygones.mcp.server import McpDispatcher
from bygones.mcp.tool_service import Caller, ToolService
from tests.mcp.client import cursor

SESSIONS = 240
TURNS = 12
CUT = 2_000
"""Characters of a line that a reading tool shows."""
MOST_CALLS = 10
NEAR = 5
"""Lines before and after a match that are read."""
AROUND = 200
"""Characters that an expert prints around a match."""
MOST_FILES = 100
"""Files that a tool for searching lists."""
_START = datetime(2025, 6, 1, tzinfo=UTC)
THINGS = (
    *("billing gateway", "ledger", "invoice mailer", "search index", "login page"),
    *("image resizer", "export job", "session store", "rate limiter", "audit log"),
    *("websocket hub", "feature flags", "payment webhook", "report builder"),
    *("user import", "nightly backup", "cache warmer", "address form", "tax table"),
    *("upload queue", "mobile sync", "price feed", "chat widget", "map tiles"),
    *("metrics agent", "deploy script", "schema migration", "token refresh"),
    *("holiday calendar", "search suggestions"),
)
SETTINGS = ("retry budget", "timeout", "batch size", "pool size", "lease", "backoff")
CAUSES = (
    *("requests were sent twice", "the lock was held while sleeping"),
    *("clocks of two hosts differ", "a header was dropped by the proxy"),
    *("the disk filled up at night", "rows came back in another order"),
)
VERBS = ("check", "trace", "rename", "measure", "split", "document", "test", "move")


Show = Callable[[Sequence[str], re.Pattern[str]], Iterator[str]]
OURS = "Bygones' tools"


class Fact(NamedTuple):
    """Something said in one session, words to search for it, and the answer."""

    said: str
    words: tuple[str, str]
    answer: str


class Answer(NamedTuple):
    """What answering took."""

    bytes: int
    calls: int
    is_found: bool


def facts() -> list[Fact]:
    """Return thirty facts; all their words also occur in other sessions."""
    found = []
    for number, thing in enumerate(THINGS):
        setting = SETTINGS[number % len(SETTINGS)]
        cause = CAUSES[number % len(CAUSES)]
        answer = f"to {number + 13}, because {cause}"
        said = f"We set the {setting} of the {thing} {answer}. It holds since."
        found.append(Fact(said, (setting, thing), answer))
    return found


def write_home(home: Path, planted: Sequence[Fact], count: int) -> None:
    """Write sessions that speak of everything, and the facts into thirty of them."""
    dice = random.Random(7)  # noqa: S311 (the same home every time)
    folder = home / "projects" / "-srv-shop"
    folder.mkdir(parents=True)
    step = count // len(planted)
    for number in range(count):
        fact = (
            planted[number // step % len(planted)]
            if number % step == step // 2
            else None
        )
        name = str(UUID(int=(number + 1) << 90))
        lines = _session(dice, name, number, fact)
        (folder / f"{name}.jsonl").write_text("".join(lines), "utf-8")


def _session(
    dice: random.Random, name: str, number: int, fact: Fact | None
) -> Iterator[str]:
    talk = Talk(dice, fact)
    parent = None
    for step in range(TURNS * 4):
        turn, kind = divmod(step, 4)
        uuid = str(UUID(int=dice.getrandbits(128)))
        said = talk.said(turn)
        record = _body(kind, said, talk.output(), f"toolu_{number}_{turn}")
        time = _START + timedelta(hours=number, seconds=step * 20)
        place = {
            "uuid": uuid,
            "parentUuid": parent,
            "sessionId": name,
            "cwd": "/srv/shop",
            "version": "2.1.0",
            "timestamp": time.isoformat(),
        }
        yield json.dumps(record | place) + "\n"
        parent = uuid


class Talk:
    """What one session is about: three things, two settings, and much besides."""

    def __init__(self, dice: random.Random, fact: Fact | None) -> None:
        self._dice = dice
        self._fact = fact
        self._at = dice.randrange(TURNS)
        self._about = (*dice.sample(THINGS, 3), *dice.sample(SETTINGS, 2))
        if fact is not None:
            self._about = (*self._about[1:-1], *fact.words)

    def said(self, turn: int) -> str:
        """Return what Claude says in a turn: the fact, or something of no use."""
        if self._fact is not None and turn == self._at:
            return self._fact.said
        dice = self._dice
        return (
            f"I {dice.choice(VERBS)} the {dice.choice(self._about)} and"
            f" {dice.choice(VERBS)} the {dice.choice(self._about)} now;"
            f" it may be that {dice.choice(CAUSES)}. " + self._filler(20)
        )

    def output(self) -> str:
        """Return what a tool prints: lines, of which some are about this session."""
        about = (
            f"{self._filler(12)} {self._dice.choice(self._about)} {self._filler(8)}"
            for _ in range(25)
        )
        return "\n".join(about)

    def _filler(self, count: int) -> str:
        return " ".join(f"w{self._dice.randrange(3000)}" for _ in range(count))


def _body(kind: int, said: str, output: str, call: str) -> dict[str, object]:
    if kind == 0:
        return {"type": "user", "message": {"role": "user", "content": output[:160]}}
    if kind == 2:  # noqa: PLR2004 (the result, behind its call)
        block = {"type": "tool_result", "tool_use_id": call, "content": output}
        message = {"role": "user", "content": [block]}
        return {"type": "user", "message": message, "toolUseResult": {"stdout": output}}
    blocks: list[dict[str, object]] = [{"type": "text", "text": said}]
    if kind == 1:
        run = {"command": f"grep -r {output[:30]!r} src"}
        blocks = [{"type": "tool_use", "id": call, "name": "Bash", "input": run}]
    message = {"role": "assistant", "id": f"msg_{call}_{kind}", "content": blocks}
    return {"type": "assistant", "message": message | {"model": "claude-opus-4"}}


class Agent:
    """Calls Bygones' tools: searches, and continues where an answer was cut."""

    def __init__(self, archive: Path) -> None:
        caller = Caller(
            directory=Path("/srv/shop"),
            clock=lambda: _START + timedelta(days=60),
            zone=UTC,
        )
        self._speaker = McpDispatcher(ToolService(archive, caller))
        self.listing = len(json.dumps(self._speaker.dispatch("tools/list", {})))

    def answer(self, fact: Fact) -> Answer:
        """Return what it took to read the fact."""
        asked = {"query": " ".join(f'"{word}"' for word in fact.words)}
        size = calls = 0
        while calls < MOST_CALLS:
            told, more = self._call("search", asked)
            size += more
            calls += 1
            rest = cursor(told)
            if fact.answer in told or rest is None:
                return Answer(size, calls, fact.answer in told)
            asked["cursor"] = rest
        return Answer(size, calls, is_found=False)

    def _call(self, tool: str, arguments: Mapping[str, object]) -> tuple[str, int]:
        asked = {"name": tool, "arguments": arguments}
        text = str(self._speaker.dispatch("tools/call", asked)["content"][0]["text"])
        return text, len(text.encode()) + len(json.dumps(asked))


class Grep:
    """Greps transcripts for the words near each other, and reads what was found.

    First the files are listed that have them, then of each file, the newest first,
    something is read until the fact is met: ``show`` says what.
    """

    def __init__(self, files: Mapping[Path, Sequence[str]], show: Show) -> None:
        self._files = files
        self._show = show

    def answer(self, fact: Fact) -> Answer:
        """Return what it took to read the fact."""
        pattern = _near(fact.words)
        fitting = (p for p, ls in self._files.items() if any(map(pattern.search, ls)))
        files = list(fitting)[:MOST_FILES]
        size = len(pattern.pattern) + sum(len(str(path)) + 1 for path in files)
        calls = 1
        for path in files:
            shown = list(self._show(self._files[path], pattern))
            size += sum(len(line.encode()) + 1 for line in shown) + len(str(path))
            calls += 1
            if any(fact.answer in line for line in shown):
                return Answer(size, calls, is_found=True)
        return Answer(size, calls, is_found=False)


def around_match(lines: Sequence[str], pattern: re.Pattern[str]) -> Iterator[str]:
    """Yield what ``grep -o`` prints with some characters around the match."""
    for line in lines:
        for found in pattern.finditer(line):
            yield line[max(0, found.start() - AROUND) : found.end() + AROUND]


def matching_lines(lines: Sequence[str], pattern: re.Pattern[str]) -> Iterator[str]:
    """Yield what ``grep`` prints, each line cut."""
    yield from (line[:CUT] for line in lines if pattern.search(line))


def read_around(lines: Sequence[str], pattern: re.Pattern[str]) -> Iterator[str]:
    """Yield what Claude Code's own tools show of a transcript.

    Its Grep leaves out lines as long as these and tells their numbers; its Read then
    shows lines around them, each cut.
    """
    numbers = [number for number, line in enumerate(lines) if pattern.search(line)]
    yield from (f"{number}:[Omitted long matching line]" for number in numbers)
    window = {n for number in numbers for n in range(number - NEAR, number + NEAR + 1)}
    for number in sorted(window & set(range(len(lines)))):
        yield f"{number:6}\t{lines[number][:CUT]}"


def _near(words: Sequence[str]) -> re.Pattern[str]:
    """Return a pattern for the first word and the last within a hundred characters."""
    first, last = re.escape(words[0]), re.escape(words[-1])
    return re.compile(f"{first}.{{0,100}}{last}|{last}.{{0,100}}{first}", re.IGNORECASE)


SHOWN: Mapping[str, Show] = {
    "Claude Code's Grep and Read": read_around,
    "grep, lines cut to 2,000 characters": matching_lines,
    "grep -o, 200 characters around": around_match,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Generate the home, answer all questions with all methods, print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=SESSIONS)
    options = parser.parse_args(arguments)
    planted = facts()
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch) / "home"
        write_home(home, planted, options.sessions)
        size = sum(path.stat().st_size for path in home.rglob("*.jsonl"))
        Archive.ingest(Path(scratch) / "archive", [home])
        agent = Agent(Path(scratch) / "archive")
        files = {
            path: path.read_text("utf-8").splitlines()
            for path in sorted(home.rglob("*.jsonl"), reverse=True)
        }
        ways = {OURS: [agent.answer(fact) for fact in planted]}
        for name, show in SHOWN.items():
            grep = Grep(files, show)
            ways[name] = [grep.answer(fact) for fact in planted]
    print(
        title(
            f"{len(planted)} questions, {options.sessions} sessions, {size / 1e6:.0f} MB"
        )
    )
    for line in table(ways):
        print(line)
    print(f"\nTool descriptions, once per session: {agent.listing // 4} tokens.")
    sys.exit(0 if all(one.is_found for one in ways[OURS]) else 1)


def table(ways: dict[str, list[Answer]]) -> Iterator[str]:
    """Yield a Markdown table, with ratios to Bygones' tools."""
    yield "| method | answered | calls | tokens per question | most | x Bygones |"
    yield "|---|---:|---:|---:|---:|---:|"
    ours = sum(one.bytes for one in ways[OURS])
    for name, found in ways.items():
        total = sum(one.bytes for one in found)
        yield (
            f"| {name} | {sum(one.is_found for one in found)} of {len(found)}"
            f" | {sum(one.calls for one in found) / len(found):.1f}"
            f" | {total / len(found) / 4:.0f} | {max(o.bytes for o in found) // 4}"
            f" | {total / ours:.1f} |"
        )


if __name__ == "__main__":
    main()
