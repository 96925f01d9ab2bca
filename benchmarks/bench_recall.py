"""Measure how often offers of proactive recall are right, and what they cost.

``python -m benchmarks.bench_recall`` generates sessions of projects whose prompts share
their vocabulary. Then it asks: prompts that were asked before, in other words and order,
and prompts that were not, made of the same words. An offer is right if it cites the
session of the prompt that was reworded; any offer for a new prompt is wrong. The limits
in ``recall_hook`` were chosen with ``--seed 1``; the other seeds are held out.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bygones.integrations import recall_hook

VERBS = ("fix", "explain", "rename", "measure", "split", "test", "move", "check", "add")
PARTS = (
    *(
        "retry",
        "timeout",
        "pool",
        "cache",
        "header",
        "cursor",
        "lease",
        "queue",
        "lock",
    ),
    *("schema", "index", "token", "session", "parser", "writer", "socket", "buffer"),
    *("migration", "fixture", "snapshot", "worker", "router", "planner", "cookie"),
)
THINGS = (
    *(
        "billing",
        "ledger",
        "invoice",
        "search",
        "login",
        "resizer",
        "export",
        "limiter",
    ),
    *("audit", "websocket", "payment", "report", "import", "backup", "address", "tax"),
    *("upload", "mobile", "price", "chat", "metrics", "deploy", "calendar", "holiday"),
)
SYMPTOMS = (
    *("is slow", "fails at night", "returns twice", "loses rows", "never ends"),
    *("ignores its limit", "breaks on windows", "logs nothing", "grows forever"),
)
FILLERS = ("please", "again", "now", "for me", "in this branch", "before the release")
SYNONYMS = {
    "fix": "repair",
    "check": "look at",
    "add": "write",
    "explain": "tell me why",
}


_DROPPED, _FILLED, _TURNED = 0.12, 0.5, 0.3


def make_prompt(dice: random.Random) -> list[str]:
    words = [dice.choice(VERBS), "the", dice.choice(PARTS), "of the"]
    words += [dice.choice(THINGS), dice.choice(PARTS), "which", dice.choice(SYMPTOMS)]
    return [*words, "with", f"{dice.choice(THINGS)}{dice.choice(PARTS)}"]


def reword(words: Sequence[str], dice: random.Random) -> str:
    """Return a prompt as a person would ask it again."""
    result = [SYNONYMS.get(word, word) for word in words if dice.random() > _DROPPED]
    if dice.random() < _FILLED:
        result.insert(0, dice.choice(FILLERS))
    if dice.random() < _TURNED:
        at = len(result) // 2
        result = [*result[at:], *result[:at]]
    return " ".join(result)


def make_project(
    dice: random.Random, sessions: int
) -> tuple[dict[str, Any], list[list[str]]]:
    prompts: list[dict[str, str]] = []
    terms: dict[str, list[int]] = {}
    asked: list[list[str]] = []
    for number in range(sessions):
        for turn in range(5):
            words = make_prompt(dice)
            text = " ".join(words)
            for word in recall_hook.words_of(text):
                terms.setdefault(word, []).append(len(prompts))
            at = f"{number:08x} #{turn:08x}"
            prompts.append({"at": at, "day": "3 Apr", "text": text, "reply": "Done."})
            asked.append(words)
    data = {"prompts": prompts, "terms": terms, "failures": {}, "start": []}
    return data, asked


def measure(seed: int, projects: int, sessions: int) -> tuple[int, int, int]:
    """Return how many questions were asked, offers made, and offers that are right."""
    dice = random.Random(seed)  # noqa: S311 (repeatable, not secret)
    questions = offers = right = 0
    for _ in range(projects):
        data, asked = make_project(dice, sessions)
        for number in dice.sample(range(len(asked)), 40):
            questions += 2
            found = recall_hook.best_prompt(data, reword(asked[number], dice))
            if found is not None:
                offers += 1
                right += found["at"] == data["prompts"][number]["at"]
            offers += (
                recall_hook.best_prompt(data, " ".join(make_prompt(dice))) is not None
            )
    return questions, offers, right


def measure_hook(sessions: int) -> tuple[float, int]:
    """Return the CPU milliseconds of one hook as a process, and the bytes it prints."""
    data, asked = make_project(random.Random(0), sessions)  # noqa: S311 (repeatable)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(recall_hook.project_file(folder, "/srv/shop"))
        path.write_text(json.dumps(data), "utf-8")
        times, size = [], 0
        for number in range(9):
            event = {
                "hook_event_name": "UserPromptSubmit",
                "cwd": "/srv/shop/src",
                "session_id": f"session-{number}",
                "prompt": " ".join(asked[number]),
            }
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            result = subprocess.run(
                [sys.executable, "-I", "-S", recall_hook.__file__, folder],
                input=json.dumps(event).encode(),
                capture_output=True,
                check=True,
            )
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            times.append(spent * 1000)
            size = max(size, len(result.stdout))
    return sorted(times)[len(times) // 2], size


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, action="append", help="default: 2 to 5")
    parser.add_argument("--projects", type=int, default=10)
    parser.add_argument("--sessions", type=int, default=60)
    options = parser.parse_args(arguments)
    for seed in options.seed or (2, 3, 4, 5):
        asked, offers, right = measure(seed, options.projects, options.sessions)
        share = right / offers if offers else 1.0
        print(f"seed {seed}: {asked} questions, {offers} offers, {share:.1%} right")
    spent, size = measure_hook(200)
    print(f"one hook, 1,000 prompts: {spent:.0f} ms of CPU, {size} bytes")


if __name__ == "__main__":
    main()
