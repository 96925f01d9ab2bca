"""A line longer than anybody writes, more sessions than anybody has: kept, and quick.

What an ingestion takes is measured in a program of its own, which may have 256 files
open. With every test run the sizes are small, and only the harness itself is tried.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from statistics import quantiles
from typing import NamedTuple

import pytest

from benchmarks.inputs import write_small_sessions
from bygones.archive import Archive
from bygones.model.query import Query, Words
from tests.build import prompt, reply, session_id, thread
from tests.faults.sizes import is_usual, reached, sized
from tests.store.sandbox import Sandbox

LINE = sized(32, 200, 200) * 1_000_000
MOST = sized(6, 4, 4)
"""How many times a line's length an ingestion may hold in memory: 4.3 times at 32 MB.
Shorter lines are not measured, as the rest of the process is then most of the figure."""
SESSIONS = sized(200, 20_000, 1_000_000)
FEW = 25
"""Sessions, with which twice and four times as many are compared."""
PROGRAM = """
import json, resource, subprocess, sys, threading
from pathlib import Path
most, ended, others = [0], threading.Event(), ["self"]
class Noted(subprocess.Popen):
    def __init__(self, *words, **more):
        super().__init__(*words, **more)
        others.append(str(self.pid))
subprocess.Popen = Noted
from bygones.ingest.run import ingest
from tests.faults.mutations import MUTATIONS, patch
def resident(status):
    return int(status.read_text().split()[1]) * resource.getpagesize()
def look():
    while not ended.wait(0.01):
        found = [Path("/proc", pid, "statm") for pid in others]
        most[0] = max(most[0], sum(resident(one) for one in found if one.exists()))
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
if sys.argv[1]:
    MUTATIONS[sys.argv[1]](patch)
looking = threading.Thread(target=look)
looking.start()
report = ingest(Path(sys.argv[2]), [Path(sys.argv[3])])
ended.set()
looking.join()
spent = [resource.getrusage(resource.RUSAGE_SELF)]
spent.append(resource.getrusage(resource.RUSAGE_CHILDREN))
cpu = sum(one.ru_utime + one.ru_stime for one in spent)
print(json.dumps([report.changed, cpu, most[0]]))
"""
"""Memory is looked at, with that of helping programs: what the system remembers of a
program includes what the one that started it had."""

COUNTING = """
import json, sys
from itertools import islice
from pathlib import Path
from bygones.archive import Archive
from bygones.ingest.run import ingest
from tests.faults.mutations import MUTATIONS, patch
folder, home = Path(sys.argv[2]), Path(sys.argv[3])
ingest(folder, [home])
one = next(home.rglob("*.jsonl"))  # so that the others must be looked for
one.with_name("00000000-0000-4000-8000-00000000000f.jsonl").write_bytes(b"{}\\n")
if sys.argv[1]:
    MUTATIONS[sys.argv[1]](patch)
lines, opened = [0], [0]
def step(_frame, event, _):
    lines[0] += event == "line"
    return step
def hear(event, words):
    opened[0] += event == "open" and str(words[0]).startswith(str(home))
def counted(task):
    before = lines[0]
    sys.settrace(step)
    task()
    sys.settrace(None)
    return lines[0] - before
sys.addaudithook(hear)
look = counted(lambda: ingest(folder, [home]))
with Archive.open(folder) as archive:
    page = counted(lambda: list(islice(archive.sessions(), 20)))
print(json.dumps([look, page, opened[0]]))
"""
"""Counts executed lines of Python, because time depends on the machine."""

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="memory is counted as Linux counts it"
)


class Effort(NamedTuple):
    """What it takes to look at sessions again: lines of Python that are run."""

    look: int
    page: int
    """To list the first of them."""
    opened: int
    """How many files of the home were opened."""


class Cost(NamedTuple):
    """What an ingestion took: CPU seconds and bytes of memory."""

    changed: int
    cpu: float
    memory: int


def told(program: str, sandbox: Sandbox, mutation: str) -> list[float]:
    """Return what a program says of taking a home in."""
    words = [mutation, str(sandbox.archive), str(sandbox.home.path)]
    done = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: list[float] = json.loads(done.stdout)
    return found


def cost(sandbox: Sandbox, mutation: str = "") -> Cost:
    """Take a home in, in a program of its own."""
    changed, cpu, memory = told(PROGRAM, sandbox, mutation)
    return Cost(int(changed), cpu, int(memory))


def effort(folder: Path, sessions: int, mutation: str = "") -> Effort:
    """Return what it takes to look at so many sessions once more, and to list some."""
    sandbox = Sandbox(folder)
    write_small_sessions(sandbox.home.path, sessions)
    return Effort(*map(int, told(COUNTING, sandbox, mutation)))


def efforts(folder: Path, mutation: str = "") -> list[Effort]:
    """Return what it takes of some sessions, of twice and of four times as many."""
    return [effort(folder / str(n), n, mutation) for n in (FEW, 2 * FEW, 4 * FEW)]


def outgrown(few: Effort, more: Effort, most: Effort) -> list[str]:
    """Return what gets more for each session the more of them there are."""
    found = ["look"] * (most.look - more.look > 2.4 * (more.look - few.look))
    found += ["page"] * (most.page > 1.2 * few.page)
    return found + ["opened"] * (most.opened > few.opened)


def with_a_long_line(folder: Path, size: int) -> tuple[Sandbox, Path]:
    """Return a home with a very long pasted prompt."""
    sandbox = Sandbox(folder)
    pasted = prompt("beginning " + "words that are pasted " * (size // 22) + " ending")
    records = thread(prompt("before it"), pasted, reply("after it"))
    return sandbox, sandbox.home.session(session_id(1), records)


def usual_cost(folder: Path, mutation: str = "") -> Cost:
    """Return what an ingestion takes that has next to nothing to do."""
    sandbox = Sandbox(folder)
    sandbox.home.session(session_id(1), thread(prompt("little"), reply("less")))
    return cost(sandbox, mutation)


def found(sandbox: Sandbox, word: str) -> int:
    """Return how many sessions a word finds."""
    with Archive.open(sandbox.archive) as archive:
        return len(archive.search(Query(Words((word,))), limit=5).sessions)


@pytest.mark.full
def test_a_line_of_any_length_is_kept_and_found(tmp_path: Path) -> None:
    least = usual_cost(tmp_path / "usual")
    sandbox, path = with_a_long_line(tmp_path / "long", LINE)

    taken = cost(sandbox)

    assert sandbox.generations(path) == [path.read_bytes()]
    assert found(sandbox, "beginning") == found(sandbox, "after") == 1
    times = (taken.memory - least.memory) / path.stat().st_size
    assert times < MOST
    if not is_usual():
        assert taken.cpu - least.cpu < 30
    reached("longest line, MB", LINE // 1_000_000)
    reached("longest line, memory in % of its length", round(100 * times))


@pytest.mark.full
def test_a_program_that_holds_a_line_many_times_is_caught(tmp_path: Path) -> None:
    least = usual_cost(tmp_path / "usual", "keep_compressed_data")
    sandbox, path = with_a_long_line(tmp_path / "long", 16_000_000)

    taken = cost(sandbox, "keep_compressed_data")

    assert taken.memory - least.memory > MOST * path.stat().st_size


def test_many_sessions_are_looked_at_quickly(tmp_path: Path) -> None:
    sandbox = Sandbox(tmp_path)
    write_small_sessions(sandbox.home.path, SESSIONS)

    first, again = cost(sandbox), cost(sandbox)

    assert (first.changed, again.changed) == (SESSIONS, 0)
    with Archive.open(sandbox.archive) as archive:
        assert sum(1 for _ in archive.sessions()) == SESSIONS
        times = [_listing(archive) for _ in range(20)]
    late = quantiles(times, n=20)[-1]
    if not is_usual():
        assert again.cpu < 15
        assert again.memory < 500_000_000
        # What a walk finds is in memory until it is read.
        assert first.memory < 300_000_000 + 1_200 * SESSIONS
        assert late < 0.2
    reached("sessions, number", SESSIONS)
    reached("sessions, ingest without changes, CPU ms", round(again.cpu * 1000))
    reached("sessions, first ingest, peak MB", first.memory // 1_000_000)
    reached("sessions, one page of the list, p95 CPU ms", round(late * 1000))


def _listing(archive: Archive) -> float:
    began = time.process_time()
    for number, _ in enumerate(archive.sessions()):
        if number == 50:
            break
    return time.process_time() - began


@pytest.mark.full
def test_more_sessions_take_no_more_each(tmp_path: Path) -> None:
    few, more, most = efforts(tmp_path)

    assert outgrown(few, more, most) == []
    each = round((most.look - more.look) / (2 * FEW))
    reached("lines of Python run per unchanged session", each)


@pytest.mark.parametrize(
    ("mutation", "what"),
    [
        ("scan_all_sources", "look"),
        ("reread_all_files", "opened"),
        ("list_all_sessions", "page"),
    ],
)
@pytest.mark.full
def test_an_effort_that_outgrows_the_sessions_is_caught(
    mutation: str, what: str, tmp_path: Path
) -> None:
    assert what in outgrown(*efforts(tmp_path, mutation))
