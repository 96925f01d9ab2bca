"""Very long lines and very many sessions: stored, and fast.

The cost of an ingestion is measured in a process of its own, which may have 256 files
open. In normal test runs the sizes are small, and only the harness itself is tested.
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
MAX_MEMORY_FACTOR = sized(6, 4, 4)
"""Memory that an ingestion may use, as a multiple of the line's length: 4.3 times at 32 MB.
Shorter lines are not measured, as the rest of the process is then most of the figure."""
SESSIONS = sized(200, 20_000, 1_000_000)
FEW = 25
"""Number of sessions; twice and four times as many are compared with it."""
PROGRAM = """
import json, resource, subprocess, sys, threading
from pathlib import Path
most, ended, others = [0], threading.Event(), ["self"]
class Tracked(subprocess.Popen):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        others.append(str(self.pid))
subprocess.Popen = Tracked
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
"""Measures memory including child processes. The peak that the system reports is not used:
it includes the memory of the parent process."""

COUNTING = """
import json, sys
from itertools import islice
from pathlib import Path
from bygones.archive import Archive
from bygones.ingest.run import ingest
from tests.faults.mutations import MUTATIONS, patch
folder, home = Path(sys.argv[2]), Path(sys.argv[3])
ingest(folder, [home])
one = next(home.rglob("*.jsonl"))  # so that the others must be searched
one.with_name("00000000-0000-4000-8000-00000000000f.jsonl").write_bytes(b"{}\\n")
if sys.argv[1]:
    MUTATIONS[sys.argv[1]](patch)
lines, opened = [0], [0]
def step(_frame, event, _):
    lines[0] += event == "line"
    return step
def count_opens(event, args):
    opened[0] += event == "open" and str(args[0]).startswith(str(home))
def counted(task):
    before = lines[0]
    sys.settrace(step)
    task()
    sys.settrace(None)
    return lines[0] - before
sys.addaudithook(count_opens)
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
    """The effort of another ingestion, in executed lines of Python."""

    look: int
    page: int
    """To list the first page of sessions."""
    opened: int
    """How many files of the home were opened."""


class Cost(NamedTuple):
    """The cost of an ingestion: CPU seconds and bytes of memory."""

    changed: int
    cpu: float
    memory: int


def run_program(program: str, sandbox: Sandbox, mutation: str) -> list[float]:
    """Run a program on an archive and a home; return the figures it prints."""
    arguments = [mutation, str(sandbox.archive), str(sandbox.home.path)]
    process = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, check=False
    )
    assert process.returncode == 0, process.stderr[-2000:]
    figures: list[float] = json.loads(process.stdout)
    return figures


def measure_cost(sandbox: Sandbox, mutation: str = "") -> Cost:
    """Ingest a home in a process of its own."""
    changed, cpu, memory = run_program(PROGRAM, sandbox, mutation)
    return Cost(int(changed), cpu, int(memory))


def measure_effort(folder: Path, sessions: int, mutation: str = "") -> Effort:
    """Return the effort to ingest unchanged sessions again, and to list some."""
    sandbox = Sandbox(folder)
    write_small_sessions(sandbox.home.path, sessions)
    return Effort(*map(int, run_program(COUNTING, sandbox, mutation)))


def measure_efforts(folder: Path, mutation: str = "") -> list[Effort]:
    """Return the efforts for some sessions, twice and four times as many."""
    return [
        measure_effort(folder / str(n), n, mutation) for n in (FEW, 2 * FEW, 4 * FEW)
    ]


def find_superlinear(few: Effort, more: Effort, most: Effort) -> list[str]:
    """Return what grows faster than the number of sessions."""
    problems = ["look"] * (most.look - more.look > 2.4 * (more.look - few.look))
    problems += ["page"] * (most.page > 1.2 * few.page)
    return problems + ["opened"] * (most.opened > few.opened)


def create_long_line(folder: Path, size: int) -> tuple[Sandbox, Path]:
    """Return a home with a very long pasted prompt."""
    sandbox = Sandbox(folder)
    pasted = prompt("beginning " + "words that are pasted " * (size // 22) + " ending")
    records = thread(prompt("before it"), pasted, reply("after it"))
    return sandbox, sandbox.home.session(session_id(1), records)


def measure_baseline(folder: Path, mutation: str = "") -> Cost:
    """Return the cost of a very small ingestion."""
    sandbox = Sandbox(folder)
    sandbox.home.session(session_id(1), thread(prompt("little"), reply("less")))
    return measure_cost(sandbox, mutation)


def count_matches(sandbox: Sandbox, word: str) -> int:
    """Return the number of sessions that match a word."""
    with Archive.open(sandbox.archive) as archive:
        return len(archive.search(Query(Words((word,))), limit=5).sessions)


@pytest.mark.full
def test_a_line_of_any_length_is_kept_and_found(tmp_path: Path) -> None:
    baseline = measure_baseline(tmp_path / "usual")
    sandbox, path = create_long_line(tmp_path / "long", LINE)

    cost = measure_cost(sandbox)

    assert sandbox.generations(path) == [path.read_bytes()]
    assert count_matches(sandbox, "beginning") == count_matches(sandbox, "after") == 1
    times = (cost.memory - baseline.memory) / path.stat().st_size
    assert times < MAX_MEMORY_FACTOR
    if not is_usual():
        assert cost.cpu - baseline.cpu < 30
    reached("longest line, MB", LINE // 1_000_000)
    reached("longest line, memory in % of its length", round(100 * times))


@pytest.mark.full
def test_a_program_that_holds_a_line_many_times_is_caught(tmp_path: Path) -> None:
    baseline = measure_baseline(tmp_path / "usual", "keep_compressed_data")
    sandbox, path = create_long_line(tmp_path / "long", 16_000_000)

    cost = measure_cost(sandbox, "keep_compressed_data")

    assert cost.memory - baseline.memory > MAX_MEMORY_FACTOR * path.stat().st_size


def test_many_sessions_are_looked_at_quickly(tmp_path: Path) -> None:
    sandbox = Sandbox(tmp_path)
    write_small_sessions(sandbox.home.path, SESSIONS)

    first, again = measure_cost(sandbox), measure_cost(sandbox)

    assert (first.changed, again.changed) == (SESSIONS, 0)
    with Archive.open(sandbox.archive) as archive:
        assert sum(1 for _ in archive.sessions()) == SESSIONS
        times = [_time_listing(archive) for _ in range(20)]
    percentile_95 = quantiles(times, n=20)[-1]
    if not is_usual():
        assert again.cpu < 15
        assert again.memory < 500_000_000
        # The files that a walk finds are in memory until they are read.
        assert first.memory < 300_000_000 + 1_200 * SESSIONS
        assert percentile_95 < 0.2
    reached("sessions, number", SESSIONS)
    reached("sessions, ingest without changes, CPU ms", round(again.cpu * 1000))
    reached("sessions, first ingest, peak MB", first.memory // 1_000_000)
    reached("sessions, one page of the list, p95 CPU ms", round(percentile_95 * 1000))


def _time_listing(archive: Archive) -> float:
    started = time.process_time()
    for number, _ in enumerate(archive.sessions()):
        if number == 50:
            break
    return time.process_time() - started


@pytest.mark.full
def test_more_sessions_take_no_more_each(tmp_path: Path) -> None:
    few, more, most = measure_efforts(tmp_path)

    assert find_superlinear(few, more, most) == []
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
    assert what in find_superlinear(*measure_efforts(tmp_path, mutation))
