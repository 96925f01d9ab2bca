"""Measure how long commands take to start, as a multiple of bare Python.

``python -m benchmarks.bench_cli HOME`` ingests the home into an archive in a temporary
folder, or into ``--archive``, and then runs short commands that change nothing.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from benchmarks.run import Arm, measure

TIMES = 15
_START = "from bygones.cli.main import entry_point; entry_point()"
LIMITS = {"version": 2.0, "list": 8.0, "search": 8.0}


def main(arguments: Sequence[str]) -> int:
    """Print the table; return 1 if an aim is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("home", type=Path)
    parser.add_argument("--archive", type=Path)
    parser.add_argument("--times", type=int, default=TIMES)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        # A program that was installed is compiled once; so must this one be.
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = str(Path(folder) / "compiled")
        os.environ["XDG_STATE_HOME"] = str(Path(folder) / "state")
        archive = options.archive or Path(folder) / "archive"
        arms = arms_of(options.home, archive)
        measure(
            [
                command(
                    "ingest", "ingest", "-q", *archive_options(options.home, archive)
                )
            ],
            times=1,
        )
        measure(arms, times=1)
        rounds = [measure(arms, times=1) for _ in range(options.times)]
    missed = False
    print("| command | CPU ms | x bare Python | aim |")
    print("|---|---:|---:|---:|")
    for arm in arms:
        spent = median(figures[arm.name].seconds for figures in rounds)
        # Each is compared with the bare Python of its own round: other load on the
        # machine affects both.
        times = median(
            figures[arm.name].seconds / figures["bare"].seconds for figures in rounds
        )
        limit = LIMITS.get(arm.name)
        missed = missed or (limit is not None and times > limit)
        aim = f"{limit:.0f}" if limit is not None else ""
        print(f"| {arm.name} | {spent * 1000:.0f} | {times:.1f} | {aim} |")
    return int(missed)


def arms_of(home: Path, archive: Path) -> list[Arm]:
    """Return the commands that are compared."""
    options = archive_options(home, archive)
    return [
        Arm("bare", [sys.executable, "-c", "pass"]),
        command("version", "--version"),
        command("help", "--help"),
        command("list", "list", "-n", "20", *options),
        command("list --no-ingest", "list", "-n", "20", "--no-ingest", *options),
        command("search", "search", "-n", "10", *options, "timeout"),
        command("show", "show", "last", *options),
        command("tree", "tree", "last", *options),
        command("prompts", "prompts", "-n", "20", *options),
        command("ingest, nothing new", "ingest", "-q", *options),
    ]


def command(name: str, *arguments: str) -> Arm:
    """Return a command of Bygones, started like the installed one."""
    return Arm(name, [sys.executable, "-c", _START, *arguments])


def archive_options(home: Path, archive: Path) -> tuple[str, ...]:
    """Return the options that name the home and the archive."""
    return "--home", str(home), "--archive", str(archive)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
