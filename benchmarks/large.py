"""Measure an ingest of extreme inputs: long, big and many.

``python -m benchmarks.large`` generates each input in a temporary folder, ingests it, runs
again with nothing changed, prints a row for each, and deletes the input: a file with one
line of 200 MB, a file of 4 GB, and 100,000 small sessions. The session of 4 GB is also
shown, exported in every format, and its index is built again; ``--big-bytes`` makes it
shorter.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.bench_parse import write_long_line
from benchmarks.contenders import OURS, Room, our_command
from benchmarks.inputs import session_path, write_session, write_small_sessions
from benchmarks.tree import Failed, offline

BIG_FILE = 4_000_000_000
MANY = 100_000


def long_line(home: Path) -> None:
    """Make a session whose only line has 200 MB."""
    write_long_line(session_path(home, 0))


def big_file(home: Path, size: int = BIG_FILE) -> None:
    """Make a session of 4 GB."""
    write_session(session_path(home, 0), size=size)


def many_sessions(home: Path) -> None:
    """Make 100,000 sessions of a few records."""
    write_small_sessions(home, MANY)


READS = {
    "show": our_command("show", "last"),
    **{
        f"export {form}": our_command(
            "export", "last", "--format", form, "-o", f"{{room}}/out.{form}"
        )
        for form in ("html", "markdown", "text", "json", "jsonl")
    },
    "export folder": our_command("export", "last", "-o", "{room}/out/"),
    "rebuild": OURS.rebuild or (),
}
"""What is done with the session of 4 GB."""


INPUTS: dict[str, Callable[[Path], None]] = {
    "long-line": long_line,
    "big-file": big_file,
    "many-sessions": many_sessions,
}


def measure(name: str, generate: Callable[[Path], None], scratch: Path) -> bool:
    """Generate an input, ingest it twice, and print the cost."""
    home = scratch / name
    session_path(home, 0).parent.mkdir(parents=True)
    generate(home)
    size = sum(path.stat().st_size for path in home.rglob("*.jsonl"))
    room = Room(OURS, scratch, offline())
    room.prepare(home)
    steps = {"first": OURS.command, "nothing changed": OURS.command}
    if name == "big-file":
        steps |= READS
    for step, command in steps.items():
        try:
            run = room.run(command)
        except Failed as failed:
            print(f"| {name} | {size / 1e6:.0f} | {step} failed: {failed} |")
            return False
        print(
            f"| {name} | {size / 1e6:.0f} | {step} | {run.used.seconds:.2f}"
            f" | {run.wall:.2f} | {run.used.peak / 1e6:.0f}"
            f" | {room.written() / 1e6:.0f} |",
            flush=True,
        )
    return True


def main(arguments: list[str]) -> int:
    """Measure all inputs, or those asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.large",
        description="Ingest extreme inputs: long, big and many.",
    )
    parser.add_argument("--only", action="append", choices=INPUTS, help="repeatable")
    parser.add_argument(
        "--scratch",
        type=Path,
        metavar="DIR",
        help="default: the system's temporary folder",
    )
    parser.add_argument("--big-bytes", type=int, default=BIG_FILE, metavar="N")
    options = parser.parse_args(arguments)
    inputs = INPUTS | {"big-file": partial(big_file, size=options.big_bytes)}
    print("| input | MB | run | CPU s | wall s | peak MB | wrote MB |")
    print("|---|---:|---|---:|---:|---:|---:|")
    is_whole = True
    for name in options.only or INPUTS:
        with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
            is_whole &= measure(name, inputs[name], Path(folder))
    return 0 if is_whole else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
