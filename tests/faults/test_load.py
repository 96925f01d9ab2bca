"""Readers and writers at once: no errors, and reading stays fast."""

from __future__ import annotations

import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import mean, quantiles

import pytest

from benchmarks.inputs import session_path, write_session
from bygones.ingest.run import ingest
from bygones.maintenance.verify import verify
from bygones.store.archive_dir import ArchiveDir, hash_tables
from bygones.store.schema import SESSION_TABLES, USAGE_TABLES
from tests.build import prompt, reply, session_id, thread
from tests.faults.loading import KINDS, Load, Memory, Read, open_server
from tests.faults.mutations import MUTATIONS
from tests.faults.sizes import is_usual, reached, sized
from tests.store.sandbox import Sandbox, differing_tables

SECONDS = sized(4, 90, 600)
MEGABYTES = sized(2, 400, 10_000)
READERS = 4
"""Readers at the command line, and as many in the browser."""
BUSY_SECONDS, PAUSE_SECONDS = sized(1, 8, 24), sized(1, 6, 8)
"""Seconds that writers run, and seconds that they are paused."""
MAX_SLOWDOWN = 2.0
"""How many times slower a read of any kind may be while others write."""
MAX_GROWTH = 1.25
"""How much larger an archive and its index may get with readers than without."""
SESSION_TABLE_NAMES = (
    *(table.name for table in (*SESSION_TABLES, *USAGE_TABLES)),
    "family",
)
"""Tables that do not depend on the order of ingestion."""
MAX_MEGABYTES = 250
"""Memory, without mapped files, that a long-running process may use."""

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="memory is looked up in /proc"
)


def prepare_homes(folder: Path) -> tuple[Sandbox, Path]:
    """Return a small archive, and a large home."""
    sandbox = Sandbox(folder)
    for number in range(1, 5):
        records = [prompt(f"words {number}"), reply("an answer in words")] * 20
        sandbox.home.session(session_id(number), thread(*records))
    sandbox.ingest()
    home_variable = os.environ.get("BYGONES_LOAD_HOME")
    if home_variable:
        return sandbox, Path(home_variable)
    large_home = folder / "much"
    session_path(large_home, 0).parent.mkdir(parents=True)
    for number in range(max(MEGABYTES // 20, 1)):
        size = min(MEGABYTES, 20) * 1_000_000
        write_session(session_path(large_home, number), size=size)
    return sandbox, large_home


def has_enough_reads(load: Load) -> object:
    """Whether everything was read at least twice, and something was written.

    In long runs, this must hold with and without writers.
    """
    counts = Counter(read.what for read in load.reads)
    is_read = len(counts) == KINDS and min(counts.values()) > 1
    is_compared = is_usual() or len(compare_times(load)) == KINDS
    return is_read and is_compared and load.pauses and load.writes


def compare_times(load: Load) -> dict[str, float]:
    """Return the slowdown of each kind of read while others write."""
    ratios = {}
    for kind in {read.what for read in load.reads}:
        busy, quiet = (load.reads_of(kind, paused=paused) for paused in (False, True))
        if min(len(busy), len(quiet)) > 1:
            ratios[kind] = percentile_95(busy) / percentile_95(quiet)
    return ratios


def too_slow(times: dict[str, float]) -> dict[str, float]:
    """Return the kinds of reads that take too long while others write."""
    return {kind: times for kind, times in times.items() if times > MAX_SLOWDOWN}


def percentile_95(reads: list[Read]) -> float:
    """Return the 95th percentile of the durations."""
    return quantiles([one.seconds for one in reads], n=20)[-1]


@pytest.mark.full
def test_many_read_while_some_write(tmp_path: Path) -> None:
    sandbox, large_home = prepare_homes(tmp_path)
    load = Load(sandbox.archive, sandbox.home.path)
    home = str(sandbox.home.path)
    with load.running(SECONDS, partial(has_enough_reads, load)):
        port, cookie = open_server(load.start("serve", "--no-browser", "--home", home))
        load.read_by_command(READERS)
        load.read_in_browser(READERS, port, cookie)
        load.start("watch", "--home", home)
        load.write(3, large_home)
        load.grow()
        load.pause_writers_regularly(BUSY_SECONDS, PAUSE_SECONDS)

    times = compare_times(load)
    assert is_usual() or len(times) == KINDS
    figures = {
        "reads during writes": len(load.reads),
        "ingests during reads": load.writes,
    }
    if times:
        slowest = max(times, key=times.__getitem__)
        usually = "p95 of reads during writes, % of p95 without"
        figures[f"{usually}: mean"] = percent(mean(times.values()))
        figures[f"{usually}: worst ({slowest})"] = percent(times[slowest])
    for name, samples in load.peaks.items():
        own = max(memory.own for memory in samples)
        figures[f"memory of {name}, peak MB"] = max(one.resident for one in samples)
        figures[f"memory of {name} without mapped files, peak MB"] = own
    print(figures, times, sep="\n")  # noqa: T201 (shown if it fails)

    assert load.faults == []
    sandbox.ingest(sandbox.home.path, large_home)
    sizes = compare_sizes(sandbox, sandbox.home.path, large_home)
    print(sizes)  # noqa: T201 (shown if it fails)
    for what, share in sizes.items():
        figures[f"size of {what}, % of one written without readers"] = percent(share)
    assert verify(sandbox.archive).is_intact
    if not has_large_home():
        assert differing_tables(sandbox) == []
    if not is_usual():
        assert max(sizes.values()) <= MAX_GROWTH
        assert is_steady(read_pages(sandbox, sized(1, 60, 120)))
        assert too_slow(times) == {}
        for name, samples in load.peaks.items():
            assert is_flat(samples), (name, [memory.own for memory in samples])
    for what, figure in figures.items():
        reached(what, figure)


def percent(share: float) -> int:
    return round(share * 100)


def compare_sizes(sandbox: Sandbox, *homes: Path) -> dict[str, float]:
    """Ingest the same without readers; return how much larger the archive became.

    Both contain the same sessions.
    """
    idle = sandbox.folder / "idle"
    ingest(idle, homes)
    with sandbox.open_dir() as loaded, ArchiveDir(idle) as quiet:
        loaded_hashes, idle_hashes = hash_tables(loaded), hash_tables(quiet)
    compared_tables = loaded_hashes.keys() & SESSION_TABLE_NAMES
    assert "session" in compared_tables
    assert [
        name for name in compared_tables if loaded_hashes[name] != idle_hashes[name]
    ] == []
    ratios = {
        what: size(sandbox.archive / what) / size(idle / what)
        for what in ("archive.db", "index")
    }
    shutil.rmtree(idle)
    return ratios


def size(path: Path) -> int:
    files = [path] if path.is_file() else path.rglob("*")
    return sum(file.stat().st_size for file in files if file.is_file())


def has_large_home() -> bool:
    """Whether the home is given by the environment, and large."""
    return "BYGONES_LOAD_HOME" in os.environ


def is_flat(samples: list[Memory]) -> bool:
    """Whether memory grows at most with the archive, and stays below the limit.

    The last quarter must be about the same as before. A watch may have waited for a
    long ingestion first, and used little memory.
    """
    own = [memory.own for memory in samples]
    last_quarter = len(own) * 3 // 4
    is_level = max(own[last_quarter:]) < 1.2 * max(own[:last_quarter]) + 30
    return is_level and max(own) <= MAX_MEGABYTES


def read_pages(
    sandbox: Sandbox,
    seconds: float,
    enough: Callable[[list[Memory]], object] = bool,
    mutation: str = "",
) -> list[Memory]:
    """Only read pages for a while; return samples of the server's memory."""
    load = Load(sandbox.archive, sandbox.home.path, mutation)
    samples = load.peaks.setdefault("serve", [])
    with load.running(seconds, lambda: enough(samples)):
        port, cookie = open_server(load.start("serve", "--no-browser", "--no-ingest"))
        load.read_in_browser(READERS, port, cookie)
    assert load.faults == []
    return samples


def is_steady(samples: list[Memory]) -> bool:
    """Whether the memory of a server stops growing once it is warm."""
    own = [memory.own for memory in samples]
    print(own)  # noqa: T201 (shown if it fails)
    last_quarter = len(own) * 3 // 4
    return max(own[last_quarter:]) <= max(own[last_quarter // 3 : last_quarter]) + 5


@pytest.mark.full
def test_a_page_that_holds_what_it_was_asked_for_is_caught(tmp_path: Path) -> None:
    sandbox, _ = prepare_homes(tmp_path)

    def is_caught(samples: list[Memory]) -> bool:
        return len(samples) > 8 and not is_steady(samples) and not is_flat(samples)

    assert is_caught(read_pages(sandbox, 1, is_caught, "leak_memory"))


@pytest.mark.full
def test_readers_that_wait_for_those_who_write_are_caught(tmp_path: Path) -> None:
    sandbox, _ = prepare_homes(tmp_path)
    load = Load(sandbox.archive, sandbox.home.path, mutation="wait_for_writers")
    caught: dict[str, float] = {}
    with load.running(
        0, lambda: caught or caught.update(too_slow(compare_times(load)))
    ):
        port, cookie = open_server(load.start("serve", "--no-browser", "--no-ingest"))
        load.read_in_browser(READERS, port, cookie)
        load.write(2, pause=0)
        load.grow()
        load.pause_writers_regularly(12, 4)

    assert load.faults == []
    assert caught


@pytest.mark.full
def test_writers_that_do_not_wait_for_each_other_are_caught(tmp_path: Path) -> None:
    sandbox, _ = prepare_homes(tmp_path)
    load = Load(sandbox.archive, sandbox.home.path, mutation="skip_writer_lock")
    with load.running(0, lambda: load.faults):
        load.write(5, pause=0)
        load.grow()

    assert load.faults


@pytest.mark.full
def test_an_archive_that_only_adds_pieces_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = Sandbox(tmp_path)
    MUTATIONS["never_merge_chunks"](monkeypatch.setattr)
    for number in range(60):
        records = thread(*[prompt(f"{at} words " * 99) for at in range(number + 1)])
        sandbox.home.session(session_id(1), records)
        sandbox.ingest()
    monkeypatch.undo()

    assert compare_sizes(sandbox, sandbox.home.path)["archive.db"] > MAX_GROWTH
