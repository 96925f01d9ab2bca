"""Measure search speed: ``python -m benchmarks.bench_search ARCHIVE [--home HOME]``.

Words are drawn from the archive's vocabulary, the same ones every time. Times are CPU
times, in a warm process and in a fresh one. CPU time also grows on a busy machine, so
each is shown as a multiple of ``python -c pass`` in the same minute too. With a home, a
fresh process checks it for new data first.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from bygones import Archive
from bygones.query.parser import parse_query
from bygones.query.tokens import STOP_WORDS
from bygones.store.archive_dir import ArchiveDir
from bygones.store.text_index import TantivyEngine

__all__ = ["main"]

ROOT = Path(__file__).resolve().parent.parent
NOW = datetime(2026, 11, 15, tzinfo=UTC)
EACH = 20
"""Queries of each kind."""
_FRESH = 5
"""Queries of each kind that are asked in a process of their own."""
_UNSET = {"PYTHONDONTWRITEBYTECODE"}


def vocabulary(folder: Path) -> tuple[list[str], list[str]]:
    """Return words of middling frequency, and the most frequent ones."""
    with ArchiveDir(folder) as vault:
        engine = TantivyEngine(vault.text_index)
        found = [
            (count, word)
            for letter in "abcdefghijklmnopqrstuvwxyz"
            for word, count in engine.terms_with_prefix(letter)
            if word.isalpha() and len(word) > 3 and word not in STOP_WORDS  # noqa: PLR2004
        ]
        size = engine.text_count
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
    query = parse_query(text, now=NOW, zone=UTC)
    best = float("inf")
    for _ in range(times):
        begun = time.process_time()
        archive.search(query, limit=10, hits_per_session=2)
        best = min(best, time.process_time() - begun)
    return best


def cpu(words: list[str], cache: Path) -> float:
    """Return the CPU seconds of a whole process, with its modules compiled before."""
    env = {name: value for name, value in os.environ.items() if name not in _UNSET}
    env |= {"PYTHONPATH": str(ROOT / "src"), "PYTHONPYCACHEPREFIX": str(cache)}
    env |= {"XDG_STATE_HOME": str(cache)}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *words], check=True, capture_output=True, env=env)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def fresh(asked: argparse.Namespace, texts: list[str], cache: Path) -> float:
    """Return the median of the CPU seconds of whole processes."""
    home = ["--home", str(asked.home)] if asked.home else []
    words = ["-m", "bygones", "search", "--archive", str(asked.archive), *home]
    cpu([*words, texts[0]], cache)
    return statistics.median(cpu([*words, text], cache) for text in texts)


def idle(cache: Path) -> float:
    """Return the CPU seconds of an interpreter that does nothing."""
    return statistics.median(cpu(["-c", "pass"], cache) for _ in range(9))


def rows(asked: argparse.Namespace, cache: Path) -> Iterator[str]:
    """Yield the lines of a table, a kind of query each."""
    yield (
        "| query | p50 ms | p95 ms | p99 ms | p95, x python | fresh process ms"
        " | fresh, x python |"
    )
    yield "|---|---:|---:|---:|---:|---:|---:|"
    with Archive.open(asked.archive) as archive:
        warm(archive, "anything", 1)
        for kind, texts in queries(asked.archive):
            each = sorted(warm(archive, text, asked.repeat) for text in texts)
            before = idle(cache)
            alone = fresh(asked, texts[:_FRESH], cache)
            nothing = statistics.mean((before, idle(cache)))
            cuts = [
                each[min(len(each) - 1, int(len(each) * p))] for p in (0.5, 0.95, 0.99)
            ]
            cells = [f"{cut * 1000:.1f}" for cut in cuts]
            cells += [f"{cuts[1] / nothing:.1f}", f"{alone * 1000:.0f}"]
            yield f"| {kind} | {' | '.join(cells)} | {alone / nothing:.1f} |"


def main(words: list[str]) -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_search")
    parser.add_argument("archive", type=Path)
    parser.add_argument("--home", type=Path, help="home to check for new data")
    parser.add_argument("--repeat", type=int, default=5, help="best of N")
    parser.add_argument("--out", type=Path, help="also write the table to this file")
    asked = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as cache:
        lines = list(rows(asked, Path(cache)))
        nothing = idle(Path(cache))
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    lines.append(
        f"\nCPU time, best of {asked.repeat}; fresh processes: median of {_FRESH};"
        f" python -c pass {nothing * 1000:.0f} ms; system load {load:.1f}."
    )
    print(*lines, sep="\n")
    if asked.out:
        asked.out.write_text("\n".join(lines) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
