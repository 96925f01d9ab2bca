"""Memory doesn't grow with long files, long lines and many files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from tests.build import image, jsonl, line, prompt, session_id, text
from tests.store.sandbox import Sandbox, differing_tables

MEASURED = """
import sys
from pathlib import Path
from bygones.ingest.run import ingest
from bygones.maintenance.verify import rebuild
archive, home = map(Path, sys.argv[1:])
if home.name == "rebuild":
    rebuild(archive)
else:
    ingest(archive, [home])
status = Path("/proc/self/status").read_text()
print(next(s for s in status.splitlines() if s.startswith("VmHWM")).split()[1])
"""

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="no way to ask for peak memory"
)


def peak_memory(archive: Path, home: Path) -> int:
    """Return the peak memory of an ingestion in another process."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, archive, home],
        check=True,
        capture_output=True,
        text=True,
    )
    return int(done.stdout) * 1024


def make_home(folder: Path, size: int) -> Sandbox:
    """Return a home with one transcript of about a size, mostly images."""
    sandbox = Sandbox(folder)
    path = sandbox.home.session(session_id(1), [])
    random = Random(1)  # noqa: S311 (the same every time)
    with path.open("wb") as file:
        for number in range(size // 40_000):
            picture = image(random.randbytes(20_000).hex())
            file.write(jsonl([prompt([text(f"picture {number}"), picture])]))
    return sandbox


@pytest.mark.req("E3")
def test_memory_does_not_grow_with_the_file_size(tmp_path: Path) -> None:
    small = make_home(tmp_path / "small", 20_000_000)
    large = make_home(tmp_path / "large", 60_000_000)

    least = peak_memory(small.archive, small.home.path)
    most = peak_memory(large.archive, large.home.path)

    assert most < 1.3 * least
    assert peak_memory(large.archive, Path("rebuild")) < 1.3 * least


@pytest.mark.req("E3")
def test_line_of_32_mb_takes_a_few_times_its_size_in_memory(tmp_path: Path) -> None:
    size = 32_000_000
    sandbox = Sandbox(tmp_path)
    long = prompt("long words " * (size // 11))
    path = sandbox.home.session(
        session_id(1), [prompt("before"), long, prompt("after")]
    )
    nothing = Sandbox(tmp_path / "nothing")
    least = peak_memory(nothing.archive, nothing.home.path)

    most = peak_memory(sandbox.archive, sandbox.home.path)

    assert most - least < 5.5 * size
    assert sandbox.generations(path) == [path.read_bytes()]
    rows = sandbox.index_rows("SELECT start, length FROM record ORDER BY start")
    assert len(rows) == 3
    assert rows[1][1] == len(line(long | {"sessionId": session_id(1)}))


@pytest.mark.req("E3")
def test_hundreds_of_files_are_imported_and_scanned_again(tmp_path: Path) -> None:
    sandbox = Sandbox(tmp_path)
    for number in range(300):
        sandbox.home.session(session_id(number), [prompt(f"{number}")])

    first, again = sandbox.ingest(), sandbox.ingest()

    assert (first.new, first.derived_sessions) == (300, 300)
    assert (again.unchanged, again.bytes) == (300, 0)
    assert differing_tables(sandbox) == []


def test_hundreds_of_moved_files_are_recognized(tmp_path: Path) -> None:
    sandbox = Sandbox(tmp_path)
    for number in range(300):
        sandbox.home.session(session_id(number), [prompt("the same words in all")])
    sandbox.ingest()
    elsewhere = tmp_path / "elsewhere"
    sandbox.home.path.rename(elsewhere)

    report = sandbox.ingest(elsewhere)

    assert (report.moved, report.new, report.bytes) == (300, 0, 0)


def test_heap_is_trimmed_after_each_batch_and_before_deriving(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    class Library:
        """Has no function to limit the number of heaps."""

        def malloc_trim(self, _: int) -> None:
            calls.append("trim")

    monkeypatch.setattr("ctypes.CDLL", lambda _: Library())
    sandbox = Sandbox(tmp_path)
    sandbox.home.session(session_id(1), [prompt("one")])
    sandbox.ingest()
    assert calls == []
    # Commits are due by time, too, so that a slow machine needs no more memory.
    monkeypatch.setattr("bygones.ingest.importer.COMMIT_INTERVAL", -1.0)
    monkeypatch.setattr("bygones.ingest.importer.MIN_PARALLEL_BYTES", 1)
    sandbox.home.session(session_id(2), [prompt("two")])
    sandbox.ingest()

    assert calls == ["trim", "trim"]
    assert differing_tables(sandbox) == []


LINE = 64_000_000


@pytest.mark.parametrize(
    "line",
    [
        b"neither JSON nor short " * (LINE // 23) + b"\n",
        pytest.param(
            Random(1).randbytes(LINE).replace(b"\n", b" "),  # noqa: S311
            marks=pytest.mark.full,
        ),
    ],
    ids=["text", "unfinished, incompressible"],
)
def test_giant_line_of_junk_is_in_memory_once(line: bytes, tmp_path: Path) -> None:
    sandbox = Sandbox(tmp_path)
    path = sandbox.home.session(session_id(1), [prompt("usual")])
    usual = peak_memory(sandbox.archive, sandbox.home.path)
    with path.open("ab") as file:
        file.write(line)

    first = peak_memory(sandbox.archive, sandbox.home.path)
    with path.open("ab") as file:
        file.write(b"and more")
    second = peak_memory(sandbox.archive, sandbox.home.path)
    rebuilding = peak_memory(sandbox.archive, Path("rebuild"))

    assert sandbox.generations(path) == [path.read_bytes()]
    assert max(first, second, rebuilding) - usual < 2.2 * LINE
