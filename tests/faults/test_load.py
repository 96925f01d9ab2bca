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
from tests.faults.loading import KINDS, Load, Memory, Read, opened
from tests.faults.mutations import MUTATIONS
from tests.faults.sizes import is_usual, reached, sized
from tests.store.sandbox import Sandbox, differing_tables

SECONDS = sized(4, 90, 600)
MEGABYTES = sized(2, 400, 10_000)
READERS = 4
"""Who read at the command line, and as many in the browser."""
EVERY, PAUSE = sized(1, 8, 24), sized(1, 6, 8)
"""Seconds that all write, and seconds that those who write are held."""
SLOWER = 2.0
"""How many times as long as without writers a read of any kind may take."""
MOST_LARGER = 1.25
"""How much larger an archive and its index may get than without readers."""
OF_SESSIONS = (
    *(table.name for table in (*SESSION_TABLES, *USAGE_TABLES)),
    "family",
)
"""Tables that do not tell in which order sources came."""
MOST_MEGABYTES = 250
"""Memory of its own that a long-running program may have."""

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="memory is looked up in /proc"
)


def filled_home(folder: Path) -> tuple[Sandbox, Path]:
    """Return an archive with a little in it, and a home with much."""
    sandbox = Sandbox(folder)
    for number in range(1, 5):
        told = [prompt(f"words {number}"), reply("an answer in words")] * 20
        sandbox.home.session(session_id(number), thread(*told))
    sandbox.ingest()
    given = os.environ.get("BYGONES_LOAD_HOME")
    if given:
        return sandbox, Path(given)
    much = folder / "much"
    session_path(much, 0).parent.mkdir(parents=True)
    for number in range(max(MEGABYTES // 20, 1)):
        size = min(MEGABYTES, 20) * 1_000_000
        write_session(session_path(much, number), size=size)
    return sandbox, much


def is_enough(load: Load) -> object:
    """Whether everything was read twice at least, and something written.

    At length that is so with and without writers.
    """
    seen = Counter(read.what for read in load.reads)
    is_read = len(seen) == KINDS and min(seen.values()) > 1
    is_told = is_usual() or len(compared(load)) == KINDS
    return is_read and is_told and load.pauses and load.writes


def compared(load: Load) -> dict[str, float]:
    """Return how many times as long each kind of read takes while others write."""
    found = {}
    for kind in {read.what for read in load.reads}:
        busy, quiet = (load.some(kind, paused=paused) for paused in (False, True))
        if min(len(busy), len(quiet)) > 1:
            found[kind] = late(busy) / late(quiet)
    return found


def too_slow(times: dict[str, float]) -> dict[str, float]:
    """Return the kinds of reads that take too long while others write."""
    return {kind: times for kind, times in times.items() if times > SLOWER}


def late(reads: list[Read]) -> float:
    """Return the time within which 95 of 100 reads are done."""
    return quantiles([one.seconds for one in reads], n=20)[-1]


@pytest.mark.full
def test_many_read_while_some_write(tmp_path: Path) -> None:
    sandbox, much = filled_home(tmp_path)
    load = Load(sandbox.archive, sandbox.home.path)
    home = str(sandbox.home.path)
    with load.going_on(SECONDS, partial(is_enough, load)):
        port, cookie = opened(load.start("serve", "--no-browser", "--home", home))
        load.read_by_command(READERS)
        load.read_in_browser(READERS, port, cookie)
        load.start("watch", "--home", home)
        load.write(3, much)
        load.grow()
        load.hold_now_and_then(EVERY, PAUSE)

    times = compared(load)
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
    for name, seen in load.peaks.items():
        own = max(memory.own for memory in seen)
        figures[f"memory of {name}, peak MB"] = max(one.resident for one in seen)
        figures[f"memory of {name} without mapped files, peak MB"] = own
    print(figures, times, sep="\n")  # noqa: T201 (shown if it fails)

    assert load.faults == []
    sandbox.ingest(sandbox.home.path, much)
    sizes = larger(sandbox, sandbox.home.path, much)
    print(sizes)  # noqa: T201 (shown if it fails)
    for what, share in sizes.items():
        figures[f"size of {what}, % of one written without readers"] = percent(share)
    assert verify(sandbox.archive).is_intact
    if not given_much():
        assert differing_tables(sandbox) == []
    if not is_usual():
        assert max(sizes.values()) <= MOST_LARGER
        assert is_steady(read_on(sandbox, sized(1, 60, 120)))
        assert too_slow(times) == {}
        for name, seen in load.peaks.items():
            assert is_flat(seen), (name, [memory.own for memory in seen])
    for what, figure in figures.items():
        reached(what, figure)


def percent(share: float) -> int:
    return round(share * 100)


def larger(sandbox: Sandbox, *homes: Path) -> dict[str, float]:
    """Ingest the same without readers; return how much larger the archive became.

    Both contain the same sessions.
    """
    idle = sandbox.folder / "idle"
    ingest(idle, homes)
    with sandbox.open_dir() as loaded, ArchiveDir(idle) as quiet:
        mine, theirs = hash_tables(loaded), hash_tables(quiet)
    compared_tables = mine.keys() & OF_SESSIONS
    assert "session" in compared_tables
    assert [name for name in compared_tables if mine[name] != theirs[name]] == []
    found = {
        what: size(sandbox.archive / what) / size(idle / what)
        for what in ("archive.db", "index")
    }
    shutil.rmtree(idle)
    return found


def size(place: Path) -> int:
    files = [place] if place.is_file() else place.rglob("*")
    return sum(path.stat().st_size for path in files if path.is_file())


def given_much() -> bool:
    """Whether the home is one that takes long to look through."""
    return "BYGONES_LOAD_HOME" in os.environ


def is_flat(seen: list[Memory]) -> bool:
    """Whether memory grows with the archive at most, and not beyond what is usual.

    In the end it is about what it was. A watch may have waited for a long ingestion
    first, with nothing in memory.
    """
    own = [memory.own for memory in seen]
    late = len(own) * 3 // 4
    is_level = max(own[late:]) < 1.2 * max(own[:late]) + 30
    return is_level and max(own) <= MOST_MEGABYTES


def read_on(
    sandbox: Sandbox,
    seconds: float,
    enough: Callable[[list[Memory]], object] = bool,
    mutation: str = "",
) -> list[Memory]:
    """Have a page be only read for a while; return what it had in memory."""
    load = Load(sandbox.archive, sandbox.home.path, mutation)
    seen = load.peaks.setdefault("serve", [])
    with load.going_on(seconds, lambda: enough(seen)):
        port, cookie = opened(load.start("serve", "--no-browser", "--no-ingest"))
        load.read_in_browser(READERS, port, cookie)
    assert load.faults == []
    return seen


def is_steady(seen: list[Memory]) -> bool:
    """Whether a page that is only read stops needing more once it is warm."""
    own = [memory.own for memory in seen]
    print(own)  # noqa: T201 (shown if it fails)
    late = len(own) * 3 // 4
    return max(own[late:]) <= max(own[late // 3 : late]) + 5


@pytest.mark.full
def test_a_page_that_holds_what_it_was_asked_for_is_caught(tmp_path: Path) -> None:
    sandbox, _ = filled_home(tmp_path)

    def is_caught(seen: list[Memory]) -> bool:
        return len(seen) > 8 and not is_steady(seen) and not is_flat(seen)

    assert is_caught(read_on(sandbox, 1, is_caught, "leak_memory"))


@pytest.mark.full
def test_readers_that_wait_for_those_who_write_are_caught(tmp_path: Path) -> None:
    sandbox, _ = filled_home(tmp_path)
    load = Load(sandbox.archive, sandbox.home.path, mutation="wait_for_writers")
    caught: dict[str, float] = {}
    with load.going_on(0, lambda: caught or caught.update(too_slow(compared(load)))):
        port, cookie = opened(load.start("serve", "--no-browser", "--no-ingest"))
        load.read_in_browser(READERS, port, cookie)
        load.write(2, pause=0)
        load.grow()
        load.hold_now_and_then(12, 4)

    assert load.faults == []
    assert caught


@pytest.mark.full
def test_writers_that_do_not_wait_for_each_other_are_caught(tmp_path: Path) -> None:
    sandbox, _ = filled_home(tmp_path)
    load = Load(sandbox.archive, sandbox.home.path, mutation="skip_writer_lock")
    with load.going_on(0, lambda: load.faults):
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

    assert larger(sandbox, sandbox.home.path)["archive.db"] > MOST_LARGER
