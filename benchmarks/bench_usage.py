"""Compare the cost of usage reports with ccusage 20.

    python -m benchmarks.bench_usage HOME -- COMMAND...

``COMMAND`` starts ccusage 20, for example ``npx ccusage@20``. The home is copied, and a
session of 10 MB is added. Bygones ingests everything once; then both programs print the
same reports in alternation, each in its own process: with nothing changed, and with 1 KB
appended to the session of 10 MB. ccusage reads all files each time.
"""

from __future__ import annotations

import argparse
import compileall
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.inputs import append_record, session_path, write_session
from benchmarks.run import title
from benchmarks.tree import follow

ROOT = Path(__file__).resolve().parent.parent
TIMES = 5
AIM = 10.0
"""By which factor a warm report should take less CPU time than ccusage."""
SESSION = 10_000_000
APPEND = 1_000

Best = dict[tuple[str, str], tuple[float, float]]
"""CPU and wall seconds by question and program, the least of all turns."""


class Question(NamedTuple):
    """A question in the words of both programs."""

    name: str
    ours: Sequence[str]
    theirs: Sequence[str]


DAYS = Question("by day", ("--by", "day"), ("daily",))
QUESTIONS = (
    DAYS,
    Question("by month", ("--by", "month"), ("monthly",)),
    Question("by session", ("--by", "session"), ("session",)),
    Question("by block of five hours", ("--by", "block"), ("blocks",)),
)


class Bench:
    """A copy of a home, our archive beside it, and what was measured."""

    def __init__(self, home: Path, command: Sequence[str], scratch: Path) -> None:
        self.command = [str(shutil.which(command[0]) or command[0]), *command[1:]]
        self.scratch = scratch
        self.home = scratch / ".claude"
        shutil.copytree(home, self.home)
        self._session = session_path(self.home, 0)
        self._session.parent.mkdir()
        write_session(self._session, size=SESSION)
        files = list(self.home.rglob("*.jsonl"))
        self.files, self.size = len(files), sum(path.stat().st_size for path in files)
        self.best: Best = {}

    def run(self) -> None:
        """Ask everything, ours and theirs in turn."""
        archive = ("--archive", str(self.scratch / "archive"))
        us = (sys.executable, "-m", "bygones")
        home = ("--home", str(self.home))
        env = {"PYTHONPATH": str(ROOT / "src")}
        self._measure("first ingest", "bygones", (*us, "ingest", *archive, *home), env)
        command = (*us, "usage", *archive, *home, "--json")
        self._measure("first question", "bygones", command, env)
        for turn in range(TIMES):
            for question in QUESTIONS:
                name = question.name
                self._measure(name, "bygones", (*command, *question.ours), env)
                self._ask_them(name, question)
            append_record(self._session, APPEND, number=turn)
            self._measure("by day, 1 KB appended", "bygones", command, env)
            self._ask_them("by day, 1 KB appended", DAYS)

    def _ask_them(self, name: str, question: Question) -> None:
        command = [*self.command, "claude", *question.theirs, "--json", "--offline"]
        self._measure(name, "ccusage", command, {"CLAUDE_CONFIG_DIR": str(self.home)})

    def _measure(
        self, question: str, name: str, command: Sequence[str], env: Mapping[str, str]
    ) -> None:
        path = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.scratch),
            "LANG": "C.UTF-8",
        }
        done = follow(command, env=path | dict(env), output=self.scratch / "said")
        known = self.best.get((question, name), (float("inf"), float("inf")))
        found = (done.used.seconds, done.wall)
        self.best[question, name] = (min(known[0], found[0]), min(known[1], found[1]))
        print(f"{name}: {question}: {found[0]:.3f} CPU s", file=sys.stderr)


def page(bench: Bench) -> Iterator[str]:
    """Yield the lines of the report."""
    yield f"# Usage · Python {platform.python_version()}, {platform.machine()}"
    yield ""
    yield (
        f"A home of {bench.files:,} files, {bench.size / 1e6:,.0f} MB; "
        f"{os.cpu_count()} cores; best of {TIMES}, in alternation. CPU s: user and"
        " system, of all processes of the program, including the check for new data."
    )
    yield title("Warm: the archive exists")
    yield "| report | Bygones CPU s | ccusage CPU s | CPU factor | wall factor |"
    yield "|---|---:|---:|---:|---:|"
    asked = [question.name for question in QUESTIONS]
    for name in (*asked, "by day, 1 KB appended"):
        ours, theirs = bench.best[name, "bygones"], bench.best[name, "ccusage"]
        less, sooner = theirs[0] / ours[0], theirs[1] / ours[1]
        cells = f"{ours[0]:.3f} | {theirs[0]:.3f} | {less:.1f} | {sooner:.1f}"
        yield f"| {name} | {cells} |"
    first, question = (
        bench.best["first ingest", "bygones"][0],
        bench.best["first question", "bygones"][0],
    )
    theirs_once = bench.best[DAYS.name, "ccusage"][0]
    yield title("Cold: by day, the first time")
    yield "| | Bygones CPU s | ccusage CPU s | share of ccusage |"
    yield "|---|---:|---:|---:|"
    for name, spent in (
        ("without the first ingest", question),
        ("with the first ingest", first + question),
    ):
        share = spent / theirs_once
        yield f"| {name} | {spent:.2f} | {theirs_once:.2f} | {share:.2f} |"
    warm = bench.best[DAYS.name, "bygones"][0]
    saved = theirs_once - warm
    yield ""
    yield f"The first ingest has paid for itself after {first / saved:.0f} reports."
    reached = "yes" if theirs_once / warm >= AIM else "**no**"
    yield title("Aim")
    yield "| aim | measured | at least | reached |"
    yield "|---|---:|---:|---|"
    yield (
        f"| by day, warm, times less CPU than ccusage | {theirs_once / warm:.1f} |"
        f" {AIM:g} | {reached} |"
    )


def main(arguments: Sequence[str]) -> int:
    """Measure, print the report and keep it."""
    parser = argparse.ArgumentParser(description="usage, ours beside ccusage's")
    parser.add_argument("home", type=Path)
    parser.add_argument("command", nargs="+", help="starts ccusage; after --")
    parser.add_argument("--out", type=Path, help="save the report here")
    chosen = parser.parse_args(arguments)
    compileall.compile_dir(ROOT / "src", quiet=1)  # as pip does
    with tempfile.TemporaryDirectory(prefix="bygones-usage-") as scratch:
        bench = Bench(chosen.home, chosen.command, Path(scratch))
        bench.run()
        lines = list(page(bench))
    print(*lines, sep="\n")
    out = chosen.out or ROOT / "benchmarks" / "results" / _name()
    out.write_text("\n".join(lines) + "\n", "utf-8")
    return 0


def _name() -> str:
    return time.strftime("usage-%Y-%m-%d.md")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
