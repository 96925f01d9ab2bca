"""``bygones restore``: no file takes the place of another."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from bygones import Archive
from bygones.cli.main import main
from bygones.errors import ExitCode
from bygones.maintenance.restore import RestoreResult
from bygones.sources.layout import project_key
from bygones.store.archive_dir import ArchiveDir
from tests.build import Home, prompt, reply, session_id, thread

FIRST = session_id(1)


def read_files(folder: Path) -> dict[str, bytes]:
    """Return the files below a folder."""
    found = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def archive_copies(home: Path, newer: str, older: str) -> tuple[bytes, bytes]:
    """Write a session into two projects' folders, archive and delete it."""
    raws = []
    for number, key in enumerate((older, newer)):
        records = thread(prompt(f"Copy {number}", cwd=f"/{key}"), reply("Yes" * number))
        path = Home(home).session(FIRST, records, project=key)
        raws.append(path.read_bytes())
        os.utime(path, ns=(10**18 + number, 10**18 + number))
    assert main(["ingest", "-q", "--home", str(home)]) == ExitCode.SUCCESS
    shutil.rmtree(home)
    return raws[1], raws[0]


def archive_homes_with_one_key(home_dir: Path) -> list[bytes]:
    """Archive homes whose paths cannot be told apart by their keys."""
    names = ["x/a-b", "x/a/b", "x/a.b", "x/A-b", "y"]
    for number, name in enumerate(names):
        records = thread(prompt(f"Said in {name}"), reply("Yes" * number))
        Home(home_dir / name).session(FIRST, records)
    options = [word for name in names for word in ("--home", name)]
    assert main(["ingest", "-q", *options]) == ExitCode.SUCCESS
    return sorted(
        b"".join(read_files(home_dir / n / "projects").values()) for n in names[:3]
    )


@pytest.mark.parametrize("more", [[], ["--overwrite"]])
def test_homes_whose_paths_share_a_key_get_a_folder_each(
    home_dir: Path, more: Sequence[str]
) -> None:
    raws = archive_homes_with_one_key(home_dir)

    assert main(["restore", "--all", "--to", "out", *more]) == ExitCode.SUCCESS

    found = read_files(home_dir / "out")
    assert len(found) == 5
    assert set(raws) < set(found.values())
    folders = {name.split("/")[0] for name in found}
    assert len({name.casefold() for name in folders}) == 5
    assert project_key(str(home_dir / "y")) in folders

    assert main(["restore", "--all", "--to", "out", *more]) == ExitCode.SUCCESS
    assert read_files(home_dir / "out") == found


def test_a_home_has_the_same_folder_whichever_sessions_are_restored(
    home_dir: Path,
) -> None:
    archive_homes_with_one_key(home_dir)
    Home(home_dir / "x/a.b").session(session_id(2), thread(prompt("More")))
    Home(home_dir / "y").session(session_id(3), thread(prompt("Else")))
    main(["ingest", "-q", "--home", "x/a.b", "--home", "y"])
    main(["restore", "--all", "--to", "all"])
    everything = read_files(home_dir / "all")

    main(["restore", session_id(2), session_id(3), "--to", "some"])

    some = read_files(home_dir / "some")
    assert len(some) == 2
    assert {name: everything.get(name) for name in some} == some


@pytest.mark.parametrize("more", [[], ["--overwrite"]])
def test_newest_of_conflicting_copies_is_restored(
    home_dir: Path, capsys: pytest.CaptureFixture[str], more: Sequence[str]
) -> None:
    home = home_dir / ".claude"
    newer, _ = archive_copies(home, newer="-w1", older="-w3")
    words = ["restore", FIRST, "--as", "/w3", *more]

    assert main([*words, "--dry-run"]) == ExitCode.SUCCESS
    captured = capsys.readouterr()
    assert [line.split()[0] for line in captured.out.splitlines()] == ["write", "taken"]
    assert "would write 1 file" in captured.err
    assert "1 not written: a newer copy has the same path" in captured.err

    assert main(words) == ExitCode.FAILURE
    assert read_files(home) == {f"projects/-w3/{FIRST}.jsonl": newer}
    stderr = capsys.readouterr().err
    assert f"not written: ~/.claude/projects/-w3/{FIRST}.jsonl (another copy" in stderr

    assert main([*words, "--json"]) == ExitCode.FAILURE
    *_, first, second, done = map(json.loads, capsys.readouterr().out.splitlines())
    assert [first["state"], second["state"]] == ["same", "taken"]
    assert (done["written_count"], done["same_count"]) == (0, 1)
    assert len(done["refused_paths"]) == 1
    assert read_files(home) == {f"projects/-w3/{FIRST}.jsonl": newer}


def test_equal_copies_are_restored_once(home_dir: Path) -> None:
    home = home_dir / ".claude"
    for key in ("-w1", "-w3"):
        path = Home(home).session(FIRST, thread(prompt("Said"), reply("Yes")))
        (home / "projects" / key).mkdir()
        os.utime(path, ns=(10**18, 10**18))
        path.rename(home / "projects" / key / path.name)
    main(["ingest", "-q"])
    shutil.rmtree(home)

    assert main(["restore", FIRST, "--as", "/w3"]) == ExitCode.SUCCESS

    assert list(read_files(home)) == [f"projects/-w3/{FIRST}.jsonl"]


def test_two_restores_at_once_leave_each_file_whole_and_once(home_dir: Path) -> None:
    home = home_dir / ".claude"
    records = thread(*(prompt("Said " * 2000) for _ in range(200)), start=9)
    Home(home).session(FIRST, records)
    Home(home).session(session_id(2), thread(prompt("Short")))
    before = read_files(home)
    main(["ingest", "-q"])
    inner: list[RestoreResult] = []

    with (
        Archive.open(home_dir / "archive") as one,
        Archive.open(home_dir / "archive") as two,
    ):
        plans = one.plan_restore(one.sources(), target=home_dir / "to")

        def restore_again(line: bytes) -> bytes:
            if not inner:
                inner.append(two.restore(plans))
            return line

        outer = one.restore(plans, rewrite=restore_again)

    assert read_files(home_dir / "to") == before
    assert (inner[0].written, inner[0].same) == (2, 0)
    assert (outer.written, outer.same) == (0, 2)
    assert not any((outer.copies, outer.refused, outer.skipped))


@pytest.mark.parametrize(
    "more", [[], ["--to", "to/here"], ["--to", "to", "--overwrite"]]
)
@pytest.mark.parametrize(
    "name",
    ["../../evil", "projects/../../../evil", "/evil", "projects//evil", "./evil"],
)
def test_name_outside_of_the_target_is_never_written(
    home_dir: Path, name: str, more: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    Home(home_dir / ".claude").session(FIRST, thread(prompt("Said")))
    main(["ingest", "-q"])
    shutil.rmtree(home_dir / ".claude")
    with ArchiveDir(home_dir / "archive", write=True) as opened:
        opened.byte_store.db.execute("UPDATE source SET path = ?", (name,))
    before = read_files(home_dir)

    assert main(["restore", "--all", *more, "--dry-run"]) == ExitCode.SUCCESS
    assert "the path is outside the home" in capsys.readouterr().err
    assert main(["restore", "--all", *more]) == ExitCode.FAILURE

    stderr = capsys.readouterr().err
    assert f"not written: {name} (the name leads out of the home)" in stderr
    assert {n for n in read_files(home_dir) if "archive/" not in n} == {
        n for n in before if "archive/" not in n
    }


@pytest.mark.parametrize("options", ["FILE", "FOLDER"])
def test_session_of_a_lone_projects_folder_moves_with_its_project(
    home_dir: Path, options: str
) -> None:
    path = Home(home_dir / ".claude").session(FIRST, thread(prompt("Said")))
    home = path if options == "FILE" else path.parent
    raw = path.read_bytes()
    main(["ingest", "-q", "--home", str(home)])

    assert main(["restore", FIRST, "--as", "/x"]) == ExitCode.SUCCESS

    assert (home_dir / ".claude/projects/-x" / path.name).read_bytes() == raw


def test_session_without_a_home_needs_a_named_home(
    home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = Home(home_dir / "made")
    made.session(FIRST, thread(prompt("Said")))
    made.agent(FIRST, "a1", thread(prompt("Do")))
    loose = home_dir / "loose" / "deep"
    shutil.copytree(made.path / "projects" / "-work-demo", loose)
    before = read_files(loose)
    main(["ingest", "-q", "--home", "loose"])

    for more in ([], ["--dry-run"]):
        words = ["restore", FIRST, "--as", "/x", *more]
        assert main(words) == ExitCode.USAGE_ERROR
        assert "is not in a home" in capsys.readouterr().err

    assert main(["restore", FIRST, "--as", "/x", "--to", "new"]) == ExitCode.SUCCESS
    assert read_files(home_dir / "new" / "projects" / "-x") == before
    assert len(before) == 2


@pytest.mark.parametrize("steps", ["99999999999999999999", "-1"])
def test_version_number_out_of_range_is_a_usage_error(
    sample_home: Home, capsys: pytest.CaptureFixture[str], steps: str
) -> None:
    assert sample_home.path.exists()
    main(["ingest", "-q"])
    words = ["restore", "--all", "--older", steps]

    assert main(words) == ExitCode.USAGE_ERROR

    assert "is not between" in capsys.readouterr().err
    with Archive.open(sample_home.path.parent / "archive") as archive:
        assert archive.plan_restore(archive.sources(), generations_back=10**30) == []
