"""Other users can never open a file: every file is created with its final permissions.

The system reports each file and folder when it is created, by any thread; permissions
that are set a moment later are too late.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from bygones.cli.main import main
from bygones.store import connect
from tests.build import prompt, reply, session_id, thread
from tests.faults.disk import FileOperation
from tests.faults.failing import PURGED
from tests.faults.folders import Folders
from tests.faults.sizes import reached
from tests.faults.tracing import trace_command
from tests.store.sandbox import Sandbox

pytestmark = pytest.mark.skipif(
    shutil.which("strace") is None or not sys.platform.startswith("linux"),
    reason="system calls are recorded with strace",
)

COMMANDS = (
    ("ingest", "--home", "HOME"),
    ("verify",),
    ("rebuild",),
    ("backup", "PLACE/backup"),
    ("restore", "--all", "--to", "PLACE/to"),
    ("search", "words", "--no-ingest"),
    ("export", session_id(1), "--no-redact", "--to", "PLACE/words.md"),
    ("sync", "PLACE/shared", "--create", "--home", "HOME"),
    ("note", session_id(1), "text", "--no-ingest"),
    ("purge", "--yes", PURGED),
)


def created_files(folder: Path, mutation: str = "") -> list[FileOperation]:
    """Return all files and folders that commands created, with their modes."""
    sandbox = Sandbox(folder)
    for number in range(3):
        records = thread(prompt(f"{number}"), reply("words " * 200))
        sandbox.home.session(session_id(number), records)
    root = folder / "place"
    (root / "state").mkdir(parents=True)
    disk = Folders(root, {str(root / "state/any"): b""})
    for name, *rest in COMMANDS:
        arguments = [name, "--archive", str(root / "archive")]
        for word in rest:
            home = word.replace("HOME", str(sandbox.home.path))
            arguments.append(home.replace("PLACE", str(root)))
        state = {"XDG_STATE_HOME": str(root / "state")}
        for operation in trace_command(arguments, root, state, mutation, umask=0):
            disk.record(operation)
    return disk.created


def readable_by_others(operations: list[FileOperation]) -> list[str]:
    return [operation.path for operation in operations if operation.offset & 0o077]


def test_nothing_is_open_to_others_for_a_moment(scratch: Path) -> None:
    found = created_files(scratch)

    assert readable_by_others(found) == []
    assert {operation.offset for operation in found} == {0o600, 0o700}
    reached("files and folders created, all private from the start", len(found))


@pytest.mark.full
def test_files_of_the_text_engine_that_others_can_read_are_caught(
    scratch: Path,
) -> None:
    found = readable_by_others(created_files(scratch, "public_text_index"))

    assert any("/text/" in path for path in found)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives folders away")
@pytest.mark.parametrize(
    "is_unpatched", [True, False], ids=["unpatched", "with a fault"]
)
@pytest.mark.parametrize("name", ["", "archive.db", "index"])
def test_a_folder_of_another_user_is_not_written_to(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    *,
    is_unpatched: bool,
    name: str,
) -> None:
    sandbox = Sandbox(tmp_path)
    sandbox.home.session(session_id(1), thread(prompt("words"), reply("words")))
    sandbox.ingest()
    foreign = sandbox.archive / name
    os.chown(foreign, 65534, 65534)
    before = contents(sandbox.archive)
    if not is_unpatched:
        monkeypatch.setattr(connect, "_check_folder_owner", lambda _: None)
    sandbox.home.session(session_id(2), thread(prompt("more"), reply("words")))

    archive_option = ["--archive", str(sandbox.archive)]
    code = main(["ingest", *archive_option, "--home", str(sandbox.home.path)])
    stderr = capfd.readouterr().err

    # A file beside it may be named: root gives SQLite's files to the same owner.
    is_refused = code == 1 and f"{foreign}" in stderr and "to another user" in stderr
    assert is_refused is is_unpatched
    assert (contents(sandbox.archive) == before) is is_unpatched
    assert (
        main(["search", "words", *archive_option, "--no-ingest"]) == 0
    )  # a user with access can read it


def contents(folder: Path) -> dict[str, bytes]:
    """Return the files in a folder, without those that readers share with writers."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {
        str(path): path.read_bytes()
        for path in files
        if not path.name.endswith(("-shm", "-wal", ".lock"))
    }


def test_nothing_is_writable_by_everyone(tmp_path: Path) -> None:
    sandbox = Sandbox(tmp_path)
    sandbox.home.session(session_id(1), thread(prompt("words"), reply("more")))
    script = "import os; os.umask(0)\nfrom bygones.cli.main import entry_point\nentry_point()"
    place = tmp_path / "place"
    options = ["--archive", str(tmp_path / "new/archive")]
    options += ["--home", str(sandbox.home.path)]
    commands = (
        ["ingest"],
        ["export", "--all", "--to", str(place / "site")],
        ["export", "--format", "parquet", "--to", str(place / "data")],
    )

    for arguments in commands:
        command = [sys.executable, "-c", script, *arguments, *options]
        subprocess.run(command, check=True, capture_output=True)

    paths = [*place.rglob("*"), *(tmp_path / "new").rglob("*")]
    assert len(paths) > len(commands)
    assert [path for path in paths if path.lstat().st_mode & stat.S_IWOTH] == []
