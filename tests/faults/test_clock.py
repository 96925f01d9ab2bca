"""A clock that is wrong or jumps, and files from the future: nothing depends on it.

What the archive holds and answers comes from records and files. The real command runs
with a clock that is years off, and off by something else at the next ingestion.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bygones.archive import Archive
from bygones.cli.main import main
from bygones.maintenance.restore import plan_restore, restore
from bygones.maintenance.verify import verify
from tests.build import Home, jsonl, prompt, reply, session_id, summary, thread
from tests.faults.sizes import reached, sized
from tests.store.sandbox import Sandbox, differing_tables
from tests.web.archives import WebArchive
from tests.web.client import web_client

HERE = Path(__file__).parent
YEAR = 365 * 86_400
CLOCKS = (
    ("right", 0, 0, "UTC"),
    ("back", YEAR, -YEAR, "UTC"),
    ("forth", -YEAR, YEAR, "America/New_York"),
    ("beyond 2038", 13 * YEAR, 13 * YEAR + 1, "Pacific/Apia"),
    ("before 1971", -56 * YEAR, -55 * YEAR, "Asia/Kathmandu"),
    ("a day too long", 0, 86_400, "Europe/Berlin"),
    ("far from now", 200 * YEAR, 200 * YEAR, "UTC"),
)
"""Name, clock error in seconds at the first and second ingestion, time zone."""
FILE_TIMES = (0, -1, -(10**9), 2**31, 2**32 + 5, 4_102_444_800, 10**11, 253_402_300_800)
"""Modification times of files: before 1970, in the future, beyond valid dates."""
PROGRAM = """
import sys
from bygones.cli.main import main
from tests.faults.mutations import MUTATIONS, patch
if sys.argv[1]:
    MUTATIONS[sys.argv[1]](patch)
sys.exit(main(sys.argv[2:]))
"""
COMMANDS = (
    ("list", "--all", "--iso"),
    ("search", "words", "--iso"),
    ("prompts", "--iso"),
    ("usage", "--zone", "UTC", "--json"),
    ("show", session_id(1), "--json"),
)

needs_compiler = pytest.mark.skipif(
    shutil.which("cc") is None or not sys.platform.startswith("linux"),
    reason="the clock is shifted by a small library in C",
)


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the library that shifts the clock."""
    path = tmp_path_factory.mktemp("clock") / "shifting.so"
    command = ["cc", "-shared", "-fPIC", "-O1", "-o", str(path)]
    subprocess.run([*command, str(HERE / "shifting.c"), "-ldl"], check=True)
    return path


def create_stages(folder: Path) -> tuple[Path, Path]:
    """Return a home at the first ingestion, and at the second."""
    first, later = Home(folder / "first"), Home(folder / "later")
    records = thread(prompt("words of the first"), reply("an answer in words"))
    leaf = str(records[-1]["uuid"])
    other = thread(prompt("words of another"), reply("and this"), start=7200)
    for home in (first, later):
        home.session(session_id(1), records)
        older = home.session(session_id(2), [summary("The older name", leaf)])
        os.utime(older, (1_700_000_000, 1_700_000_000))
    path = later.session(session_id(1), records)
    with path.open("ab") as file:
        file.write(jsonl([prompt("later words") | {"sessionId": session_id(1)}]))
    later.session(session_id(3), other)
    newer = later.session(session_id(4), [summary("The newer name", leaf)])
    os.utime(newer, (1_700_000_001, 1_700_000_001))
    return first.path, later.path


def run(
    library: Path, shift: int, zone: str, *arguments: str, mutation: str = ""
) -> str:
    """Run a command with a wrong clock; return its output."""
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM, mutation, *arguments],
        env={**os.environ, "LD_PRELOAD": str(library), "SHIFT": str(shift), "TZ": zone},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return process.stdout


def ingest_twice(
    library: Path, folder: Path, clock: tuple[str, int, int, str], mutation: str = ""
) -> Sandbox:
    """Ingest a home twice with wrong clocks."""
    sandbox = Sandbox(folder)
    name, *shifts, zone = clock
    sandbox.archive = folder / str(name).replace(" ", "-")
    home = sandbox.home.path
    for stage, shift in zip(create_stages(folder / "stages"), shifts, strict=True):
        shutil.rmtree(home)
        shutil.copytree(stage, home)
        options = ("--archive", str(sandbox.archive), "--home", str(home))
        run(library, int(shift), str(zone), "ingest", *options, mutation=mutation)
    return sandbox


def derived_data(
    library: Path, folder: Path, clock: tuple[str, int, int, str]
) -> tuple[object, ...]:
    """Return everything derived from a home that is ingested with wrong clocks."""
    sandbox = ingest_twice(library, folder, clock)
    assert differing_tables(sandbox) == []
    outputs = [
        run(library, clock[2], "UTC", name, "--archive", str(sandbox.archive), *more)
        for name, *more in COMMANDS
    ]
    without_archive_name = [
        output.replace(sandbox.archive.name, "") for output in outputs
    ]
    return sandbox.dump(), sandbox.bytes(), without_archive_name


@needs_compiler
@pytest.mark.parametrize("clock", CLOCKS[1 :: sized(9, 1, 1)], ids=lambda one: one[0])
@pytest.mark.full
def test_whatever_the_clock_says_the_answers_are_the_same(
    tmp_path: Path, library: Path, clock: tuple[str, int, int, str]
) -> None:
    assert derived_data(library, tmp_path, clock) == derived_data(
        library, tmp_path, CLOCKS[0]
    )

    reached("wrong clocks", 1)


@needs_compiler
@pytest.mark.full
def test_an_archive_that_goes_by_the_clock_is_caught(
    tmp_path: Path, library: Path
) -> None:
    dumps = [
        ingest_twice(library, tmp_path, clock, "use_import_time").dump()
        for clock in (CLOCKS[1], CLOCKS[0])
    ]

    assert dumps[0] != dumps[1]


@pytest.mark.parametrize("moment", FILE_TIMES[:: sized(3, 1, 1)])
def test_a_file_may_say_that_it_was_written_at_any_time(
    tmp_path: Path, moment: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    sandbox = Sandbox(tmp_path)
    path = sandbox.home.session(session_id(1), thread(prompt("words"), reply("yes")))
    sandbox.home.tool_result(session_id(1), "toolu_1.txt", "output")
    os.utime(path, (moment, moment))
    raw = path.read_bytes()

    sandbox.ingest()

    assert sandbox.generations(path) == [raw]
    assert verify(sandbox.archive).is_intact
    assert differing_tables(sandbox) == []
    with Archive.open(sandbox.archive) as archive:
        assert [summary.id for summary in archive.sessions()] == [session_id(1)]
    options = ["--archive", str(sandbox.archive), "--home", str(sandbox.home.path)]
    for name, *more in (("list",), ("show", session_id(1))):
        assert main([name, *options, *more]) == 0
    # An old file may be deleted soon, which doctor reports as its exit code.
    assert main(["doctor", *options]) in {0, 1}
    client = web_client(WebArchive(sandbox.home, sandbox.archive))
    assert {client.get(path).status for path in ("/", "/about", "/files")} == {200}
    with sandbox.open_dir() as archive_dir:
        plans = plan_restore(
            archive_dir, archive_dir.byte_store.sources(), target=tmp_path / "to"
        )
        restore(archive_dir, plans)
    (restored,) = (tmp_path / "to").rglob(path.name)
    assert restored.read_bytes() == raw
    latest = (2**63 - 1) / 1e9  # the largest time that fits into a database integer
    assert restored.stat().st_mtime == min(path.stat().st_mtime, latest)
    assert sandbox.ingest().changed == 0
    reached("files with odd timestamps", 1)
