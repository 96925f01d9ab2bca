"""Measure search speed: ``python -m benchmarks.bench_search ARCHIVE [--home HOME]``.

Queries are drawn from the titles, prompts, error lines and paths in the archive, the
same ones every time. Times are CPU times, in a warm process and in a fresh one. CPU time
also grows on a busy machine, so each is shown as a multiple of ``python -c pass`` in the
same minute too. With a home, a fresh process checks it for new data first.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from bygones import Archive
from bygones.query.parser import parse_query

__all__ = ["main"]

ROOT = Path(__file__).resolve().parent.parent
NOW = datetime(2026, 11, 15, tzinfo=UTC)
EACH = 50
"""Queries of each kind."""
_FRESH = 5
"""Queries of each kind that are asked in a process of their own."""
_UNSET = {"PYTHONDONTWRITEBYTECODE"}


class Sample(NamedTuple):
    """What people wrote and did in the archive itself."""

    titles: list[str]
    prompts: list[str]
    errors: list[str]
    paths: list[str]


def sample(archive: Archive) -> Sample:
    """Return titles, prompts, lines of errors and paths, in a random order."""
    dice = random.Random(7)  # noqa: S311 (a draw that can be repeated)
    titles = {one.title.text for one in archive.sessions()}
    prompts = {one.text for one in islice(archive.prompts(), 5_000)}
    is_error = parse_query("is:error", now=NOW, zone=UTC)
    found = archive.search(is_error, limit=5 * EACH, hits_per_session=2)
    errors = {hit.excerpt.text for one in found.sessions for hit in one.hits}
    is_edit = parse_query("has:edit", now=NOW, zone=UTC)
    edited = archive.search(is_edit, limit=5 * EACH, hits_per_session=0)
    paths = {
        edit.path
        for one in edited.sessions
        for edit in archive.edits(session=one.summary.id)
    }
    lists = [
        sorted(filter(str.split, some)) for some in (titles, prompts, errors, paths)
    ]
    for some in lists:
        dice.shuffle(some)
    return Sample(*lists)


def queries(archive: Archive) -> Iterator[tuple[str, list[str]]]:
    """Yield the kinds of queries, with some queries of each, all of them plain words."""
    drawn = sample(archive)
    dice = random.Random(7)  # noqa: S311 (a draw that can be repeated)
    titles = [words for one in drawn.titles if len(words := _words(one)) >= 3]  # noqa: PLR2004
    prompts = [words for one in drawn.prompts if len(words := _words(one)) >= 4]  # noqa: PLR2004
    yield "one word", [dice.choice(words) for words in titles[:EACH]]
    yield "three words", [" ".join(dice.sample(words, 3)) for words in titles[:EACH]]
    yield "title", [" ".join(words) for words in titles[:EACH]]
    yield "prefix", [f"{max(words, key=len)[:4]}*" for words in titles[:EACH]]
    yield "phrase", [f'"{" ".join(words[1:4])}"' for words in prompts[:EACH]]
    yield "prompt", [" ".join(words[:40]) for words in prompts[:EACH]]
    long = sorted(prompts, key=len)[-EACH:]
    yield "long prompt", [" ".join(words[:200]) for words in long]
    yield "error line", [" ".join(_words(one)) for one in drawn.errors[:EACH]]
    yield "path", drawn.paths[:EACH]


def _words(text: str) -> list[str]:
    return re.findall(r"[^\W_]{2,}", text)


def warm(archive: Archive, text: str, times: int) -> float:
    """Return the CPU seconds of one answer, the best of some."""
    query = parse_query(text, now=NOW, zone=UTC)
    best = float("inf")
    for _ in range(times):
        started = time.process_time()
        archive.search(query, limit=10, hits_per_session=2)
        best = min(best, time.process_time() - started)
    return best


def cpu(arguments: list[str], cache: Path) -> float:
    """Return the CPU seconds of a whole process, with its modules compiled before."""
    env = {name: value for name, value in os.environ.items() if name not in _UNSET}
    env |= {"PYTHONPATH": str(ROOT / "src"), "PYTHONPYCACHEPREFIX": str(cache)}
    env |= {"XDG_STATE_HOME": str(cache)}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, *arguments], check=True, capture_output=True, env=env
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def fresh(options: argparse.Namespace, texts: list[str], cache: Path) -> float:
    """Return the median of the CPU seconds of whole processes."""
    home = ["--home", str(options.home)] if options.home else []
    command = ["-m", "bygones", "search", "--archive", str(options.archive), *home]
    cpu([*command, texts[0]], cache)
    return statistics.median(cpu([*command, text], cache) for text in texts)


def idle(cache: Path) -> float:
    """Return the CPU seconds of an interpreter that does nothing."""
    return statistics.median(cpu(["-c", "pass"], cache) for _ in range(9))


def rows(options: argparse.Namespace, cache: Path) -> Iterator[str]:
    """Yield the lines of a table, a kind of query each."""
    yield (
        "| query | p50 ms | p95 ms | p99 ms | p95, x python | fresh process ms"
        " | fresh, x python |"
    )
    yield "|---|---:|---:|---:|---:|---:|---:|"
    with Archive.open(options.archive) as archive:
        warm(archive, "anything", 1)
        for kind, texts in queries(archive):
            each = sorted(warm(archive, text, options.repeat) for text in texts)
            before = idle(cache)
            alone = fresh(options, texts[:_FRESH], cache)
            nothing = statistics.mean((before, idle(cache)))
            cuts = [
                each[min(len(each) - 1, int(len(each) * p))] for p in (0.5, 0.95, 0.99)
            ]
            cells = [f"{cut * 1000:.1f}" for cut in cuts]
            cells += [f"{cuts[1] / nothing:.1f}", f"{alone * 1000:.0f}"]
            yield f"| {kind} | {' | '.join(cells)} | {alone / nothing:.1f} |"


def main(arguments: list[str]) -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_search")
    parser.add_argument("archive", type=Path)
    parser.add_argument("--home", type=Path, help="home to check for new data")
    parser.add_argument("--repeat", type=int, default=5, help="best of N")
    parser.add_argument("--out", type=Path, help="also write the table to this file")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as cache:
        lines = list(rows(options, Path(cache)))
        nothing = idle(Path(cache))
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    lines.append(
        f"\nCPU time, best of {options.repeat}; fresh processes: median of {_FRESH};"
        f" python -c pass {nothing * 1000:.0f} ms; system load {load:.1f}."
    )
    print(*lines, sep="\n")
    if options.out:
        options.out.write_text("\n".join(lines) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
