"""At no moment can others open what is written: every file is made with its rights.

The system reports each file and folder when it is created, by any thread; permissions
that are set a moment later are too late.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from bygones.cli.main import main
from bygones.store import connect
from tests.build import prompt, reply, session_id, thread
from tests.faults.disk import Act
from tests.faults.failing import PURGED
from tests.faults.folders import Folders
from tests.faults.sizes import reached
from tests.faults.tracing import traced
from tests.store.sandbox import Sandbox

pytestmark = pytest.mark.skipif(
    shutil.which("strace") is None or not sys.platform.startswith("linux"),
    reason="what programs ask of the system is told by strace",
)

COMMANDS = (
    ("ingest", "--home", "HOME"),
    ("verify",),
    ("rebuild",),
    ("backup", "PLACE/backup"),
    ("restore", "--all", "--to", "PLACE/to"),
    ("search", "words", "--no-ingest"),
    ("purge", "--yes", PURGED),
)


def made(folder: Path, mutation: str = "") -> list[Act]:
    """Return all files and folders that commands made, with their rights."""
    sandbox = Sandbox(folder)
    for number in range(3):
        records = thread(prompt(f"{number}"), reply("words " * 200))
        sandbox.home.session(session_id(number), records)
    place = folder / "place"
    (place / "state").mkdir(parents=True)
    disk = Folders(place, {str(place / "state/any"): b""})
    for name, *rest in COMMANDS:
        words = [name, "--archive", str(place / "archive")]
        for word in rest:
            home = word.replace("HOME", str(sandbox.home.path))
            words.append(home.replace("PLACE", str(place)))
        state = {"XDG_STATE_HOME": str(place / "state")}
        for act in traced(words, place, state, mutation, umask=0):
            disk.hear(act)
    return disk.made


def open_to_others(acts: list[Act]) -> list[str]:
    return [act.path for act in acts if act.at & 0o077]


def test_nothing_is_open_to_others_for_a_moment(scratch: Path) -> None:
    found = made(scratch)

    assert open_to_others(found) == []
    assert {act.at for act in found} == {0o600, 0o700}
    reached("files and folders created, all private from the start", len(found))


@pytest.mark.full
def test_files_of_the_text_engine_that_others_can_read_are_caught(
    scratch: Path,
) -> None:
    found = open_to_others(made(scratch, "public_text_index"))

    assert any("/text/" in path for path in found)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives folders away")
@pytest.mark.parametrize("is_mended", [True, False], ids=["as it is", "with a fault"])
@pytest.mark.parametrize("name", ["", "archive.db", "index"])
def test_a_folder_of_another_user_is_not_written_to(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    *,
    is_mended: bool,
    name: str,
) -> None:
    sandbox = Sandbox(tmp_path)
    sandbox.home.session(session_id(1), thread(prompt("words"), reply("words")))
    sandbox.ingest()
    foreign = sandbox.archive / name
    os.chown(foreign, 65534, 65534)
    before = contents(sandbox.archive)
    if not is_mended:
        monkeypatch.setattr(connect, "_check_folder_owner", lambda _: None)
    sandbox.home.session(session_id(2), thread(prompt("more"), reply("words")))

    place = ["--archive", str(sandbox.archive)]
    code = main(["ingest", *place, "--home", str(sandbox.home.path)])
    said = capfd.readouterr().err

    # A file beside it may be named: root gives SQLite's files to the same owner.
    is_refused = code == 1 and f"{foreign}" in said and "to another user" in said
    assert is_refused is is_mended
    assert (contents(sandbox.archive) == before) is is_mended
    assert (
        main(["search", "words", *place, "--no-ingest"]) == 0
    )  # a user with access can read it


def contents(folder: Path) -> dict[str, bytes]:
    """Return what lies in a folder, but for what readers share with writers."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {
        str(path): path.read_bytes()
        for path in files
        if not path.name.endswith(("-shm", "-wal", ".lock"))
    }
