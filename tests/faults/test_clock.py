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
from tests.store.keeping import Keeping, unlike_rebuilt
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
"""How wrong the clock is at the first ingestion and at the second, and where."""
MOMENTS = (0, -1, -(10**9), 2**31, 2**32 + 5, 4_102_444_800, 10**11, 253_402_300_800)
"""When files say that they were written: before computers, tomorrow, beyond dates."""
PROGRAM = """
import sys
from bygones.cli.main import main
from tests.faults.mutations import MUTATIONS, put
if sys.argv[1]:
    MUTATIONS[sys.argv[1]](put)
sys.exit(main(sys.argv[2:]))
"""
QUESTIONS = (
    ("list", "--all", "--iso"),
    ("search", "words", "--iso"),
    ("prompts", "--iso"),
    ("usage", "--zone", "UTC", "--json"),
    ("show", session_id(1), "--json"),
)

needs_compiler = pytest.mark.skipif(
    shutil.which("cc") is None or not sys.platform.startswith("linux"),
    reason="the clock is made wrong by a small library in C",
)


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the library through which clocks are wrong."""
    made = tmp_path_factory.mktemp("clock") / "shifting.so"
    words = ["cc", "-shared", "-fPIC", "-O1", "-o", str(made)]
    subprocess.run([*words, str(HERE / "shifting.c"), "-ldl"], check=True)
    return made


def stages(folder: Path) -> tuple[Path, Path]:
    """Return a home as it is first, and as it is later."""
    first, later = Home(folder / "first"), Home(folder / "later")
    told = thread(prompt("words of the first"), reply("an answer in words"))
    leaf = str(told[-1]["uuid"])
    other = thread(prompt("words of another"), reply("and this"), start=7200)
    for home in (first, later):
        home.session(session_id(1), told)
        older = home.session(session_id(2), [summary("The older name", leaf)])
        os.utime(older, (1_700_000_000, 1_700_000_000))
    path = later.session(session_id(1), told)
    with path.open("ab") as file:
        file.write(jsonl([prompt("later words") | {"sessionId": session_id(1)}]))
    later.session(session_id(3), other)
    newer = later.session(session_id(4), [summary("The newer name", leaf)])
    os.utime(newer, (1_700_000_001, 1_700_000_001))
    return first.path, later.path


def run(library: Path, shift: int, zone: str, *words: str, mutation: str = "") -> str:
    """Run a command under a clock that is wrong; return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, mutation, *words],
        env={**os.environ, "LD_PRELOAD": str(library), "SHIFT": str(shift), "TZ": zone},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def taken(
    library: Path, folder: Path, clock: tuple[str, int, int, str], mutation: str = ""
) -> Keeping:
    """Take a home in twice under wrong clocks."""
    keeping = Keeping(folder)
    name, *shifts, zone = clock
    keeping.archive = folder / str(name).replace(" ", "-")
    home = keeping.home.path
    for stage, shift in zip(stages(folder / "stages"), shifts, strict=True):
        shutil.rmtree(home)
        shutil.copytree(stage, home)
        words = ("--archive", str(keeping.archive), "--home", str(home))
        run(library, int(shift), str(zone), "ingest", *words, mutation=mutation)
    return keeping


def outcome(
    library: Path, folder: Path, clock: tuple[str, int, int, str]
) -> tuple[object, ...]:
    """Return everything derived from a home that is imported under wrong clocks."""
    keeping = taken(library, folder, clock)
    assert unlike_rebuilt(keeping) == []
    answers = [
        run(library, clock[2], "UTC", name, "--archive", str(keeping.archive), *more)
        for name, *more in QUESTIONS
    ]
    nameless = [told.replace(keeping.archive.name, "") for told in answers]
    return keeping.dump(), keeping.bytes(), nameless


@needs_compiler
@pytest.mark.parametrize("clock", CLOCKS[1 :: sized(9, 1, 1)], ids=lambda one: one[0])
@pytest.mark.full
def test_whatever_the_clock_says_the_answers_are_the_same(
    tmp_path: Path, library: Path, clock: tuple[str, int, int, str]
) -> None:
    assert outcome(library, tmp_path, clock) == outcome(library, tmp_path, CLOCKS[0])

    reached("wrong clocks", 1)


@needs_compiler
@pytest.mark.full
def test_an_archive_that_goes_by_the_clock_is_caught(
    tmp_path: Path, library: Path
) -> None:
    found = [
        taken(library, tmp_path, clock, "by_the_clock").dump()
        for clock in (CLOCKS[1], CLOCKS[0])
    ]

    assert found[0] != found[1]


@pytest.mark.parametrize("moment", MOMENTS[:: sized(3, 1, 1)])
def test_a_file_may_say_that_it_was_written_at_any_time(
    tmp_path: Path, moment: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    keeping = Keeping(tmp_path)
    path = keeping.home.session(session_id(1), thread(prompt("words"), reply("yes")))
    keeping.home.tool_result(session_id(1), "toolu_1.txt", "output")
    os.utime(path, (moment, moment))
    kept = path.read_bytes()

    keeping.ingest()

    assert keeping.generations(path) == [kept]
    assert verify(keeping.archive).is_intact
    assert unlike_rebuilt(keeping) == []
    with Archive.open(keeping.archive) as archive:
        assert [one.id for one in archive.sessions()] == [session_id(1)]
    given = ["--archive", str(keeping.archive), "--home", str(keeping.home.path)]
    for name, *more in (("list",), ("show", session_id(1))):
        assert main([name, *given, *more]) == 0
    # An old file may be deleted soon, which doctor reports as its exit code.
    assert main(["doctor", *given]) in {0, 1}
    page = web_client(WebArchive(keeping.home, keeping.archive))
    assert {page.get(path).status for path in ("/", "/about", "/files")} == {200}
    with keeping.vault() as vault:
        plans = plan_restore(vault, vault.byte_store.sources(), target=tmp_path / "to")
        restore(vault, plans)
    (restored,) = (tmp_path / "to").rglob(path.name)
    assert restored.read_bytes() == kept
    latest = (2**63 - 1) / 1e9  # of what a number in a database can tell
    assert restored.stat().st_mtime == min(path.stat().st_mtime, latest)
    assert keeping.ingest().changed == 0
    reached("files with odd timestamps", 1)
