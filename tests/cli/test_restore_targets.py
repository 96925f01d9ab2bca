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


def written(folder: Path) -> dict[str, bytes]:
    """Return the files below a folder."""
    found = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def copies(home: Path, newer: str, older: str) -> tuple[bytes, bytes]:
    """Write a session into two projects' folders, archive and delete it."""
    raws = []
    for number, key in enumerate((older, newer)):
        told = thread(prompt(f"Copy {number}", cwd=f"/{key}"), reply("Yes" * number))
        path = Home(home).session(FIRST, told, project=key)
        raws.append(path.read_bytes())
        os.utime(path, ns=(10**18 + number, 10**18 + number))
    assert main(["ingest", "-q", "--home", str(home)]) == ExitCode.SUCCESS
    shutil.rmtree(home)
    return raws[1], raws[0]


def homes_of_one_key(place: Path) -> list[bytes]:
    """Archive homes whose paths cannot be told apart by their keys."""
    names = ["x/a-b", "x/a/b", "x/a.b", "x/A-b", "y"]
    for number, name in enumerate(names):
        told = thread(prompt(f"Said in {name}"), reply("Yes" * number))
        Home(place / name).session(FIRST, told)
    asked = [word for name in names for word in ("--home", name)]
    assert main(["ingest", "-q", *asked]) == ExitCode.SUCCESS
    return sorted(b"".join(written(place / n / "projects").values()) for n in names[:3])


@pytest.mark.parametrize("more", [[], ["--overwrite"]])
def test_homes_whose_paths_share_a_key_get_a_folder_each(
    place: Path, more: Sequence[str]
) -> None:
    raws = homes_of_one_key(place)

    assert main(["restore", "--all", "--to", "out", *more]) == ExitCode.SUCCESS

    found = written(place / "out")
    assert len(found) == 5
    assert set(raws) < set(found.values())
    folders = {name.split("/")[0] for name in found}
    assert len({name.casefold() for name in folders}) == 5
    assert project_key(str(place / "y")) in folders

    assert main(["restore", "--all", "--to", "out", *more]) == ExitCode.SUCCESS
    assert written(place / "out") == found


def test_a_home_has_the_same_folder_whichever_sessions_are_restored(
    place: Path,
) -> None:
    homes_of_one_key(place)
    Home(place / "x/a.b").session(session_id(2), thread(prompt("More")))
    Home(place / "y").session(session_id(3), thread(prompt("Else")))
    main(["ingest", "-q", "--home", "x/a.b", "--home", "y"])
    main(["restore", "--all", "--to", "all"])
    whole = written(place / "all")

    main(["restore", session_id(2), session_id(3), "--to", "some"])

    some = written(place / "some")
    assert len(some) == 2
    assert {name: whole.get(name) for name in some} == some


@pytest.mark.parametrize("more", [[], ["--overwrite"]])
def test_of_copies_that_would_go_to_one_place_the_newest_does(
    place: Path, capsys: pytest.CaptureFixture[str], more: Sequence[str]
) -> None:
    home = place / ".claude"
    newer, _ = copies(home, newer="-w1", older="-w3")
    words = ["restore", FIRST, "--as", "/w3", *more]

    assert main([*words, "--dry-run"]) == ExitCode.SUCCESS
    shown = capsys.readouterr()
    assert [line.split()[0] for line in shown.out.splitlines()] == ["write", "taken"]
    assert "would write 1 file" in shown.err
    assert "1 not written: a newer copy has the same path" in shown.err

    assert main(words) == ExitCode.FAILURE
    assert written(home) == {f"projects/-w3/{FIRST}.jsonl": newer}
    told = capsys.readouterr().err
    assert f"not written: ~/.claude/projects/-w3/{FIRST}.jsonl (another copy" in told

    assert main([*words, "--json"]) == ExitCode.FAILURE
    *_, first, second, done = map(json.loads, capsys.readouterr().out.splitlines())
    assert [first["state"], second["state"]] == ["same", "taken"]
    assert (done["written_count"], done["same_count"]) == (0, 1)
    assert len(done["refused_paths"]) == 1
    assert written(home) == {f"projects/-w3/{FIRST}.jsonl": newer}


def test_copies_that_are_equal_are_one_where_they_meet(place: Path) -> None:
    home = place / ".claude"
    for key in ("-w1", "-w3"):
        path = Home(home).session(FIRST, thread(prompt("Said"), reply("Yes")))
        (home / "projects" / key).mkdir()
        os.utime(path, ns=(10**18, 10**18))
        path.rename(home / "projects" / key / path.name)
    main(["ingest", "-q"])
    shutil.rmtree(home)

    assert main(["restore", FIRST, "--as", "/w3"]) == ExitCode.SUCCESS

    assert list(written(home)) == [f"projects/-w3/{FIRST}.jsonl"]


def test_two_restores_at_once_leave_each_file_whole_and_once(place: Path) -> None:
    home = place / ".claude"
    told = thread(*(prompt("Said " * 2000) for _ in range(200)), start=9)
    Home(home).session(FIRST, told)
    Home(home).session(session_id(2), thread(prompt("Short")))
    before = written(home)
    main(["ingest", "-q"])
    inner: list[RestoreResult] = []

    with Archive.open(place / "archive") as one, Archive.open(place / "archive") as two:
        plans = one.plan_restore(one.sources(), target=place / "to")

        def meanwhile(line: bytes) -> bytes:
            if not inner:
                inner.append(two.restore(plans))
            return line

        outer = one.restore(plans, rewrite=meanwhile)

    assert written(place / "to") == before
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
def test_a_name_that_leads_out_is_never_written(
    place: Path, name: str, more: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    Home(place / ".claude").session(FIRST, thread(prompt("Said")))
    main(["ingest", "-q"])
    shutil.rmtree(place / ".claude")
    with ArchiveDir(place / "archive", write=True) as vault:
        vault.byte_store.db.execute("UPDATE source SET path = ?", (name,))
    before = written(place)

    assert main(["restore", "--all", *more, "--dry-run"]) == ExitCode.SUCCESS
    assert "the path is outside the home" in capsys.readouterr().err
    assert main(["restore", "--all", *more]) == ExitCode.FAILURE

    told = capsys.readouterr().err
    assert f"not written: {name} (the name leads out of the home)" in told
    assert {n for n in written(place) if "archive/" not in n} == {
        n for n in before if "archive/" not in n
    }


@pytest.mark.parametrize("asked", ["FILE", "FOLDER"])
def test_a_session_of_a_projects_folder_alone_follows_its_project(
    place: Path, asked: str
) -> None:
    path = Home(place / ".claude").session(FIRST, thread(prompt("Said")))
    home = path if asked == "FILE" else path.parent
    raw = path.read_bytes()
    main(["ingest", "-q", "--home", str(home)])

    assert main(["restore", FIRST, "--as", "/x"]) == ExitCode.SUCCESS

    assert (place / ".claude/projects/-x" / path.name).read_bytes() == raw


def test_a_session_of_no_home_follows_its_project_into_a_named_one_only(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = Home(place / "made")
    made.session(FIRST, thread(prompt("Said")))
    made.agent(FIRST, "a1", thread(prompt("Do")))
    loose = place / "loose" / "deep"
    shutil.copytree(made.path / "projects" / "-work-demo", loose)
    before = written(loose)
    main(["ingest", "-q", "--home", "loose"])

    for more in ([], ["--dry-run"]):
        words = ["restore", FIRST, "--as", "/x", *more]
        assert main(words) == ExitCode.USAGE_ERROR
        assert "is not in a home" in capsys.readouterr().err

    assert main(["restore", FIRST, "--as", "/x", "--to", "new"]) == ExitCode.SUCCESS
    assert written(place / "new" / "projects" / "-x") == before
    assert len(before) == 2


@pytest.mark.parametrize("steps", ["99999999999999999999", "-1"])
def test_so_many_versions_back_is_asked_wrongly(
    kept_home: Home, capsys: pytest.CaptureFixture[str], steps: str
) -> None:
    assert kept_home.path.exists()
    main(["ingest", "-q"])
    words = ["restore", "--all", "--older", steps]

    assert main(words) == ExitCode.USAGE_ERROR

    assert "is not between" in capsys.readouterr().err
    with Archive.open(kept_home.path.parent / "archive") as archive:
        assert archive.plan_restore(archive.sources(), generations_back=10**30) == []
