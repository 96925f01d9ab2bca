"""An ingestion that is killed loses nothing, and brings nothing twice.

What must be there is told by an oracle that shares no code with the product: it reads
the files with ``json`` and the databases with the standard library's SQLite.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from itertools import count
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from tests.build import Home, jsonl, prompt, reply, session_id, summary, thread
from tests.faults.crashing import (
    add_step,
    context,
    count_points,
    purge_first,
    start,
)
from tests.faults.sizes import reached, seeded, sized
from tests.faults.traces import traces
from tests.store.keeping import Keeping, unlike_rebuilt

KILLS = sized(80, 1_040, 20_000)
"""How often a deed dies of being killed at a random moment of its own."""
ROUNDS = 8
LOOKS = sized(10, 100, 100_000)
"""At how many commit points of a deed it is killed, spread over all of them."""


def expected(home: Path) -> Counter[tuple[str, int, int]]:
    """Return every record with an id: the file, where it stands, and how long it is."""
    found: Counter[tuple[str, int, int]] = Counter()
    for path in home.rglob("*.jsonl"):
        offset = 0
        for line in path.read_bytes().split(b"\n")[:-1]:
            with suppress(ValueError):
                if "uuid" in json.loads(line):
                    found[str(path), offset, len(line)] += 1
            offset += len(line) + 1
    return found


def indexed(keeping: Keeping) -> Counter[tuple[str, int, int]]:
    """Return the records that the index has."""
    sources = keeping.rows("SELECT id, home || '/' || path FROM source")
    paths = {number: str(path) for number, path in sources}
    rows = keeping.index_rows("SELECT source, offset, length FROM record")
    return Counter(
        (paths[source], int(str(offset)), int(str(length)))
        for source, offset, length in rows
    )


def is_sound(path: Path) -> bool:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        return db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def grow(home: Home, random: Random, number: int) -> None:
    """Let a home grow as homes do: appended, begun, cut in the middle, rewritten."""
    for _ in range(random.randint(1, 4)):
        name = session_id(random.randrange(6))
        path = home.path / "projects" / "-work-demo" / f"{name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        words = " ".join(str(random.random()) for _ in range(random.choice([3, 900])))
        told = thread(prompt(f"{number} {words}"), reply(words))
        raw = jsonl([*told, summary(words[:20], told[0]["uuid"])])
        if random.random() < 0.1 and path.exists():
            path.write_bytes(raw)
            continue
        whole = path.read_bytes() if path.exists() else b""
        if whole and not whole.endswith(b"\n"):
            raw = b"\n" + raw
        cut = random.randrange(len(raw)) if random.random() < 0.3 else len(raw)
        with path.open("ab") as file:
            file.write(raw[:cut])


def assert_whole(keeping: Keeping) -> None:
    """Hold an archive that is up to date against what the files say."""
    kept = keeping.bytes()
    for path in keeping.home.path.rglob("*.jsonl"):
        assert kept[str(path)][-1] == path.read_bytes()
    assert indexed(keeping) == expected(keeping.home.path)
    assert is_sound(keeping.archive / "archive.db")
    assert unlike_rebuilt(keeping) == []


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_killed_at_any_moment_it_loses_nothing_and_brings_nothing_twice(
    tmp_path: Path, seed: int
) -> None:
    random = Random(seeded(seed))  # noqa: S311 (the same every time)
    keeping = Keeping(tmp_path)
    grow(keeping.home, random, 0)
    start(keeping.archive, keeping.home.path).join()  # the first one is slow to come
    grow(keeping.home, random, 1)
    usual = min(strike(keeping, "ingest", 0).took for _ in range(3))
    counted: Counter[str] = Counter()
    for tried in count():
        grow(keeping.home, random, tried)
        if not tried % 7:
            shutil.rmtree(keeping.archive / "index", ignore_errors=True)
        deed = "ingest" if tried % 5 else "rebuild"
        sign = signal.SIGKILL if tried % 4 else signal.SIGINT
        after = random.uniform(0, 2 * usual)
        code = strike(keeping, deed, sign, after).code
        counted[what_became(code, sign)] += 1
        if not tried % 8:
            keeping.ingest()
            assert_whole(keeping)
        if counted[KILLED] == KILLS // ROUNDS:
            break

    keeping.ingest()

    assert_whole(keeping)
    for what, often in counted.items():
        reached(what, often)


KILLED = "kills at a random moment"


class Struck(NamedTuple):
    """How a deed ended, and how long it took."""

    code: int | None
    took: float


def strike(keeping: Keeping, deed: str, sign: int, after: float = 0) -> Struck:
    """Begin a deed, and some time after it has really begun send it a signal."""
    reading, writing = context().Pipe(duplex=False)
    child = start(keeping.archive, keeping.home.path, deed=deed, begun=writing)
    writing.close()
    assert reading.recv_bytes()
    began = time.monotonic()
    time.sleep(after)
    with suppress(ProcessLookupError):  # it was done, and was seen off
        os.kill(child.pid or 0, sign)
    child.join()
    return Struck(child.exitcode, time.monotonic() - began)


def what_became(code: int | None, sign: int) -> str:
    """Return what a signal did; it is a kill only if that is what a deed died of."""
    if code == 0:
        return "signals that came too late and do not count"
    if sign == signal.SIGKILL:
        assert code == -signal.SIGKILL
        return KILLED
    return "interrupts at a random moment"


@pytest.mark.parametrize("deed", ["ingest", "rebuild", "migrate"])
def test_killed_at_each_commit_point_it_ends_where_an_undisturbed_one_does(
    tmp_path: Path, deed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def upgrade() -> None:
        if deed == "migrate":
            add_step(monkeypatch.setattr)

    looked = killed_everywhere(tmp_path, deed, upgrade)

    reached(f"kills at the points of {deed}", looked)


def killed_everywhere(
    folder: Path,
    deed: str,
    upgrade: Callable[[], None] = lambda: None,
    *,
    mutation: str = "",
    looks: int = LOOKS,
) -> int:
    """Kill a deed at its points, each time on a fresh copy; return at how many."""
    keeping, undisturbed = prepared(folder)
    upgrade()
    points = count_points(undisturbed.archive, undisturbed.home.path, deed=deed)
    undisturbed.ingest()
    before = undisturbed.dump(), undisturbed.bytes()
    fresh = folder / "fresh"
    keeping.archive.rename(fresh)
    chosen = spread(points, looks)
    for at in chosen:
        shutil.copytree(fresh, keeping.archive)
        child = start(
            keeping.archive, keeping.home.path, at, deed=deed, mutation=mutation
        )
        child.join()
        assert child.exitcode == -signal.SIGKILL
        keeping.ingest()
        assert (keeping.dump(), keeping.bytes()) == before
        clear(keeping.archive)
    return len(chosen)


def clear(folder: Path) -> None:
    """Remove an archive; a reader's thread may still look for it, and leave a lock."""
    aside = folder.with_name(f"aside-{time.monotonic_ns()}")
    folder.rename(aside)
    shutil.rmtree(aside, ignore_errors=True)


def spread(points: int, looks: int = LOOKS) -> range:
    """Return points that are far from each other."""
    assert points > 20
    return range(1, points, max(points // looks, 1))


def test_an_offset_that_is_saved_before_the_bytes_is_caught(tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        killed_everywhere(tmp_path, "ingest", mutation="offset_first", looks=60)


def test_killed_while_it_restores_it_leaves_no_half_file(tmp_path: Path) -> None:
    keeping = Keeping(tmp_path)
    for number in range(3):
        keeping.home.session(session_id(number), thread(prompt("x" * 900), reply("y")))
    keeping.ingest()
    to = tmp_path / "to"
    points = count_points(keeping.archive, to, deed="restore")
    restored = {path: path.read_bytes() for path in to.rglob("*.jsonl")}
    assert len(restored) == 3
    older = b"what was there before"

    for at in spread(points):
        shutil.rmtree(to)
        for path in restored:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(older)
        child = start(keeping.archive, to, at, deed="restore")
        child.join()
        assert child.exitcode == -signal.SIGKILL
        for path, raw in restored.items():
            assert path.read_bytes() in (older, raw)
        start(keeping.archive, to, deed="restore").join()
        assert {path: path.read_bytes() for path in restored} == restored
        copies = [path.read_bytes() for path in to.rglob("*before-restore*")]
        assert copies.count(older) >= 3
        assert list(to.rglob(".recollect-*")) == []
    reached("kills at the points of restore", len(spread(points)))


def test_killed_while_it_purges_all_is_still_there_or_no_trace_of_it(
    tmp_path: Path,
) -> None:
    keeping = Keeping(tmp_path)
    canary = "canary" + Random(5).randbytes(20).hex()  # noqa: S311 (the same)
    path = keeping.home.session(session_id(1), thread(prompt(canary), reply("y")))
    keeping.home.session(session_id(2), thread(prompt("stays"), reply("y")))
    keeping.ingest()
    (keeping.archive / "archive.db.version-0").write_text(canary, "utf-8")
    whole = path.read_bytes()
    fresh = tmp_path / "fresh"
    shutil.copytree(keeping.archive, fresh)
    points = count_points(keeping.archive, keeping.home.path, deed="purge")

    for at in spread(points):
        clear(keeping.archive)
        shutil.copytree(fresh, keeping.archive)
        child = start(keeping.archive, keeping.home.path, at, deed="purge")
        child.join()
        assert child.exitcode == -signal.SIGKILL
        keeping.ingest()
        kept = keeping.bytes()
        if str(path) in kept:
            assert kept[str(path)] == [whole]
            purge_first(keeping.archive)
        assert traces(keeping.archive, canary.encode()) == []
        assert unlike_rebuilt(keeping) == []
    reached("kills at the points of purge", len(spread(points)))


def prepared(folder: Path) -> tuple[Keeping, Keeping]:
    """Return two equal archives of one home, with much to do for an ingestion."""
    random = Random(1)  # noqa: S311 (the same every time)
    keeping = Keeping(folder)
    for number in range(4):
        grow(keeping.home, random, number)
    keeping.home.agent(session_id(1), "abc1234", thread(prompt("in"), reply("out")))
    path = keeping.home.session(session_id(7), thread(prompt("old"), reply("older")))
    moving = keeping.home.session(session_id(8), [prompt("moving")])
    going = keeping.home.session(session_id(9), [prompt("going")])
    touched = keeping.home.session(session_id(11), [prompt("touched")])
    both = keeping.home.session(session_id(12), thread(prompt("moved and grown")))
    half = jsonl(thread(prompt("an unfinished line that is a record")))[:-1]
    tailed = keeping.home.session(session_id(14), [prompt("tailed")])
    keeping.ingest()
    os.utime(touched, (1, 1))
    with tailed.open("ab") as file:
        file.write(half)
    both = both.rename(both.with_name(f"{session_id(13)}.jsonl"))
    with both.open("ab") as file:
        file.write(jsonl([prompt("after it was moved")]))
    for number in range(4, 8):
        grow(keeping.home, random, number)
    path.write_bytes(jsonl(thread(prompt("new"))) + b'{"half')
    moving.rename(moving.with_name(f"{session_id(10)}.jsonl"))
    going.unlink()
    keeping.home.agent(session_id(1), "abc1234", thread(prompt("in")), meta={"x": 1})
    other = Keeping(folder)
    other.archive = folder / "undisturbed"
    shutil.copytree(keeping.archive, other.archive)
    return keeping, other
