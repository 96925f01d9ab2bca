"""How fast search answers: ``python -m benchmarks.bench_search ARCHIVE``.

Words are drawn from the archive's own vocabulary, the same ones every time. Times are
CPU seconds, in a process that is warm and in one that is fresh.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from recollect import Archive
from recollect.query import parse
from recollect.query.terms import FILLERS
from recollect.store.search import Engine
from recollect.store.vault import Vault

__all__ = ["main"]

ROOT = Path(__file__).resolve().parent.parent
NOW = datetime(2026, 11, 15, tzinfo=UTC)
EACH = 20
"""Queries of each kind."""


def vocabulary(folder: Path) -> tuple[list[str], list[str]]:
    """Return words of middling frequency, and the most frequent ones."""
    with Vault(folder) as vault:
        engine = Engine(vault.text)
        found = [
            (count, word)
            for letter in "abcdefghijklmnopqrstuvwxyz"
            for word, count in engine.beginning_with(letter)
            if word.isalpha() and len(word) > 3 and word not in FILLERS  # noqa: PLR2004
        ]
        size = engine.size
    found.sort(reverse=True)
    frequent = [word for _, word in found[:30]]
    middling = [word for count, word in found if size / 20_000 < count < size / 20]
    return middling, frequent


def queries(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the kinds of queries, with some queries of each."""
    dice = random.Random(7)  # noqa: S311 (a draw that can be repeated)
    middling, frequent = vocabulary(folder)

    def some(words: list[str], count: int) -> list[str]:
        return dice.sample(words, count)

    yield "one word", some(middling, EACH)
    yield "several words", [" ".join(some(middling, 3)) for _ in range(EACH)]
    yield "phrase", [f'"{" ".join(some(frequent, 2))}"' for _ in range(EACH)]
    yield "prefix", [f"{word[:4]}*" for word in some(middling, EACH)]
    yield "common words", [" ".join(some(frequent, 3)) for _ in range(EACH)]
    yield (
        "sentence",
        [
            f"why does the {' '.join(some(middling, 3))} not "
            f"{some(frequent, 1)[0]} when {some(middling, 1)[0]} is there"
            for _ in range(EACH)
        ],
    )


def warm(archive: Archive, text: str, times: int) -> float:
    """Return the CPU seconds of one answer, the best of some."""
    query = parse(text, now=NOW, zone=UTC)
    best = float("inf")
    for _ in range(times):
        begun = time.process_time()
        archive.search(query, limit=10, hits=2)
        best = min(best, time.process_time() - begun)
    return best


def fresh(folder: Path, text: str) -> float:
    """Return the CPU seconds of a whole process."""
    words = [
        sys.executable,
        "-m",
        "recollect",
        "search",
        "--archive",
        str(folder),
        text,
    ]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        words,
        check=True,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main(words: list[str]) -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_search")
    parser.add_argument("archive", type=Path)
    parser.add_argument("--repeat", type=int, default=5, help="best of so many")
    parser.add_argument("--out", type=Path, help="write the table here too")
    asked = parser.parse_args(words)
    lines = [
        "| query | p50 ms | p95 ms | p99 ms | fresh process, median ms |",
        "|---|---:|---:|---:|---:|",
    ]
    with Archive.open(asked.archive) as archive:
        warm(archive, "anything", 1)
        for kind, texts in queries(asked.archive):
            each = sorted(warm(archive, text, asked.repeat) for text in texts)
            alone = statistics.median(fresh(asked.archive, t) for t in texts[:5])
            cuts = [
                each[min(len(each) - 1, int(len(each) * p))] for p in (0.5, 0.95, 0.99)
            ]
            cells = " | ".join(f"{cut * 1000:.1f}" for cut in cuts)
            lines.append(f"| {kind} | {cells} | {alone * 1000:.0f} |")
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    lines.append(f"\nCPU time, best of {asked.repeat}; load of the machine {load:.1f}.")
    print(*lines, sep="\n")
    if asked.out:
        asked.out.write_text("\n".join(lines) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
