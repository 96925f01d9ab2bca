"""What the checkpoint hooks cost: CPU and wall time of both hooks per tool call.

    python -m benchmarks.bench_checkpoints [FILES]

Makes a repository with so many files (2,000) and runs the hooks as Claude Code does, around
commands that change nothing, that change one file, and after an edit.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

from bygones.integrations import claude_code

SCRIPT = Path(claude_code.__file__).with_name("checkpoint.sh")
ROUNDS = 25


def run_hook(event: str, root: Path, call: str) -> tuple[float, float]:
    """Run a hook, and return its CPU and wall time in milliseconds."""
    session = "5e551000-0000-4000-8000-000000000001"
    fields = {
        "session_id": session,
        "transcript_path": str(root.parent / f".claude/projects/key/{session}.jsonl"),
        "cwd": str(root),
        "tool_name": "Bash",
        "tool_input": {"command": "pytest -q"},
        "tool_use_id": call,
    }
    if event == "post":
        fields["tool_response"] = {"stdout": "a line of output\n" * 200}
    raw = json.dumps(fields, separators=(",", ":")).encode()
    before, start = getrusage(RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(["/bin/sh", SCRIPT, event, sys.executable], input=raw, check=True)
    wall, after = time.perf_counter() - start, getrusage(RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu * 1000, wall * 1000


def python_start() -> float:
    """Return the CPU time of a Python that does nothing, in milliseconds."""
    times = []
    for _ in range(ROUNDS):
        before = getrusage(RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", "pass"], check=True)
        after = getrusage(RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        times.append(cpu * 1000)
    return statistics.median(times)


def measure(
    name: str, root: Path, edit: Callable[[int], None], command: Callable[[int], None]
) -> None:
    """Print the medians of both hooks around a command, after an edit."""
    cpu, wall = [], []
    for number in range(ROUNDS + 2):
        edit(number)
        time.sleep(0.01)
        pre = run_hook("pre", root, f"toolu_{name}{number}")
        time.sleep(0.01)
        command(number)
        post = run_hook("post", root, f"toolu_{name}{number}")
        if number > 1:  # the first ones look at everything
            cpu.append(pre[0] + post[0])
            wall.append(pre[1] + post[1])
    print(
        f"{name:32} CPU {statistics.median(cpu):5.1f} ms"
        f"   wall {statistics.median(wall):5.1f} ms"
    )


def main() -> None:
    """Run the benchmark."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "project")
        for number in range(count):
            path = root / f"d{number % 40}" / f"f{number}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("x = 1\n" * 100, "utf-8")
        git = ("git", "-c", "user.name=a", "-c", "user.email=a@b.c")
        for words in (("init", "-q"), ("add", "."), ("commit", "-qm", "x")):
            subprocess.run([*git, *words], cwd=root, check=True, env=os.environ)

        def nothing(_: int) -> None:
            pass

        def change(number: int) -> None:
            (root / "d1" / "f1.py").write_text(f"x = {number}\n", "utf-8")

        print(f"both hooks of a tool call, {count:,} files, median of {ROUNDS}")
        print(f"{'for comparison: python -c pass':32} CPU {python_start():5.1f} ms")
        measure("nothing changes", root, nothing, nothing)
        measure("the command changes a file", root, nothing, change)
        measure("an edit, then nothing changes", root, change, nothing)


if __name__ == "__main__":
    main()
