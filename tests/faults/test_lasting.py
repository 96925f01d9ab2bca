"""Durability: an archive without its sources, its backups, and other versions."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

from bygones.archive import Archive
from bygones.cli.commands.registry import COMMANDS
from bygones.cli.main import main
from bygones.errors import BygonesError, ExitCode
from bygones.maintenance.verify import rebuild, verify
from bygones.model.base import SessionId
from bygones.model.summary import Annotations
from bygones.store import archive_db
from bygones.store.connect import LATEST_VERSION
from tests.build import Home, jsonl, prompt, reply, session_id, thread
from tests.faults.failing import stored_content
from tests.faults.losing import read_state
from tests.faults.mutations import (
    accept_any_version,
    back_up_main_file_only,
    delete_missing_sources,
)
from tests.faults.sizes import reached, sized
from tests.store.sandbox import Sandbox, differing_tables
from tests.web.archives import build_archive

CASES = Path(__file__).parent.parent / "cases"
HOMES = sorted(path for path in CASES.iterdir() if (path / "input").is_dir())
BACKUPS = sized(6, 100, 1_000)
VERSIONS = Path(__file__).parent / "versions"
COMMANDS_TO_RUN = (
    ("list", "--all", "--json"),
    ("search", "the", "--json"),
    ("usage", "--json"),
    ("projects", "--json"),
    ("prompts", "--json"),
)


def command_outputs(folder: Path, capfd: pytest.CaptureFixture[str]) -> list[str]:
    """Return the output of some commands, and every session as text."""
    outputs = []
    for name, *arguments in COMMANDS_TO_RUN:
        assert main([name, "--archive", str(folder), *arguments]) in {0, 1}
        outputs.append(_without_times(capfd.readouterr().out))
    with Archive.open(folder) as archive:
        for summary in archive.sessions(include_empty=True):
            main(["show", "--archive", str(folder), summary.id, "--full"])
            outputs.append(capfd.readouterr().out)
    return outputs


def _without_times(out: str) -> str:
    rows = [json.loads(line) for line in out.splitlines()]
    for row in rows:
        for name in ("now", "took_ms", "milliseconds", "seconds", "archive"):
            row.pop(name, None)
    return json.dumps(rows)


def assert_lasts(case: Path, root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Ingest a home and delete it: all output stays the same."""
    home = root / "home"
    shutil.copytree(case / "input", home)
    Archive.ingest(root / "archive", [home])
    before = command_outputs(root / "archive", capfd)
    stored = stored_content(root / "archive")
    shutil.rmtree(home)

    Archive.ingest(root / "archive", [home])
    without_home = command_outputs(root / "archive", capfd)
    rebuild(root / "archive")

    assert stored_content(root / "archive") == stored
    assert before == without_home == command_outputs(root / "archive", capfd)


@pytest.mark.parametrize("case", HOMES[:: sized(12, 1, 1)], ids=lambda path: path.name)
def test_without_its_sources_the_archive_answers_as_before(
    case: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert_lasts(case, tmp_path, capfd)

    reached("homes deleted after the ingest", 1)


def test_an_archive_that_lets_go_of_what_is_gone_is_caught(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    delete_missing_sources(monkeypatch.setattr)

    with pytest.raises((AssertionError, BygonesError)):
        assert_lasts(HOMES[0], tmp_path, capfd)


@contextmanager
def growing_home(sandbox: Sandbox) -> Iterator[None]:
    """Ingest a growing home in another process meanwhile."""
    arguments = [str(sandbox.archive), str(sandbox.home.path)]
    child = subprocess.Popen([sys.executable, "-m", "tests.faults.growing", *arguments])
    try:
        yield
        assert child.poll() is None
    finally:
        child.kill()
        child.wait()


def assert_backups(sandbox: Sandbox, count: int) -> None:
    """Back up an archive while it grows; each backup is complete and consistent."""
    sandbox.home.session(session_id(1), thread(prompt("first"), reply("yes")))
    sandbox.ingest()
    sizes = set()
    first = read_state(sandbox)
    with growing_home(sandbox), Archive.open(sandbox.archive):  # so that there is a WAL
        while read_state(sandbox) == first:
            time.sleep(0.02)
        for number in range(count):
            copy = sandbox.folder / f"copy-{number % 3}"
            before = read_state(sandbox) or {}
            assert main(["backup", "--archive", str(sandbox.archive), str(copy)]) == 0
            after = read_state(sandbox) or {}
            verdict = verify(copy)
            assert verdict.is_intact
            sizes.add(verdict.bytes)
            other = Sandbox(sandbox.folder)
            other.archive = copy
            for path, raw in other.bytes().items():
                assert after[path][-1].startswith(raw[-1])
                assert raw[-1].startswith(before.get(path, [b""])[-1])
            assert set(other.bytes()) >= set(before)
            time.sleep(0.02)
    assert len(sizes) > 1


@pytest.mark.full
def test_backups_of_an_archive_that_grows_are_whole(tmp_path: Path) -> None:
    assert_backups(Sandbox(tmp_path), BACKUPS)

    reached("backups during an ingest", BACKUPS)


@pytest.mark.full
def test_a_backup_that_only_copies_a_file_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    back_up_main_file_only(monkeypatch.setattr)

    with pytest.raises((AssertionError, apsw.Error)):
        assert_backups(Sandbox(tmp_path), 30)


@pytest.mark.parametrize("version", range(1, LATEST_VERSION + 1))
def test_every_version_that_was_can_be_opened(version: int, tmp_path: Path) -> None:
    sandbox = Sandbox(tmp_path)
    sandbox.archive.mkdir()
    shutil.copy(VERSIONS / f"{version:04}.archive.db", sandbox.archive / "archive.db")

    sandbox.ingest()

    assert verify(sandbox.archive, deep=True).is_intact
    assert differing_tables(sandbox) == []
    with Archive.open(sandbox.archive) as archive:
        (one,) = archive.sessions()
        found = archive.session(one.id)
    assert len(found.live_branch.messages) == 2
    (path,) = [path for path in sandbox.bytes() if path.endswith(".jsonl")]
    assert len(sandbox.bytes()[path]) == 2  # generations
    assert sandbox.rows("SELECT count(*) FROM annotation") == [(1,)]
    assert sandbox.rows("SELECT count(*) FROM fragment") == [(1,)]


def exit_codes(archive: Path, root: Path) -> dict[str, int]:
    """Return the exit code of each command on an archive, by name."""
    codes = {}
    arguments = {
        "backup": [str(root / "backup")],
        "search": ["lines"],
        "show": ["last"],
        "tag": [session_id(1), "x"],
        "note": [session_id(1), "x"],
        "star": [session_id(1)],
        "purge": [session_id(1), "--yes"],
        "restore": ["--all", "--to", str(root / "to")],
        "export": [session_id(1), "--to", str(root / "out")],
        "ingest": ["--home", str(root / ".claude")],
        "files": [session_id(1)],
        "tree": [session_id(1)],
    }
    for row in COMMANDS:
        if row.name in arguments or row.name in {
            "list",
            "projects",
            "rebuild",
            "verify",
        }:
            extra = arguments.get(row.name, [])
            codes[row.name] = int(main([row.name, "--archive", str(archive), *extra]))
    return codes


def create_newer_archive(root: Path) -> Path:
    """Return an archive that was written by a newer version."""
    archive_home = build_archive(root)
    db = apsw.Connection(str(archive_home.folder / "archive.db"))
    db.pragma("user_version", LATEST_VERSION + 1)
    db.pragma("journal_mode", "DELETE")
    db.close()
    return archive_home.folder


def test_an_archive_that_is_too_new_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    archive = create_newer_archive(tmp_path)
    before = (archive / "archive.db").read_bytes()

    found = exit_codes(archive, tmp_path)

    assert set(found.values()) == {int(ExitCode.ARCHIVE_TOO_NEW)}, found
    assert (archive / "archive.db").read_bytes() == before
    reached("commands that leave an archive of a newer version unchanged", len(found))


def test_a_version_that_takes_any_archive_for_its_own_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    accept_any_version(monkeypatch.setattr)

    found = exit_codes(create_newer_archive(tmp_path), tmp_path)

    assert set(found.values()) != {int(ExitCode.ARCHIVE_TOO_NEW)}


def make_version(folder: Path) -> Path:
    """Write an archive of this version; return it. Run once for every version."""
    home = Home(folder / "home")
    path = home.session(session_id(1), thread(prompt("as it was"), reply("older")))
    archive = folder / "archive"
    Archive.ingest(archive, [home.path])
    path.write_bytes(jsonl(thread(prompt("begun anew"), reply("newer"))) + b'{"half')
    home.tool_result(session_id(1), "toolu_1.txt", "a long output")
    Archive.ingest(archive, [home.path])
    with Archive.open(archive) as reader:
        one = SessionId(session_id(1))
        reader.annotate([one], lambda _: Annotations(is_starred=True))
    return archive / archive_db.ARCHIVE_FILE
