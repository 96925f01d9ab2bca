"""Compare exports to HTML with claude-code-log: CPU time, size, memory.

``python -m benchmarks.bench_export --peer /path/to/claude-code-log HOME…`` runs each
program on each home as a child process and prints ratios. Wall time is not measured.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROUNDS = 3
"""Of which the cheapest counts: a machine with others on it is never faster.

All arms take part in each, so that none has the quieter machine.
"""


class Run(NamedTuple):
    """What one arm took, and what it wrote."""

    cpu: float
    peak_mb: float
    written_mb: float


def main() -> None:
    """Run all arms on all homes, and print what they took and how they compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("homes", nargs="+", type=Path)
    parser.add_argument("--peer", type=Path, required=True)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    results = {}
    for home in asked.homes:
        runs = best(
            home,
            {
                "bygones": ours(),
                "bygones --no-redact": ours("--no-redact"),
                "claude-code-log": peers(asked.peer),
            },
        )
        results[home.name] = {name: run._asdict() for name, run in runs.items()}
        peer = runs["claude-code-log"]
        for name, run in runs.items():
            print(
                f"{home.name:12} {name:22} {run.cpu:7.2f} s CPU "
                f"{run.peak_mb:7.0f} MB peak {run.written_mb:7.1f} MB written | "
                f"{peer.cpu / run.cpu:5.2f} x faster, "
                f"{run.peak_mb / peer.peak_mb:5.2f} memory, "
                f"{run.written_mb / peer.written_mb:5.2f} bytes"
            )
    if asked.json is not None:
        asked.json.write_text(json.dumps(results, indent=2) + "\n", "utf-8")


def ours(*words: str) -> list[str]:
    """Return the words that export a home with this program; a blank is the folder."""
    return [
        *(sys.executable, "-m", "bygones", "export", "--from", "{home}"),
        *("--to", "{out}", "--quiet", *words),
    ]


def peers(program: Path) -> list[str]:
    """Return the words that export a home with claude-code-log, as it does alone."""
    return [str(program), "{home}/projects", "--all-projects", "-o", "{out}"]


def best(home: Path, arms: dict[str, list[str]]) -> dict[str, Run]:
    """Return the cheapest of some runs of each arm, each into a new folder."""
    rounds = [
        {name: once(home, words) for name, words in arms.items()} for _ in range(ROUNDS)
    ]
    return {
        name: min((runs[name] for runs in rounds), key=lambda run: run.cpu)
        for name in arms
    }


def once(home: Path, words: list[str]) -> Run:
    """Run a program on a copy of a home: the peer keeps a cache beside its input."""
    with tempfile.TemporaryDirectory() as folder:
        copy, out = Path(folder) / "home", Path(folder) / "out"
        shutil.copytree(home, copy)
        filled = [word.format(home=copy, out=out) for word in words]
        child = subprocess.Popen(
            filled,
            env={**_compiling(), "HOME": folder},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        assert child.returncode == 0, filled
        size = sum(path.stat().st_size for path in out.rglob("*.html"))
        return Run(used.ru_utime + used.ru_stime, used.ru_maxrss / 1e3, size / 1e6)


def _compiling() -> dict[str, str]:
    """Return an environment in which modules are kept compiled, as installed ones are.

    The peer is installed, and has its own already; ours are compiled in the first
    round.
    """
    kept = {**os.environ, "PYTHONPYCACHEPREFIX": str(_COMPILED)}
    kept.pop("PYTHONDONTWRITEBYTECODE", None)
    return kept


_COMPILED = Path(tempfile.gettempdir()) / "bygones-bench-compiled"


if __name__ == "__main__":
    main()
